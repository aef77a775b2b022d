"""Chains along axes: reductions, operations on their results, and reductions of those in turn.

A chain has arrays of one shape, and some of its axes, along which everything is reduced: the trailing ones, a *row*, or
others, a *column*. A reduction's result is broadcast along these axes and combined with any array of the chain,
an early one as well as the last: so values are needed in several walks along the same row. Softmax, normalisations and
entropies are drawn as a whole, since by chance they hardly ever come together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.program_growth import Program, Rejected, samples_of
from tests.program_proposals import elementwise
from zenith.ir.dims import Dim, dim, product, symbol
from zenith.ir.graph import Value
from zenith.ir.lowering import Fold, Prefix, Scalar
from zenith.ir.primitive import Primitive, all_primitives
from zenith.ir.types import DType, bool_, float32, float64, int64

LENGTHS = (1, 2, 3, 4, 5, 8, 17, 33, 70)  # of the axes that a chain reduces
OTHERS = (1, 2, 3, 4, 5)  # of the axes that stay
_EPSILON = 0.01


@dataclass(frozen=True)
class Chain:
    """The arrays of a program with this shape and element type, and the axes along which it reduces them."""

    program: Program
    dtype: DType
    shape: tuple[Dim, ...]
    axes: tuple[int, ...]

    @property
    def others(self) -> tuple[int, ...]:
        """The axes that a reduction leaves."""
        return tuple(a for a in range(len(self.shape)) if a not in self.axes)

    def array(self) -> Value:
        """Any of the chain's arrays, one that nothing has read yet if possible."""
        return self.program.pick(lambda v: v.dtype == self.dtype and v.shape == self.shape)

    def reduced(self) -> Value:
        """A number for each row or column: one that is there, else a reduction's result."""
        shape = tuple(self.shape[a] for a in self.others)
        try:
            return self.program.pick(lambda v: v.dtype == self.dtype and v.shape == shape)
        except Rejected:
            return self.fold("reduce_max", self.array())

    def fold(self, name: str, x: Value) -> Value:
        """A reduction along the chain's axes."""
        return self.program.emit(name, x, axes=self.axes)

    def spread(self, x: Value) -> Value:
        """A reduction's result, broadcast along the chain's axes."""
        return self.program.emit("broadcast", x, shape=self.shape, axes=self.others)

    def like(self, x: Value, number: float) -> Value:
        """A number for each element of a value."""
        return self.program.full(number, x.dtype, x.shape)

    def mean(self, x: Value) -> Value:
        """The mean along the chain's axes."""
        total = self.fold("reduce_sum", x)
        count = self.program.emit("size", value=product(self.shape[a] for a in self.axes))
        count = self.program.convert(count, self.dtype)
        return self.program.emit("div", total, self.program.emit("broadcast", count, shape=total.shape, axes=()))


def begin_rows(program: Program) -> Callable[[], None]:
    """Programs of chains along trailing axes: mostly the last one, sometimes two, or all."""
    return _begin(program, lambda rank: tuple(range(rank - _width(program, rank), rank)))


def begin_columns(program: Program) -> Callable[[], None]:
    """Programs of chains along an axis but the last one, or two such axes."""

    def axes(rank: int) -> tuple[int, ...]:
        program.require(rank > 1)
        width = 2 if rank > 2 and program.chance(0.3) else 1
        start = int(program.rng.integers(rank - width))
        return tuple(range(start, start + width))

    return _begin(program, axes)


def _width(program: Program, rank: int) -> int:
    if program.chance(0.25):
        return min(2, rank)
    return rank if program.chance(0.1) else 1


def _begin(program: Program, axes: Callable[[int], tuple[int, ...]]) -> Callable[[], None]:
    """One chain or two, of different shapes or types; the function returned proposes an operation of one of them."""
    chains: list[Chain] = []
    while len(chains) < 1 or (len(chains) < 2 and program.chance(0.25)):
        try:
            chains.append(_chain(program, axes))
        except Rejected:
            continue
    return lambda: move(program.one(chains))


def _chain(program: Program, axes: Callable[[int], tuple[int, ...]]) -> Chain:
    rank = int(program.rng.choice([1, 2, 3, 4], p=[0.1, 0.55, 0.25, 0.1]))
    along = axes(rank)
    shape = tuple(
        length_of(program, LENGTHS if a in along else OTHERS, 0.35 if a in along else 0.6) for a in range(rank)
    )
    program.require(program.elements(shape) <= program.extent.most)
    dtypes = [float32] * 6 + [t for t in program.dtypes if t.is_float or t in (int64, float64)]
    chain = Chain(program, program.one(dtypes), shape, along)
    for _ in range(program.rng.integers(1, 3)):
        program.input(chain.dtype, shape)
    return chain


