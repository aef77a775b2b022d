"""Memory of traced arrays: which of them share it, and what writing into one means for the others.

A graph has values and no writes. So a traced array is a variable whose value is one of the graph: a write records the
operation that computes the new value, and assigns it to the variable. What NumPy calls a view is a chain of *links* to
the array that owns the memory. Reading a view after a write reads through the links a second time, and a write goes
back along them, each giving the base with the view's elements replaced.

Whether ``reshape`` gives a view is a matter of strides in NumPy. Arrays are taken to have the strides that they have in
NumPy for row-major arguments; where even that leaves it open, a write to one of the two makes the other one unusable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from zenith.errors import SourceLine, TraceError, user_line
from zenith.ir.dims import Dim, dim
from zenith.ir.graph import Value
from zenith.ir.lowering import Scalar
from zenith.ir.primitive import Params, get
from zenith.ir.types import ArrayType, NDArray, int64

if TYPE_CHECKING:
    from zenith.trace.recorder import Recorder
    from zenith.trace.tracer import Tracer

# Who may write into a memory. A number is what NumPy gives as a scalar, which no operator changes in place; outside is
# the memory of a trace around this one, seen through a view; kept is an argument whose caller would not see the write.
# Listed is an item of a list that the program has stacked.
OWN, NUMBER, ARGUMENT, READ_ONLY, OUTSIDE, KEPT = "own", "number", "argument", "read-only", "outside", "kept"
LISTED = "listed"

# How NumPy would lay out the elements: row by row without gaps; in strides that fall from axis to axis; unknown.
DENSE, ORDERED, OPEN = "dense", "ordered", "open"


# What may have made two names one array, in place of a function of NumPy's.
LOOP, BRANCH = "a loop", "a branch"

OWN_COPY = (
    "make a new array, x = x * 2 in place of x *= 2, or write into a copy, x = x.copy(), and return it; with "
    "donate_argnums the copy takes the argument's memory"
)


class Memory:
    """A memory: its current value, the number of writes so far, and who may write.

    ``aliases`` are memories that may be the same one, and the functions that leave it open; ``clobbered`` is such a
    function and the line of a write into such a memory. ``in_rows`` says that a view is one only of elements that are
    row by row without gaps.
    """

    __slots__ = ("access", "aliases", "clobbered", "in_rows", "name", "value", "version")

    def __init__(self, value: Value, access: str, name: str = "") -> None:
        self.value, self.access, self.name = value, access, name
        self.version, self.in_rows = 0, False
        self.aliases: list[tuple[Memory, str]] = []
        self.clobbered: tuple[str, SourceLine | None] | None = None

    def add_alias(self, other: Memory, function: str) -> None:
        """Note that NumPy's ``function`` might have given a view of the other memory."""
        self.aliases.append((other, function))
        other.aliases.append((self, function))

    def related(self) -> dict[Memory, str]:
        """All memories that may be this one, and the functions that leave it open."""
        found, pending = {self: ""}, [self]
        for memory in pending:
            for other, function in memory.aliases:
                if other not in found:
                    found[other] = function
                    pending.append(other)
        return found


@dataclass(frozen=True, slots=True)
class Link:
    """How a view is read: a primitive of the array that it shows, its other operands, and its parameters."""

    primitive: str
    rest: tuple[Value, ...]
    params: Params

    def read(self, recorder: Recorder, base: Value) -> Value:
        """The view of a base."""
        return recorder.add(get(self.primitive), (base, *self.rest), self.params)[0]

    def write(self, recorder: Recorder, base: Value, view: Value) -> Value:
        """The base, with its elements in the view replaced."""
        return _WRITERS[self.primitive](recorder, self, base, view)

    def equals(self, other: Link, recorder: Recorder) -> bool:
        """Whether both show the same: indices that a program computes twice by the same operations are equal."""
        mine, theirs = (_canonical(recorder, link.params) for link in (self, other))
        if (self.primitive, mine) != (other.primitive, theirs):
            return False
        return all(same_value(recorder, a, b) for a, b in zip(self.rest, other.rest, strict=True))


def _canonical(recorder: Recorder, params: Params) -> dict[str, object]:
    """Parameters in the sizes that are known to be equal by now."""

    def known(param: object) -> object:
        if isinstance(param, tuple):
            return tuple(map(known, param))
        return recorder.canonical(param) if isinstance(param, Dim) else param

    return {name: known(param) for name, param in params.items()}


def same_value(recorder: Recorder, a: Value, b: Value) -> bool:
    """Whether two values are one, or computed in the same way from the same ones, given the sizes known to be equal."""
    return recorder.value_numbers.are_equal(a, b, recorder.equal)


