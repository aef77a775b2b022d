"""Digests of large data: the sha256 of each block, in order, by as many threads as there are.

One stream of sha256 is slower than memory, blocks in several threads are as fast; hashing releases the interpreter
lock. Every change is seen: a flipped bit, exchanged words or pages, blocks in another order.
"""

from __future__ import annotations

import hashlib

BLOCK = 1 << 20  # bytes that one digest covers
SIZE = hashlib.sha256().digest_size
SHARE = 4  # blocks that a thread takes at a time


def digests(data: memoryview) -> bytes:
    """The digests of all blocks of some bytes, one after the other.

    >>> zeros, ones = bytes(BLOCK), bytes([1]) * BLOCK
    >>> one, other = digests(memoryview(zeros + ones)), digests(memoryview(ones + zeros))
    >>> one == other, len(one) // SIZE, one[:SIZE] == other[SIZE:]
    (False, 2, True)
    """
    starts = range(0, len(data), SHARE * BLOCK)
    if len(starts) < 2:
        return _sequential(data)
    from concurrent.futures import ThreadPoolExecutor  # only large data need it

    from zenith.backends.cpu.threads import default_num_threads

    workers = min(len(starts), default_num_threads())
    with ThreadPoolExecutor(workers) as pool:
        return b"".join(pool.map(lambda start: _sequential(data[start : start + SHARE * BLOCK]), starts))


def _sequential(data: memoryview) -> bytes:
    return b"".join([hashlib.sha256(data[at : at + BLOCK]).digest() for at in range(0, len(data), BLOCK)])
