"""Failures: what a launch's status word reports, the check that did not hold and the user's line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zenith.backends.kernel import Kernel
from zenith.errors import CheckError, OutOfBoundsError, SourceLine, ZenithError


@dataclass(frozen=True, slots=True)
class Failure:
    """A check that may fail: the status word then, what is wrong (an index outside its axis where empty), and where.

    Checks of one kernel with equal texts share a code: one of the ``lines`` failed.
    """

    code: int
    why: str
    lines: tuple[SourceLine, ...]

    def error(self, later: str = "") -> ZenithError:
        """The error for it; ``later`` is appended to its advice."""
        first, *others = self.lines or (None,)
        also = f"; it may also be {', or '.join(map(str, others))}" if others else ""
        if self.why:
            return CheckError(self.why, where=first, fix=f"check the values that it was given{also}{later}")
        fix = f"check the indices against the array's shape{also}{later}"
        return OutOfBoundsError("an index is out of bounds for its axis", where=first, fix=fix)


Failures = tuple[Failure, ...]


def failures(kernel: Kernel, lines: Sequence[SourceLine]) -> Failures:
    """The failures that a launch of a kernel may report; a check without a line gets the first of ``lines``."""
    found = dict[tuple[int, str], dict[SourceLine, None]]()
    for check in kernel.checks:
        where = lines[:1] if check.line is None else (check.line,)
        found.setdefault((check.code, check.why), {}).update(dict.fromkeys(where))
    return tuple(Failure(code, why, tuple(where)) for (code, why), where in found.items())


def reported(failures: Failures, code: int) -> Failure:
    """The failure that a status word reports."""
    return next(failure for failure in failures if failure.code == code)
