"""Lists that loops and branches of the program append to, or whose items they set.

``found = []``, a loop with ``found.append(x)``, then ``np.array(found)``: a list that converted code makes is Python's
until a body that the program runs appends to it, or sets an item (``dp = [0] * n``). From then on its items are
stacked: an array for each leaf of an item, whose first axis grows, and which loops and branches carry like a name's
(:mod:`zenith.convert.bounded`). It answers ``len``, indexing, iteration by a loop and NumPy's functions; for all else
the function is traced again with lists that stay Python's (:class:`~zenith.trace.plain_lists.PlainListsNeeded`), and
then loops that append to them are unrolled.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, SupportsIndex, TypeVar, cast

import numpy as np

from zenith import tree
from zenith.convert.containers import Guarded
from zenith.convert.list_items import ItemForm, Rows, need_plain_lists
from zenith.convert.typing import Function, Integer
from zenith.convert.values import is_plain_sequence
from zenith.errors import TraceError, user_line
from zenith.trace.recorder import Recorder, current_recorder
from zenith.trace.sizes import TracedSize, UserSize, user_size
from zenith.trace.stands import WritingBody
from zenith.trace.tracer import Tracer

T = TypeVar("T")
LIST = "_zenith_list"  # what a list is called among the names that a loop or branch changes


class Stacking(BaseException):
    """A body of the program needs the items of a list stacked, which is one of Python's in the trace around it."""

    def __init__(self, list: GrowingList, form: ItemForm) -> None:
        super().__init__()
        self.list, self.form = list, form


