"""The items of lists that the program appends to, stacked: an array for each leaf of an item."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn, cast

import numpy as np

import zenith.numpy as znp
from zenith import tree
from zenith.convert.bounded import is_growable, whole_of
from zenith.convert.values import Opened, fitted, open_value, zeros
from zenith.errors import TraceError, user_line
from zenith.ir.dims import Dim, dim
from zenith.ir.types import ArrayType, NDArray, float64, int64
from zenith.numpy.operands import dims_of
from zenith.numpy.typing import Array
from zenith.trace.bind import b, graph_value
from zenith.trace.memory import LISTED, LOOP, NUMBER
from zenith.trace.plain_lists import PlainListsNeeded
from zenith.trace.recorder import Recorder, current_recorder
from zenith.trace.sizes import UserSize
from zenith.trace.tracer import Tracer


def need_plain_lists() -> NoReturn:
    """Have the function traced anew with lists of Python's."""
    recorder = current_recorder()
    if recorder is not None and recorder.lists is not None:
        recorder.lists.refuse()
    raise PlainListsNeeded()


@dataclass(frozen=True)
class ItemForm:
    """What all items of a list are: their structure, what in it is no array, and the arrays' types."""

    treedef: tree.TreeDef
    rest: tuple[object, ...]
    types: tuple[ArrayType, ...]
    weak: tuple[bool, ...]

    @classmethod
    def of(cls, item: object) -> ItemForm:
        """That of an item."""
        opened = _open(item)
        return cls(opened.treedef, opened.rest, opened.types, opened.weak)

    @property
    def is_array(self) -> bool:
        """Whether an item is an array or number, and nothing around it."""
        return self.treedef == tree.flatten((0,))[1]

    def joined(self, other: ItemForm) -> ItemForm | None:
        """The form of items of both forms; None where there is none.

        Python's floats and integers are NumPy's of 64 bits beside such ones, and its integers floats beside floats.
        """
        if (self.treedef, self.rest, len(self.types)) != (other.treedef, other.rest, len(other.types)):
            return None
        found = list(map(_met, self.types, self.weak, other.types, other.weak))
        known = [type for type in found if type is not None]
        if len(known) < len(found):
            return None
        weak = tuple(one and own for one, own in zip(self.weak, other.weak, strict=True))
        return ItemForm(self.treedef, self.rest, tuple(known), weak)

    def closed(self, leaves: Iterable[object]) -> object:
        """An item of these arrays."""
        opened = Opened([], [], self.types, self.weak, self.treedef, self.rest)
        (item,) = cast("tuple[object]", opened.closed(leaves))
        return item


def _met(one: ArrayType, weak: bool, other: ArrayType, other_weak: bool) -> ArrayType | None:
    """The type of what are numbers or arrays of two types, ``weak`` ones Python's; None where there is none."""
    if (weak, one.dtype, other.dtype) == (True, int64, float64):
        one = other
    elif (other_weak, one.dtype, other.dtype) == (True, float64, int64):
        other = one
    if not _alike(one, other) or (weak != other_weak and one.dtype not in (float64, int64)):
        return None
    return one


def _alike(one: ArrayType, other: ArrayType) -> bool:
    """Whether two types are one, or are taken for one where their sizes are equal in this call."""
    recorder = current_recorder()
    if one.dtype != other.dtype or one.rank != other.rank or recorder is None:
        return False
    pairs = [(n, m) for n, m in zip(one.shape, other.shape, strict=True) if n != m]
    if any(recorder.varies(n - m) or recorder.hint(n) != recorder.hint(m) for n, m in pairs):
        return False
    return all(recorder.holds(n, "==", m) for n, m in pairs)


def _open(item: object) -> Opened:
    """An item opened, also one that is a list of the program's."""
    return open_value("append", (item,))


