"""Tuning tables: which schedule was the fastest on a device, for later compilations.

A table is a JSON file. One belongs to the user and is in the cache folder, where ``python -m zenith tune`` writes it;
another may be shipped with a program (``ZENITH_TUNING=FILE``) and is consulted second. A key has the architecture, the
kind of kernel, the element type, and the *class* of each size: the next power of two, or ``?`` where it is not known.

Results do not depend on a table. A choice is among schedules that add the terms of a result in the same order as the
one that the cost model picks (by :data:`Order`), and an entry that names another schedule, or an unknown one, is
ignored. So a table may be deleted, shipped and merged at will: it changes times, never bits.

>>> key("sm_90a", "product", "bf16", (1, 1000, 4096, None))
'sm_90a product bf16 1x1024x4096x?'
>>> table = TuningTable().adding("sm_90a product bf16 1x1024x4096x?", Measured("bf16_128x128", {"bf16_128x128": 31.5}))
>>> TuningTable.parsed(table.text()) == table
True
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from zenith.config import config
from zenith.errors import CacheWarning
from zenith.files import open_regular, replacing

FORMAT = 1
FILE = "tuning.json"  # in the cache folder

Sizes = Sequence[int | None]


class Schedule(Protocol):
    """A schedule of a kernel, identified by its name."""

    @property
    def name(self) -> str: ...


S = TypeVar("S", bound=Schedule)
Pick = Callable[[Sequence[S], Any], S]  # by sizes, as many as the kind of kernel has
Order = Callable[[S, Any], Hashable]
"""A key for the order of the terms of a sum; schedules with equal keys give the same bits."""


@dataclass(frozen=True)
class Measured:
    """The fastest schedule, and the microseconds of all that were measured."""

    schedule: str
    microseconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TuningTable:
    """Measurements by keys."""

    entries: Mapping[str, Measured] = field(default_factory=dict)

    def adding(self, name: str, measured: Measured) -> TuningTable:
        """The table with one entry added or replaced."""
        return TuningTable({**self.entries, name: measured})

    def over(self, other: TuningTable) -> TuningTable:
        """This table's entries, and those of another one that it does not have."""
        return TuningTable({**other.entries, **self.entries})

    def text(self) -> str:
        """As JSON; equal tables give equal texts."""
        entries = {
            name: {"schedule": m.schedule, "microseconds": dict(m.microseconds)} for name, m in self.entries.items()
        }
        return json.dumps({"format": FORMAT, "entries": entries}, indent=1, sort_keys=True) + "\n"

    @classmethod
    def parsed(cls, text: str) -> TuningTable:
        """The table in a text; raises ValueError with the reason where it is none."""
        found = json.loads(text)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError(f"it is no tuning table of format {FORMAT}")
        entries = found.get("entries")
        if not isinstance(entries, dict):
            raise ValueError("it has no entries by names")
        return cls({name: _measured(name, entry) for name, entry in entries.items()})


def _measured(name: str, entry: Any) -> Measured:
    try:
        times = {str(schedule): float(time) for schedule, time in entry["microseconds"].items()}
        return Measured(str(entry["schedule"]), times)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"its entry {name!r} is incomplete: {error}") from None


def key(arch: str, kind: str, element: str, sizes: Sizes) -> str:
    """The name of an entry: sizes of one class share it."""
    classes = ("?" if n is None else str(1 << max(0, n - 1).bit_length()) for n in sizes)
    return f"{arch} {kind} {element} {'x'.join(classes)}"


def read(path: Path, named: bool = False) -> TuningTable:
    """The table in a file; an empty one, with a CacheWarning, where it holds none.

    Where there is no file the table is empty, too, without a warning unless the user has ``named`` the file.
    """
    try:
        with open_regular(path) as file:
            return TuningTable.parsed(file.read().decode())
    except (OSError, ValueError, RecursionError) as problem:
        if named or not isinstance(problem, FileNotFoundError):
            fix = "name another file by ZENITH_TUNING" if named else "remove it, and run python -m zenith tune"
            warnings.warn(CacheWarning(f"the tuning table {path} is not used: {problem}", fix), stacklevel=2)
        return TuningTable()


def write(path: Path, table: TuningTable) -> None:
    """Replace a table atomically: a concurrent reader finds the old or the new one.

    Raises ZenithError when something else is there, OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, is_table) as file:
        file.write(table.text().encode())


def is_table(path: Path) -> bool:
    """Whether a file holds a table."""
    try:
        TuningTable.parsed(path.read_text())
    except (ValueError, RecursionError):
        return False
    return True


def own_file() -> Path | None:
    """The path of the user's own table; None where there is no cache folder."""
    return None if config.cache_dir is None else Path(config.cache_dir) / FILE


def in_use() -> TuningTable:
    """The user's own table over the one that is shipped; an empty one when ``ZENITH_TUNED=0``."""
    if not config.tuned:
        return TuningTable()
    file = own_file()
    own = TuningTable() if file is None else _remembered(file, _stamp(file))
    return own if config.tuning is None else own.over(_remembered(config.tuning, _stamp(config.tuning), True))


def _stamp(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


@cache
def _remembered(path: Path, stamp: int | None, named: bool = False) -> TuningTable:
    return read(path, named)


def in_same_order(schedules: Sequence[S], sizes: Sizes, pick: Pick[S], order: Order[S]) -> list[S]:
    """The schedules that add in the order of the one that ``pick`` gives, which comes first."""
    default = pick(schedules, sizes)
    wanted = order(default, sizes)
    return [default, *(s for s in schedules if s is not default and order(s, sizes) == wanted)]


def tuned(arch: str, kind: str, element: Callable[[S], str], pick: Pick[S], order: Order[S]) -> Pick[S]:
    """The choice by the tables in use, where they have one that adds in the same order; else that of ``pick``."""

    def choose(schedules: Sequence[S], sizes: Sizes) -> S:
        allowed = in_same_order(schedules, sizes, pick, order)
        measured = in_use().entries.get(key(arch, kind, element(allowed[0]), sizes))
        if measured is None:
            return allowed[0]
        return next((s for s in allowed if s.name == measured.schedule), allowed[0])

    return choose
