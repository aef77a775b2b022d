"""Arrays whose sizes differ from turn to turn of a loop, or between the sides of a branch.

They leave a body in arrays of one size, an upper bound of theirs, with their sizes beside them as numbers; where such
an array begins, it is sliced to its size. XLA does so with dynamic shapes that are bounded (PadToStatic and
SliceToDynamic).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from zenith.convert.turn_limits import KnownTurns
from zenith.convert.values import fitted
from zenith.errors import user_line
from zenith.ir.bounds import extremes
from zenith.ir.dims import Dim, dim, maximum, operands_of_minimum
from zenith.ir.graph import Value
from zenith.ir.primitive import get as primitive
from zenith.ir.types import ArrayType
from zenith.numpy.operands import dims_of
from zenith.numpy.typing import Array
from zenith.trace.bind import b
from zenith.trace.data_dependent import data_dependent_size
from zenith.trace.recorder import Recorder, current_recorder
from zenith.trace.size_relations import VaryingSize, prove
from zenith.trace.tracer import Tracer

_RAISES = 1  # of a bound, before a size is taken for one that grows forever
_LARGEST = 1 << 28  # bound of a size: more says no more than nothing, as in ``for k in range(10**9)`` with a break
_UNKNOWN = 1 << 40  # the bound of a size of which nothing is known, to see what becomes of it


@dataclass(frozen=True)
class Carried:
    """How an array leaves a body: its type, whether it is a number of Python's, and which sizes are counted.

    ``counted`` pairs axes and the numbers of counts. With ``space`` it is at the beginning of an array that is as large
    as that along the first axis.
    """

    type: ArrayType  # of size 0 along the axes that are counted
    weak: bool
    counted: tuple[tuple[int, int], ...] = ()
    space: Dim | None = None

    @classmethod
    def of(cls, type: ArrayType, weak: bool, counted: Mapping[int, int], space: Dim | None = None) -> Carried:
        """That of an array of a type."""
        shape = [dim(0) if axis in counted else size for axis, size in enumerate(type.shape)]
        return cls(type.with_shape(shape), weak, tuple(counted.items()), space if 0 in counted else None)

    def stored(self, bounds: Sequence[Dim]) -> ArrayType:
        """The type of the array that it leaves in, with these bounds of the counts."""
        type = self.sized(bounds)
        return type if self.space is None else type.with_shape((self.space, *type.shape[1:]))

    def sized(self, sizes: Sequence[Dim]) -> ArrayType:
        """The type with these sizes in the places of the counts."""
        shape = list(self.type.shape)
        for axis, count in self.counted:
            shape[axis] = sizes[count]
        return self.type.with_shape(shape)


@dataclass
class Count:
    """A size of an array ``name`` that a loop carries as a number: ``start`` before it, ``bound`` at most.

    ``growth`` is what a turn adds to it at most, where that and the number of turns bound it; ``step`` what each turn
    adds: such a size is no number that is carried, but a formula of the turn.
    """

    name: str
    start: Dim
    bound: Dim
    growth: Dim | None = None
    step: Dim | None = None
    varies: bool = False  # what a turn adds
    raises: int = 0
    at: Dim | None = None  # what it is in the turn that is traced
    end: Dim | None = None  # and at the end of that turn

    def settle(self, recorder: Recorder, known: KnownTurns) -> bool:
        """Whether the bound holds for what a turn, as traced, makes of the size; else it is raised, if it can be.

        Raises VaryingSize for a size without a bound.
        """
        if self.end is None:
            return True
        own = own_sizes(recorder)
        own |= {name: most for name, most in known.most.items() if name in own}
        if known.exact is not None and not self.varies:
            if self._find_step(own, known.exact):
                return self.at == self.start + (self.step or 0) * recorder.index()
            again, self.step, self.varies = self.step is not None, None, True
            if again:
                return False
        if self.bound == _UNKNOWN:
            self._limit(own, known)
            return False
        most, step = extremes(self.end, own)[1], self._step(own)
        larger = larger_of(recorder, self.bound, most)
        if larger == self.bound or (step is not None and self.growth and prove(self.growth, ">=", step)):
            return True
        if self.growth is not None or self.raises > _RAISES:
            self._refuse()
        if step is not None and known.at_most is not None:
            self.growth, self.bound = step, self.start + step * known.at_most
            if recorder.hint(self.bound) > _LARGEST:
                self._refuse()
        else:
            self.bound, self.raises = larger if self.raises < _RAISES else dim(_UNKNOWN), self.raises + 1
        return False

    def _limit(self, own: Mapping[str, Dim], known: KnownTurns) -> None:
        """Find what a turn makes of a size that may be any, at most: by the loop's condition, or by a minimum."""
        assert self.end is not None
        at = str(self.at)
        bounds = (known.most[at],) if at in known.most else (dim(_UNKNOWN), dim(2 * _UNKNOWN))
        found = [extremes(self.end, {**own, at: bound})[1] for bound in bounds]
        same = [{most, *operands_of_minimum(most)} for most in found]
        limits = sorted(set.intersection(*same), key=str)
        if not limits:
            self._refuse()
        self.bound = maximum(self.start, limits[0])

    def _refuse(self) -> NoReturn:
        raise VaryingSize(
            f"the size of {self.name} grows from turn to turn of a loop, and nothing says how far", where=user_line(),
            fix=f"make {self.name} as large as it can be before the loop, and count its elements",
        )  # fmt: skip

    def _find_step(self, own: Mapping[str, Dim], turns: Dim) -> bool:
        """Whether each turn adds the same to the size."""
        assert self.end is not None
        step = self.end - (self.start if self.at is None else self.at)
        if step.symbols() & own.keys() or not prove(step, ">=", dim(1)) or self.step not in (None, step):
            return False
        self.step, self.bound = step, self.start + step * turns
        return True

    def _step(self, own: Mapping[str, Dim]) -> Dim | None:
        """What a turn adds to the size at most; None where that depends on the size, or nothing is known of it yet."""
        if self.at is None or self.end is None:
            return None
        rest = {name: most for name, most in own.items() if name not in self.at.symbols()}
        step = extremes(self.end, rest)[1] - self.at
        return None if step.symbols() & self.at.symbols() else maximum(extremes(step, own)[1], 0)


