"""The step table: a program's tree of steps laid out as rows, which the driver walks.

A launch is a row. A loop is the rows BEGIN, those of its condition and TEST if it has one, those of its steps, END and
EXIT; a change of sizes is the launch that computes them and RESIZE; a branch is SELECT and the rows of its branches,
each followed by JUMP. Rows that launch nothing name the row that may come next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zenith.backends.cpu.program import Launch, Program, Resize, Step
from zenith.backends.cpu.word_layout import BEGIN, END, EXIT, JUMP, RESIZE, SELECT, TEST
from zenith.backends.steps import BranchStep, CallStep, LoopStep


@dataclass(frozen=True, slots=True)
class Control:
    """A row that launches nothing: what it does, to which loop or branch it belongs, and what may come next.

    ``targets`` are numbers of rows; of SELECT, one for each branch.
    """

    opcode: int
    of: LoopStep[Step, str] | BranchStep[Step] | Resize | None
    targets: tuple[int, ...]


Row = Launch | Control


def rows_of(program: Program) -> list[Row]:
    """The table of a program."""
    return _laid_out(program.steps, 0)


def first_rows(program: Program) -> list[int]:
    """The number of the first row of each outer step, and the number of rows; calls into Python have none."""
    found = [0]
    for step in program.steps:
        found.append(found[-1] + len(_laid_out([step], 0)))
    return found


def _laid_out(steps: Iterable[Step], start: int) -> list[Row]:
    """The rows of steps in a table where they begin at ``start``."""
    rows: list[Row] = []
    for step in steps:
        at = start + len(rows)
        match step:
            case Launch():
                rows.append(step)
            case Resize():
                rows += [step.launch, Control(RESIZE, step, ())]
            case LoopStep():
                rows += _loop(step, at)
            case BranchStep():
                rows += _branch(step, at)
            case CallStep():
                pass
    return rows


def _loop(loop: LoopStep[Step, str], start: int) -> list[Row]:
    test = _laid_out(loop.condition, start + 1)
    first = start + 1 + len(test) + (loop.flag is not None)
    steps = _laid_out(loop.steps, first)
    leave = first + len(steps) + 1
    if loop.flag is not None:
        test.append(Control(TEST, loop, (leave,)))
    begin, end = Control(BEGIN, loop, (leave,)), Control(END, loop, (start + 1,))
    return [begin, *test, *steps, end, Control(EXIT, loop, ())]


def _branch(branch: BranchStep[Step], start: int) -> list[Row]:
    laid: list[list[Row]] = []
    targets: list[int] = []
    at = start + 1
    for steps in branch.branches:
        targets.append(at)
        laid.append(_laid_out(steps, at))
        at += len(laid[-1]) + 1
    jump = Control(JUMP, None, (at,))
    return [Control(SELECT, branch, tuple(targets)), *(row for rows in laid for row in (*rows, jump))]
