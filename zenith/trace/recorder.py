"""The recorder: one trace in progress. It holds the graph, what is known about sizes, and the chain of effects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from zenith.errors import SourceLine, TraceError, user_line
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Value
from zenith.ir.numerics import HOST_TRAFFIC
from zenith.ir.primitive import Params, Primitive, get
from zenith.ir.types import ArrayType, DType, NDArray, dtype_of
from zenith.trace.plain_lists import Lists
from zenith.trace.raises import Raises
from zenith.trace.size_relations import Relation, SizeRelations
from zenith.trace.value_numbers import ValueNumbers

if TYPE_CHECKING:
    from zenith.trace.tracer import Tracer


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One argument of a trace: its name, element type, sizes, the sizes of this call, and whether it is weak.

    A *weak* input is a Python number: with arrays it takes their element type (NEP 50). An integer that the function
    uses as a size enters as the size ``size``, which is ``number`` in this call.
    """

    name: str
    dtype: DType
    sizes: tuple[Dim, ...]
    hints: tuple[int, ...]
    weak: bool = False
    size: Dim | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class ResidualReport:
    """The residuals that the backward pass of a function saves, and the operations that it recomputes.

    ``values`` are types and ``recomputed`` primitives, both with the lines of the nodes.
    """

    function: str
    values: tuple[tuple[str, SourceLine | None], ...]
    recomputed: tuple[tuple[str, SourceLine | None], ...]


@dataclass(frozen=True, slots=True)
class LoopReport:
    """What a loop of the user's has become: ``kind`` is ``"scan"``, ``"while_loop"`` or ``"unrolled"``, and why."""

    kind: str
    why: str
    line: SourceLine | None


@dataclass(frozen=True, slots=True)
class WideningReport:
    """A function that is computed in float64 where its arrays are ``narrow``, through a scalar of float64.

    The scalar follows from a size where ``of_size``, else from a number.
    """

    function: str
    narrow: str
    of_size: bool
    line: SourceLine | None


@dataclass
class Conditions:
    """What a trace knows of its conditions and of what branches give, for :mod:`zenith.trace.conditions`.

    Attributes
    ----------
    numbers: integers that the loop carries whose body the trace is, and the symbols by which conditions know them.
    implied: of conditions of several parts the answer that says something of sizes, and what it says.
    chosen: of integers that a branch gives its condition, and the formulas of both sides, where it does not hold first.
    flags: of truths that a branch sets its condition, which is false where they are.
    present: of conditions the answer that says that values are not None, and these values.
    """

    numbers: dict[Value, str] = field(default_factory=dict)
    implied: dict[Value, tuple[bool, tuple[Relation, ...]]] = field(default_factory=dict)
    chosen: dict[Value, tuple[Value, tuple[Dim | None, Dim | None]]] = field(default_factory=dict)
    flags: dict[Value, Value] = field(default_factory=dict)
    present: dict[Value, tuple[bool, tuple[object, ...]]] = field(default_factory=dict)