class Counts:
    """The counts of a loop, and of a turn that is traced."""

    def __init__(self) -> None:
        self.all: list[Count] = []

    @property
    def bounds(self) -> list[Dim]:
        """The bound of each."""
        return [count.bound for count in self.all]

    @property
    def carried(self) -> list[Count]:
        """Those that are numbers which the loop carries."""
        return [count for count in self.all if count.step is None]

    def sizes(self, recorder: Recorder, values: Sequence[Value], turn: Dim | None) -> list[Dim]:
        """The sizes in a trace that has the carried numbers as ``values``, before a turn: a size, if it is needed."""
        given = iter(values)

        def size(count: Count) -> Dim:
            if count.step is None:
                return counted_size(recorder, next(given), count.bound)
            assert turn is not None, "a loop that counts its turns"
            return count.start + count.step * turn

        return list(map(size, self.all))

    def begin(self, sizes: Sequence[Dim]) -> None:
        """A turn is traced, in which they are these sizes."""
        for count, size in zip(self.all, sizes, strict=True):
            count.at, count.end = size, None

    def number(self, name: str, start: Dim, end: Dim) -> int:
        """The count of a size of ``name``, before the loop and at the end of the turn, which arrays may share."""
        for number, count in enumerate(self.all):
            if count.start == start and count.end in (None, end):
                count.end = end
                return number
        self.all.append(Count(name, start, start, end=end))
        return len(self.all) - 1

    def met(
        self, recorder: Recorder, name: str, form: Carried, given: ArrayType, after: ArrayType, every: bool
    ) -> dict[int, int] | None:
        """The counted axes of an array of ``name`` that begins a turn with one type, and ends it with another.

        None where the two do not fit together: sizes that are known may differ only where ``every`` one is counted.
        """
        if given.rank != after.rank:
            return None
        counted = dict(form.counted)
        for axis, sizes in enumerate(zip(given.shape, after.shape, strict=True)):
            start, end = map(recorder.canonical, sizes)
            if axis in counted:
                counted[axis] = self.number(name, self.all[counted[axis]].start, end)
            elif differ(recorder, start, end):
                if not (every or recorder.varies(start - end)):
                    return None
                counted[axis] = self.number(name, start, end)
        return counted

    def first_made(self, recorder: Recorder, name: str, type: ArrayType) -> dict[int, int]:
        """The counted axes of an array that nothing has set before a turn made it: their sizes begin with 0."""
        own, sizes = own_sizes(recorder), enumerate(map(recorder.canonical, type.shape))
        return {axis: self.number(name, dim(0), size) for axis, size in sizes if size.symbols() & own.keys()}


