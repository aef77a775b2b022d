"""Calibration: the function runs on batches, and what its products read is observed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zenith import tree
from zenith.api.forms import Result
from zenith.api.jit import Jitted
from zenith.api.programs import TracedProgram
from zenith.batches import arguments_of, on_host
from zenith.errors import UnsupportedError
from zenith.ir.types import NDArray
from zenith.quantization.embeddings import Table, find_tables
from zenith.quantization.observers import Observer
from zenith.quantization.products import Kept, Names, Product, find
from zenith.quantization.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Observed:
    """The products of a function, the ones that stay as they are, and what the others' left operands were, by key.

    ``tables`` are those whose rows it gathers.
    """

    products: tuple[Product, ...]
    kept: tuple[Kept, ...]
    observers: Mapping[str, Observer]
    batches: int
    tables: tuple[Table, ...] = ()


def observe(
    function: Jitted, names: Names, batches: Iterable[object], recipe: Recipe, samples: bool = False
) -> Observed:
    """Run a function on batches; ``names`` has those of constants, ``samples`` says that rows are needed in any case.

    Where outliers migrate (``smooth``), a first sweep finds the ranges of channels; where ranges are fixed, one after
    it the distribution of what then is left. Without either nothing is computed: the first batch is traced, which shows
    what products there are.
    """
    observing = _Observing(function, names)
    observing.trace(next(iter(batches)))
    observers, count = _observers(observing.products.values()), 1
    for batch, results in enumerate(_calls(observing, batches) if recipe.smooths or samples else ()):
        count = batch + 1
        for key, values in results.items():
            observers[key].measure(values, batch)
    for observer in observers.values() if recipe.smooths else ():
        if observer.windows:
            continue  # the channels of a convolution have one range
        observer.smoothing = observer.channels.smoothing(recipe)
    if recipe.scheme == "static":
        for batch, results in enumerate(_calls(observing, batches)):
            count = batch + 1
            for key, values in results.items():
                observers[key].observe(values, batch)
    products = tuple(observing.products.values())
    return Observed(products, tuple(observing.kept), observers, count, tuple(observing.tables))


def _observers(products: Iterable[Product]) -> dict[str, Observer]:
    """An observer for each left operand, named after the first product that reads it."""
    found: dict[str, Observer] = {}
    for product in products:
        observer = found.setdefault(product.operand, Observer(product.name, product.matrix.shape[0], product.windows))
        observer.channels.meet(np.asarray(product.matrix, np.float32))
    return found


def _calls(observing: _Observing, batches: Iterable[object]) -> Iterator[dict[str, NDArray]]:
    """The left operands of products, for each batch."""
    for number, batch in enumerate(batches):
        args, kwargs = arguments_of(batch)
        results = observing(*args, **kwargs)
        if results.keys() != {product.operand for product in observing.products.values()}:
            raise UnsupportedError(f"calibration batch {number} is a call of another kind, with other products",
                                   fix="calibrate with calls of one kind")  # fmt: skip
        yield {key: on_host(values).astype(np.float32, copy=False) for key, values in results.items()}


class _Observing(Jitted):
    """A function with the left operands of its products, each once, as its results, by their keys.

    ``products``, by key, ``tables`` and what is ``kept`` are those of its first program.
    """

    __slots__ = ("_names", "kept", "products", "tables")

    def __init__(self, function: Jitted, names: Names) -> None:
        super().__init__(*function.made_with(function._passes))
        self._names = names
        self.products: dict[str, Product] = {}
        self.tables: list[Table] = []
        self.kept: list[Kept] = []

    def trace(self, batch: object) -> None:
        """Find the products of a call, without compiling anything."""
        args, kwargs = arguments_of(batch)
        self._flatten(args, kwargs)[1].build()

    def _build(self, *call: Any) -> TracedProgram:
        program = super()._build(*call)
        traced = program.traced
        if traced.computed or traced.has_effects or traced.raised or program.writes is not None:
            raise UnsupportedError(f"{self.__name__} prints, writes into its arguments, raises exceptions or returns "
                                   "arrays of sizes that depend on values", fix="quantise its pure part")  # fmt: skip
        graph = traced.graph.beginning(len(traced.graph))
        products, kept = find(graph, self._names)
        if not (self.products or self.kept or self.tables):
            self.tables, other = find_tables(graph, self._names)
            self.products, self.kept = {p.key: p for p in products}, [*kept, *other]
        operands = {p.operand: p.left for p in products}
        result = Result.of(tree.flatten(dict.fromkeys(operands, 0.0))[1])
        ordered = sorted(operands)  # as in a tree of a dict
        graph.set_outputs(operands[key] for key in ordered)
        weak = (False,) * len(operands)
        return replace(program, traced=replace(traced, graph=graph, outputs_weak=weak, numbers=()), result=result)