@dataclass(frozen=True)
class Rows:
    """The items of a list. After a call the arrays are NumPy's."""

    arrays: tuple[Tracer, ...]
    form: ItemForm

    def __repr__(self) -> str:
        return f"a list stacked as {', '.join(map(str, self.arrays))}"

    @classmethod
    def of_numbers(cls, numbers: Sequence[object], form: ItemForm) -> Rows | None:
        """Numbers of Python's; None for other items."""
        if not form.is_array or not all(isinstance(number, (bool, int, float)) for number in numbers):
            return None
        return cls((cast(Tracer, znp.array(np.array(numbers, form.types[0].dtype.numpy))),), form)

    @classmethod
    def repeated(cls, number: object, times: UserSize) -> Rows | None:
        """A number, several times; None for other items."""
        form = ItemForm.of(number)
        if not form.is_array or form.types[0].rank:
            return None
        return cls((cast(Tracer, znp.full((times,), number, form.types[0].dtype.numpy)),), form)

    @classmethod
    def none(cls, recorder: Recorder, form: ItemForm) -> Rows:
        """No items of a form."""
        empty = (zeros(type.with_shape((dim(0), *type.shape))) for type in form.types)
        return cls(tuple(Tracer(recorder, graph_value(recorder, array)) for array in empty), form)

    @property
    def count(self) -> Dim:
        """The number of items."""
        return dims_of(self.arrays[0])[0]

    def appended(self, item: object) -> Rows:
        """With one item more."""
        self.check_known()
        opened = _open(item)
        rows = zip(self.arrays, opened.arrays, opened.leaves, self.form.types, strict=True)
        return Rows(tuple(_appended(array, fitted(new, type), leaf) for array, new, leaf, type in rows), self.form)

    def followed_by(self, other: Rows) -> Rows:
        """With the items of another list, which have the same form, after its own."""
        self.check_known()
        other.check_known()
        found = []
        for one, own in zip(self.arrays, other.arrays, strict=True):
            found.append(b.concat(one, own, axis=0).renewed())
            show(found[-1], one)
            show(found[-1], own)
        return Rows(tuple(found), self.form)

    def fitted(self, form: ItemForm) -> Rows:
        """In another form that joins this one."""
        pairs = zip(self.arrays, form.types, strict=True)
        return Rows(tuple(a if a.type.dtype == t.dtype else cast(Tracer, fitted(a, t)) for a, t in pairs), form)

    def stored(self, index: object, item: object) -> Rows:
        """With another item at an index."""
        self.check_known()
        arrays, opened = tuple(array.renewed() for array in self.arrays), _open(item)
        for array, new, leaf, type in zip(arrays, opened.arrays, opened.leaves, self.form.types, strict=True):
            array[index] = fitted(new, type)
            show(array, leaf)
        return Rows(arrays, self.form)

    def item(self, index: object) -> object:
        """An item, whose arrays cannot be written."""
        self.check_known()
        found = [array[index] for array in self.arrays]
        for array, weak in zip(found, self.form.weak, strict=True):
            array.weak = weak
        own = [array.renewed() for array in found]
        for array in own:
            if array.memory.access != NUMBER:
                array.memory.access = LISTED
        return self.form.closed(own)

    def sliced(self, key: slice) -> Rows:
        """The items of a slice."""
        self.check_known()
        return Rows(tuple(array[key] for array in self.arrays), self.form)

    def taken(self, order: object) -> Rows:
        """The items of some numbers, in their order."""
        self.check_known()
        return Rows(tuple(array[order].renewed() for array in self.arrays), self.form)

    def stacked(self) -> Tracer:
        """What ``numpy.array`` makes of the list."""
        self.check_known()
        return _stacked(self.form.closed(self.arrays)).renewed()

    def listed(self) -> list[object]:
        """The items after a call; numbers of Python's are Python's again."""
        if any(isinstance(array, tree.Leaf) for array in self.arrays):
            raise TraceError("a program that returns a list which a loop has made cannot be saved", where=user_line(),
                             fix="return an array, numpy.array(items)")  # fmt: skip
        arrays = cast("tuple[NDArray, ...]", self.arrays)
        columns = [a.tolist() if weak else list(a) for a, weak in zip(arrays, self.form.weak, strict=True)]
        return [self.form.closed(leaves) for leaves in zip(*columns, strict=True)]

    def check_known(self) -> None:
        """PlainListsNeeded where a write has left open what the items are: Python knows."""
        if any(array.memory.clobbered is not None for array in self.arrays):
            need_plain_lists()


tree.register_node(Rows, lambda rows: (rows.arrays, rows.form), lambda form, arrays: Rows(tuple(arrays), form))


def _stacked(nested: object, depth: int = 1) -> Tracer:
    """The array of nested sequences of arrays, whose first ``depth`` axes are those of lists around."""
    inner = getattr(nested, "rows", None)
    if isinstance(inner, Rows):
        return _stacked(inner.form.closed(inner.arrays), depth + 1)
    if isinstance(nested, (tuple, list)):
        return cast(Tracer, np.stack([_stacked(part, depth) for part in nested], axis=depth))
    if not isinstance(nested, Tracer):
        need_plain_lists()
    return nested


def _appended(array: Tracer, item: Array, source: object) -> Tracer:
    """An array with one row more: in the memory of the array at whose beginning it is, if that has space for it."""
    count, *sizes = dims_of(array)
    row = b.reshape(item, shape=(dim(1), *sizes))
    whole = whole_of(array)
    if whole is None or not is_growable(whole):
        found: Tracer = b.concat(array, row, axis=0).renewed()
    else:
        start, stop = (count, *[dim(0)] * len(sizes)), (count + 1, *sizes)
        space = b.update_slice(whole, row, start=start, stop=stop, step=(1,) * len(stop))
        space.recorder.growable.add(space.value)
        found = b.prefix(space, size=count + 1).renewed()
    show(found, source)
    return found


def show(rows: Tracer, source: object) -> None:
    """Note that a list, of whose items these are, shows an array that it has been given."""
    if isinstance(source, Tracer) and source.memory.access != NUMBER:
        rows.may_show(rows.recorder.resolve(source), LOOP)
