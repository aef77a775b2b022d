"""The types of GGUF's tensors: rows of blocks of levels with their scales, as matrices in levels, and rows of floats.

A block has so many neighbouring numbers of a row. Those of the types ending in ``_K`` are blocks of blocks: 256 numbers
with a float16, by which the scales of 8 or 16 groups, integers themselves, are multiplied. Nothing is rounded but what
zero is shifted by, once, to float32. Levels of 5 and 6 bits are stored in 8, in the middle of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zenith.errors import ArgumentError, UnsupportedError, user_line
from zenith.ir.ops.scaled_product import middle
from zenith.ir.types import NDArray, NumPyType
from zenith.torch.gguf_reader import StoredTensor
from zenith.torch.grouped_linear import LevelMatrix

Groups = tuple[NDArray, NDArray, NDArray | None]
"""Of blocks u8 [n, bytes]: levels u8 [n, numbers], scales float32 [n, groups], and shifts likewise, as in a
:class:`~zenith.torch.grouped_linear.LevelMatrix`."""

FLOATS: dict[str, NumPyType] = dict(zip(("F32", "F16", "BF16"), map(np.dtype, ("f4", "f2", "u2")), strict=True))


@dataclass(frozen=True, slots=True)
class BlockType:
    """A type whose blocks of ``numbers`` have ``bytes``; their levels are stored in ``bits``."""

    numbers: int
    bytes: int
    bits: int
    groups: Callable[[NDArray], Groups]


def _halves(nibbles: NDArray) -> NDArray:
    """The low halves of bytes, and after them the high ones, along the last axis."""
    return np.concatenate([nibbles & 15, nibbles >> 4], -1)


def _float16(blocks: NDArray, at: int) -> NDArray:
    """A float16 of each block, as a column."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view(np.float16).astype(np.float32)


def _q8_0(blocks: NDArray) -> Groups:
    return blocks[:, 2:] ^ 128, _float16(blocks, 0), None


def _q4_0(blocks: NDArray) -> Groups:
    return _halves(blocks[:, 2:]), _float16(blocks, 0), None


def _q4_1(blocks: NDArray) -> Groups:
    scales = _float16(blocks, 0)
    return _halves(blocks[:, 4:]), scales, _float16(blocks, 2) + middle(4) * scales


def _q5_0(blocks: NDArray) -> Groups:
    fifth = np.unpackbits(blocks[:, 2:6], axis=1, bitorder="little")
    return (_halves(blocks[:, 6:]) | fifth << 4) + np.uint8(middle(8) - 16), _float16(blocks, 0), None


def _scales_and_mins(blocks: NDArray) -> tuple[NDArray, NDArray]:
    """What levels of eight groups are multiplied by, and what is added: twelve bytes have six bits for each."""
    q = blocks[:, 4:16]
    first, second, last = q[:, :4], q[:, 4:8], q[:, 8:]
    scales = np.concatenate([first & 63, last & 15 | first >> 6 << 4], 1)
    least = np.concatenate([second & 63, last >> 4 | second >> 6 << 4], 1)
    return _float16(blocks, 0) * scales, -_float16(blocks, 2) * least


def _q4_k(blocks: NDArray) -> Groups:
    levels = _halves(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 256)
    scales, least = _scales_and_mins(blocks)
    return levels, scales, least + middle(4) * scales


def _q5_k(blocks: NDArray) -> Groups:
    fifth = blocks[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    levels = _halves(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32) | fifth << 4
    scales, least = _scales_and_mins(blocks)
    return levels.reshape(-1, 256) + np.uint8(middle(8) - 16), scales, least + 16 * scales


def _q6_k(blocks: NDArray) -> Groups:
    low, high = blocks[:, :128].reshape(-1, 2, 64), blocks[:, 128:192].reshape(-1, 2, 1, 32)
    upper = high >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    levels = _halves(low).reshape(-1, 2, 4, 32) | upper << 4
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8)
    return levels.reshape(-1, 256) + np.uint8(middle(8) - 32), _float16(blocks, 208) * scales, None


BLOCKS = {
    "Q8_0": BlockType(32, 34, 8, _q8_0),
    "Q4_0": BlockType(32, 18, 4, _q4_0),
    "Q4_1": BlockType(32, 20, 4, _q4_1),
    "Q5_0": BlockType(32, 22, 8, _q5_0),
    "Q4_K": BlockType(256, 144, 4, _q4_k),
    "Q5_K": BlockType(256, 176, 8, _q5_k),
    "Q6_K": BlockType(256, 210, 8, _q6_k),
}


def level_matrix(name: str, tensor: StoredTensor, order: NDArray | None = None) -> LevelMatrix:
    """The matrix [terms, columns] whose columns are a tensor's rows, in this order."""
    kind, rows = _block_type(name, tensor), tensor.shape[0]
    blocks = _bytes(name, tensor, tensor.shape[0] * tensor.shape[1] // kind.numbers * kind.bytes)
    levels, scales, shifts = kind.groups(blocks.reshape(-1, kind.bytes))

    def columns(parts: NDArray) -> NDArray:
        own = parts.reshape(rows, -1)
        return np.ascontiguousarray((own if order is None else own[order]).T)

    return LevelMatrix(kind.bits, columns(levels), columns(scales), None if shifts is None else columns(shifts))


def floats(name: str, tensor: StoredTensor) -> NDArray:
    """A tensor of floats, or the numbers of levels, as float32."""
    if tensor.type not in FLOATS:
        return np.ascontiguousarray(level_matrix(name, tensor).numbers().T)
    stored = _bytes(name, tensor, math.prod(tensor.shape) * FLOATS[tensor.type].itemsize).view(FLOATS[tensor.type])
    if tensor.type == "BF16":
        stored = (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(np.float32).reshape(tensor.shape)


def _block_type(name: str, tensor: StoredTensor) -> BlockType:
    if tensor.type not in BLOCKS:
        raise UnsupportedError(f"{name} is of the type {tensor.type}", where=user_line(),
                               fix=f"use a file whose tensors are {', '.join([*FLOATS, *BLOCKS])}")  # fmt: skip
    found = BLOCKS[tensor.type]
    if len(tensor.shape) != 2 or tensor.shape[1] % found.numbers:
        raise ArgumentError(f"{name} of the type {tensor.type} has the shape {tensor.shape}, and no whole blocks of "
                            f"{found.numbers}", where=user_line(), fix="copy or download the file again")  # fmt: skip
    return found


def _bytes(name: str, tensor: StoredTensor, count: int) -> NDArray:
    """The bytes of a tensor."""
    if len(tensor.data) < count:
        raise ArgumentError(f"the file ends in the middle of {name}", where=user_line(),
                            fix="copy or download it again")  # fmt: skip
    return np.asarray(tensor.data[:count])
