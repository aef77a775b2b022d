"""Archives: a tree of records and arrays as one file, which is read by mapping it into memory.

::

    a line of JSON      what the file was made for, its tree (:mod:`zenith.backends.codec`), which refers to arrays by
                        number, and their element types, shapes and offsets
    arrays              each on a boundary of ``ALIGN`` bytes
    digests             of each block of each array, see :mod:`zenith.backends.digests`
    sha256              of all before, arrays by their digests

Saved functions and the entries of the cache are archives. Reading hashes every byte once, in all threads, and so brings
the pages in that the program will read; no array is copied. A file appears by renaming: a process that has an older one
of this name open still reads that.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Generic

import numpy as np

from zenith.backends.codec import Get, Json, Large, StoredText, Tree, decode, encode
from zenith.backends.digests import BLOCK, SIZE, digests
from zenith.backends.steps import ALIGN
from zenith.errors import LoadError
from zenith.files import open_regular, replacing, starts_with
from zenith.ir.types import NDArray

KIND = "zenith archive "  # then the version
FORMAT = KIND + "4"
GROUP = 64 * BLOCK  # bytes that are written at once
MAPPED = 1 << 20  # bytes from which on mapping a file into memory is faster than reading it
_START = f'{{"format": "{KIND}'.encode()
is_archive = starts_with(_START)  # of any version, also where the rest is damaged

# What malformed JSON and trees raise: sums are right, so somebody has written the file who is not Zenith.
MALFORMED = (ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError, SyntaxError, RecursionError)


@dataclass(frozen=True)
class Archive(Generic[Tree]):
    """The contents of a file. The arrays in it are views of the mapped file and cannot be written to."""

    path: Path
    made_for: Mapping[str, str]
    content: Tree
    bytes: int


class _Shelf:
    """The arrays of a file: equal ones have one number, so that programs share them there."""

    def __init__(self) -> None:
        self.arrays: list[NDArray] = []
        self.types: list[tuple[str, tuple[int, ...], int]] = []  # element type, shape, offset from the first array
        self.length = 0
        self._numbers: dict[Hashable, int] = {}

    def put(self, leaf: Large, name: str) -> Json:
        """The number of an array, or of bytes as one; a text is part of the JSON."""
        if isinstance(leaf, StoredText):
            return str(leaf)
        array = np.asarray(np.frombuffer(leaf, np.uint8) if isinstance(leaf, bytes) else leaf, order="C")
        flat = _bytes(array)
        ends = digests(flat[:BLOCK].data), digests(flat[-BLOCK:].data)  # writing hashes the rest
        key = str(array.dtype), array.shape, ends
        known = self._numbers.setdefault(key, len(self.arrays))
        if known < len(self.arrays) and np.array_equal(flat, _bytes(self.arrays[known])):
            return known
        self.arrays.append(array)
        self.types.append((str(array.dtype), array.shape, self.length))
        self.length = _up(self.length + array.nbytes)
        return len(self.arrays) - 1


def write(path: Path, made_for: Mapping[str, str], content: object) -> None:
    """Write an archive in place of one that was at ``path``; raises ZenithError when something else is there, OSError.

    After an error all is as it was. Raises UnsupportedError when the codec has no form for the content.
    """
    with replacing(path, is_archive) as file:
        write_to(file, made_for, content)


def write_to(file: BinaryIO, made_for: Mapping[str, str], content: object, **about: str | bool) -> None:
    """Write an archive to an empty file; ``about`` is for those who only read its line."""
    shelf = _Shelf()
    tree = encode(content, shelf.put)
    sections = {"length": shelf.length, "arrays": shelf.types, "content": tree}
    line = json.dumps({"format": FORMAT, **about, "made_for": dict(made_for), **sections}).encode() + b"\n"
    file.write(line)
    first, found = _up(len(line)), []
    for array, (_, _, start) in zip(shelf.arrays, shelf.types, strict=True):
        file.seek(first + start)
        flat = _bytes(array)
        for at in range(0, len(flat), GROUP):
            group = flat[at : at + GROUP].copy()  # somebody may be writing to it
            file.write(group.data)
            found.append(digests(group.data))
    file.seek(first + shelf.length)
    file.write(b"".join([*found, _check(line, found)]))


def _check(line: bytes, found: Iterable[bytes]) -> bytes:
    """The sha256 of a file's first line and of digests."""
    return hashlib.sha256(b"".join([line, *found])).digest()


