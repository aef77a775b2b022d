"""Epilogues of products, recognised by their values: which of a library's the operations of a group are.

A library applies one of a few formulas to a product before it is written. A program writes the same formula in many
forms, so they are not compared as trees but evaluated, both, in float64 on random numbers: formulas of few operations
that agree there agree everywhere (for polynomials this is the lemma of Schwartz and Zippel, 1979/1980). Coefficients
are found by a least-squares fit first. The numbers are of all magnitudes, zero among them, so that a limit or a case is
met; sums are compared for nan and infinities, too, for which the library's functions differ. The tolerance is
far below the difference of formulas that resemble each other: gelu by erf and by tanh differ by up to 5e-4, the
tolerance is 2e-6.

Rounding to the 16 bits of the result's own type between two operations is left out: the computation then has fewer
roundings than the program, as with any kernel that has a value in a register. Other casts are not in a formula.

Two of cuBLASLt's epilogues stay unused. RELU_AUX leaves bits that say where relu's argument was positive, and DRELU
multiplies by them; NVIDIA calls them opaque, so the library may read only its own. But whether the library or a
kernel computes a product follows from the sizes of each product, so the bits of one may be missing for the other, and a
kernel has no use for them. Zenith saves relu's argument, which carries more: derivatives on ties are shared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from zenith.backends.lower.collapse import step
from zenith.ir.dims import Dim, dim, row_major, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Elements, Scalar, Tile
from zenith.ir.primitive import get
from zenith.ir.types import DType

MODERATE, ANY = 64, 64  # random numbers around one, and of any magnitude
SPECIAL = (np.nan, np.inf, -np.inf)
LEVELS = 3  # the values of relu's derivative
TOLERANCE = 2e-6
CUBIC, ROOT = 0.044715, math.sqrt(2 / math.pi)  # gelu's tanh form: Hendrycks and Gimpel, arXiv:1606.08415

BITS = "relu's mask is bits of the library's own, which kernels can neither read nor write"

Index = tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class EpilogueOperand:
    """An operand of an epilogue: a buffer, where it begins, and its steps along the axes of the result."""

    buffer: str
    dtype: DType
    at: Dim
    steps: tuple[Dim, ...]

    @property
    def is_row(self) -> bool:
        """Whether it is one row of neighbours for all rows of the result: a bias."""
        *outer, last = self.steps
        return last == 1 and all(s == 0 for s in outer)


@dataclass(frozen=True, slots=True)
class Epilogue:
    """``result = function(scale * product + share * addend + bias)``, or ``product * function'(saved)``.

    ``function`` is "", "relu" or "gelu"; a name with a ``d`` in front is the derivative's form. ``has_auxiliary`` says
    that the function's argument is a result as well.
    """

    function: str = ""
    scale: float = 1.0
    share: float = 0.0
    addend: EpilogueOperand | None = None
    bias: EpilogueOperand | None = None
    saved: EpilogueOperand | None = None
    has_auxiliary: bool = False

    def __str__(self) -> str:
        words = [self.function + (", keeping its argument" if self.has_auxiliary else "")]
        words += ["addend"] * (self.addend is not None) + ["bias"] * (self.bias is not None)
        words += [f"times {self.scale:g}"] * (self.scale != 1)
        return ", ".join(filter(None, words))


class Unknown(Exception):
    """Something that a formula cannot express; the text says why."""


class Formula:
    """The outputs of a body as functions of its product and of other operands."""

    def __init__(self, body: Graph) -> None:
        self.body = body
        self.tile = next(n for n, node in body.nodes() if isinstance(node.primitive.lowering, Tile))
        self.shape = Value(self.tile, 0, body.node(self.tile).types[0]).shape
        self.index = tuple(symbol(f"axis{k}_of_product") for k in range(len(self.shape)))
        self.operands: dict[tuple[str, str], EpilogueOperand] = {}
        self.narrow = {v.dtype for v in body.outputs if v.dtype.is_narrow}

    def values(self, value: Value, product: Any, reads: Mapping[tuple[str, str], Any]) -> Any:
        """The values of an output for samples of the product and of the operands (1 where ``reads`` lacks one)."""
        return np.broadcast_to(_Evaluation(self, product, reads, {}).value(value, self.index), product.shape)


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """A formula's values for samples of the product and of operands, those that are ``known`` so far by element."""

    formula: Formula
    product: Any
    reads: Mapping[tuple[str, str], Any]
    known: dict[tuple[int, int, Index], Any]

    def value(self, value: Value, index: Index) -> Any:
        """The numbers of a value's element at an index of the result."""
        key = value.node, value.output, index
        if key not in self.known:
            self.known[key] = self._compute(value, index)
        return self.known[key]

    def _compute(self, value: Value, index: Index) -> Any:
        node, args = self.formula.body.node(value.node), self.formula.body.args(value.node)
        lowering = node.primitive.lowering
        if value.node == self.formula.tile:
            if index != self.formula.index:
                raise Unknown("it moves the product's elements")
            return self.product
        if node.primitive.name == "input":
            return self._read(value, index)
        if node.primitive is get("literal"):
            return np.float64(node.params["value"])
        if node.primitive is get("cast"):
            return self._cast(value, args[0], index)
        if isinstance(lowering, Scalar) and value.dtype.kind in "fb":
            return np.asarray(node.primitive.evaluate([self.value(a, index) for a in args], node.params)[0])
        if isinstance(lowering, Elements) and lowering.cheap and len(args) == 1:
            return self.value(args[0], self._source(node, args[0], index))
        raise Unknown(f"it computes {node.primitive.name}")

    def _source(self, node: Any, source: Value, index: Index) -> Index:
        found: list[Index] = []
        try:
            node.primitive.lowering.element(
                None, index, [lambda *i: found.append(tuple(map(dim, i)))], [source.type], node.params
            )
        except AttributeError:
            raise Unknown(f"it reads through {node.primitive.name}") from None
        return found[0]

    def _cast(self, value: Value, source: Value, index: Index) -> Any:
        to, narrow = value.dtype, value.dtype.is_narrow
        if not (source.dtype.is_float and to.is_float) or (narrow and {to} != self.formula.narrow):
            raise Unknown(f"it casts {source.dtype} to {to}")
        return self.value(source, index)

    def _read(self, value: Value, index: Index) -> Any:
        name, at = str(self.formula.body.node(value.node).params["name"]), row_major(value.shape, index)
        key = name, str(at)
        if key not in self.formula.operands:
            variables = [str(i) for i in self.formula.index]
            steps = [step(at, v) for v in variables]
            if any(s is None for s in steps):
                raise Unknown(f"it reads {name} at positions that are no steps along the result's axes")
            start = at.substitute(dict.fromkeys(variables, 0))
            self.formula.operands[key] = EpilogueOperand(
                name, value.dtype, start, tuple(s for s in steps if s is not None)
            )
        return self.reads.get(key, np.float64(1))


