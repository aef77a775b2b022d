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
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex, cast

import numpy as np

from zenith import tree
from zenith.convert.list_items import ItemForm, Rows, need_plain_lists
from zenith.convert.python_list import are_alive, freeze, in_body_of
from zenith.convert.stacked_list import Placeholder, StackedList
from zenith.convert.typing import Integer
from zenith.trace.recorder import current_recorder
from zenith.trace.sizes import TracedSize
from zenith.trace.tracer import Tracer

LIST = "_zenith_list"  # what a list is called among the names that a loop or branch changes


class GrowingList(StackedList):
    """A list that converted code has made, which the program may append to, or set items of."""

    __slots__ = ()

    def append(self, item: object) -> None:
        """As Python's; in a body of the program the list becomes one of stacked items."""
        self.check_free()
        if self.rows is None and not in_body_of(self.owner):
            return super().append(item)
        self.take(item)
        form = ItemForm.of(item)
        known = form if self.rows is None else self.rows.form.joined(form)
        if known is None:
            need_plain_lists()
        if self.rows is None or known != self.rows.form:
            self.need(known)
        assert self.rows is not None
        self.rows = self.rows.appended(item)
        return None

    def _check_settable(self) -> None:
        """PlainListsNeeded where items of the list cannot be replaced."""
        self.check_free()

    def extend(self, items: Iterable[object]) -> None:
        """As Python's; in a body of the program item by item."""
        self.check_free()
        if self.rows is None and not in_body_of(self.owner):
            super().extend(items)
        else:
            for item in items:
                self.append(item)

    def __getitem__(self, key: Any) -> Any:
        if self.rows is None:
            if not (isinstance(key, Tracer) and not key.ndim and super().__len__()):
                return super().__getitem__(key)
            self.need(ItemForm.of(super().__getitem__(0)))
        assert self.rows is not None
        if isinstance(key, slice):
            return self.copied(self.rows.sliced(key))
        key = _number(key)
        found = self.rows.item(key)
        return ItemList(self, key) if sized_list(found) is not None else _frozen(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        """As Python's; in a body of the program, or at a number of the program's, the list is one of stacked items."""
        self._check_settable()
        of_program = in_body_of(self.owner) or isinstance(key, Tracer)
        if self.rows is None and not (of_program and (super().__len__() or isinstance(key, slice))):
            return super().__setitem__(key, value)
        if isinstance(key, slice) or are_alive(self.views):
            need_plain_lists()
        self.take(value)
        form = ItemForm.of(super().__getitem__(0)) if self.rows is None else self.rows.form
        known = form.joined(ItemForm.of(value))
        if known is None:
            need_plain_lists()
        if self.rows is None or known != self.rows.form:
            self.need(known)
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
        if self.frozen or are_alive(self.views):
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


class ItemList(GrowingList):
    """A list that is an item of another one, whose items are stacked: what changes in it, changes there.

    Its length stays.
    """

    __slots__ = ("parent", "position")
    is_item = True

    def __init__(self, parent: GrowingList, position: object) -> None:
        self.parent, self.position = parent, position
        parent.views = [*(view for view in parent.views if view() is not None), weakref.ref(self)]
        super().__init__((Placeholder(),), parent.owner)
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

    def need(self, form: ItemForm) -> None:
        """Have the other list stack lists of this form."""
        assert self.rows is not None
        self.parent.need(ItemForm.of(list_of_rows(self.rows.fitted(form))))

    def _check_settable(self) -> None:
        """PlainListsNeeded where other lists hold this one, too, or its items: they would have to change."""
        around: GrowingList = self
        while isinstance(around, ItemList):
            around = around.parent
            if are_alive(around.aliases):
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
            part.take(item)
    before, after = (part.rows_in(part.held(), form) for part in parts)
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


def _frozen(item: object) -> object:
    """An item of stacked ones, in which nothing can change."""
    if isinstance(item, GrowingList):
        item.frozen = True
    elif type(item) is list:
        item = list_(map(_frozen, item))
        freeze(item)
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
    made = list_((Placeholder(),))
    if not isinstance(made, GrowingList):
        need_plain_lists()
    made.rows = rows
    return made


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
