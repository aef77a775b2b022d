"""The driver's loops and branches: native code that decides which row of a table comes next.

A loop's block (see :mod:`zenith.backends.cpu.word_layout`) has, for every carried value, the two buffers that
alternate, and for every array of which an iteration reads or writes a slice, its address and stride. BEGIN sets these
up, END advances to the next iteration; both then *move* the addresses of this iteration into the blocks of the rows
between them. So an iteration costs some nanoseconds in addition to its launches, however large its values are. EXIT
copies a carried value only after no iteration, or where a number of iterations that was not known in advance left it in
the other buffer. RESIZE moves the sizes of this iteration, which a kernel has just computed.
"""

from __future__ import annotations

from zenith.backends.cpu.native_code import native
from zenith.backends.cpu.native_intrinsics import copy_bytes, load_acquire, load_byte, load_int32, store_release
from zenith.backends.cpu.word_layout import (
    ADDRESS,
    BEGIN,
    BRANCHES,
    CARRIES,
    CARRY,
    CASES,
    COUNT,
    CURRENT,
    END,
    EXIT,
    FLAG,
    FOLLOWING,
    FROM,
    INDEX,
    LEFT,
    LENGTH,
    MOVES,
    OFFSET,
    OTHER,
    RESIZE,
    RESULT,
    ROW,
    SELECT,
    SLICE,
    SLICES,
    SLICES_END,
    STRIDE,
    TEST,
    WHOLE,
)

FIRST_KERNEL = RESIZE + 1  # a smaller number in a row's first word is an opcode


@native
def move(frame: int, pair: int) -> None:
    """Copy words of a frame, each from one byte offset to another; the two words at ``pair`` are the list's bounds."""
    at = load_acquire(pair, 0)
    end = load_acquire(pair, 8)
    while at < end:
        store_release(frame, load_acquire(at, 8), load_acquire(frame, load_acquire(at, 0)))
        at += 16


@native
def _begin(block: int) -> int:
    """Set up the first iteration; return the number of iterations, negative when only a condition decides it.

    Where it is known, the first iteration writes the buffer from which alternating ends in the result's.
    """
    count = load_acquire(block, 8 * COUNT)
    store_release(block, 8 * LEFT, count)
    carry = block + 8 * CARRIES
    slices = load_acquire(block, 8 * SLICES)
    while carry < slices:
        store_release(carry, 8 * CURRENT, load_acquire(carry, 8 * FROM))
        store_release(carry, 8 * FOLLOWING, load_acquire(carry, 8 * RESULT if count & 1 else 8 * OTHER))
        carry += 8 * CARRY
    slice = slices
    while slice < load_acquire(block, 8 * SLICES_END):
        store_release(slice, 8 * ADDRESS, load_acquire(slice, 8 * WHOLE) + load_acquire(slice, 8 * OFFSET))
        slice += 8 * SLICE
    return count


@native
def _advance(block: int) -> int:
    """Advance to the next iteration; return the number of iterations that are left."""
    left = load_acquire(block, 8 * LEFT) - 1
    store_release(block, 8 * LEFT, left)
    carry = block + 8 * CARRIES
    slices = load_acquire(block, 8 * SLICES)
    while carry < slices:
        current = load_acquire(carry, 8 * FOLLOWING)
        store_release(carry, 8 * CURRENT, current)
        both = load_acquire(carry, 8 * RESULT) + load_acquire(carry, 8 * OTHER)
        store_release(carry, 8 * FOLLOWING, both - current)
        carry += 8 * CARRY
    slice = slices
    while slice < load_acquire(block, 8 * SLICES_END):
        store_release(slice, 8 * ADDRESS, load_acquire(slice, 8 * ADDRESS) + load_acquire(slice, 8 * STRIDE))
        slice += 8 * SLICE
    return left


@native
def _leave(block: int) -> None:
    """Copy each carried value that is not there yet to the result's buffer, where the rows after the loop read it."""
    carry = block + 8 * CARRIES
    while carry < load_acquire(block, 8 * SLICES):
        current = load_acquire(carry, 8 * CURRENT)
        result = load_acquire(carry, 8 * RESULT)
        if current != result:
            copy_bytes(result, current, load_acquire(carry, 8 * LENGTH))
        carry += 8 * CARRY


@native
def _chosen(block: int) -> int:
    """The first row of the branch that the index at a branch's block chooses."""
    index = load_int32(load_acquire(block, 8 * INDEX))
    last = load_acquire(block, 8 * BRANCHES) - 1
    index = last if index > last else index
    return load_acquire(block, 8 * CASES + 8 * (index if index > 0 else 0))


@native
def control(frame: int, row: int) -> int:
    """Execute a row that launches nothing; return the row that comes next."""
    opcode = load_acquire(row, 0)
    target = load_acquire(row, 8)
    block = load_acquire(row, 24)
    following = row + 8 * ROW
    if opcode == END:
        if _advance(block) == 0:
            return following
        move(frame, block + 8 * MOVES)
        return target
    if opcode == TEST:
        return following if load_byte(load_acquire(block, 8 * FLAG)) else target
    if opcode == SELECT:
        return _chosen(block)
    if opcode == BEGIN:
        if _begin(block) == 0:
            return target
        move(frame, block + 8 * MOVES)
        return following
    if opcode == RESIZE:
        move(frame, block)
        return following
    if opcode == EXIT:
        _leave(block)
        return following
    return target
