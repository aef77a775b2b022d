"""Safetensors: named arrays in a file that many programs read, here read by mapping it and written without a package.

Eight bytes hold the length of a JSON header, which states element type, shape and offsets of each array; the arrays
follow without gaps (https://github.com/huggingface/safetensors, "Format"). Complex numbers, which the format does not
have, are stored as pairs of real and imaginary parts.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zenith.errors import LoadError
from zenith.ir.types import BY_NAME, DTYPES, NDArray

CODES = {t.name: t.name.upper() for t in DTYPES if not t.is_complex}
_DTYPES = {code: BY_NAME[name].numpy for name, code in CODES.items()}
_CODES = {str(dtype): code for code, dtype in _DTYPES.items()}
_PREFIX = 8  # bytes of the header's length


def encode(arrays: Mapping[str, NDArray]) -> list[bytes]:
    """The file as chunks to write one after the other; arrays of wide elements come first, so that all are aligned."""
    real = {name: _without_complex(np.asarray(array, order="C")) for name, array in arrays.items()}
    order = sorted(real, key=lambda name: (-real[name].itemsize, name))
    header, at = {}, 0
    for name in order:
        array = real[name]
        header[name] = {
            "dtype": _CODES[str(array.dtype)],
            "shape": array.shape,
            "data_offsets": [at, at + array.nbytes],
        }
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _PREFIX)
    return [len(text).to_bytes(_PREFIX, "little"), text, *(real[name].tobytes() for name in order)]


def read(path: Path) -> dict[str, NDArray]:
    """The arrays of a file, as views of the mapped file; LoadError when it is none or its header is wrong."""
    with path.open("rb") as file:
        size = path.stat().st_size
        if size < _PREFIX:
            raise _damaged(path, "it is cut off")
        memory = np.frombuffer(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), np.uint8)
    length = int.from_bytes(memory[:_PREFIX].tobytes(), "little")
    if length > size - _PREFIX:
        raise _damaged(path, f"its header has {length} bytes, and the file {size}")
    try:
        header = json.loads(memory[_PREFIX : _PREFIX + length].tobytes())
        entries = {name: _entry(**entry) for name, entry in header.items() if name != "__metadata__"}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise _damaged(path, "its header is not that of a safetensors file") from None
    data = memory[_PREFIX + length :]
    return {name: _array(data, *entry, path) for name, entry in entries.items()}


def _entry(dtype: str, shape: list[int], data_offsets: list[int]) -> tuple[np.dtype[Any], list[int], int, int]:
    start, stop = data_offsets
    if not all(type(n) is int and n >= 0 for n in (*shape, start, stop)):
        raise ValueError
    return _DTYPES[dtype], shape, start, stop


def _array(data: NDArray, dtype: np.dtype[Any], shape: list[int], start: int, stop: int, path: Path) -> NDArray:
    if stop > len(data) or stop - start != math.prod(shape) * dtype.itemsize:
        raise _damaged(path, f"an array of {dtype}{shape} would stand at bytes {start} to {stop} of {len(data)}")
    return data[start:stop].view(dtype).reshape(shape)


def _without_complex(array: NDArray) -> NDArray:
    if array.dtype.kind != "c":
        return array
    return array.reshape(-1).view(array.real.dtype).reshape(*array.shape, 2)


def _damaged(path: Path, why: str) -> LoadError:
    return LoadError(f"{path} is damaged: {why}", fix="save it again, or copy it again")
