"""The choices that follow from a calibration, and the pass that writes products by fixed matrices in bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zenith.backends.weights import WeightTable
from zenith.errors import UnsupportedError
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.types import NDArray
from zenith.passes.dce import dce
from zenith.passes.rewrite import Rewriter, rebuild
from zenith.quantization.calibration import Observed
from zenith.quantization.integers import Columns, Levels, dynamic_product, in_bytes, static_product
from zenith.quantization.observers import Observer
from zenith.quantization.products import Kept, Product, find
from zenith.quantization.recipe import Recipe
from zenith.quantization.report import Quantised, QuantizationReport


@dataclass(frozen=True, slots=True)
class Choice:
    """How a product is computed: its matrix, by name in the table of weights, and the other operand's levels.

    The other operand's channels are divided by ``smoothing`` first, by which the matrix' rows are multiplied.
    """

    weight: str
    known: Columns
    levels: Levels | None
    smoothing: NDArray | None


@dataclass(frozen=True, slots=True)
class Quantizer:
    """The pass that writes products in bytes: the choices for the products that :func:`find` finds, by their number."""

    table: WeightTable
    choices: Mapping[int, Choice]
    count: int
    __name__ = "quantizer"

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.table.snapshot(), dict(self.choices), self.count)

    def __call__(self, graph: Graph) -> Graph:
        """The graph with those products; UnsupportedError for one of other products than were calibrated."""
        products, _ = find(graph)
        if len(products) != self.count:
            raise UnsupportedError(
                f"this kind of call has {len(products)} products by fixed matrices, and {self.count} were calibrated",
                fix="calibrate with calls of all kinds apart: one quantised function for each",
            )
        chosen = {p.node: self.choices[i] for i, p in enumerate(products) if i in self.choices}
        for product in products:
            choice = chosen.get(product.node)
            if choice is not None and self.table[choice.weight].shape != product.matrix.shape:
                raise UnsupportedError(f"{product.name} has another matrix than in the calibration")

        def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
            choice = chosen.get(b.number)
            if choice is None:
                return None
            matrix = b.graph.add_weight(choice.weight, self.table[choice.weight], node.line)
            if choice.levels is None:
                return [dynamic_product(b, args[0], matrix, choice.known, choice.smoothing)]
            return [static_product(b, args[0], matrix, choice.known, choice.smoothing, choice.levels)]

        made = dce(rebuild(graph, visit))
        self.table.update({name: array for name, array in made.weights.items() if name not in self.table})
        made.weights = self.table
        return made


def _restored(arrays: Mapping[str, NDArray], choices: Mapping[int, Choice], count: int) -> Quantizer:
    return Quantizer(WeightTable(arrays), choices, count)


def choose(recipe: Recipe, observed: Observed) -> tuple[Quantizer, QuantizationReport]:
    """The pass for the products that were observed, and what it does to them."""
    table, choices, reports, kept = WeightTable(), dict[int, Choice](), list[Quantised](), list(observed.kept)
    for number, product in enumerate(observed.products):
        if recipe.excludes(product.name):
            kept.append(Kept(product.name, "it is excluded"))
            continue
        seen, levels = observed.observers[product.left], None
        if recipe.scheme == "static":
            levels = Levels.of(*seen.range(recipe.method, recipe.percentile), recipe.symmetric)
        smoothing = seen.smoothing[:, None]
        stored, columns = in_bytes(product.matrix * smoothing, recipe.granularity == "channel", recipe.symmetric)
        choices[number] = Choice(f"bytes{number}", columns, levels, seen.smoothing if recipe.smooth else None)
        table[f"bytes{number}"] = stored
        numbers = columns.numbers(stored) / smoothing
        reports.append(_report(product, numbers, stored.nbytes + columns.nbytes, levels, seen))
    report = QuantizationReport(tuple(reports), tuple(kept), observed.batches)
    return Quantizer(table, choices, len(observed.products)), report


def _report(product: Product, numbers: NDArray, size: int, levels: Levels | None, seen: Observer) -> Quantised:
    matrix = np.asarray(product.matrix, np.float32)
    terms, count = matrix.shape
    error = float(np.mean(np.square(numbers - matrix), dtype=np.float64))
    power = float(np.mean(np.square(matrix), dtype=np.float64))
    return Quantised(
        product.name, terms, count,
        range=None if levels is None else levels.range,
        seen=None if levels is None else (seen.least, seen.largest),
        mse=error, relative=(error / power) ** 0.5 if power else 0.0,
        before=product.matrix.nbytes, after=size,
    )  # fmt: skip
