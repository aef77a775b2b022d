"""Guards: conditions on sizes under which a graph is valid."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from zenith.errors import ShapeError, SourceLine, ZenithError
from zenith.ir.dims import Dim

_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition ``left relation right`` on sizes under which the graph is valid.

    An *assumption* (``assume``) is a branch that the program took: when it is false the program is retraced. A
    *requirement* (``require``) is a rule that callers must obey: when it is false the call is an error with ``reason``,
    of the class ``error``.
    """

    kind: str
    left: Dim
    relation: str
    right: Dim
    reason: str = field(compare=False, default="")
    line: SourceLine | None = field(compare=False, default=None)
    error: type[ZenithError] = field(compare=False, default=ShapeError)

    def __str__(self) -> str:
        return f"{self.kind}({self.left} {self.relation} {self.right})"

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Whether the condition is true for these sizes."""
        return _RELATIONS[self.relation](self.left.evaluate(sizes), self.right.evaluate(sizes))
