"""Batches: the calls that a function is calibrated or measured with.

A batch is a tuple or list of arguments, a dict of keywords, or a single argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from zenith.arrays import adapter_for
from zenith.errors import ArgumentError, ValueTypeError, user_line
from zenith.ir.types import NDArray
from zenith.progress import import_rich


def batches_of(name: str, given: object, progress: bool = False) -> Iterable[object]:
    """The batches in an argument, which can be read again, with a progress bar if asked for.

    ValueTypeError for what is no iterable of batches, ArgumentError where there is none.
    """
    given = () if given is None else given
    fix = f"give an iterable of batches: {name}=[x1, x2]"
    if not isinstance(given, Iterable) or isinstance(given, Mapping | str) or hasattr(given, "dtype"):
        raise ValueTypeError(f"{name} is a {type(given).__name__}", where=user_line(), fix=fix)
    batches = list(given) if iter(given) is given else given
    if next(iter(batches), batches) is batches:
        raise ArgumentError(f"{name} has no batch", where=user_line(), fix=fix)
    return _Tracked(batches) if progress else batches


@dataclass(frozen=True, slots=True)
class _Tracked:
    """Batches, with a progress bar for each sweep over them."""

    batches: Iterable[object]

    def __iter__(self) -> Iterator[object]:
        import_rich()
        from rich.progress import track

        return iter(track(self.batches, description="calibrating"))


def arguments_of(batch: object) -> tuple[tuple[object, ...], dict[str, object]]:
    """The positional arguments and the keywords of a batch."""
    if isinstance(batch, tuple | list):
        return tuple(batch), {}
    return ((), batch) if isinstance(batch, dict) else ((batch,), {})


def on_host(value: object) -> NDArray:
    """An argument or result of any library as a NumPy array."""
    adapter = adapter_for(value)
    return np.asarray(value if adapter is None else adapter.numpy(value))