def own_sizes(recorder: Recorder) -> dict[str, Dim]:
    """The sizes that are known in a trace only, and not in the one around it, with their bounds."""
    counter = recorder.counter
    found = {} if counter is None or not counter.index else {counter.index: counter.last}
    found |= {size.index: size.most for size in recorder.data_dependent_sizes}
    return {name: recorder.canonical(most) for name, most in found.items()}


def larger_of(recorder: Recorder, one: Dim, other: Dim) -> Dim:
    """The larger of two sizes, or a bound of both."""
    for larger, smaller in ((one, other), (other, one)):
        if prove(larger, ">=", smaller) or prove(larger, ">=", recorder.extremes(smaller)[1]):
            return larger
    return maximum(one, other)


def differ(recorder: Recorder, one: Dim, other: Dim) -> bool:
    """Whether two sizes are not the same in every turn and for all values."""
    if not recorder.varies(one - other):
        return recorder.hint(one) != recorder.hint(other) or not recorder.holds(one, "==", other)
    try:
        return not recorder.holds(one, "==", other, unify=False)
    except VaryingSize:
        return True


def counted_size(recorder: Recorder, count: Value, bound: Dim) -> Dim:
    """The size that a number is, from 0 to a bound."""
    return data_dependent_size(recorder, count, bound, {"count": count})


def padded(array: Array, type: ArrayType) -> Array:
    """An array, with the element type of another type, at the beginning of one of that type: as large or larger."""
    found, shape = fitted(array, type), dims_of(array)
    if shape == type.shape:
        return found
    whole = whole_of(found) if isinstance(found, Tracer) else None
    if whole is not None and whole.type == type:
        return whole
    recorder = current_recorder()
    assert recorder is not None
    space = Tracer(recorder, recorder.add(primitive("empty"), (), {"dtype": type.dtype, "shape": type.shape})[0])
    if any(size == 0 for size in shape):
        return space
    return b.update_slice(space, found, start=(dim(0),) * len(shape), stop=shape, step=(1,) * len(shape))


def whole_of(array: Tracer) -> Tracer | None:
    """The array at whose beginning another one is; None for one that is no prefix."""
    recorder, number = array.recorder, array.value.node
    if recorder.graph.node(number).primitive.name != "prefix":
        return None
    return Tracer(recorder, recorder.graph.args(number)[0])


def common_space(arrays: Sequence[object]) -> Dim | None:
    """The size of the arrays, with space for items of a list, at whose beginnings others are; None for others."""
    wholes = [whole_of(array) if isinstance(array, Tracer) else None for array in arrays]
    sizes = {whole.type.shape[0] if whole is not None and is_growable(whole) else None for whole in wholes}
    return next(iter(sizes)) if len(sizes) == 1 else None


def is_growable(whole: Tracer) -> bool:
    """Whether an array has space behind the items of a list, as much as the loop around needs."""
    return whole.value in whole.recorder.growable


def sliced(array: Tracer, type: ArrayType) -> Tracer:
    """The array of a type that is at the beginning of another one, in memory of its own."""
    if dims_of(array) == type.shape:
        return array
    rank = type.rank
    if dims_of(array)[1:] == type.shape[1:]:
        return b.prefix(array, size=type.shape[0]).renewed()
    return b.slice(array, start=(dim(0),) * rank, stop=type.shape, step=(1,) * rank).renewed()


def taken(array: Tracer, carried: Carried, sizes: Sequence[Dim]) -> Tracer:
    """An array that is carried, of the one that it left a body in."""
    if carried.space is not None:
        array.recorder.growable.add(array.value)
    return sliced(array, carried.sized(sizes))