def gelu(x: Any, cubic: float = CUBIC, root: float = ROOT) -> Any:
    """The tanh form of gelu."""
    return 0.5 * x * (1 + np.tanh(root * (x + cubic * x**3)))


def gelu_slope(x: Any, cubic: float = CUBIC, root: float = ROOT) -> Any:
    """Its derivative."""
    t = np.tanh(root * (x + cubic * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * cubic * x * x)


def find_epilogue(body: Graph) -> Epilogue | str:
    """The epilogue that a body is equal to, or why there is none.

    Of two outputs the first is the argument of the function that gives the second.
    """
    formula = Formula(body)
    try:
        with np.errstate(all="ignore"):
            return _found(formula)
    except Unknown as unknown:
        return str(unknown)


def _found(formula: Formula) -> Epilogue | str:
    results = formula.body.outputs
    if len(results) > 2 or len({v.dtype for v in results}) > 1:
        return f"it has {len(results)} results"
    outputs = [_before_transpose(formula, v) for v in results]
    product, read = _samples(formula, outputs)
    values = [formula.values(v, product, read) for v in outputs]
    if len(values) == 2:
        return _keeping(formula, product, read, values)
    for found in _candidates(formula, product, read, values[0]):
        return found
    slope = formula.values(outputs[0], np.ones_like(product), read)
    masks = len(set(slope)) <= LEVELS and _same_finite(values[0], product * slope)
    return BITS if masks else "it is another formula"


def _before_transpose(formula: Formula, value: Value) -> Value:
    """The value that a result transposes, if it does: the library writes it with the strides of the result."""
    node = formula.body.node(value.node)
    if node.primitive.name == "transpose" and formula.tile in formula.body.ancestors([value.node]):
        return _before_transpose(formula, formula.body.args(value.node)[0])
    return value


def _samples(formula: Formula, outputs: Iterable[Value]) -> tuple[Any, dict[tuple[str, str], Any]]:
    """Numbers for the product and for everything else that the outputs read, found on the way."""
    generator = np.random.default_rng(0)

    def numbers() -> Any:
        sizes = 10.0 ** generator.uniform(-9, 9, ANY) * generator.choice([-1, 1], ANY)
        return np.concatenate([generator.standard_normal(MODERATE) * 3, sizes, [0], np.ones(len(SPECIAL))])

    product = numbers()
    product[-len(SPECIAL) :] = SPECIAL
    for value in outputs:
        formula.values(value, product, {})
    return product, {key: numbers() for key in formula.operands}


def _same(values: Any, wanted: Any) -> bool:
    """Whether values agree, finite ones with a tolerance."""
    near = np.abs(values - wanted) <= TOLERANCE * (1 + np.abs(wanted))
    return bool(np.all(near | (values == wanted) | (np.isnan(values) & np.isnan(wanted))))


def _same_finite(values: Any, wanted: Any) -> bool:
    """Whether values agree for finite arguments."""
    last = len(values) - len(SPECIAL)
    return _same(values[:last], wanted[:last])


def _candidates(formula: Formula, product: Any, read: Mapping[tuple[str, str], Any], values: Any) -> Iterable[Epilogue]:
    """The epilogues that have these values."""
    linear = _linear(formula, product, read, values, np.ones(MODERATE, bool))
    if linear is not None and _same(values, _argument(linear, formula, product, read)):
        yield linear
    positive = values[:MODERATE] > 0
    rising = _linear(formula, product, read, values, positive) if positive.sum() > 8 else None
    if rising is not None and _same_finite(values, np.maximum(_argument(rising, formula, product, read), 0)):
        yield _with(rising, "relu")
    operands = {key: formula.operands[key] for key in read}
    for function in _gelus(formula):
        for plain in _sums(operands):
            if _same_finite(values, function(_argument(plain, formula, product, read))):
                yield _with(plain, "gelu")
    if len(operands) == 1:
        ((key, operand),) = operands.items()
        for slope in _gelus(formula, gelu_slope):
            if _same_finite(values, product * slope(read[key])):
                yield Epilogue("dgelu", saved=operand)


def _keeping(formula: Formula, product: Any, read: Mapping[tuple[str, str], Any], values: list[Any]) -> Epilogue | str:
    """Gelu with its argument as a result."""
    linear = _linear(formula, product, read, values[0], np.ones(MODERATE, bool))
    if linear is None or not _same(values[0], _argument(linear, formula, product, read)):
        return "its first result is no sum of the product and others"
    if any(_same_finite(values[1], function(values[0])) for function in _gelus(formula)):
        return Epilogue("gelu", linear.scale, linear.share, linear.addend, linear.bias, None, True)
    return BITS if _same_finite(values[1], np.maximum(values[0], 0)) else "its second result is not gelu of the first"


def _gelus(formula: Formula, function: Callable[..., Any] = gelu) -> Iterable[Callable[[Any], Any]]:
    """The formula with its constants as they are, and as numbers of the result's 16-bit type, as programs have them."""
    yield function
    for dtype in formula.narrow:
        cubic, root = (float(np.asarray(c, dtype.numpy)) for c in (CUBIC, ROOT))
        yield partial(function, cubic=cubic, root=root)


def _with(found: Epilogue, function: str) -> Epilogue:
    return Epilogue(function, found.scale, found.share, found.addend, found.bias)


def _sums(operands: Mapping[tuple[str, str], EpilogueOperand]) -> Iterable[Epilogue]:
    """The product plus everything that is read, if a library adds that many."""
    rows = [o for o in operands.values() if o.is_row]
    others = [o for o in operands.values() if not o.is_row]
    if len(rows) <= 1 and len(others) <= 1:
        addend = others[0] if others else None
        yield Epilogue("", 1.0, 1.0 if addend else 0.0, addend, rows[0] if rows else None)


def _linear(
    formula: Formula, product: Any, read: Mapping[tuple[str, str], Any], values: Any, where: Any
) -> Epilogue | None:
    """The sum that fits values best, if a library adds that."""
    operands = {key: formula.operands[key] for key in read}
    columns = np.stack([product, *read.values(), np.ones_like(product)], axis=1)
    found, _, _, _ = np.linalg.lstsq(columns[:MODERATE][where], values[:MODERATE][where], rcond=None)
    shares = dict(zip(operands, found[1:-1], strict=True))
    for plain in _sums(operands):
        row = next((shares[k] for k, o in operands.items() if o.is_row), 1.0)
        other = next((float(np.float32(shares[k])) for k, o in operands.items() if not o.is_row), 0.0)
        if abs(row - 1) < TOLERANCE and abs(found[-1]) < TOLERANCE and found[0] != 0:
            return Epilogue("", float(np.float32(found[0])), other, plain.addend, plain.bias)
    return None


def _argument(found: Epilogue, formula: Formula, product: Any, read: Mapping[tuple[str, str], Any]) -> Any:
    """``scale * product + share * addend + bias``."""
    total = found.scale * product
    for key, operand in formula.operands.items():
        if key in read and operand in (found.bias, found.addend):
            total = total + (1.0 if operand is found.bias else found.share) * read[key]
    return total
