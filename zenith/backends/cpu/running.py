"""Running a program: native code that walks a frame's table (see :mod:`zenith.backends.cpu.frame`), row by row.

A row is a launch, or what makes rows repeat or be left out (:mod:`zenith.backends.cpu.looping`). So one function, the
driver, runs all programs.
"""

from __future__ import annotations

from zenith.backends.cpu.driver import is_interrupted, run_launch
from zenith.backends.cpu.looping import FIRST_KERNEL, control, move
from zenith.backends.cpu.native_code import native
from zenith.backends.cpu.native_intrinsics import (
    load_acquire,
    load_int32,
    nanoseconds,
    store_release,
)
from zenith.backends.cpu.word_layout import (
    ARRAY_DATA,
    ARRAY_FLAGS,
    C_CONTIGUOUS,
    FAILED,
    FIRST,
    INTERRUPTED,
    LAST_STATUS,
    LAUNCHES,
    PATCHES,
    RECENT,
    ROW,
    ROWS_BEFORE_LOOK,
    STATUS,
    STATUSES,
    STRIDED,
    TABLE,
    TEAM,
)


@native
def _rows_until_look(rows: int, took: int) -> int:
    """After how many rows to look at the clock again when the last ``rows`` took so long: a look costs some of them."""
    if took < RECENT:
        return rows * 2
    return rows if took < 16 * RECENT else rows // 8 + 1


@native
def _outcome(frame: int) -> int:
    """FAILED when a kernel has set its status word."""
    status = load_acquire(frame, 8 * STATUSES)
    last = load_acquire(frame, 8 * LAST_STATUS)
    while status < last:
        if load_acquire(status, 0):
            return FAILED
        status += 8 * STATUS
    return 0


@native
def run_steps(first: int, last: int, frame: int) -> int:
    """Run rows ``first`` to before ``last`` of a frame's table; the first run patches addresses.

    Returns INTERRUPTED, or FAILED when the status word of a launch is not 0.
    """
    if first == 0:
        move(frame, frame + 8 * PATCHES)
    team = load_acquire(frame, 8 * TEAM)
    row = load_acquire(frame, 8 * TABLE) + 8 * ROW * first
    end = row + 8 * ROW * (last - first)
    rows = 0
    until = _rows_until_look(ROWS_BEFORE_LOOK, RECENT)
    looked = 0
    while row < end:
        kernel = load_acquire(row, 0)
        if kernel < FIRST_KERNEL:
            row = control(frame, row)
        else:
            if run_launch(team, kernel, load_acquire(row, 8), load_acquire(row, 16), load_acquire(row, 24)):
                return INTERRUPTED
            row += 8 * ROW
        rows += 1
        if rows >= until:
            rows = 0
            now = nanoseconds()
            until = _rows_until_look(until, now - looked)
            looked = now
            if is_interrupted(team, now):
                return INTERRUPTED
    return _outcome(frame)


@native
def run_program(frame: int) -> int:
    """Run all rows of a frame's table; see :func:`run_steps`."""
    return run_steps(0, load_acquire(frame, 8 * LAUNCHES), frame)


@native
def run_on_arrays(frame: int) -> int:
    """The same with NumPy arrays, as Python's objects, in the words for addresses of inputs and outputs.

    Returns STRIDED, and runs nothing, where one is not dense in row-major order.
    """
    at = frame + 8 * FIRST
    table = load_acquire(frame, 8 * TABLE)
    while at < table:
        array = load_acquire(at, 0)
        if load_int32(array + ARRAY_FLAGS) & C_CONTIGUOUS == 0:
            return STRIDED
        store_release(at, 0, load_acquire(array, ARRAY_DATA))
        at += 8
    return run_program(frame)
