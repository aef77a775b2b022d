"""Calibration: the function runs on batches, and what its products read is observed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zenith import tree
from zenith.api.forms import Result
from zenith.api.jit import Jitted
from zenith.api.specialize import TracedProgram
from zenith.errors import ArgumentError, UnsupportedError, ValueTypeError, user_line
from zenith.ir.graph import Value
from zenith.ir.types import NDArray
from zenith.quantization.observers import Observer
from zenith.quantization.products import Kept, Product, find
from zenith.quantization.smoothing import Strength


@dataclass(frozen=True, slots=True)
class Observed:
    """The products of a function, the ones that stay as they are, and what the others' left operands were."""

    products: tuple[Product, ...]
    kept: tuple[Kept, ...]
    observers: Mapping[Value, Observer]
    batches: int


def observe(
    function: Jitted, names: Mapping[str, str], batches: Iterable[object], smooth: Strength, has_ranges: bool
) -> Observed:
    """Run a function on batches; ``names`` has those of constants.

    Where outliers migrate (``smooth``), a first sweep finds each channel's largest number; where ranges are fixed, one
    after it the distribution of what then is left. Without either the first batch shows what products there are.
    """
    observing, found, count = _Observing(function, names), dict[Value, Observer](), 0
    for batch, results in enumerate(_calls(observing, batches)):
        found = found or _observers(observing.found[0])
        count = batch + 1
        if not smooth:
            break
        for observer, values in zip(found.values(), results, strict=True):
            observer.measure(values, batch)
    for observer in found.values():
        observer.smoothing = observer.channels.smoothing(smooth, not has_ranges)
    if has_ranges:
        for batch, results in enumerate(_calls(observing, batches)):
            count = batch + 1
            for observer, values in zip(found.values(), results, strict=True):
                observer.observe(values, batch)
    products, kept = observing.found
    return Observed(tuple(products), tuple(kept), found, count)


def _observers(products: Sequence[Product]) -> dict[Value, Observer]:
    """An observer for each left operand, named after the first product that reads it."""
    found: dict[Value, Observer] = {}
    for product in products:
        observer = found.setdefault(product.left, Observer(product.name, product.matrix.shape[0]))
        observer.channels.meet(np.asarray(product.matrix, np.float32))
    return found


def _calls(observing: _Observing, batches: Iterable[object]) -> Iterator[list[NDArray]]:
    """The left operands of products, for each batch."""
    count: int | None = None
    for number, batch in enumerate(batches):
        results = _call(observing, batch)
        if count not in (None, len(observing.found[0])):
            raise UnsupportedError(f"calibration batch {number} is a call of another kind, with other products",
                                   fix="calibrate with calls of one kind")  # fmt: skip
        count = len(observing.found[0])
        yield [np.asarray(values, np.float32) for values in results]


class _Observing(Jitted):
    """A function with the left operands of its products, each once, as its results."""

    __slots__ = ("_names", "found")

    def __init__(self, function: Jitted, names: Mapping[str, str]) -> None:
        super().__init__(function.function, function._signature, *function._options)
        self._names = names
        self.found: tuple[list[Product], list[Kept]] = [], []

    def _build(self, *call: Any) -> TracedProgram:
        program = super()._build(*call)
        traced = program.traced
        if traced.computed or traced.has_effects or program.writes is not None:
            raise UnsupportedError(f"{self.__name__} prints, writes into its arguments, or returns arrays whose sizes "
                                   "depend on values", fix="quantise the pure part of it")  # fmt: skip
        graph = traced.graph.beginning(len(traced.graph))
        self.found = find(graph, self._names)
        operands = list(dict.fromkeys(p.left for p in self.found[0]))
        graph.set_outputs(operands)
        result = Result.of(tree.flatten([0.0] * len(operands))[1])
        weak = (False,) * len(operands)
        return replace(program, traced=replace(traced, graph=graph, outputs_weak=weak, numbers=()), result=result)


def _call(function: Callable[..., Any], batch: object) -> Any:
    if isinstance(batch, tuple):
        return function(*batch)
    return function(**batch) if isinstance(batch, dict) else function(batch)


def batches_of(name: str, given: object, progress: bool = False) -> Iterable[object]:
    """The batches in an argument, which can be read twice, with a progress bar if asked for.

    ValueTypeError for what is no iterable of batches, ArgumentError where there is none.
    """
    given = () if given is None else given
    fix = f"give an iterable of batches: {name}=[x1, x2]"
    if not isinstance(given, Iterable) or hasattr(given, "dtype"):
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
        from rich.progress import track

        return iter(track(self.batches, description="calibrating"))