def _add(recorder: Recorder, name: str, *args: Value, **params: object) -> Value:
    return recorder.add(get(name), args, params)[0]


def _write_slice(recorder: Recorder, link: Link, base: Value, view: Value) -> Value:
    return _add(recorder, "update_slice", base, view, **link.params)


def _write_reverse(recorder: Recorder, link: Link, base: Value, view: Value) -> Value:
    return _add(recorder, "reverse", view, **link.params)


def _write_transpose(recorder: Recorder, link: Link, base: Value, view: Value) -> Value:
    axes = link.params["axes"]
    return _add(recorder, "transpose", view, axes=tuple(sorted(range(len(axes)), key=axes.__getitem__)))


def _write_reshape(recorder: Recorder, link: Link, base: Value, view: Value) -> Value:
    return _add(recorder, "reshape", view, shape=base.shape)


def _write_take(recorder: Recorder, link: Link, base: Value, view: Value) -> Value:
    """The slice at one index of an axis, for all indices of the axes in front of it."""
    axis, lead = link.params["axis"], base.shape[: link.params["axis"]]
    indices = [
        _add(recorder, "broadcast", _add(recorder, "iota", size=n, dtype=int64), shape=lead, axes=(a,))
        for a, n in enumerate(lead)
    ]
    (index,) = link.rest
    index = _add(recorder, "broadcast", index, shape=lead, axes=()) if axis else index
    return _add(recorder, "scatter_set", base, view, *indices, index)


def _write_gather(recorder: Recorder, link: Link, base: Value, view: Value) -> Value:
    return _add(recorder, "scatter_set", base, view, *link.rest)


def _write_dynamic_slice(recorder: Recorder, link: Link, base: Value, view: Value) -> Value:
    return _add(recorder, "dynamic_update_slice", base, view, *link.rest, batch=0)


def _write_real(recorder: Recorder, link: Link, base: Value, view: Value) -> Value:
    return _add(recorder, "complex", view, _add(recorder, "imag", base))


def _write_imag(recorder: Recorder, link: Link, base: Value, view: Value) -> Value:
    return _add(recorder, "complex", _add(recorder, "real", base), view)


_WRITERS: dict[str, Callable[[Recorder, Link, Value, Value], Value]] = {
    "slice": _write_slice, "reverse": _write_reverse, "transpose": _write_transpose, "reshape": _write_reshape,
    "take": _write_take, "gather": _write_gather, "dynamic_slice": _write_dynamic_slice,
    "real": _write_real, "imag": _write_imag,
}  # fmt: skip
VIEWS = (*_WRITERS, "broadcast")


# --- results that are views of an operation's first operand --------------------------------------------------------


def link_of(primitive: str, source: Tracer, values: Sequence[Value], params: Params) -> Link | None:
    """The link by which NumPy's result of an operation shows its operand's memory; None for a new array."""
    if primitive not in VIEWS or source.memory.access == NUMBER:
        return None
    if primitive == "reshape" and _without_ones(source.value.shape) != _without_ones(map(dim, params["shape"])):
        if source.layout != DENSE:
            return None
        source.memory.in_rows |= source.ndim > 1
    if primitive in ("take", "gather") and any(index.shape for index in values[1:]):
        return None
    return Link(primitive, tuple(values[1:]), dict(params))


def _without_ones(shape: Iterable[Dim]) -> list[Dim]:
    return [n for n in shape if n != 1]


def layout_of(primitive: str, args: Sequence[Tracer | NDArray], params: Params, rank: int) -> str:
    """How NumPy would lay out the result of an operation."""
    layouts = [_layout(a) for a in args]
    source = layouts[0] if layouts else DENSE
    if primitive in ("reverse", "transpose"):
        return OPEN
    if primitive in ("real", "imag"):
        return OPEN if source == OPEN else ORDERED  # the other parts are between these
    if primitive == "broadcast":
        return source if source == OPEN else ORDERED if args[0].ndim else DENSE
    if primitive == "slice":
        return OPEN if source == OPEN else DENSE if source == DENSE and _leading(args[0], params) else ORDERED
    if primitive == "reshape":
        return source
    if primitive in ("take", "gather") and len(args) - 1 == args[0].ndim:  # elements in the order of the indices
        return DENSE if set(layouts[1:]) == {DENSE} else OPEN
    elementwise = isinstance(get(primitive).lowering, Scalar) or primitive in ("iota", "literal", "wrapped")
    return DENSE if rank <= 1 or (elementwise and OPEN not in layouts) else OPEN


