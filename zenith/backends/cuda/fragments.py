"""Fragments: matrices in the registers of a warp, and the instructions on them, simulated in NumPy.

A *fragment* is a matrix whose elements are in the registers of a warp's 32 lanes. Here it is an array
``[lane, register]`` of 32-bit words; float32 sums are an array ``[lane, register]`` of floats. The functions simulate
the intrinsics in :mod:`zenith.backends.cuda.matrix`, for a whole warp at once. With them the printed source of a kernel
runs without a GPU, in the true layout.

The layouts are those of the PTX ISA (9.7.14.5, "Matrix fragments for mma", and 9.7.14.5.15, ``ldmatrix``). All follow
from one small matrix of 8 lines of 16 bytes, in which lane l holds the 4 bytes ``l % 4`` of line ``l // 4``. A is such
matrices, those of the upper 8 rows first, then those of the lower, then the next 16 bytes of terms; B, whose lines are
columns, is one small matrix after the other along the terms. In the sums lane l holds two neighbours in row ``l // 4``,
then two in the row 8 further down.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.backends.tensor_core_tiles import LANES, REGISTER, MatrixInstruction
from zenith.backends.tf32 import LOST
from zenith.ir.types import NDArray, NumPyType

LINES = 8  # of a small matrix
LINE = 16  # bytes

Words = np.ndarray[Any, np.dtype[np.uint32]]
Copy = tuple[NDArray, NDArray, int, int]  # the destination; the source, the first element and how many
Coordinates = tuple[NDArray, NDArray]


def operand_coordinates(lines: int, registers: int, itemsize: int) -> Coordinates:
    """The line and the term of each element ``[lane, register, number]`` of an operand with so many lines.

    A's lines are rows, B's are columns. A register holds two elements of 2 bytes, the first in its lower half.
    """
    packed, groups = REGISTER // itemsize, lines // LINES
    lane = np.arange(LANES)[:, None, None]
    register, number = np.arange(registers)[:, None], np.arange(packed)
    line = lane // 4 + register % groups * LINES + 0 * number
    term = lane % 4 * packed + register // groups * (LINE // itemsize) + number
    line, term = np.broadcast_arrays(line, term)
    return line, term


def sum_coordinates(registers: int) -> Coordinates:
    """The row and the column of each element ``[lane, register]`` of the sums."""
    lane, register = np.arange(LANES)[:, None], np.arange(registers)
    return lane // 4 + register // 2 * LINES, lane % 4 * 2 + register % 2


def operand_matrix(instruction: MatrixInstruction, words: Words, lines: int) -> NDArray:
    """The operand ``[line, term]`` in a fragment, as float64."""
    element, registers = instruction.element, words.shape[1]
    matrix = np.zeros((lines, instruction.terms))
    values = np.ascontiguousarray(words, np.uint32).view(element.numpy).astype(np.float64)
    if instruction.rounds and (np.isfinite(values) & (words & ((1 << LOST) - 1) != 0)).any():
        raise ValueError(f"{instruction.name} takes elements that were rounded to {instruction.type}")
    coordinates = operand_coordinates(lines, registers, element.itemsize)
    matrix[coordinates] = values.reshape(coordinates[0].shape)
    return matrix


def mma(instruction: MatrixInstruction, sums: NDArray, left: Words, right: Words) -> NDArray:
    """``D = A B + C``: the sums of a warp, each rounded once. (A GPU may round the terms' sum differently.)"""
    a = operand_matrix(instruction, left, instruction.rows)
    b = operand_matrix(instruction, right, instruction.columns)
    coordinates = sum_coordinates(instruction.sums)
    with np.errstate(all="ignore"):
        return ((a @ b.T)[coordinates] + sums).astype(np.float32)


def ldmatrix(lines: Words, count: int, transposed: bool) -> Words:
    """The fragment of ``count`` small matrices of 2-byte elements from lines ``[lane, 4 words]`` in memory.

    Lane l brings line ``l % 8`` of matrix ``l // 8``; the lines of further lanes are not read. With ``transposed`` each
    small matrix is transposed.
    """
    halves = np.ascontiguousarray(lines[: LINES * count], np.uint32).view(np.uint16).reshape(count, LINES, LINES)
    if transposed:
        halves = halves.transpose(0, 2, 1)
    line, term = operand_coordinates(LINES, 1, 2)
    return np.ascontiguousarray(halves[:, line[:, 0], term[:, 0]].transpose(1, 0, 2)).view(np.uint32)[..., 0]


def pair(dtype: NumPyType, low: NDArray, high: NDArray) -> NDArray:
    """The word of two 16-bit floats, the first in the lower half; each is rounded to nearest, ties to even."""
    with np.errstate(all="ignore"):
        return np.array([low, high], np.float32).astype(dtype).view(np.uint32)[0]


class Copies:
    """The asynchronous copies of one thread: the elements arrive when the thread waits for them, and not before.

    Until then their destination holds garbage, as it may on a GPU.
    """

    def __init__(self) -> None:
        self._open: list[Copy] = []
        self._groups: list[list[Copy]] = []

    def copy(self, target: NDArray, at: int, source: NDArray, start: int, count: int) -> None:
        """Begin to copy 16 bytes: ``count`` elements from ``source[start]`` on, then zeros."""
        number = LINE // target.dtype.itemsize
        if int(at) % number or (count and int(start) % number):
            raise ValueError("an asynchronous copy is aligned to 16 bytes")
        if not 0 <= count <= number or (count and int(start) + int(count) > source.size):
            raise ValueError(f"an asynchronous copy of {count} elements reads outside of its source")
        there = target[int(at) : int(at) + number]
        there[:] = 123
        self._open.append((there, source, int(start), int(count)))

    def commit(self) -> None:
        """Make one group of the copies that were begun since the last commit."""
        self._groups.append(self._open)
        self._open = []

    def wait(self, left: int) -> None:
        """Wait until at most the last ``left`` groups are in flight."""
        while len(self._groups) > left:
            for there, source, start, count in self._groups.pop(0):
                there[:] = 0
                there[:count] = source[start : start + count]
