"""Loops and branches that change lists of the program's: by appending to them, or by giving names other ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import cast

from zenith.convert.bodies import Names
from zenith.convert.list_items import ItemForm, Rows, need_plain_lists
from zenith.convert.lists import LIST, GrowingList, is_known, list_of_rows
from zenith.convert.stacked_list import Stacking
from zenith.convert.values import Unset
from zenith.trace.recorder import current_recorder


def with_lists(names: Names, rebound: Collection[str]) -> Names:
    """The names that a loop or branch changes, with the lists of stacked items, whose items may become other ones.

    Names that are ``rebound`` to lists hold their items.
    """
    recorder = current_recorder()
    if recorder is None or recorder.lists is None or not recorder.lists.alive():
        return names
    lists = [made for made in recorder.lists.alive() if made.rows is not None and is_known(made)]
    found = _WithLists(names, lists, rebound)
    return Names((*names.names, *(f"{LIST}{k}" for k in range(len(lists)))), found.get, found.set)


class _WithLists:
    """The values of names and lists; ``owners`` are the lists with some items.

    Items that are new, a name holds in a list that must not change, and neither must the others: it may be one of them.
    """

    def __init__(self, names: Names, lists: Sequence[GrowingList], rebound: Collection[str]) -> None:
        self._names, self._lists, self._rebound = names, lists, rebound
        self._owners: dict[int, tuple[Rows, GrowingList]] = {}

    def get(self) -> tuple[object, ...]:
        named = zip(self._names.names, self._names.get(), strict=True)
        return (*(self._opened(v) if n in self._rebound else v for n, v in named), *(made.rows for made in self._lists))

    def set(self, values: tuple[object, ...]) -> None:
        count = len(self._names.names)
        for made, rows in zip(self._lists, values[count:], strict=True):
            if isinstance(rows, Unset):
                need_plain_lists()
            made.rows = cast("Rows", rows)
        self._names.set(tuple(self._closed(v) if isinstance(v, Rows) else v for v in values[:count]))

    def _opened(self, value: object) -> object:
        """The items of a list; other values as they are."""
        rows = _rows_of(value)
        if rows is None:
            return value
        self._owners.setdefault(id(rows), (rows, cast(GrowingList, value)))
        return rows

    def _closed(self, rows: Rows) -> GrowingList:
        if id(rows) not in self._owners:
            made = list_of_rows(rows)
            self._owners[id(rows)] = rows, made
            for _, one in self._owners.values():
                one.frozen = True
        return self._owners[id(rows)][1]


def _rows_of(value: object) -> Rows | None:
    """The items of a list, which are stacked if they are all of one form; None for what stays what it is."""
    if type(value) is not GrowingList or not is_known(value):
        return None
    if value.rows is None and value.owner is current_recorder():
        form = _common_form(value.held())
        if form is not None:
            value.stack(form)
    return value.rows


def _common_form(items: Collection[object]) -> ItemForm | None:
    """The form of all of some numbers; None where there is none."""
    found: ItemForm | None = None
    for item in items:
        form = ItemForm.of(item)
        found = form if found is None else found.joined(form)
        if found is None or not found.is_array:
            return None
    return found


def stacking(run: Callable[[], None], begin: Callable[[], Callable[[], object]]) -> None:
    """Record a loop or branch, and once more where it changes lists of the trace, which are stacked for it.

    What ``begin`` gives takes back what has been recorded. Where it cannot be recorded, the lists are Python's again.
    """
    undo: list[Callable[[], None]] = []
    recorder = current_recorder()
    lists = None if recorder is None else recorder.lists
    if lists is None or not lists.made:
        return run()
    start_again = begin()
    while True:
        try:
            run()
            if isinstance(lists.asked, Stacking) and lists.asked.list.owner is recorder:
                raise lists.asked  # which the user's code has swallowed
            return None
        except Stacking as asked:
            if asked.list.owner is not recorder:
                raise
            lists.asked, asked.__traceback__ = None, None  # whose frames hold lists of the attempt
            start_again()
            undo.append(asked.list.restorer())
            asked.list.stack(asked.form)
        except Exception:
            for restore in reversed(undo):
                restore()
            raise
