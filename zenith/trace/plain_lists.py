"""Lists of converted code that the program may stack, and the request that they stay Python's."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any, NoReturn


class PlainListsNeeded(BaseException):
    """A list that the program would stack is used as only Python's can be: trace the function anew without such ones.

    No Exception, so that nothing that the function does when it meets one gets in the way.
    """


@dataclass
class Lists:
    """Lists that converted code has made in a trace; ``refused`` says that they must be Python's.

    ``asked`` is what a body has raised to have one stacked, until that is done: the user's code may swallow it.
    """

    made: list[weakref.ref[Any]] = field(default_factory=list)
    refused: bool = False
    asked: BaseException | None = None

    def alive(self) -> list[Any]:
        """Those that something still has."""
        found = [(ref, made) for ref in self.made if (made := ref()) is not None]
        self.made = [ref for ref, _ in found]
        return [made for _, made in found]

    def refuse(self) -> NoReturn:
        """Have the function traced anew with lists of Python's, also where it swallows every exception."""
        self.refused = True
        raise PlainListsNeeded