def length_of(program: Program, lengths: Sequence[int], symbolic: float) -> Dim:
    """A number, or a symbol: one that other axes have too, or a new one."""
    if not program.chance(symbolic):
        return dim(int(program.one(lengths)))
    name = "nmk"[program.rng.integers(3)]
    program.sizes.setdefault(name, int(program.one(lengths)))
    return symbol(name)


# --- moves -----------------------------------------------------------------------------------------------------------


def move(chain: Chain) -> None:
    """One more operation of a chain, or several that belong together; rejected where they do not fit."""
    program = chain.program
    kinds = [kind for kind, share in MOVES.items() for _ in range(share)]
    kind = program.one(kinds)
    program.require(chain.dtype.is_float or kind not in OF_FLOATS)
    kind(chain)


def _scalars(dtype: DType) -> list[Primitive]:
    return [
        p for p in all_primitives() if isinstance(p.lowering, Scalar) and p.name not in _NOT and samples_of(p, dtype)
    ]


_NOT = ("float_bits", "bits_float")  # the bits of floats are others in the wider type that is the reference


def _any_scalar(chain: Chain) -> None:
    elementwise(chain.program, chain.program.one(_scalars(chain.dtype)), chain.array())


def _scalar_of_rows(chain: Chain) -> None:
    elementwise(chain.program, chain.program.one(_scalars(chain.dtype)), chain.reduced())


def _fold(chain: Chain) -> None:
    folds = [p for p in all_primitives() if isinstance(p.lowering, Fold) and samples_of(p, chain.dtype)]
    chain.fold(chain.program.one(folds).name, chain.array())


def _join(chain: Chain) -> None:
    """An array of the chain with a number of each row."""
    program = chain.program
    name = program.one(("add", "sub", "sub", "mul", "maximum", "minimum"))
    operands = [chain.array(), chain.spread(chain.reduced())]
    program.emit(name, *(operands if program.chance(0.7) else operands[::-1]))


def _adjusted(chain: Chain, x: Value) -> Value:
    """A number of each row, made safe for what comes: some operations, which a kernel does once a row."""
    program = chain.program
    form = int(program.rng.integers(4)) if chain.dtype.is_float else 3
    if form == 0:
        infinite = program.emit("eq", program.emit("abs", x), chain.like(x, float("inf")))
        return program.emit("where", infinite, chain.like(x, 0), x)
    if form == 1:
        return program.emit("sqrt", program.emit("add", program.emit("abs", x), chain.like(x, _EPSILON)))
    if form == 2:
        return program.emit("tanh", program.emit("mul", x, chain.like(x, 0.5)))
    return program.emit("maximum", program.emit("sub", chain.like(x, 1), x), chain.like(x, 0))


def _in_two_walks(chain: Chain) -> None:
    """A number of each row that is read in one walk along the row, and in the next one together with its result."""
    program, x = chain.program, chain.array()
    number = _adjusted(chain, chain.fold(program.one(("reduce_max", "reduce_min", "reduce_sum")), x))
    changed = program.emit(program.one(("sub", "mul", "maximum")), x, chain.spread(number))
    if chain.dtype.is_float:
        changed = program.emit(program.one(("tanh", "abs", "sigmoid", "exp")), changed)
    total = chain.fold(program.one(("reduce_max", "reduce_sum")), changed)
    both = program.emit(program.one(("add", "sub", "mul", "minimum")), total, number)
    program.emit(program.one(("add", "sub", "mul")), chain.array(), chain.spread(both))


def _combine(chain: Chain) -> None:
    program = chain.program
    program.emit(program.one(("add", "sub", "mul", "maximum")), chain.array(), chain.array())


def _where(chain: Chain) -> None:
    """Some of the elements of an array, chosen by another one or by a number of each row, and others elsewhere."""
    program = chain.program
    bound = chain.spread(chain.reduced()) if program.chance(0.5) else chain.array()
    mask = program.emit(program.one(("lt", "ge", "gt", "eq")), chain.array(), bound)
    other = chain.like(bound, 0) if program.chance(0.4) else chain.array()
    program.emit("where", mask, chain.array(), other)


def _prefix(chain: Chain) -> None:
    program = chain.program
    prefixes = [p for p in all_primitives() if isinstance(p.lowering, Prefix) and samples_of(p, chain.dtype)]
    axis, reverse = program.one(chain.axes), program.chance(0.3)
    elementwise(program, program.one(prefixes), chain.array(), axis=axis, reverse=reverse)


