"""Fragments: matrices in the registers of a warp, and what the instructions on them do, in NumPy.

A *fragment* is a matrix whose elements lie in the registers of a warp's 32 lanes. Here an array ``[lane, register]`` of
32-bit words is one; float32 sums are an array ``[lane, register]`` of floats. The functions are the twins of the
intrinsics in :mod:`zenith.backends.cuda.matrix`, for a whole warp at once. With them the printed source of a kernel
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

from zenith.backends.rounding import LOST
from zenith.ir.target import LANES, REGISTER, MatrixInstruction

LINES = 8  # of a small matrix
LINE = 16  # bytes

Words = np.ndarray[Any, np.dtype[np.uint32]]
BufferAssignment = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def operand_places(lines: int, registers: int, itemsize: int) -> BufferAssignment:
    """The line and the term of each element ``[lane, register, part]`` of an operand with so many lines.

    A's lines are rows, B's are columns. Elements of 2 bytes lie two in a register, the first in its lower half.
    """
    parts, groups = REGISTER // itemsize, lines // LINES
    lane = np.arange(LANES)[:, None, None]
    register, part = np.arange(registers)[:, None], np.arange(parts)
    line = lane // 4 + register % groups * LINES + 0 * part
    term = lane % 4 * parts + register // groups * (LINE // itemsize) + part
    line, term = np.broadcast_arrays(line, term)
    return line, term


def sum_places(registers: int) -> BufferAssignment:
    """The row and the column of each element ``[lane, register]`` of the sums."""
    lane, register = np.arange(LANES)[:, None], np.arange(registers)
    return lane // 4 + register // 2 * LINES, lane % 4 * 2 + register % 2


def operand_matrix(instruction: MatrixInstruction, words: Words, lines: int) -> np.ndarray[Any, Any]:
    """The operand ``[line, term]`` in a fragment, as float64."""
    element, registers = instruction.element, words.shape[1]
    matrix = np.zeros((lines, instruction.terms))
    values = np.ascontiguousarray(words, np.uint32).view(element.numpy).astype(np.float64)
    if instruction.rounds and (np.isfinite(values) & (words & ((1 << LOST) - 1) != 0)).any():
        raise ValueError(f"{instruction.name} takes elements that were rounded to {instruction.type}")
    places = operand_places(lines, registers, element.itemsize)
    matrix[places] = values.reshape(places[0].shape)
    return matrix


def mma(instruction: MatrixInstruction, sums: Any, left: Words, right: Words) -> Any:
    """``D = A B + C``: the sums of a warp, each rounded once. (A GPU may round the terms' sum in another way.)"""
    a = operand_matrix(instruction, left, instruction.rows)
    b = operand_matrix(instruction, right, instruction.columns)
    places = sum_places(instruction.sums)
    with np.errstate(all="ignore"):
        return ((a @ b.T)[places] + sums).astype(np.float32)


def ldmatrix(lines: Words, count: int, turned: bool) -> Words:
    """The fragment of ``count`` small matrices of 2-byte elements from lines ``[lane, 4 words]`` in memory.

    Lane l brings line ``l % 8`` of matrix ``l // 8``; what further lanes bring is not read. ``turned``, an element
    comes to where that at the mirrored place would be.
    """
    halves = np.ascontiguousarray(lines[: LINES * count], np.uint32).view(np.uint16).reshape(count, LINES, LINES)
    if turned:
        halves = halves.transpose(0, 2, 1)
    line, term = operand_places(LINES, 1, 2)
    return np.ascontiguousarray(halves[:, line[:, 0], term[:, 0]].transpose(1, 0, 2)).view(np.uint32)[..., 0]


def pair(dtype: Any, low: Any, high: Any) -> Any:
    """The word of two 16-bit floats, the first in the lower half; each is rounded to nearest, ties to even."""
    with np.errstate(all="ignore"):
        return np.array([low, high], np.float32).astype(dtype).view(np.uint32)[0]


class Copies:
    """The asynchronous copies of one thread: the elements arrive when the thread waits for them, and not before.

    Until then what they go to holds rubbish, as it may on a GPU.
    """

    def __init__(self) -> None:
        self._open: list[Any] = []
        self._groups: list[list[Any]] = []

    def copy(self, target: Any, at: int, source: Any, place: int, count: int) -> None:
        """Begin to copy 16 bytes, of which the first ``count`` elements are read and the others are zero."""
        number = LINE // target.dtype.itemsize
        if int(at) % number or (count and int(place) % number):
            raise ValueError("an asynchronous copy is aligned to 16 bytes")
        if not 0 <= count <= number or (count and int(place) + int(count) > source.size):
            raise ValueError(f"an asynchronous copy of {count} elements reads outside of its source")
        there = target[int(at) : int(at) + number]
        there[:] = 123
        self._open.append((there, source, int(place), int(count)))

    def commit(self) -> None:
        """What was begun since the last commit is one group."""
        self._groups.append(self._open)
        self._open = []

    def wait(self, left: int) -> None:
        """Wait until at most the last ``left`` groups are on their way."""
        while len(self._groups) > left:
            for there, source, place, count in self._groups.pop(0):
                there[:] = 0
                there[:count] = source[place : place + count]