class Recorder(SizeRelations):
    """A trace in progress: appends to ``graph``, answers questions about sizes, records ``guards``.

    ``traffic`` is that of the machine that the program is for (:mod:`zenith.ir.numerics`); ``sized_loops`` says that
    sizes may differ there from turn to turn of a loop.
    """

    def __init__(
        self, name: str, specs: Sequence[InputSpec], traffic: int = HOST_TRAFFIC, sized_loops: bool = False
    ) -> None:
        super().__init__(_hints(specs))
        self.graph, self.traffic, self.sized_loops = Graph(name), traffic, sized_loops
        self.value_numbers = ValueNumbers(self.graph)
        self.residuals: list[ResidualReport] = []  # a record for each derivative in reverse mode
        self.loops: list[LoopReport] = []  # a record for each loop of converted functions
        self.unrolled: list[int] = [0]  # the turns of loops that should have been the program's, in one trace
        self.widenings: list[WideningReport] | None = None  # None for programs that follow other rules than NumPy's
        self.weak = frozenset(spec.name for spec in specs if spec.weak)  # the inputs that are Python numbers
        self.finished = False
        self.writes = 0  # how many have been recorded
        self.at_end: list[Callable[[], None]] = []  # what is checked when all is traced
        self.snapshots: dict[int, Sequence[object]] = {}  # values of names; as long as the trace has them
        self.changes_arguments = False  # whether some of them have changed the caller's arrays
        self.converts = False  # whether control flow of the users' functions becomes the program's
        self.writes_arguments = False  # whether the caller's arrays may change
        self.integers: frozenset[str] = frozenset()  # the inputs that a second trace may take for sizes
        self.conditions = Conditions()
        self.compared: list[tuple[Recorder, Value]] = []  # by conditions: what is no formula
        self.lists: Lists | None = None  # those of converted code that may be stacked; None: not any
        self.raises = Raises()  # the exceptions that values decide
        self.growable: set[Value] = set()  # arrays with space behind the items of a list, as much as a loop needs
        self.token: Value | None = None
        self._constants: dict[int, tuple[NDArray, Value]] = {}

    def add(self, primitive: Primitive, args: Sequence[Value], params: Params) -> tuple[Value, ...]:
        """Append a node with the user's line."""
        line = user_line()
        if primitive.effect:
            before = self.token or self.graph.add(get("token"), (), {}, line)[0]
            self.token, *rest = self.graph.add(primitive, (before, *args), params, line)
            return tuple(rest)
        return self.graph.add(primitive, args, params, line)

    @contextmanager
    def writing_arguments(self) -> Iterator[None]:
        """Within this block the trace may write into its arguments."""
        before, self.writes_arguments = self.writes_arguments, True
        try:
            yield
        finally:
            self.writes_arguments = before

    def constant(self, array: NDArray) -> Value:
        """A concrete array as a node: numbers become literals, arrays are snapshotted, anew when they have changed.

        Elements that an array repeats along an axis of stride 0 are stored once and broadcast.
        """
        dtype = dtype_of(array.dtype)
        assert dtype is not None, f"no element type for {array.dtype}"
        if array.ndim == 0:
            value = array.item() if array.dtype.kind in "biufc" else float(array)
            return self.graph.add(get("literal"), (), {"value": value, "dtype": dtype}, user_line())[0]
        known = self._constants.get(id(array))
        if known is None or self._has_changed(known[1], array):
            known = self._constants[id(array)] = (array, self._stored(array))
        return known[1]

    def _has_changed(self, stored: Value, array: NDArray) -> bool:
        """Whether an array may have been written since its snapshot was taken."""
        node = self.graph.node(stored.node)
        if not array.size or not _may_be_written(array):
            return False
        frozen = self.graph.stored(node) if node.primitive is get("constant") else None
        if frozen is None:
            return True
        return not np.array_equal(frozen.view(np.uint8), np.ascontiguousarray(array).view(np.uint8))

    def _stored(self, array: NDArray) -> Value:
        axes = [axis for axis, stride in enumerate(array.strides) if stride]
        if len(axes) == array.ndim or not array.size:
            return self._store(array)
        once = array[tuple(slice(None) if axis in axes else 0 for axis in range(array.ndim))]
        value = self.constant(np.asarray(once)) if once.ndim == 0 else self._store(once)
        params = {"shape": array.shape, "axes": tuple(axes)}
        return self.graph.add(get("broadcast"), (value,), params, user_line())[0]

    def _store(self, array: NDArray) -> Value:
        return self.graph.add_constant(array, user_line())

    def may_call_python(self) -> bool:
        """Whether operations recorded here will run where Python can be called: not in the body of a loop or branch."""
        return True

    def encloses(self, other: Recorder) -> bool:
        """Whether values of the trace ``other`` can be used in this one."""
        return other is self

    def lift(self, tracer: Tracer) -> Value | None:
        """The value of a tracer in this trace's graph; None for a tracer of another trace."""
        value: Value = tracer.value
        return value if tracer.recorder is self else None

    def resolve(self, tracer: Tracer) -> Tracer:
        """The tracer that stands for an array here; see :class:`zenith.trace.stands.WritingBody`."""
        return tracer

    def share_sizes(self, other: Recorder) -> None:
        """Share all that is known about sizes with ``other``, and its reports."""
        self.share_relations(other)
        self.residuals, self.loops, self.unrolled = other.residuals, other.loops, other.unrolled
        self.widenings, self.compared = other.widenings, other.compared

    def _unified(self, a: Dim, b: Dim) -> bool:
        """Whether two sizes that the program computes are one; from now on they are the same symbol."""
        from zenith.trace.data_dependent import unify

        if not (len(a.terms) == len(b.terms) == 1):
            return False
        found = unify(self, str(a), str(b))
        if found is not None:
            self._replace(*found)
        return found is not None

    def check_end(self) -> None:
        """Check what can be checked only when all is traced."""
        for check in self.at_end:
            check()

    def check_alive(self) -> None:
        """TraceError when the trace has ended, and the function of the value that is used has returned."""
        if self.finished:
            raise TraceError(
                f"a value of the trace of {self.graph.name} was used after the trace had ended",
                where=user_line(),
                fix="return it from the function instead of keeping it in a variable outside",
            )


def _may_be_written(array: NDArray) -> bool:
    """Whether an array can be written, or one that it is a view of."""
    shown: object = array
    while isinstance(shown, np.ndarray):
        if shown.flags.writeable:
            return True
        shown = shown.base
    return False


def _hints(specs: Sequence[InputSpec]) -> dict[str, int]:
    """The value of every symbol that is an input's size."""
    hints: dict[str, int] = {}
    for spec in specs:
        for size, hint in zip(spec.sizes, spec.hints, strict=True):
            if str(size).isidentifier():
                hints.setdefault(str(size), hint)
        if spec.size is not None:
            hints.setdefault(str(spec.size), spec.number)
    return hints


_ACTIVE = threading.local()


def current_recorder() -> Recorder | None:
    """The innermost trace in progress on this thread."""
    stack = getattr(_ACTIVE, "stack", None)
    return stack[-1] if stack else None


def in_message() -> bool:
    """Whether the message of an exception is being made that the program may raise."""
    recorder = current_recorder()
    return recorder is not None and recorder.raises.showing is not None


def mark(value: Tracer, how: str, spec: str = "") -> str | None:
    """What stands for a traced value in the message of an exception that is being made; None elsewhere."""
    recorder = current_recorder()
    return None if recorder is None else recorder.raises.mark(value, how, spec)


@contextmanager
def recording(recorder: Recorder) -> Iterator[Recorder]:
    """Make a recorder the innermost one; when the block ends, its values are dead."""
    try:
        with resumed(recorder):
            yield recorder
    finally:
        recorder.finished = True


@contextmanager
def resumed(recorder: Recorder) -> Iterator[Recorder]:
    """Make a recorder the innermost one for a block, after which its trace may go on."""
    stack: list[Recorder] = _ACTIVE.__dict__.setdefault("stack", [])
    stack.append(recorder)
    try:
        yield recorder
    finally:
        stack.pop()


def input_type(spec: InputSpec) -> ArrayType:
    """The type of the graph's input for a spec."""
    return ArrayType(spec.dtype, spec.sizes)