class GrowingList(Guarded, list[object]):
    """A list that converted code has made; ``rows`` are its items where a body of the program has appended to it."""

    __slots__ = ("__weakref__", "aliases", "frozen", "owner", "rows", "views")
    rows: Rows | None
    frozen: bool  # whether it is an item of another list, which has stacked what it holds
    views: list[weakref.ref[ItemList]]  # lists that show what it has stacked
    aliases: list[weakref.ref[GrowingList]]  # lists that hold the same lists, or were stacked in it

    def __init__(self, items: Iterable[object], owner: Recorder) -> None:
        super().__init__(items)
        self.owner, self.rows, self.frozen = owner, None, False
        self.views, self.aliases = [], []

    @property
    def size(self) -> UserSize:
        """The number of items."""
        return super().__len__() if self.rows is None else user_size(self.rows.count, current_recorder() or self.owner)

    def append(self, item: object) -> None:
        """As Python's; in a body of the program the list becomes one of stacked items."""
        self._check_free()
        if self.rows is None and not _in_body_of(self.owner):
            return super().append(item)
        self._take(item)
        form = ItemForm.of(item)
        known = form if self.rows is None else self.rows.form.joined(form)
        if known is None:
            need_plain_lists()
        if self.rows is None or known != self.rows.form:
            self._need(known)
        assert self.rows is not None
        self.rows = self.rows.appended(item)
        return None

    def _need(self, form: ItemForm) -> None:
        """Stack the items, which have this form: in a loop or branch before it, which is traced again."""
        if _in_body_of(self.owner):
            asked = Stacking(self, form)
            if self.owner.lists is not None:
                self.owner.lists.asked = asked
            raise asked
        self.stack(form)

    def _check_free(self) -> None:
        """PlainListsNeeded where the list is an item of another one, and changes."""
        if self.frozen:
            need_plain_lists()

    def _check_settable(self) -> None:
        """PlainListsNeeded where items of the list cannot be replaced."""
        self._check_free()

    def _take(self, item: object) -> None:
        """Note that an item is stacked: lists in it may change here alone."""
        self.aliases += [weakref.ref(inner) for inner in _freeze(item)]

    def stack(self, form: ItemForm) -> None:
        """Stack the items, which have this form; PlainListsNeeded where they do not, or where it has no arrays."""
        if not form.types or any(self.owner.varies(n) for type in form.types for n in type.shape):
            need_plain_lists()
        items = self.held()
        lists = [item for item in items if isinstance(item, GrowingList)]
        if len({*map(id, lists)}) < len(lists):
            need_plain_lists()  # one list several times
        for item in items:
            self._take(item)
            known = form.joined(ItemForm.of(item))
            if known is None:
                need_plain_lists()
            form = known
        self.rows = self._rows(items, form)
        super().clear()
        super().append(_Stacked())

    def _rows(self, items: Sequence[object], form: ItemForm) -> Rows:
        """The items stacked, or those that are, in this form."""
        if self.rows is not None:
            return self.rows.fitted(form)
        numbers = Rows.of_numbers(items, form) if items else None
        rows = numbers or Rows.none(self.owner, form)
        for item in () if numbers else items:
            rows = rows.appended(item)
        return rows

    def extend(self, items: Iterable[object]) -> None:
        """As Python's; in a body of the program item by item."""
        self._check_free()
        if self.rows is None and not _in_body_of(self.owner):
            super().extend(items)
        else:
            for item in items:
                self.append(item)

    def restorer(self) -> Callable[[], None]:
        """What makes the list again what it is now."""
        rows, items = self.rows, self.held()

        def restore() -> None:
            self.rows = rows
            if rows is None:
                super(GrowingList, self).clear()
                super(GrowingList, self).extend(items)

        return restore

    def held(self) -> list[object]:
        """The items, if they are Python's."""
        return list(self) if self.rows is None else []

    def array(self) -> list[object] | Tracer:
        """What ``numpy.array`` takes: the items stacked, or as they are."""
        return list(self) if self.rows is None else self.rows.stacked()

    def __len__(self) -> int:
        return int(self.size)

    def __bool__(self) -> bool:
        return bool(self.size)

    def __iter__(self) -> Iterator[object]:
        """The items; PlainListsNeeded where they are stacked, also while somebody goes over them."""
        k = 0
        while self.rows is None:
            if k >= super().__len__():
                return
            yield super().__getitem__(k)
            k += 1
        need_plain_lists()

    def __getitem__(self, key: Any) -> Any:
        if self.rows is None:
            if not (isinstance(key, Tracer) and not key.ndim and super().__len__()):
                return super().__getitem__(key)
            self._need(ItemForm.of(super().__getitem__(0)))
        assert self.rows is not None
        if isinstance(key, slice):
            return self.copied(self.rows.sliced(key))
        key = _number(key)
        found = self.rows.item(key)
        return ItemList(self, key) if sized_list(found) is not None else _frozen(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        """As Python's; in a body of the program, or at a number of the program's, the list is one of stacked items."""
        self._check_settable()
        of_program = _in_body_of(self.owner) or isinstance(key, Tracer)
        if self.rows is None and not (of_program and (super().__len__() or isinstance(key, slice))):
            return super().__setitem__(key, value)
        if isinstance(key, slice) or _are_alive(self.views):
            need_plain_lists()
        self._take(value)
        form = ItemForm.of(super().__getitem__(0)) if self.rows is None else self.rows.form
        known = form.joined(ItemForm.of(value))
        if known is None:
            need_plain_lists()
        if self.rows is None or known != self.rows.form:
            self._need(known)
        assert self.rows is not None
        self.rows = self.rows.stored(_number(key), value)
        return None

    def copied(self, rows: Rows) -> GrowingList:
        """A list of some of its items, which are the same objects as those in it."""
        made = list_of_rows(rows)
        self._share(made)
        return made

    def _share(self, other: GrowingList) -> None:
        """Note that another list holds items of this one."""
        for one, own in ((self, other), (other, self)):
            one.aliases = [*(known for known in one.aliases if known() is not None), weakref.ref(own)]

    def reorder(self, rows: Rows) -> None:
        """Have the same items in another order; PlainListsNeeded where one of them has a name."""
        if self.frozen or _are_alive(self.views):
            need_plain_lists()
        self.rows = rows

    def __mul__(self, times: Any) -> list[object]:
        """As Python's; a number as many times as a size of the program says is a list of stacked items."""
        if isinstance(times, (Tracer, np.ndarray)) and times.ndim:
            return NotImplemented  # an array multiplies the items
        if self.rows is None and isinstance(times, TracedSize) and super().__len__() == 1:
            rows = Rows.repeated(super().__getitem__(0), times)
            if rows is not None:
                return list_of_rows(rows)
        if self.rows is not None:
            need_plain_lists()
        return list_(super().__mul__(times))

    __rmul__ = __mul__

    def __add__(self, other: object) -> Any:
        """As Python's; of two lists of which the program has stacked one a stacked one."""
        return _joined(self, other)

    def __radd__(self, other: object) -> Any:
        return _joined(other, self)

    def __array_function__(
        self, function: Function, types: object, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        return function(*map(_arrays, args), **{name: _arrays(value) for name, value in kwargs.items()})

    def __array_ufunc__(self, ufunc: object, method: str, *inputs: object, **kwargs: object) -> object:
        return getattr(ufunc, method)(*map(_arrays, inputs), **{n: _arrays(value) for n, value in kwargs.items()})


class ItemList(GrowingList):
    """A list that is an item of another one, whose items are stacked: what changes in it, changes there.

    Its length stays.
    """

    __slots__ = ("parent", "position")

    def __init__(self, parent: GrowingList, position: object) -> None:
        self.parent, self.position = parent, position
        parent.views = [*(view for view in parent.views if view() is not None), weakref.ref(self)]
        super().__init__((_Stacked(),), parent.owner)
        self.frozen = True

    @property
    def rows(self) -> Rows | None:
        """Its items, as they are now."""
        found = None if self.parent.rows is None else sized_list(self.parent.rows.item(self.position))
        if found is None:
            need_plain_lists()
        return found.rows

    @rows.setter
    def rows(self, rows: Rows | None) -> None:
        if rows is not None:
            assert self.parent.rows is not None
            self.parent.rows = self.parent.rows.stored(self.position, list_of_rows(rows))

    def held(self) -> list[object]:
        """None: what it has is the program's."""
        return []

    @property
    def is_in_trace(self) -> bool:
        """Whether its position has a meaning in the current trace."""
        recorder = current_recorder()
        return recorder is not None and (
            not isinstance(self.position, Tracer) or recorder.encloses(self.position.recorder)
        )

    def _need(self, form: ItemForm) -> None:
        """Have the other list stack lists of this form."""
        assert self.rows is not None
        self.parent._need(ItemForm.of(list_of_rows(self.rows.fitted(form))))

    def _check_settable(self) -> None:
        """PlainListsNeeded where other lists hold this one, too, or its items: they would have to change."""
        around: GrowingList = self
        while isinstance(around, ItemList):
            around = around.parent
            if _are_alive(around.aliases):
                need_plain_lists()
        around._check_settable()


def _joined(first: object, second: object) -> Any:
    """``first + second``, one of which is a list of the program's."""
    pair = [part for part in (first, second) if type(part) is list or isinstance(part, GrowingList)]
    if len(pair) < 2:
        return NotImplemented
    made = [part if isinstance(part, GrowingList) else list_(part) for part in pair]
    parts = [part for part in made if isinstance(part, GrowingList)]
    stacked = [part for part in parts if sized_list(part) is not None]
    if not stacked:
        return list_(list.__add__(*pair))
    if len(parts) < len(made):
        need_plain_lists()
    if any(part.owner is not stacked[0].owner for part in stacked):
        need_plain_lists()
    forms = [part.rows.form for part in stacked if part.rows is not None]
    forms += [ItemForm.of(item) for part in parts for item in part.held()]
    form = _common_form(forms)
    if form is None:
        need_plain_lists()
    for part in parts:
        for item in part.held():
            part._take(item)
    before, after = (part._rows(part.held(), form) for part in parts)
    found = list_of_rows(before.followed_by(after))
    for part in stacked:
        part._share(found)
    return found


def _common_form(forms: Sequence[ItemForm]) -> ItemForm | None:
    found: ItemForm | None = forms[0]
    for other in forms[1:]:
        found = None if found is None else found.joined(other)
    return found


def _number(key: object) -> Integer:
    """The number of an item; TypeError for what is none."""
    return key if isinstance(key, (Tracer, TracedSize)) else operator.index(cast(SupportsIndex, key))


def _are_alive(lists: Iterable[weakref.ref[T]]) -> bool:
    return any(known() is not None for known in lists)


class _Stacked:
    """What is in a list of stacked items for code that does not ask it: an object that is of no use."""


def _arrays(values: object) -> object:
    """Nested values with arrays in place of lists that grow."""
    if isinstance(values, GrowingList):
        return values.array()
    if isinstance(values, dict):
        return {key: _arrays(value) for key, value in values.items()}
    return type(values)(map(_arrays, values)) if is_plain_sequence(values) else values


def _of_python(name: str) -> Callable[..., object]:
    plain = getattr(list, name)

    def method(self: GrowingList, *args: object, **kwargs: object) -> object:
        if self.rows is not None:
            need_plain_lists()
        if name in CHANGES:
            self._check_free()
            if _in_body_of(self.owner):
                _refuse()
        return plain(self, *args, **kwargs)

    method.__name__ = name
    return method


def _refuse() -> NoReturn:
    raise TraceError(
        "a loop or branch whose turns the program decides changes a list of Python's, which it cannot",
        where=user_line(), fix="use arrays, or names that the loop assigns, for what changes in it; lists may grow by "
        "append",
    )  # fmt: skip


CHANGES = (
    "insert", "remove", "pop", "clear", "sort", "reverse", "__delitem__", "__iadd__", "__imul__",
)  # fmt: skip
_QUESTIONS = (
    "copy", "count", "index", "__repr__", "__reversed__", "__contains__", "__eq__",
    "__ne__", "__lt__", "__le__", "__gt__", "__ge__",
)  # fmt: skip
for _name in (*CHANGES, *_QUESTIONS):
    setattr(GrowingList, _name, _of_python(_name))


def _freeze(item: object) -> list[GrowingList]:
    """The lists in an item that is stacked, which may change no more; PlainListsNeeded for other things that change."""
    if isinstance(item, ItemList) or not (isinstance(item, (GrowingList, tuple)) or tree.is_leaf(item)):
        need_plain_lists()
    found = []
    if isinstance(item, GrowingList):
        item.frozen = True
        found.append(item)
    inside = item.held() if isinstance(item, GrowingList) else item if isinstance(item, tuple) else ()
    return [*found, *(one for inner in inside for one in _freeze(inner))]


def _frozen(item: object) -> object:
    """An item of stacked ones, in which nothing can change."""
    if isinstance(item, GrowingList):
        item.frozen = True
    elif type(item) is list:
        item = list_(map(_frozen, item))
        _freeze(item)
    elif type(item) is tuple:
        return tuple(map(_frozen, item))
    return item


def _flattened(items: GrowingList) -> tuple[Sequence[object], None]:
    if isinstance(items, ItemList) and not items.is_in_trace:
        return [items.position], None
    if items.rows is not None:
        items.rows.check_known()
    return (list(items) if items.rows is None else [items.rows]), None


def _unflattened(_: None, items: Sequence[object]) -> list[object]:
    """A list of items; of rows, the list of these: Python's where they are arrays of a call."""
    if len(items) != 1 or not isinstance(items[0], Rows):
        return list(items)
    rows = items[0]
    return list_of_rows(rows) if any(isinstance(array, Tracer) for array in rows.arrays) else rows.listed()


tree.register_node(GrowingList, _flattened, _unflattened)


def list_of_rows(rows: Rows) -> GrowingList:
    """The list of stacked items."""
    made = list_((_Stacked(),))
    if not isinstance(made, GrowingList):
        need_plain_lists()
    made.rows = rows
    return made


def _in_body_of(owner: Recorder) -> bool:
    """Whether a loop or branch of a trace, or one inside of that, is being traced."""
    recorder = current_recorder()
    while isinstance(recorder, WritingBody) and recorder is not owner:
        recorder = recorder.parent
    return recorder is owner and current_recorder() is not owner


def list_(items: Iterable[object] = ()) -> list[object]:
    """A list that converted code makes."""
    recorder = current_recorder()
    if recorder is None or recorder.lists is None:
        return list(items)
    made = GrowingList(items, recorder)
    recorder.lists.made.append(weakref.ref(made))
    return made


def extended(value: object, items: object) -> object:
    """``value += items``, where items stand in brackets."""
    if not isinstance(value, GrowingList):
        return operator.iadd(value, items)
    value.extend(cast("list[object]", items))
    return value


def is_known(made: GrowingList) -> bool:
    """Whether the current trace, or one around it, has made a list."""
    recorder = current_recorder()
    return recorder is not None and recorder.encloses(made.owner)


def sized_list(value: object) -> GrowingList | None:
    """A list of stacked items; None for all else."""
    return value if isinstance(value, GrowingList) and value.rows is not None else None


def rows_of_numbers(value: object) -> object:
    """The same, of items that are numbers or arrays; PlainListsNeeded for others."""
    stacked = sized_list(value)
    if stacked is None or stacked.rows is None:
        return value
    if not stacked.rows.form.is_array:
        need_plain_lists()
    return stacked.array()


def stacked_rows(value: object) -> object:
    """The array in place of a list of stacked items; all else as it is."""
    stacked = sized_list(value)
    return value if stacked is None else stacked.array()
