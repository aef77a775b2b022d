"""How the items of a list become stacked: at once, or, in a loop or branch, in front of it, which is traced again."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

from zenith.convert.list_items import ItemForm, Rows, need_plain_lists
from zenith.convert.python_list import PythonList, freeze, in_body_of


class Stacking(BaseException):
    """A body of the program needs the items of a list stacked, which is one of Python's in the trace around it."""

    def __init__(self, list: StackedList, form: ItemForm) -> None:
        super().__init__()
        self.list, self.form = list, form


class StackedList(PythonList):
    """A list whose items can be stacked."""

    __slots__ = ()

    def need(self, form: ItemForm) -> None:
        """Stack the items, which have this form: in a loop or branch before it, which is traced again."""
        if in_body_of(self.owner):
            asked = Stacking(self, form)
            if self.owner.lists is not None:
                self.owner.lists.asked = asked
            raise asked
        self.stack(form)

    def take(self, item: object) -> None:
        """Note that an item is stacked: lists in it may change here alone."""
        self.aliases += [weakref.ref(inner) for inner in freeze(item)]

    def stack(self, form: ItemForm) -> None:
        """Stack the items, which have this form; PlainListsNeeded where they do not, or where it has no arrays."""
        if not form.types or any(self.owner.varies(n) for type in form.types for n in type.shape):
            need_plain_lists()
        items = self.held()
        lists = [item for item in items if isinstance(item, StackedList)]
        if len({*map(id, lists)}) < len(lists):
            need_plain_lists()  # one list several times
        for item in items:
            self.take(item)
            known = form.joined(ItemForm.of(item))
            if known is None:
                need_plain_lists()
            form = known
        self.rows = self.rows_in(items, form)
        list.clear(self)
        list.append(self, Placeholder())

    def rows_in(self, items: Sequence[object], form: ItemForm) -> Rows:
        """The items stacked, or those that are, in this form."""
        if self.rows is not None:
            return self.rows.fitted(form)
        numbers = Rows.of_numbers(items, form) if items else None
        rows = numbers or Rows.none(self.owner, form)
        for item in () if numbers else items:
            rows = rows.appended(item)
        return rows

    def restorer(self) -> Callable[[], None]:
        """What makes the list again what it is now."""
        rows, items = self.rows, self.held()

        def restore() -> None:
            self.rows = rows
            if rows is None:
                list.clear(self)
                list.extend(self, items)

        return restore


class Placeholder:
    """What is in a list of stacked items for code that does not ask it: an object that is of no use."""
