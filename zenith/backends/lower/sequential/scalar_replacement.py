"""Scalar replacement: what a turn of a loop stores and the next one loads again stays in a variable.

A load that follows a store of its element waits some cycles for it, in every turn of a recurrence such as
``x[i] = a * x[i - 1] + b[i]``. (Callahan, Carr and Kennedy, "Improving register allocation for subscripted variables",
PLDI 1990.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from zenith.backends.expressions import Load, Name, Number
from zenith.backends.kernel import (
    Assign,
    AtomicAdd,
    Bind,
    Branch,
    CallInnerLoop,
    CallNative,
    Check,
    Fold,
    Let,
    Loop,
    Search,
    Statement,
    Store,
    UserCode,
    While,
    walk,
)
from zenith.ir.dims import maximum, minimum, symbol
from zenith.ir.types import bool_

Fresh = Callable[[str], str]


def scalar_replaced(statements: Sequence[Statement], fresh: Fresh) -> tuple[Statement, ...]:
    """The statements with variables for such elements; ``fresh`` makes names."""
    return tuple(new for s in statements for new in _in_statement(s, fresh))


def _in_statement(statement: Statement, fresh: Fresh) -> Iterator[Statement]:
    match statement:
        case Loop(lanes=False, body=body):
            yield from _in_loop(replace(statement, body=scalar_replaced(body, fresh)), fresh)
        case While(body=body):
            yield replace(statement, body=scalar_replaced(body, fresh))
        case Branch(cases=cases):
            yield replace(statement, cases=tuple(scalar_replaced(case, fresh) for case in cases))
        case _:
            yield statement


def _in_loop(loop: Loop, fresh: Fresh) -> Iterator[Statement]:
    for store in [s for s in loop.body if isinstance(s, Store)]:
        load = _load_of_last_turn(loop, store)
        if load is None:
            continue
        name, first = Name(fresh("last"), load.dtype), Name(fresh("first"), load.dtype)
        begin = replace(load, at=load.at.substitute({loop.index: loop.start}))
        loaded = (Let(first.name, begin), Assign(name.name, first))
        yield Assign(name.name, Number(0, load.dtype))  # where there is no turn, nothing may be loaded
        yield Branch(minimum(maximum(loop.stop - loop.start, 0), 1), 1, (loaded,))
        number = loop.body.index(store)
        ahead = _with_variable(loop.body[:number], load, name)
        stored = (Assign(name.name, store.value), replace(store, value=name))  # a value may read what is overwritten
        loop = replace(loop, body=(*ahead, *stored, *loop.body[number + 1 :]))
    yield loop


def _load_of_last_turn(loop: Loop, store: Store) -> Load | None:
    """The load that every turn makes, ahead of a store, of what it stored in the turn before.

    None where others may store there; nor may the first turn do without it, since nothing else says that its element
    is inside of the buffer.
    """
    inside = list(walk(loop.body))
    if (
        any(isinstance(s, AtomicAdd | CallInnerLoop | CallNative | UserCode) for s in inside)
        or store.value.dtype == bool_
    ):
        return None
    if sum(isinstance(s, Store) and s.buffer == store.buffer for s in inside) > 1:
        return None
    if store.at.symbols() & set(_names_bound(inside)):
        return None
    last = store.at.substitute({loop.index: symbol(loop.index) - 1})
    wanted = Load(store.buffer, last, store.value.dtype)
    ahead = loop.body[: loop.body.index(store)]
    return wanted if any(isinstance(s, Let) and s.value == wanted for s in ahead) else None


def _names_bound(statements: Sequence[Statement]) -> Iterator[str]:
    """The names that statements bind."""
    for s in statements:
        if isinstance(s, Let | Check | Bind | Assign | Search):
            yield s.name
        elif isinstance(s, Loop | Fold):
            yield s.index


def _with_variable(statements: Sequence[Statement], load: Load, name: Name) -> tuple[Statement, ...]:
    """The statements with a variable in the place of a load."""
    found: list[Statement] = []
    for s in statements:
        match s:
            case Let(value=value) if value == load:
                found.append(replace(s, value=name))
            case Loop(body=body) | Fold(body=body):
                found.append(replace(s, body=_with_variable(body, load, name)))
            case While(before=before, body=body):
                found.append(
                    replace(s, before=_with_variable(before, load, name), body=_with_variable(body, load, name))
                )
            case Branch(cases=cases):
                found.append(replace(s, cases=tuple(_with_variable(case, load, name) for case in cases)))
            case _:
                found.append(s)
    return tuple(found)
