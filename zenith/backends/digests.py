"""Digests of large data: the sha256 of each block, in order, by as many threads as there are.

One stream of sha256 is slower than memory, blocks in several threads are as fast; hashing releases the interpreter
lock. Every change is seen: a flipped bit, exchanged words or pages, blocks in another order.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from zenith.backends.cpu.threads import default_num_threads

BLOCK = 1 << 20  # bytes that one digest covers
SIZE = hashlib.sha256().digest_size
SHARE = 4  # blocks that a thread takes at a time

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def count(length: int) -> int:
    """The number of digests of so many bytes."""
    return -(-length // BLOCK)


def digests(data: Bytes) -> bytes:
    """The digests of all blocks of an array of bytes, one after the other.

    >>> zeros, ones = np.zeros(BLOCK, np.uint8), np.ones(BLOCK, np.uint8)
    >>> one, other = digests(np.concatenate([zeros, ones])), digests(np.concatenate([ones, zeros]))
    >>> one == other, len(one) // SIZE, one[:SIZE] == other[SIZE:]
    (False, 2, True)
    """
    starts = range(0, len(data), SHARE * BLOCK)
    workers = min(len(starts), default_num_threads())
    if workers < 2:
        return _sequential(data)
    from concurrent.futures import ThreadPoolExecutor  # only large data need it

    with ThreadPoolExecutor(workers) as pool:
        return b"".join(pool.map(lambda start: _sequential(data[start : start + SHARE * BLOCK]), starts))


def _sequential(data: Bytes) -> bytes:
    return b"".join(hashlib.sha256(data[at : at + BLOCK].data).digest() for at in range(0, len(data), BLOCK))