def _bytes(array: NDArray) -> NDArray:
    return array.reshape(-1).view(np.uint8)


def read(path: Path, kind: type[Tree]) -> Archive[Tree]:
    """Map an archive; LoadError when it is none, or is damaged or cut off, OSError when it cannot be opened."""
    with open_regular(path) as file:
        return read_from(file, path, kind)


def read_from(file: BinaryIO, path: Path, kind: type[Tree]) -> Archive[Tree]:
    """The same of an open file; ``path`` is for messages. Its content is an object of the type ``kind``."""
    length = os.fstat(file.fileno()).st_size
    data = file.read(length) if length < MAPPED else mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ)
    line = data[: data.find(b"\n") + 1]
    head, first = parsed(line or data[:SIZE], path), _up(len(line))
    end = first + head["length"]
    if len(data) < end + SIZE or head["length"] < 0:
        raise damaged(path, "it is cut off")
    section, blocks, check = memoryview(data)[first:end], data[end:-SIZE], data[-SIZE:]
    if _check(line, [blocks]) != check:
        raise damaged(path, "its contents have changed, or it is cut off")
    try:
        leaves = [_leaf(section, *fields) for fields in head["arrays"]]
    except MALFORMED:
        raise damaged(path, "its contents are not what save() writes") from None
    if b"".join([digests(memory) for memory, _ in leaves]) != blocks:
        raise damaged(path, "its arrays have changed")

    def get(leaf: str, spelled: Any) -> Large:
        if leaf == "text":
            return StoredText(spelled)
        memory, array = leaves[spelled]
        return memory.tobytes() if leaf == "bytes" else array

    return Archive(path, head["made_for"], decoded(head["content"], kind, get, path), length)


def parsed(line: bytes, path: Path) -> dict[str, Any]:
    """What the first line of a file says; LoadError when this is no archive, or one of another version."""
    if not line.startswith(_START):
        raise LoadError(f"{path} was not saved by Zenith", fix="give a file that save() wrote")
    try:
        head = json.loads(line.decode())
        version, kinds = head["format"], [type(head.get(name)) for name in ("made_for", "length", "arrays")]
    except (ValueError, KeyError, RecursionError):
        raise damaged(path, "it is cut off, or its contents have changed") from None
    if version != FORMAT:
        raise LoadError(f"{path} has the format {version!r}, and this Zenith reads {FORMAT!r}",
                        fix="save it again with this version of Zenith")  # fmt: skip
    if kinds != [dict, int, list] or "content" not in head:
        raise damaged(path, "its contents are not what save() writes")
    return head


def decoded(spelled: Json, kind: type[Tree], get: Get, path: Path) -> Tree:
    """The tree of a file; LoadError when there is none of this kind."""
    try:
        return decode(spelled, kind, get)
    except LoadError:
        raise
    except MALFORMED as error:
        why = f"its contents are not what save() writes ({type(error).__name__}: {error})"
        raise damaged(path, why) from None


def _leaf(section: memoryview, dtype: str, shape: list[int], start: int) -> tuple[memoryview, NDArray]:
    """The bytes of an array in the section of arrays, and the array."""
    kind, count = np.dtype(dtype), math.prod(shape)
    memory = section[start : start + kind.itemsize * count]
    if kind.hasobject or min(start, *shape, 0) < 0 or len(memory) != kind.itemsize * count:
        raise ValueError("an array lies outside of the file")
    return memory, np.frombuffer(memory if count else b"", kind, count).reshape(shape)


def damaged(path: Path, why: str) -> LoadError:
    """The error for a file that is not as it was written."""
    return LoadError(f"{path} is damaged: {why}", fix="save it again, or copy it again")


def _up(length: int) -> int:
    return -(-length // ALIGN) * ALIGN