def _cast(chain: Chain) -> None:
    """Through another type and back."""
    program = chain.program
    program.convert(program.convert(chain.array(), program.one(program.dtypes)), chain.dtype)


def _product(chain: Chain) -> None:
    """A matrix product of the chain's shape: rows times weights, as layers between chains are."""
    program, x = chain.program, chain.array()
    program.require(len(x.shape) > 1 and x.dtype != bool_)
    program.emit("matmul", x, program.find(x.dtype, (*x.shape[:-2], x.shape[-1], x.shape[-1])))


def softmax(chain: Chain, x: Value) -> Value:
    """Of an array along the chain's axes."""
    numbers = exponentials(chain, x)
    return chain.program.emit("div", numbers, chain.spread(chain.fold("reduce_sum", numbers)))


def exponentials(chain: Chain, x: Value) -> Value:
    """Of an array less its largest element along the chain's axes."""
    program = chain.program
    return program.emit("exp", program.emit("sub", x, chain.spread(chain.fold("reduce_max", x))))


def logsumexp(chain: Chain, x: Value) -> Value:
    """As it is written with care for infinities, or less a number near the largest one."""
    program = chain.program
    largest = chain.fold("reduce_max", x)
    if program.chance(0.7):
        largest = _adjusted(chain, largest)
    total = chain.fold("reduce_sum", program.emit("exp", program.emit("sub", x, chain.spread(largest))))
    return program.emit("add", program.emit("log", total), largest)


def _softmax(chain: Chain) -> None:
    softmax(chain, chain.array())


def _log_softmax(chain: Chain) -> None:
    x = chain.array()
    chain.program.emit("sub", x, chain.spread(logsumexp(chain, x)))


def _logsumexp(chain: Chain) -> None:
    logsumexp(chain, chain.array())


def _entropy(chain: Chain) -> None:
    """Of the distribution whose logits an array of the chain is."""
    program, x = chain.program, chain.array()
    logs = program.emit("sub", x, chain.spread(logsumexp(chain, x)))
    chain.fold("reduce_sum", program.emit("mul", program.emit("exp", logs), logs))


def _normal(chain: Chain) -> None:
    """Less its mean, by its standard deviation, sometimes with weights along the row."""
    program, x = chain.program, chain.array()
    centred = program.emit("sub", x, chain.spread(chain.mean(x)))
    if program.chance(0.5):
        variance = chain.mean(program.emit("mul", centred, centred))
    else:
        mean = chain.mean(x)
        variance = program.emit("sub", chain.mean(program.emit("mul", x, x)), program.emit("mul", mean, mean))
        variance = program.emit("abs", variance)
    scale = program.emit("sqrt", program.emit("add", variance, chain.like(variance, _EPSILON)))
    found = program.emit("div", centred, chain.spread(scale))
    if program.chance(0.5):
        weights = program.find(chain.dtype, [chain.shape[a] for a in chain.axes])
        program.emit("mul", found, program.emit("broadcast", weights, shape=chain.shape, axes=chain.axes))


def _unit(chain: Chain) -> None:
    """By its length, or by its largest magnitude."""
    program, x = chain.program, chain.array()
    if program.chance(0.5):
        length = program.emit("sqrt", chain.fold("reduce_sum", program.emit("mul", x, x)))
    else:
        length = chain.fold("reduce_max", program.emit("abs", x))
    least = program.emit("maximum", length, chain.like(length, _EPSILON))
    program.emit("div", x, chain.spread(least))


def _best(chain: Chain) -> None:
    """The index of the largest element, and an array that is masked by it."""
    program, x = chain.program, chain.array()
    program.require(len(chain.axes) == 1 and product(x.shape[a] for a in chain.axes).evaluate(program.sizes) > 0)
    (axis,) = chain.axes
    index = program.emit("argmax", x, axis=axis)
    if program.chance(0.7):
        counted = program.emit("iota", size=x.shape[axis], dtype=index.dtype)
        counted = program.emit("broadcast", counted, shape=chain.shape, axes=(axis,))
        mask = program.emit("eq", counted, chain.spread(index))
        program.emit("where", mask, chain.array(), chain.like(x, 0))


MOVES: dict[Callable[[Chain], None], int] = {
    _any_scalar: 5, _scalar_of_rows: 2, _fold: 2, _join: 3, _in_two_walks: 4, _combine: 2, _where: 2, _prefix: 1,
    _cast: 1, _product: 1, _softmax: 3, _log_softmax: 2, _logsumexp: 2, _entropy: 2, _normal: 3, _unit: 2, _best: 1,
}  # fmt: skip
OF_FLOATS = (_softmax, _log_softmax, _logsumexp, _entropy, _normal, _unit)
