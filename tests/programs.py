"""One generator of random well-typed programs, which drives every pass and every backend.

It reads the registry: a primitive added there appears in programs without a line here. Elementwise primitives and
reductions are proposed from their lowering and their samples' element types; what moves elements has a hint below
that chooses its parameters; everything else runs on its own samples. Each node is computed while it is proposed, so
that values stay finite: what leaves the domain is tried again on arguments squashed into the samples' range.

There are two streams. In the second one calls of libraries stand between kernels (``tests/program_calls.py``).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import zenith.ir.ops  # noqa: F401  fills the registry
from tests.bounds import Bound, discarded, reference_bounds, violations
from tests.ir.cases import ALIKE
from tests.program_calls import CALLS, library_primitives
from tests.program_moves import MOST_AXES, argmax, broadcast, concat, pad, reshape, reverse, slice_of, transpose
from tests.program_places import dynamic_slice, dynamic_update, gather, index_arrays, take, update_slice
from tests.rewrite import specialize, widen_array
from zenith.errors import ZenithError
from zenith.ir import params as params_
from zenith.ir.dims import Dim, dim, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Data, Fold, HostCall, NativeCall, Prefix, Region, Scalar
from zenith.ir.primitive import Primitive, all_primitives, get
from zenith.ir.types import DTYPES, ArrayType, DType, bool_, dtype_of, float32, float64, int64, kind_of

__all__ = ["Bound", "discarded", "generated_primitives", "random_program", "reference_bounds", "violations"]

WIDE = tuple(t for t in DTYPES if not t.is_narrow and not t.is_complex and t not in ALIKE)
WITH_COMPLEX = tuple(t for t in DTYPES if t in (bool_, int64, float32, float64) or t.is_complex)
TURNS = 4  # one in so many programs has 16-bit floats, another one integers of other widths or complex numbers
_MOST_INPUTS = 10
_CALLS = 0.5  # the share of calls among the operations of a program that has them
# Primitives with samples that no program has, and why.
LEFT_OUT = {
    **dict.fromkeys(
        ("float_bits", "bits_float"), "the bits of floats are others in the wider type that is the reference"
    ),
    **dict.fromkeys(("conv_blocks", "conv_blocks_weights"), "convolutions expand to it, and programs have these"),
}


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
LARGE = Extent((60, 250, 600), (0.25, 0.45, 0.3), 0.95, 2, 200_000, 200_000, 1e6)  # threads share many kernels


class _Rejected(Exception):
    """A proposal that does not fit; another one is drawn."""


def generated_primitives() -> list[Primitive]:
    """What programs are made of: not calls, loops and branches, what has no samples, and what is left out above."""
    outside = (HostCall, NativeCall, Region)
    return [
        p for p in all_primitives()
        if not isinstance(p.lowering, outside) and p.name not in LEFT_OUT
        and any(list(p.samples(t.numpy)) for t in DTYPES)
    ]  # fmt: skip


def random_program(
    seed: int, size: int | None = None, symbolic: bool = True, calls: bool = False, extent: Extent = SMALL
) -> tuple[Graph, list[Any]]:
    """A program of ``size`` operations (20 to 40 when not told), literals not counted, and arguments for it.

    The same seed with ``symbolic=False`` gives the same program with every symbol replaced by its number. With
    ``calls=True`` it is a program of the second stream, and with ``extent=LARGE`` another one, on larger arrays.
    """
    rng = np.random.default_rng(zlib.crc32(f"program {seed}{' with calls' if calls else ''}".encode()))
    program = _Program(rng, element_types(seed), extent)
    count = int(rng.integers(20, 41)) if size is None else size
    primitives = generated_primitives()
    while program.operations < count:
        try:
            if calls and program.chance(_CALLS):
                _propose_call(program)
            else:
                _propose(program, primitives[rng.integers(len(primitives))])
        except _Rejected:
            continue
    program.finish()
    graph = program.graph if symbolic else specialize(program.graph, program.sizes)
    return graph, program.args


def element_types(seed: int) -> tuple[DType, ...]:
    """The element types of a program: the wide ones, and in turn 16-bit floats, integers like them, complex numbers."""
    turn, rest = divmod(seed, TURNS)
    if rest == TURNS - 1:
        return (*WIDE, *(t for t in DTYPES if t.is_narrow))
    if rest == TURNS - 2:
        return (*WIDE, *(ALIKE[(turn + step) % len(ALIKE)] for step in range(2)))
    return WITH_COMPLEX if rest == TURNS - 3 else WIDE


class _Program:
    """A program while it grows: its graph, and the array that every value holds for the chosen arguments."""

    def __init__(self, rng: np.random.Generator, dtypes: Sequence[DType], extent: Extent) -> None:
        self.rng, self.dtypes, self.extent = rng, dtypes, extent
        self.graph = Graph("program")
        self.args: list[Any] = []
        self.arrays: dict[tuple[int, int], Any] = {}
        self.values: list[Value] = []
        self.used: set[tuple[int, int]] = set()
        self.operations = 0
        names = ("n", "m", "k")[: rng.integers(2, 4)]
        self.sizes = {name: int(rng.choice(extent.elements, p=extent.chances)) for name in names}
        for dtype in rng.permutation(len(dtypes))[:4]:
            shape = [self.size() for _ in range(rng.integers(extent.axes, 4))]
            while self.elements(shape) > self.extent.given:
                shape.pop()
            self.input(dtypes[dtype], shape)
        for name in sorted(self.sizes.keys() - set(self.graph.symbols())):
            self.input(self.one(dtypes), [symbol(name)])

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
            raise _Rejected

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

    def show(self, values: Sequence[Value]) -> Sequence[Value]:
        """From now on other operations may read these values, and the program may return them."""
        self.values += values
        return values

    def compute(self, name: str, *args: Value, **params: Any) -> Sequence[Value]:
        """Append a node and compute it; rejected when types do not fit or values leave what is sane."""
        primitive = get(name)
        try:
            normal = params_.normalize(primitive.params, params)
            types = primitive.typing([a.type for a in args], normal)
            shapes = [t.shape for t in types if isinstance(t, ArrayType)]
            self.require(all(self.elements(s) <= self.extent.most and len(s) <= MOST_AXES for s in shapes))
            concrete = params_.evaluate(primitive.params, normal, self.sizes)
            results = primitive.evaluate([self.arrays[a.node, a.output] for a in args], concrete)
        except ZenithError as error:
            raise _Rejected from error
        arrays = [np.asarray(r) for r in results]
        self.require(all(map(self._sane, arrays)))
        self.used.update((a.node, a.output) for a in args)
        self.operations += not isinstance(primitive.lowering, Data)
        return self._keep(self.graph.add(primitive, args, params), arrays)

    def _sane(self, array: Any) -> bool:
        """Whether there is no nan, and nothing is too large."""
        inexact = kind_of(array.dtype) in ("f", "c") and array.size > 0
        return not inexact or bool(np.abs(widen_array(array)).max() <= self.extent.largest)

    def _keep(self, values: Sequence[Value], arrays: Sequence[Any]) -> Sequence[Value]:
        for value, array in zip(values, arrays, strict=True):
            self.arrays[value.node, value.output] = array
        return values

    def input(self, dtype: DType, shape: Sequence[Dim]) -> Value:
        """A new argument of the program."""
        self.require(len(self.args) < _MOST_INPUTS and self.elements(shape) <= self.extent.given)
        array = self._random(dtype, [s.evaluate(self.sizes) for s in shape])
        value = self.graph.add_input(ArrayType(dtype, shape), "xyzwabcdefgh"[len(self.args)])
        self.args.append(array)
        return self.show(self._keep([value], [array]))[0]

    def _random(self, dtype: DType, shape: Sequence[int]) -> Any:
        if dtype.kind == "b":
            return self.rng.integers(0, 2, shape).astype(bool)
        if dtype.is_integer:
            return self.rng.integers(0 if dtype.kind == "u" else -20, 21, shape).astype(dtype.numpy)
        if dtype.is_complex:
            parts = [self._random(dtype.real, shape) for _ in range(2)]
            return np.asarray(parts[0] + 1j * parts[1], dtype.numpy)
        array = self.rng.uniform(-2, 2, shape).astype(dtype.numpy)
        return np.where(self.rng.random(shape) < 0.1, np.trunc(array), array)  # exact numbers, zeros of both signs

    def constant(self, array: Any) -> Value:
        """An array of the program; now and then it becomes an argument instead."""
        if self.chance(0.5) and len(self.args) < _MOST_INPUTS:
            value = self.graph.add_input(ArrayType(_known(array), array.shape), "xyzwabcdefgh"[len(self.args)])
            self.args.append(array)
        else:
            value = self.graph.add_constant(array)
        return self.show(self._keep([value], [array]))[0]

    def full(self, number: float, dtype: DType, shape: Sequence[Dim]) -> Value:
        """A literal, repeated to a shape."""
        exact = {"b": bool, "i": int, "u": int, "f": float, "c": complex}[dtype.kind](dtype.numpy.type(number))
        scalar = self.emit("literal", value=exact, dtype=dtype)
        return self.emit("broadcast", scalar, shape=tuple(shape), axes=()) if shape else scalar

    def operand(self, primitive: Primitive, least_rank: int = 0) -> Value:
        """A value of a type that the primitive takes."""
        dtypes = _dtypes(self, primitive)
        try:
            return self.pick(lambda v: v.dtype in dtypes and len(v.shape) >= least_rank)
        except _Rejected:
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
            except _Rejected:
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
        except _Rejected:
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

    def finish(self) -> None:
        """Return what nothing reads (but a little dead code), and sometimes a value twice or an argument itself."""
        ends = [v for v in self.values if (v.node, v.output) not in self.used]
        kept = [v for v in ends if self.chance(0.9)] or ends[:1]
        if self.chance(0.3) or len(kept) < 2:
            kept.append(self.one(self.values))
        self.graph.set_outputs(kept[int(i)] for i in self.rng.permutation(len(kept)))


def _known(array: Any) -> DType:
    dtype = dtype_of(array.dtype)
    assert dtype is not None
    return dtype


# --- proposals ---------------------------------------------------------------------------------------------------


def _propose(program: _Program, primitive: Primitive) -> None:
    hint = _HINTS.get(primitive.name)
    if hint is not None and not program.chance(0.1):
        hint(program, primitive.name)
    elif isinstance(primitive.lowering, Scalar) and not program.chance(0.05):
        _elementwise(program, primitive)
    elif isinstance(primitive.lowering, Prefix) and not program.chance(0.05):
        _elementwise(program, primitive, least_rank=1)
    elif isinstance(primitive.lowering, Fold) and not program.chance(0.1):
        x = program.operand(primitive)
        program.emit(primitive.name, x, axes=program.subset(len(x.shape)) if x.shape else ())
    else:
        _sampled(program, primitive)


def _propose_call(program: _Program) -> None:
    primitive = program.one(library_primitives())
    if primitive.name in CALLS:
        CALLS[primitive.name](program, primitive.name)
    else:
        _sampled(program, primitive)


def _sampled(program: _Program, primitive: Primitive) -> None:
    """The primitive on one of its own samples."""
    sample = program.one(_samples(primitive, program.one(_dtypes(program, primitive))))
    program.emit(primitive.name, *(program.constant(np.asarray(v)) for v in sample.values), **sample.params)


def _samples(primitive: Primitive, dtype: DType) -> list[Any]:
    return list(primitive.samples(dtype.numpy))


def _dtypes(program: _Program, primitive: Primitive) -> list[DType]:
    return [t for t in program.dtypes if _samples(primitive, t)]


def _elementwise(program: _Program, primitive: Primitive, least_rank: int = 0) -> None:
    """Operands of one shape; on a second try inside the range of the primitive's samples."""
    anchor = program.operand(primitive, least_rank)
    samples = _samples(primitive, anchor.dtype)
    sample = program.one(samples)
    params = sample.params if not least_rank else {**sample.params, "axis": program.one(range(len(anchor.shape)))}
    args = [program.find(_known(np.asarray(v)), anchor.shape) for v in sample.values]
    args = [
        anchor if a.type == anchor.type and program.chance(0.7 if i == 0 else 0.1) else a for i, a in enumerate(args)
    ]
    try:
        program.emit(primitive.name, *args, **params)
    except _Rejected:
        ranges = [[np.asarray(s.values[i]) for s in samples if np.size(s.values[i])] for i in range(len(args))]
        inside = [program.squash(a, _low(r), _high(r)) for a, r in zip(args, ranges, strict=True)]
        program.emit(primitive.name, *inside, **params)


