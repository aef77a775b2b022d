"""Lists and dicts of Python's that values choose among: what a name then has is a copy of one of them.

Where other names may have the same object, none of them may change: the program could not tell which one does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zenith.convert.effects import Guarded
from zenith.errors import SourceLine, TraceError, user_line
from zenith.trace.recorder import current_recorder

_OWN_REFERENCES = 3  # to what only a list holds whose items a loop looks at
Choice = tuple[object, list[object]]  # what a name has, and the objects that values have chosen it from


@dataclass(frozen=True)
class Chosen:
    """A list or dict, with those that it may be and what they held then."""

    objects: tuple[Any, ...]
    held: tuple[tuple[object, ...], ...]
    line: SourceLine | None

    def check(self) -> None:
        """TraceError where one of them has changed."""
        for found, before in zip(self.objects, self.held, strict=True):
            if len(found) != len(before) or any(a is not b for a, b in zip(_items(found), before, strict=True)):
                kind = type(found).__name__
                raise TraceError(
                    f"a {kind} changes, and values decide whether it is the {kind} of another name", where=self.line,
                    fix=f"copy it first, {kind}(x), or use arrays",
                )  # fmt: skip


def choices(values: Sequence[object], *before: Sequence[object]) -> list[Choice]:
    """The new lists and dicts among the values of names, with those that they had."""
    rows = zip(values, *before, strict=True)
    return [
        (value, [old for old in olds if _is_container(old)])
        for value, *olds in rows
        if _is_container(value) and not any(value is old for old in olds)
    ]


def note_choices(made: list[Choice]) -> None:
    """Have no list or dict change that has been chosen from one which something else has, too."""
    recorder = current_recorder()
    if recorder is None:
        return
    every = [old for _, olds in made for old in olds]
    for _, olds in made:
        olds.clear()
    shared = [sys.getrefcount(old) > _OWN_REFERENCES for old in every]
    if any(shared):
        objects = (*(value for value, _ in made), *every)
        chosen = Chosen(objects, tuple(map(_items, objects)), user_line())
        recorder.at_end.append(chosen.check)


def _items(found: Any) -> tuple[object, ...]:
    return tuple(found.values()) if isinstance(found, dict) else tuple(found)


def _is_container(value: object) -> bool:
    return isinstance(value, (list, dict)) and not isinstance(value, Guarded)
