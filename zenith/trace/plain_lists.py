"""Lists of converted code that the program may stack, and the request that they stay Python's."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any, NoReturn

from zenith.errors import user_line


class PlainListsNeeded(BaseException):
    """A list that the program would stack is used as only Python's can be: trace the function anew without such ones.

    No Exception, so that nothing that the function does when it meets one gets in the way.
    """

    def __init__(self) -> None:
        super().__init__()
        self.line = user_line()

    def note(self, error: Exception) -> None:
        """Have an error of that further trace say why it was made."""
        if self.line is not None:
            error.add_note(f"  lists stay Python's in this function, since the program has no list that is used so\n"
                           f"  at {self.line.describe()}")  # fmt: skip


@dataclass
class Lists:
    """Lists that converted code has made in a trace; ``refused`` asks that they be Python's.

    ``asked`` is what a body has raised to have one stacked, until that is done: the user's code may swallow it.
    """

    made: list[weakref.ref[Any]] = field(default_factory=list)
    refused: PlainListsNeeded | None = None
    asked: BaseException | None = None

    def alive(self) -> list[Any]:
        """Those that something still has."""
        found = [(ref, made) for ref in self.made if (made := ref()) is not None]
        self.made = [ref for ref, _ in found]
        return [made for _, made in found]

    def refuse(self) -> NoReturn:
        """Have the function traced anew with lists of Python's, also where it swallows every exception."""
        self.refused = PlainListsNeeded()
        raise self.refused
