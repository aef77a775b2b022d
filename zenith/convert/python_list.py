"""What lists of converted code answer as Python's lists do, as long as their items are not stacked.

Once they are, code that does not ask what a list holds would see wrong items: it is then traced again with lists that
stay Python's (:class:`~zenith.trace.plain_lists.PlainListsNeeded`). In a body that the program runs, what changes a
list once, while it is traced, is refused.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeVar

from zenith import tree
from zenith.convert.containers import Guarded
from zenith.convert.list_items import Rows, need_plain_lists
from zenith.convert.typing import Function
from zenith.convert.values import is_plain_sequence
from zenith.errors import TraceError, user_line
from zenith.trace.recorder import Recorder, current_recorder
from zenith.trace.sizes import UserSize, user_size
from zenith.trace.stands import WritingBody
from zenith.trace.tracer import Tracer

if TYPE_CHECKING:
    from zenith.convert.lists import ItemList

T = TypeVar("T")


class PythonList(Guarded, list[object]):
    """A list that converted code has made; ``rows`` are its items where a body of the program has appended to it."""

    __slots__ = ("__weakref__", "aliases", "frozen", "owner", "rows", "views")
    is_item = False  # of another list, and shows what that has stacked
    rows: Rows | None
    frozen: bool  # whether it is an item of another list, which has stacked what it holds
    views: list[weakref.ref[ItemList]]  # lists that show what it has stacked
    aliases: list[weakref.ref[PythonList]]  # lists that hold the same lists, or were stacked in it

    def __init__(self, items: Iterable[object], owner: Recorder) -> None:
        super().__init__(items)
        self.owner, self.rows, self.frozen = owner, None, False
        self.views, self.aliases = [], []

    @property
    def size(self) -> UserSize:
        """The number of items."""
        return super().__len__() if self.rows is None else user_size(self.rows.count, current_recorder() or self.owner)

    def held(self) -> list[object]:
        """The items, if they are Python's."""
        return list(self) if self.rows is None else []

    def array(self) -> list[object] | Tracer:
        """What ``numpy.array`` takes: the items stacked, or as they are."""
        return list(self) if self.rows is None else self.rows.stacked()

    def check_free(self) -> None:
        """PlainListsNeeded where the list is an item of another one, and changes."""
        if self.frozen:
            need_plain_lists()

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

    def __array_function__(
        self, function: Function, types: object, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        return function(*map(_arrays, args), **{name: _arrays(value) for name, value in kwargs.items()})

    def __array_ufunc__(self, ufunc: object, method: str, *inputs: object, **kwargs: object) -> object:
        named = {name: _arrays(value) for name, value in kwargs.items()}
        return getattr(ufunc, method)(*map(_arrays, inputs), **named)


def _arrays(values: object) -> object:
    """Nested values with arrays in place of lists that grow."""
    if isinstance(values, PythonList):
        return values.array()
    if isinstance(values, dict):
        return {key: _arrays(value) for key, value in values.items()}
    return type(values)(map(_arrays, values)) if is_plain_sequence(values) else values


def are_alive(lists: Iterable[weakref.ref[T]]) -> bool:
    """Whether somebody still has one of some lists."""
    return any(known() is not None for known in lists)


def freeze(item: object) -> list[PythonList]:
    """The lists in an item that is stacked, which may change no more; PlainListsNeeded for other things that change."""
    if isinstance(item, PythonList):
        if item.is_item:
            need_plain_lists()
        item.frozen = True
        return [item, *(one for inner in item.held() for one in freeze(inner))]
    if isinstance(item, tuple):
        return [one for inner in item for one in freeze(inner)]
    if not tree.is_leaf(item):
        need_plain_lists()
    return []


def in_body_of(owner: Recorder) -> bool:
    """Whether a loop or branch of a trace, or one inside of that, is being traced."""
    recorder = current_recorder()
    while isinstance(recorder, WritingBody) and recorder is not owner:
        recorder = recorder.parent
    return recorder is owner and current_recorder() is not owner


# --- methods that need the items -----------------------------------------------------------------------------------

CHANGES = (
    "insert", "remove", "pop", "clear", "sort", "reverse", "__delitem__", "__iadd__", "__imul__",
)  # fmt: skip
_QUESTIONS = (
    "copy", "count", "index", "__repr__", "__reversed__", "__contains__", "__eq__",
    "__ne__", "__lt__", "__le__", "__gt__", "__ge__",
)  # fmt: skip


def _of_python(name: str) -> Function:
    plain = getattr(list, name)

    def method(self: PythonList, *args: object, **kwargs: object) -> object:
        if self.rows is not None:
            need_plain_lists()
        if name in CHANGES:
            self.check_free()
            if in_body_of(self.owner):
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


for _name in (*CHANGES, *_QUESTIONS):
    setattr(PythonList, _name, _of_python(_name))
