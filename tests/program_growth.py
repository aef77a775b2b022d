"""A random program while it grows: its graph, and what every value is for the chosen arguments.

Each node is computed while it is proposed, so that values stay finite: what does not fit raises :class:`Rejected`, and
another proposal is drawn. What is proposed is the business of the streams (``tests/programs.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tests.program_moves import MOST_AXES
from zenith.errors import ZenithError
from zenith.ir import params as params_
from zenith.ir.dims import Dim, dim, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Data
from zenith.ir.primitive import Primitive, Sample, get
from zenith.ir.retype import array_in_double
from zenith.ir.types import ArrayType, DType, dtype_of, kind_of

_MOST_INPUTS = 10


@dataclass(frozen=True)
class Extent:
    """How large arrays are.

    Axes of so many ``elements`` are chosen with these ``chances`` where a size is a symbol, which a ``symbolic`` share
    of them is; the first arguments have ``axes`` at least. An operation's result has ``most`` elements at most, an
    argument as many as are ``given``, and no magnitude is beyond the ``largest``.
    """

    elements: tuple[int, ...]
    chances: tuple[float, ...]
    symbolic: float
    axes: int
    most: int
    given: float
    largest: float


SMALL = Extent((0, 1, 2, 3, 4, 6), (0.05, 0.2, 0.2, 0.25, 0.2, 0.1), 0.65, 0, 1500, math.inf, 1e3)
LARGE = Extent(
    (60, 250, 600, 2500), (0.25, 0.4, 0.25, 0.1), 0.95, 2, 200_000, 200_000, 1e6
)  # threads share many kernels


class Rejected(Exception):
    """A proposal that does not fit; another one is drawn."""


class Program:
    """A program while it grows: its graph, and the array that every value holds for the chosen arguments."""

    def __init__(self, rng: np.random.Generator, dtypes: Sequence[DType], extent: Extent) -> None:
        self.rng, self.dtypes, self.extent = rng, dtypes, extent
        self.graph = Graph("program")
        self.args: list[Any] = []
        self.arrays: dict[tuple[int, int], Any] = {}
        self.values: list[Value] = []
        self.used: set[tuple[int, int]] = set()
        self.operations = 0
        self.sizes: dict[str, int] = {}

    def begin(self) -> None:
        """Name two or three sizes, and take arrays of them that have nothing to do with each other."""
        names = ("n", "m", "k")[: self.rng.integers(2, 4)]
        self.sizes = {name: int(self.rng.choice(self.extent.elements, p=self.extent.chances)) for name in names}
        for dtype in self.rng.permutation(len(self.dtypes))[:4]:
            shape = [self.size() for _ in range(self.rng.integers(self.extent.axes, 4))]
            while self.elements(shape) > self.extent.given:
                shape.pop()
            self.input(self.dtypes[dtype], shape)
        for name in sorted(self.sizes.keys() - set(self.graph.symbols())):
            self.input(self.one(self.dtypes), [symbol(name)])

    # --- choices ---

    def chance(self, probability: float) -> bool:
        """True as often as ``probability`` says."""
        return bool(self.rng.random() < probability)

    def integers(self) -> list[DType]:
        """The integer types among the program's."""
        return [t for t in self.dtypes if t.is_integer]

    def require(self, fits: bool) -> None:
        """Reject the proposal unless it fits."""
        if not fits:
            raise Rejected

    def elements(self, shape: Sequence[Dim]) -> int:
        """How many elements an array has."""
        return math.prod(s.evaluate(self.sizes) for s in shape)

    def one(self, items: Sequence[Any]) -> Any:
        """One of the items; rejects the proposal when there is none."""
        self.require(bool(items))
        return items[self.rng.integers(len(items))]

    def size(self) -> Dim:
        """A symbol, or a small number."""
        return (
            symbol(self.one(list(self.sizes)))
            if self.chance(self.extent.symbolic)
            else dim(int(self.rng.integers(1, 5)))
        )

    def subset(self, rank: int, least: int = 0) -> tuple[int, ...]:
        """Some of the axes, growing."""
        chosen = [a for a in range(rank) if self.chance(0.5)]
        return tuple(chosen) if len(chosen) >= least else (int(self.rng.integers(rank)),)

    def pick(self, where: Callable[[Value], bool] = lambda v: True) -> Value:
        """A value that fits, one that nothing has read yet if possible."""
        fitting = [v for v in self.values if where(v)]
        fresh = [v for v in fitting if (v.node, v.output) not in self.used]
        value: Value = self.one(fresh if fresh and self.chance(0.6) else fitting)
        return value

    # --- growth ---

    def emit(self, name: str, *args: Value, **params: Any) -> Value:
        """Append a node whose results others may read, and give the first one."""
        return self.show(self.compute(name, *args, **params))[0]

    def emit_any(self, name: str, *args: Value, **params: Any) -> Value:
        """The same however large values are; infinite ones too."""
        return self.show(self.compute(name, *args, magnitude=math.inf, **params))[0]

    def show(self, values: Sequence[Value]) -> Sequence[Value]:
        """From now on other operations may read these values, and the program may return them."""
        self.values += values
        return values

    def compute(self, name: str, *args: Value, magnitude: float | None = None, **params: Any) -> Sequence[Value]:
        """Append a node and compute it; rejected when types do not fit or values leave what is sane."""
        largest = self.extent.largest if magnitude is None else magnitude
        primitive = get(name)
        try:
            normal = params_.normalize(primitive.params, params)
            types = primitive.typing([a.type for a in args], normal)
            shapes = [t.shape for t in types if isinstance(t, ArrayType)]
            self.require(all(self.elements(s) <= self.extent.most and len(s) <= MOST_AXES for s in shapes))
            concrete = params_.evaluate(primitive.params, normal, self.sizes)
            results = primitive.evaluate([self.arrays[a.node, a.output] for a in args], concrete)
        except ZenithError as error:
            raise Rejected from error
        arrays = [np.asarray(r) for r in results]
        self.require(all(_sane(array, largest) for array in arrays))
        self.used.update((a.node, a.output) for a in args)
        self.operations += not isinstance(primitive.lowering, Data)
        return self._record(self.graph.add(primitive, args, params), arrays)

    def _record(self, values: Sequence[Value], arrays: Sequence[Any]) -> Sequence[Value]:
        for value, array in zip(values, arrays, strict=True):
            self.arrays[value.node, value.output] = array
        return values

    def input(self, dtype: DType, shape: Sequence[Dim]) -> Value:
        """A new argument of the program."""
        self.require(len(self.args) < _MOST_INPUTS and self.elements(shape) <= self.extent.given)
        array = self._random(dtype, [s.evaluate(self.sizes) for s in shape])
        value = self.graph.add_input(ArrayType(dtype, shape), "xyzwabcdefgh"[len(self.args)])
        self.args.append(array)
        return self.show(self._record([value], [array]))[0]

    def _random(self, dtype: DType, shape: Sequence[int]) -> Any:
        if dtype.kind == "b":
            return self.rng.integers(0, 2, shape).astype(bool)
        if dtype.is_integer:
            array = self.rng.integers(0 if dtype.kind == "u" else -20, 21, shape).astype(dtype.numpy)
            ends = np.array([np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max], dtype.numpy)
            often = 0.2 if self.rng.random() < 0.2 else 0.0
            return np.where(self.rng.random(shape) < often, self.rng.choice(ends, shape), array)
        if dtype.is_complex:
            parts = [self._random(dtype.real, shape) for _ in range(2)]
            return np.asarray(parts[0] + 1j * parts[1], dtype.numpy)
        array = self.rng.uniform(-2, 2, shape).astype(dtype.numpy)
        return np.where(self.rng.random(shape) < 0.1, np.trunc(array), array)  # exact numbers, zeros of both signs

    def constant(self, array: Any) -> Value:
        """An array of the program; now and then it becomes an argument instead."""
        if self.chance(0.5) and len(self.args) < _MOST_INPUTS:
            value = self.graph.add_input(ArrayType(known(array), array.shape), "xyzwabcdefgh"[len(self.args)])
            self.args.append(array)
        else:
            value = self.graph.add_constant(array)
        return self.show(self._record([value], [array]))[0]

    def full(self, number: float, dtype: DType, shape: Sequence[Dim]) -> Value:
        """A literal, repeated to a shape; infinite ones too."""
        exact = {"b": bool, "i": int, "u": int, "f": float, "c": complex}[dtype.kind](dtype.numpy.type(number))
        scalar = self.emit_any("literal", value=exact, dtype=dtype)
        return self.emit_any("broadcast", scalar, shape=tuple(shape), axes=()) if shape else scalar

    def operand(self, primitive: Primitive, least_rank: int = 0) -> Value:
        """A value of a type that the primitive takes."""
        dtypes = dtypes_of(self, primitive)
        try:
            return self.pick(lambda v: v.dtype in dtypes and len(v.shape) >= least_rank)
        except Rejected:
            return self.convert(self.pick(lambda v: len(v.shape) >= least_rank), self.one(dtypes))

    def find(self, dtype: DType, shape: Sequence[Dim]) -> Value:
        """A value of a type: one that is there, else one converted, repeated, given, or a literal."""
        shape = tuple(shape)
        exact = [v for v in self.values if v.type == ArrayType(dtype, shape)]
        if exact and self.chance(0.85):
            return self.pick(lambda v: v in exact)
        for attempt in self.rng.permutation(3):
            try:
                if attempt == 0:
                    return self.convert(self.pick(lambda v: v.shape == shape and v.dtype != dtype), dtype)
                if attempt == 1:
                    return self._spread(dtype, shape)
                if all(str(s) in self.sizes or s.static is not None for s in shape):
                    return self.input(dtype, shape)
            except Rejected:
                continue
        return self.full(self.rng.integers(0, 3), dtype, shape)

    def _spread(self, dtype: DType, shape: tuple[Dim, ...]) -> Value:
        """A value of fewer axes, repeated along the others."""
        axes = self.subset(len(shape)) if shape else ()
        wanted = tuple(shape[a] for a in axes)
        source = self.pick(lambda v: v.dtype == dtype and v.shape == wanted)
        return self.emit("broadcast", source, shape=shape, axes=axes)

    def convert(self, value: Value, dtype: DType) -> Value:
        """A cast that is defined everywhere: no negative number becomes unsigned, no huge one a float."""
        if value.dtype.is_complex and dtype.kind == "u":
            value = self.emit("real", value)
        if value.dtype.is_float and dtype.kind == "u":
            value = self.emit("abs", value)
        try:
            return self.emit("cast", value, dtype=dtype)
        except Rejected:
            return self.emit("cast", self.squash(value, 0, 20), dtype=dtype)

    def squash(self, value: Value, low: float, high: float) -> Value:
        """The value itself when it lies between the bounds, else brought there by tanh or a remainder."""
        array = self.arrays[value.node, value.output]
        if value.dtype.is_complex:
            return self.emit("complex", *(self.squash(self.emit(p, value), low, high) for p in ("real", "imag")))
        if value.dtype.kind == "b" or array.size == 0 or (low <= array.min() and array.max() <= high):
            return value
        if value.dtype.is_integer:
            inside = self.emit("remainder", value, self.full(high - low + 1, value.dtype, value.shape))
            return self.emit("add", inside, self.full(low, value.dtype, value.shape))
        half, middle = (0.49 * (high - low), (high + low) / 2)
        inside = self.emit("mul", self.emit("tanh", value), self.full(half, value.dtype, value.shape))
        return self.emit("add", inside, self.full(middle, value.dtype, value.shape))

    def finish(self, returned: float = 0.0) -> None:
        """Return what nothing reads (but a little dead code), and sometimes a value twice or an argument itself.

        A share ``returned`` of the values that something has read is returned, too.
        """
        ends = [v for v in self.values if (v.node, v.output) not in self.used]
        outputs = [v for v in ends if self.chance(0.9)] or ends[:1]
        if returned:
            outputs += [v for v in self.values if v not in ends and self.chance(returned)]
        if self.chance(0.3) or len(outputs) < 2:
            outputs.append(self.one(self.values))
        self.graph.set_outputs(outputs[int(i)] for i in self.rng.permutation(len(outputs)))


def _sane(array: Any, largest: float) -> bool:
    """Whether there is no nan, and nothing is too large."""
    inexact = kind_of(array.dtype) in ("f", "c") and array.size > 0
    return not inexact or bool(np.abs(array_in_double(array)).max() <= largest)


def dtypes_of(program: Program, primitive: Primitive) -> list[DType]:
    """The program's element types that a primitive takes."""
    return [t for t in program.dtypes if samples_of(primitive, t)]


def known(array: Any) -> DType:
    """The element type of an array."""
    dtype = dtype_of(array.dtype)
    assert dtype is not None
    return dtype


def samples_of(primitive: Primitive, dtype: DType) -> Sequence[Sample]:
    """What a primitive's record proposes for an element type."""
    return _samples(primitive.name, dtype)


@cache
def _samples(name: str, dtype: DType) -> tuple[Sample, ...]:
    return tuple(get(name).samples(dtype.numpy))