def _low(arrays: Sequence[Any]) -> Any:
    return min(_real(a).min().item() for a in arrays)


def _high(arrays: Sequence[Any]) -> Any:
    return max(_real(a).max().item() for a in arrays)


def _real(array: Any) -> Any:
    return array.real if array.dtype.kind == "c" else array


# --- hints: parameters of what moves elements --------------------------------------------------------------------


def _literal(program: _Program, name: str) -> None:
    dtype = program.one(program.dtypes)
    program.full(program.rng.integers(0, 9) / (2 if dtype.is_float else 1), dtype, ())


def _counter(program: _Program, name: str) -> None:
    if name == "size":
        program.emit(name, value=program.size() + int(program.rng.integers(0, 3)))
    else:
        program.emit(
            name, size=program.size(), dtype=program.one([t for t in program.dtypes if t != bool_ and not t.is_complex])
        )


def _cast(program: _Program, name: str) -> None:
    program.convert(program.pick(), program.one(program.dtypes))


def _scatter(program: _Program, name: str) -> None:
    x = program.operand(get(name), least_rank=1)
    places = index_arrays(program, x)
    updates = program.find(x.dtype, (*places[0].shape, *x.shape[len(places) :]))
    program.emit(name, x, updates, *places)


def _matmul(program: _Program, name: str) -> None:
    x = program.operand(get(name), least_rank=2)
    lead, inner = x.shape[:-2], x.shape[-1]
    fitting = [v for v in program.values if v.dtype == x.dtype and v.shape[:-1] == (*lead, inner)]
    if fitting and program.chance(0.8):
        program.emit(name, x, program.one(fitting))
    elif program.chance(0.5):
        axes = (*range(len(lead)), len(lead) + 1, len(lead))
        program.emit(name, x, program.emit("transpose", x, axes=axes))
    else:
        program.emit(name, x, program.find(x.dtype, (*lead, inner, program.size())))


_HINTS: dict[str, Callable[[_Program, str], None]] = {
    "literal": _literal, "size": _counter, "iota": _counter, "cast": _cast, "broadcast": broadcast,
    "transpose": transpose, "reshape": reshape, "slice": slice_of, "reverse": reverse, "pad": pad, "concat": concat,
    "argmax": argmax, "take": take, "gather": gather, "matmul": _matmul, "scatter_set": _scatter,
    "scatter_add": _scatter, "scatter_mul": _scatter, "scatter_max": _scatter, "scatter_min": _scatter,
    "update_slice": update_slice, "dynamic_slice": dynamic_slice, "dynamic_update_slice": dynamic_update,
    **dict.fromkeys(("real", "imag", "complex", "conj"), lambda program, name: _elementwise(program, get(name))),
}  # fmt: skip
