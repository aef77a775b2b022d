"""What is in a file in GGUF: metadata by key, and tensors as they lie in the file, which is mapped and not read.

A file is a header, pairs of keys and values, a description of each tensor, and their data. Numbers are little-endian,
texts have their length in front. Values that are arrays, such as the words of a tokenizer, are passed over.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zenith.errors import ArgumentError, UnsupportedError, user_line
from zenith.ir.types import NDArray

VERSIONS = (2, 3)
TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K",
    12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
    20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
    29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9  # types of values
_ALIGNMENT = 32  # of data, unless the metadata say another one

Value = int | float | str | None  # None for an array


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of a file: ``shape`` has the longest stride first, ``data`` are the bytes from its first on."""

    type: str
    shape: tuple[int, ...]
    data: NDArray


def read(path: Path) -> tuple[dict[str, Value], dict[str, StoredTensor]]:
    """The metadata and the tensors of a file; ArgumentError where it is none in GGUF, or ends too early."""
    data = np.memmap(path, mode="r") if path.stat().st_size else np.empty(0, np.uint8)
    try:
        return _read(data, path)
    except (struct.error, UnicodeDecodeError, KeyError) as error:
        raise ArgumentError(f"{path} is damaged, or ends too early: {error}", where=user_line(),
                            fix="copy or download it again") from error  # fmt: skip


def _read(data: NDArray, path: Path) -> tuple[dict[str, Value], dict[str, StoredTensor]]:
    at = _Cursor(data.data)
    if bytes(data[:4]) != b"GGUF":
        raise ArgumentError(f"{path} is no file in GGUF", where=user_line(), fix="give a file in GGUF, or a folder")
    at.place, version = 4, 0
    version = at.number("I")
    if version not in VERSIONS:
        raise UnsupportedError(f"{path} is in version {version} of GGUF, or in the other byte order", where=user_line(),
                               fix="convert it again, with a present converter")  # fmt: skip
    tensors, pairs = at.number("Q"), at.number("Q")
    metadata = {at.text(): at.value(at.number("I")) for _ in range(pairs)}
    described = [(at.text(), at.sizes(), at.number("I"), at.number("Q")) for _ in range(tensors)]
    alignment = metadata.get("general.alignment", _ALIGNMENT)
    assert isinstance(alignment, int), "an alignment is a number"
    start = -(-at.place // alignment) * alignment
    found = {}
    for name, shape, kind, offset in described:
        found[name] = StoredTensor(TYPES.get(kind, f"number {kind}"), shape, data[start + offset :])
    return metadata, found


class _Cursor:
    """A place in bytes, which what is read moves on."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.place = data, 0

    def number(self, code: str) -> int:
        """A number in a code of ``struct``."""
        found: int
        (found,) = struct.unpack_from("<" + code, self.data, self.place)
        self.place += struct.calcsize("<" + code)
        return found

    def text(self) -> str:
        """A text."""
        count = self.number("Q")
        (found,) = struct.unpack_from(f"{count}s", self.data, self.place)
        self.place += count
        return str(found, "utf-8")

    def sizes(self) -> tuple[int, ...]:
        """The shape of a tensor, which files have the other way round."""
        return tuple([self.number("Q") for _ in range(self.number("I"))][::-1])

    def value(self, kind: int) -> Value:
        """A value of metadata."""
        if kind == _ARRAY:
            of, count = self.number("I"), self.number("Q")
            if of in _SCALARS:
                self.place += struct.calcsize("<" + _SCALARS[of]) * count
            else:
                for _ in range(count):
                    self.value(of)
            return None
        return self.text() if kind == _TEXT else self.number(_SCALARS[kind])
