"""Lists and dicts of Python's that values choose among: what a name then has is a copy of one of them.

Where other names may have the same object, none of them may change: the program could not tell which one does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from zenith.convert.containers import Guarded
from zenith.errors import SourceLine, TraceError, user_line
from zenith.trace.recorder import Recorder, current_recorder

Nested: TypeAlias = "list[object] | dict[object, object] | tuple[object, ...]"  # what holds other values

_OWN_REFERENCES = 4  # to what only a list holds whose items a loop gives to a function that counts


@dataclass(frozen=True)
class Chosen:
    """A list or dict, with those that it may be and what they held then."""

    objects: tuple[Nested, ...]
    held: tuple[tuple[object, ...], ...]
    line: SourceLine | None

    def check(self) -> None:
        """TraceError where one of them has changed."""
        for found, before in zip(self.objects, self.held, strict=True):
            items = _items(found)
            if len(items) != len(before) or any(a is not b for a, b in zip(items, before, strict=True)):
                kind = type(found).__name__
                raise TraceError(
                    f"a {kind} changes, and values decide whether it is the {kind} of another name", where=self.line,
                    fix=f"copy it first, {kind}(x), or use arrays",
                )  # fmt: skip


@dataclass
class Choices:
    """The lists and dicts that a loop or branch has given names, and those that values have chosen these from."""

    made: list[Nested] = field(default_factory=list)
    before: list[Nested] = field(default_factory=list)

    def add(self, values: Sequence[object], *before: Sequence[object]) -> None:
        """Take the values of names, and those that they had, on each side or before and after the last turn."""
        for value, *olds in zip(values, *before, strict=True):
            known = [found for old in olds for found in _containers(old)]
            made = [found for found in _containers(value) if not any(found is old for old in known)]
            self.made += made
            self.before += known if made else []

    def note(self) -> None:
        """Have none of them change, if something else has one of those before: once nothing of the trace does."""
        recorder = current_recorder()
        if recorder is not None and any(_others(recorder, old) for old in self.before):
            objects = (*self.made, *self.before)
            chosen = Chosen(objects, tuple(map(_items, objects)), user_line())
            recorder.at_end.append(chosen.check)


def _others(recorder: Recorder, found: object) -> int:
    """How many references there are to a list or dict but those of the trace."""
    count = sys.getrefcount(found) - _OWN_REFERENCES
    if not count:
        return 0
    known = {id(holder): holder for values in recorder.snapshots.values() for holder in (values, *_inside(values))}
    return count - sum(item is found for holder in known.values() for item in _items(holder))


def _inside(values: Iterable[object]) -> Iterator[Nested]:
    return (found for value in values for found in _containers(value))


def _containers(value: object) -> Iterator[Nested]:
    """The lists and dicts in a value, and the tuples that hold some; their items follow them."""
    if isinstance(value, (list, dict, tuple)) and not isinstance(value, Guarded):
        inner = list(_inside(_items(value)))
        if inner or not isinstance(value, tuple):
            yield value
            yield from inner


def _items(found: Iterable[object]) -> tuple[object, ...]:
    return (*found, *found.values()) if isinstance(found, dict) else tuple(found)
