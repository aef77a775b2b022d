"""What a launch's status word says when it has ended: which check did not hold, and the user's line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zenith.backends.kernel import Kernel
from zenith.errors import CheckError, OutOfBoundsError, SourceLine, ZenithError


@dataclass(frozen=True, slots=True)
class Failure:
    """A check that may fail: the status word then, what is wrong (an index outside its axis where empty), and where."""

    code: int
    why: str
    line: SourceLine | None

    def error(self, later: str = "") -> ZenithError:
        """The error for it; ``later`` is added to what is to be done."""
        if self.why:
            return CheckError(self.why, where=self.line, fix=f"check the values that it was given{later}")
        fix = f"check the indices against the array's shape{later}"
        return OutOfBoundsError("an index is out of bounds for its axis", where=self.line, fix=fix)


Failures = tuple[Failure, ...]


def failures(kernel: Kernel, lines: Sequence[SourceLine]) -> Failures:
    """What a launch of a kernel may find; of checks that say the same the first, at ``lines`` where it has no line."""
    found = dict[int, Failure]()
    for check in kernel.checks:
        found.setdefault(check.code, Failure(check.code, check.why, check.line or next(iter(lines), None)))
    return tuple(found.values())


def reported(failures: Failures, code: int) -> Failure:
    """The failure that a status word tells."""
    return next(failure for failure in failures if failure.code == code)
