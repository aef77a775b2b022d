"""The choices that follow from a calibration, and the pass that writes products by fixed matrices in bytes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zenith.api.jit import jit
from zenith.backends.weights import WeightTable
from zenith.ir.graph import Graph, Node, Value, content_hash, stored_name
from zenith.ir.ops.scaled_product import LARGEST, TOGETHER, grouped_product, middle
from zenith.ir.types import NDArray, bfloat16
from zenith.passes.dce import dce
from zenith.passes.rewrite import Rewriter, rebuild
from zenith.passes.rounded_products import rounded_operands
from zenith.quantization.calibration import Observed
from zenith.quantization.choices import Choice, InBytes, chosen_for
from zenith.quantization.convolutions import static_convolution
from zenith.quantization.embeddings import find_tables, gathered, rows_in_bytes
from zenith.quantization.groups import Groups, in_groups
from zenith.quantization.integers import (
    LIMIT,
    Columns,
    Levels,
    dynamic_product,
    fits,
    in_bytes,
    static_product,
    weight_product,
)
from zenith.quantization.observers import Observer
from zenith.quantization.products import Kept, Product, find
from zenith.quantization.recipe import Recipe
from zenith.quantization.report import QuantizationReport, QuantizedEmbedding, QuantizedProduct

Interval = tuple[float, float]
SCALES, SHIFTS = ".scales", ".shifts"  # endings of names; the shifts of a table's rows are their levels of zero


@dataclass(frozen=True, slots=True)
class Quantizer:
    """The pass that writes products in bytes or in bfloat16: the choices for products by their keys.

    ``embeddings`` has the names of tables in bytes, by their keys.
    """

    table: WeightTable
    choices: Mapping[str, Choice]
    embeddings: Mapping[str, str]
    __name__ = "quantizer"

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.table.snapshot(), dict(self.choices), dict(self.embeddings))

    def __call__(self, graph: Graph) -> Graph:
        """The graph with those products; UnsupportedError for one with products that were not calibrated."""
        chosen = {node: choice for node, choice in chosen_for(find(graph)[0], self.choices) if choice is not None}
        tables = [table for table in find_tables(graph)[0] if table.key in self.embeddings]
        gathers = {node: self.embeddings[table.key] for table in tables for node in table.nodes}

        def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
            if b.number in gathers:
                rows, indices = args
                return [gathered(b, rows, indices, self._stored(b, gathers[b.number], node))]
            choice = chosen.get(b.number)
            if choice is None:
                return None
            if choice == "bf16":
                return rounded_operands(b, node, args, bfloat16)
            matrix, *scales = self._stored(b, choice.weight, node)
            if isinstance(choice.known, int):
                return [grouped_product(b, args[0], matrix, scales, choice.known)]
            if node.primitive.name == "conv":
                assert choice.levels is not None, "ranges of convolutions are fixed"
                return [static_convolution(b, args, matrix, choice.known, choice.levels, node.params)]
            if choice.floats:
                return [weight_product(b, args[0], matrix, choice.known, choice.smoothing)]
            if choice.levels is None:
                return [dynamic_product(b, args[0], matrix, choice.known, choice.smoothing)]
            return [static_product(b, args[0], matrix, choice.known, choice.smoothing, choice.levels)]

        made = dce(rebuild(graph, visit, inner=lambda body: body))
        used = {stored_name(node) for node in made.walk() if node.primitive.name == "weight"}
        self.table.update({name: made.weights[name] for name in used if name not in self.table})
        made.weights = self.table
        return made

    def _stored(self, b: Rewriter, name: str, node: Node) -> list[Value]:
        """The arrays of this name: bytes, and their scales and shifts or zeros where these are weights."""
        names = [full for full in (name, name + SCALES, name + SHIFTS) if full in self.table]
        return [b.graph.add_weight(full, self.table[full], node.line) for full in names]


def _restored(arrays: Mapping[str, NDArray], choices: Mapping[str, Choice], embeddings: Mapping[str, str]) -> Quantizer:
    return Quantizer(WeightTable(arrays), choices, embeddings)


def choose(
    recipe: Recipe,
    observed: Observed,
    exact: Mapping[str, str] | None = None,
    short: Collection[str] = (),
    without_tables: str = "",
) -> tuple[Quantizer, QuantizationReport]:
    """The pass for the products and tables that were observed, and what it does to them.

    By their keys, ``exact`` says why some stay as they are, and those that are ``short`` are computed in bfloat16.
    ``without_tables`` says why all tables stay.
    """
    table, choices, reports, kept = WeightTable(), dict[str, Choice](), list[QuantizedProduct](), []
    names = [product.name for product in observed.products] + [rows.name for rows in observed.tables]
    recipe.check_names(list(dict.fromkeys(names)))
    for product in observed.products:
        seen = observed.observers[product.operand]
        why = _refusal(recipe, product, seen) or (exact or {}).get(product.key)
        if not why and product.key in short:
            choices[product.key] = "bf16"
            reports.append(_report(product, product.matrix.astype(bfloat16.numpy), product.matrix.size * 2, "bf16"))
            continue
        stored, columns = _stored(recipe, product, seen) if not why else (None, None)
        if stored is None or columns is None or not (recipe.keeps_floats or fits(stored)):
            choices[product.key] = None
            kept.append(Kept(product.name, why or "its sums may exceed 32 bits"))
            continue
        levels = None
        if recipe.scheme == "static":
            levels = Levels.of(*seen.range(recipe.method, recipe.percentile), recipe.symmetric)
        smooths = recipe.smooths and not product.windows
        name, smoothing = _name(stored, columns), seen.smoothing if smooths else None
        known = columns.bits if isinstance(columns, Groups) else columns
        choices[product.key] = InBytes(name, known, levels, smoothing, recipe.keeps_floats)
        table[name] = stored
        if isinstance(columns, Groups):
            table[name + SCALES] = columns.scales
            table.update({} if columns.shifts is None else {name + SHIFTS: columns.shifts})
        numbers = columns.numbers(stored) / seen.smoothing[:, None]
        of_activation = None if levels is None else (levels.range, (seen.least, seen.largest))
        reports.append(_report(product, numbers, stored.nbytes + columns.nbytes, f"int{recipe.bits}", of_activation))
    stored_as, embeddings, others = _choose_tables(recipe, observed, choices, without_tables, table)
    report = QuantizationReport(
        tuple(reports), (*observed.kept, *kept, *others), observed.batches, embeddings=tuple(embeddings)
    )
    return Quantizer(table, choices, stored_as), report


def _choose_tables(
    recipe: Recipe, observed: Observed, choices: Mapping[str, Choice], without: str, stored: WeightTable
) -> tuple[dict[str, str], list[QuantizedEmbedding], list[Kept]]:
    """The names in ``stored`` of tables in bytes by their keys, what was done to these, and those that stay.

    A table that is the matrix of a product, too, is in bytes where this has fewer bits: else it is in memory anyway.
    """
    names, reports, kept = dict[str, str](), list[QuantizedEmbedding](), []
    for table in observed.tables:
        products = [choices[p.key] for p in observed.products if p.content in (table.key, f"{table.key}T")]
        why = "it is excluded" if recipe.excludes(table.name) else without
        if not why and None in products:
            why = "a product by it stays as it is, and needs it"
        if why:
            kept.append(Kept(table.name, why))
            continue
        rows = rows_in_bytes(table.rows, recipe.symmetric)
        names[table.key] = name = f"rows_{'_'.join(map(content_hash, rows.arrays))}"
        stored.update(zip((name, name + SCALES, name + SHIFTS), rows.arrays, strict=False))
        error, relative = _errors(rows.numbers, table.rows)
        before, after = 0 if products else table.rows.nbytes, sum(array.nbytes for array in rows.arrays)
        count, columns = table.rows.shape
        reports.append(QuantizedEmbedding(table.name, count, columns, error, relative, before, after))
    return names, reports, kept


def _refusal(recipe: Recipe, product: Product, seen: Observer) -> str:
    """Why a product stays as it is; empty where it need not."""
    if recipe.excludes(product.name):
        return "it is excluded"
    if product.windows and recipe.scheme != "static":
        return 'a convolution, which is computed in bytes by scheme="static" alone'
    terms, size = product.matrix.shape[0], recipe.group or product.matrix.shape[0]
    if recipe.is_grouped and (terms % size or size % TOGETHER):
        return f"its {terms} terms are no whole groups of {size}"
    if recipe.is_grouped and size * LARGEST * middle(recipe.bits) >= LIMIT:
        return "its sums may exceed 32 bits"
    if recipe.scheme == "static" and not seen.count:
        return "the calibration has no numbers for it"
    if recipe.scheme == "static" and seen.least == seen.largest:
        return "the calibration has nothing but zeros for it"
    return ""


def _stored(recipe: Recipe, product: Product, seen: Observer) -> tuple[NDArray, Columns | Groups]:
    if recipe.is_grouped:
        return in_groups(product.matrix, recipe.bits, recipe.group or product.matrix.shape[0], recipe.symmetric)
    smoothed = product.matrix * seen.smoothing[:, None]
    return in_bytes(smoothed, recipe.by_column, recipe.symmetric or bool(product.windows))  # no sums of windows


def _name(stored: NDArray, known: Columns | Groups) -> str:
    """The name of a stored matrix: with scales of groups, which are weights as well, another one for other scales."""
    parts = [stored]
    if isinstance(known, Groups):
        parts += [known.scales, *([] if known.shifts is None else [known.shifts])]
    return f"bytes_{'_'.join(map(content_hash, parts))}"


@jit
def _squares(numbers: NDArray, matrix: NDArray) -> tuple[NDArray, NDArray]:
    """The sums of squares of a matrix' errors and of the matrix, row by row."""
    return np.square(numbers - matrix).sum(-1), np.square(matrix).sum(-1)


def _report(
    product: Product, numbers: NDArray, size: int, precision: str, activation: tuple[Interval, Interval] | None = None
) -> QuantizedProduct:
    """The line of a product, whose matrix became ``numbers``; ``activation`` is its range, and what was seen."""
    error, relative = _errors(numbers, product.matrix)
    (terms, count), (covered, seen) = product.matrix.shape, activation or (None, None)
    return QuantizedProduct(
        product.name, terms, count, range=covered, seen=seen, mse=error, relative=relative,
        before=product.matrix.nbytes, after=size, precision=precision,
    )  # fmt: skip


def _errors(numbers: NDArray, matrix: NDArray) -> tuple[float, float]:
    """The mean squared error of what a matrix became, and the root of that by the matrix' root mean square."""
    squares = _squares(np.asarray(numbers, np.float32), np.asarray(matrix, np.float32))
    error, power = (float(rows.mean(dtype=np.float64)) / matrix.shape[1] for rows in squares)
    return error, (error / power) ** 0.5 if power else 0.0