def _layout(array: Tracer | NDArray) -> str:
    layout: str | None = getattr(array, "layout", None)
    if layout is not None:
        return layout
    steps = [s for s, n in zip(array.strides, array.shape, strict=True) if n > 1 and s]
    falling = all(s > 0 for s in steps) and steps == sorted(steps, reverse=True)
    return DENSE if array.flags.c_contiguous else ORDERED if falling else OPEN


def _leading(x: Any, params: Params) -> bool:
    """Whether a slice has step 1 along the first axis, and is whole along the others."""
    bounds = list(zip(params["start"], params["stop"], params["step"], x.type.shape, strict=True))
    return all(s == 1 for _, _, s, _ in bounds) and all(a == 0 and b == n for a, b, _, n in bounds[1:])


# --- writing -------------------------------------------------------------------------------------------------------


def write(target: Tracer, value: Value) -> None:
    """Assign another value to an array, and so its elements to all arrays that share its memory.

    Raises TraceError where that is not the program's to write; see :func:`check_writable`.
    """
    target = check_writable(target)
    memory, array, updated = target.memory, target, value
    while array.source is not None and array.link is not None:
        updated = array.link.write(array.recorder, array.source.value, updated)
        array = array.source
    memory.value = updated
    memory.version += 1
    target.recorder.writes += 1
    target.recorder.changes_arguments |= memory.access == ARGUMENT
    target.set_value(value)
    for other, function in memory.related().items():
        if other is not memory:
            other.clobbered = other.clobbered or (function, user_line())


def check_writable(target: Tracer) -> Tracer:
    """The tracer that stands for an array in the current trace.

    TraceError when NumPy would refuse to write, or would change memory that the traced function does not own.
    """
    from zenith.trace.recorder import current_recorder

    current = current_recorder()
    target = target if current is None else current.resolve(target)
    memory = target.memory
    outer = current is not None and target.recorder is not current and not target.recorder.finished
    if current is not None and (outer or any(m.access == OUTSIDE for m in memory.related())):
        shown = "an array" if outer else "what is (or may be) a view of an array"
        _refuse(
            target, f"writing into {shown} that was made outside of {current.graph.name}, which is traced on its own",
            "pass it as an argument (a carried value of a loop), copy it there, x = x.copy(), and return the copy",
        )  # fmt: skip
    for alias in memory.related():
        writes = alias is memory and current is not None and current.writes_arguments
        if alias.access == KEPT or (alias.access == ARGUMENT and not writes):
            shows = "is a view of" if alias is memory else "may be a view of"
            how = "is" if alias is memory and target.source is None else shows
            name = f"the argument {alias.name}" if alias.name else "an argument"
            _refuse(target, f"writing into an array that {how} {name}, which is the caller's", OWN_COPY)
    if memory.access == NUMBER:
        what = "writing into a number: what NumPy gives without axes is no array"
        _refuse(target, what, "make an array of it first, numpy.array(x), or compute a new number")
    if memory.access == LISTED and current is not None and current.lists is not None:
        current.lists.refuse()
    if memory.access in (READ_ONLY, LISTED) or not _writes_through(target):
        _refuse(target, "writing into a view that is read-only, as in NumPy", "copy it first: x = x.copy()")
    return target


def _refuse(target: Tracer, what: str, fix: str) -> NoReturn:
    raise TraceError(what, where=user_line(), types=(target.type,), fix=fix)


def _writes_through(array: Tracer) -> bool:
    """Whether each element of a view is a different one of its base: not so in broadcasts."""
    while array.source is not None and array.link is not None:
        if array.link.primitive not in _WRITERS:
            return False
        array = array.source
    return True


def raise_clobbered(memory: Memory, type: ArrayType) -> NoReturn:
    """Raise the TraceError for an array that a write has left open."""
    assert memory.clobbered is not None
    function, line = memory.clobbered
    where = "a write" if line is None else f"the write at {line.describe()}"
    if function in (LOOP, BRANCH):
        raise TraceError(
            f"whether this array was changed is left open: {where} went into another name, to which {function} may "
            "have given the same array", where=user_line(), types=(type,),
            fix="copy one of them: y = x.copy()",
        )  # fmt: skip
    if not function:
        raise TraceError(
            f"what this array holds is left open: {where} went into it under a name that the loop gives to other "
            "arrays, too", where=user_line(), types=(type,), fix="read the array by the loop's name, or copy it first",
        )  # fmt: skip
    raise TraceError(
        f"whether this array was changed is left open: {where} went into one of two arrays of which NumPy's "
        f"{function} may have made one as a view or as a copy of the other", where=user_line(), types=(type,),
        fix=f"say which one you mean: copy after the {function}, x.copy(), or write first",
    )  # fmt: skip
