"""``tolerance=`` of ``jit`` and ``from_torch``: what chooses precisions stands above this room, and registers here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from zenith.errors import ArgumentError, user_line

if TYPE_CHECKING:
    from zenith.api.compilable import Compilable


class Chooser(Protocol):
    """A function with the cheapest precisions whose error, measured on calibration batches, stays below a tolerance."""

    def __call__(self, function: Compilable, tolerance: float, calibration: Iterable[object] | None) -> Compilable: ...


_chooser: list[Callable[[], Chooser]] = []


def chosen_by(load: Callable[[], Chooser]) -> Callable[[], Chooser]:
    """Register what imports the chooser at its first use."""
    _chooser[:] = [load]
    return load


def within(function: Compilable, tolerance: float | None, calibration: Iterable[object] | None) -> Compilable:
    """The function within its tolerance, where it has one; ArgumentError for calibration batches without one."""
    if tolerance is None:
        if calibration is not None:
            raise ArgumentError("calibration batches without a tolerance", where=user_line(),
                                fix="say how large the error may be: tolerance=1e-2")  # fmt: skip
        return function
    (load,) = _chooser
    return load()(function, tolerance, calibration)
