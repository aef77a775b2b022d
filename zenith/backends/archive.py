"""Archives: one file of JSON and arrays, which is read by mapping it into memory.

::

    a line of JSON      the header: what the file was made for, lengths of the sections that follow
    JSON                the content, which refers to arrays by number
    arrays              each on a boundary of ``ALIGN`` bytes
    digests             of each block of each array, see :mod:`zenith.backends.digests`
    sha256              of all before, arrays by their digests

Reading hashes every byte once, in all threads, and so brings the pages in that the program will read; no array is
copied. A file appears by renaming: a process that has an older one of this name open still reads that.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from zenith.backends.digests import BLOCK, SIZE, count, digests
from zenith.backends.steps import ALIGN
from zenith.errors import LoadError
from zenith.files import open_regular, replacing, starts_with

KIND = "zenith archive "  # then the version
FORMAT = KIND + "2"
GROUP = 64 * BLOCK  # bytes that are written at once
PAGE = 1 << 12  # where the arrays begin
is_archive = starts_with(f'{{"format": "{KIND}'.encode())  # of any version, also where the rest is damaged

Array = np.ndarray[Any, Any]
Json = Any  # what json reads and writes


@dataclass(frozen=True)
class Archive:
    """The contents of a file. The arrays are views of the mapped file and cannot be written to."""

    path: Path
    made_for: Mapping[str, str]
    content: Json
    arrays: Sequence[Array]
    bytes: int


class Shelf:
    """Arrays to write to a file: equal ones have one number, so that programs share them there."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self._numbers: dict[Hashable, int] = {}

    def put(self, data: Array | bytes) -> int:
        """The number of an array, or of bytes as one."""
        array = np.asarray(np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data, order="C")
        flat = _bytes(array)
        key = str(array.dtype), array.shape, digests(flat[:BLOCK]), digests(flat[-BLOCK:])  # writing hashes the rest
        known = self._numbers.setdefault(key, len(self.arrays))
        if known < len(self.arrays) and np.array_equal(flat, _bytes(self.arrays[known])):
            return known
        self.arrays.append(array)
        return len(self.arrays) - 1


def write(path: Path, made_for: Mapping[str, str], content: Json, arrays: Sequence[Array]) -> None:
    """Write an archive in place of one that was at ``path``; raises ZenithError when something else is there, OSError.

    After an error all is as it was.
    """
    starts, length = _starts(arrays)
    kinds = [[str(a.dtype), a.shape, start] for a, start in zip(arrays, starts, strict=True)]
    text = json.dumps({"content": content, "arrays": kinds}).encode()
    blocks = sum(count(array.nbytes) for array in arrays)
    header = {"format": FORMAT, "made_for": dict(made_for), "content": len(text), "arrays": length, "blocks": blocks}
    with replacing(path, is_archive) as file:
        _write(file, json.dumps(header).encode() + b"\n" + text, arrays, starts)


def _starts(arrays: Sequence[Array]) -> tuple[list[int], int]:
    """The offset of each array from the first, and of the end of all."""
    starts, end = [], 0
    for array in arrays:
        starts.append(end)
        end = _up(end + array.nbytes, ALIGN)
    return starts, end


def _write(file: BinaryIO, head: bytes, arrays: Sequence[Array], starts: Sequence[int]) -> None:
    file.write(head)
    first, found = _up(len(head), PAGE), []
    for array, start in zip(arrays, starts, strict=True):
        file.seek(first + start)
        for group in _groups(array):
            file.write(group.data)
            found.append(digests(group))
    file.seek(first + _starts(arrays)[1])
    file.write(b"".join([*found, _check(head, found)]))


def _groups(array: Array) -> Iterator[Array]:
    """The bytes of an array, in copies: somebody may be writing to it."""
    flat = _bytes(array)
    return (flat[at : at + GROUP].copy() for at in range(0, len(flat), GROUP))


def _check(head: bytes, found: Iterable[bytes]) -> bytes:
    """The sha256 of a file's head and of digests."""
    return hashlib.sha256(b"".join([head, *found])).digest()


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def read(path: Path) -> Archive:
    """Map an archive; LoadError when it is none, or is damaged or cut off, OSError when it cannot be opened."""
    with open_regular(path) as file:
        line = file.readline(1 << 16)
        header = _header(line, path)
        first = _up(len(line) + header["content"], PAGE)
        tail = SIZE * (header["blocks"] + 1)
        length = os.fstat(file.fileno()).st_size
        if length != first + header["arrays"] + tail:
            raise _damaged(path, "it is cut off, or something was added")
        memory = np.frombuffer(mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ), np.uint8)
    head = memory[: len(line) + header["content"]].tobytes()
    blocks, check = memory[length - tail : -SIZE].tobytes(), memory[-SIZE:].tobytes()
    if _check(head, [blocks]) != check:
        raise _damaged(path, "its contents have changed")
    try:
        content = json.loads(head[len(line) :])
        arrays = [_array(memory[first : length - tail], *kind) for kind in content["arrays"]]
        whole = content["content"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise _damaged(path, "its contents are not what save() writes") from None
    if b"".join(digests(_bytes(array)) for array in arrays) != blocks:
        raise _damaged(path, "its arrays have changed")
    return Archive(path, header["made_for"], whole, arrays, length)


def _header(line: bytes, path: Path) -> dict[str, Any]:
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or not str(header.get("format")).startswith(KIND):
        raise LoadError(f"{path} was not saved by Zenith", fix="give a file that save() wrote")
    kinds = {"content": int, "arrays": int, "blocks": int, "made_for": dict}
    if header["format"] != FORMAT or any(not isinstance(header.get(name), kind) for name, kind in kinds.items()):
        raise LoadError(f"{path} has the format {header['format']!r}, and this Zenith reads {FORMAT!r}",
                        fix="save it again with this version of Zenith")  # fmt: skip
    if any(header[name] < 0 for name in ("content", "arrays", "blocks")):
        raise _damaged(path, "its header is not what save() writes")
    return header


def _array(memory: Array, dtype: str, shape: list[int], start: int) -> Array:
    kind = np.dtype(dtype)
    length = kind.itemsize * math.prod(shape)
    if kind.hasobject or min(start, *shape, 0) < 0 or start + length > len(memory):
        raise ValueError("an array lies outside of the file")
    return memory[start : start + length].view(kind).reshape(shape)


def _damaged(path: Path, why: str) -> LoadError:
    return LoadError(f"{path} is damaged: {why}", fix="save it again, or copy it again")


def _up(length: int, multiple: int) -> int:
    return -(-length // multiple) * multiple
