"""The names of functions around a function that it reads or assigns: their cells, and what is in them."""

from __future__ import annotations

import dis
import functools
from types import CellType, CodeType, FunctionType

UNSET = object()  # what is in the cell of a name that is not set yet


def cells(function: FunctionType) -> dict[str, CellType]:
    """The cells of a function, by name."""
    return dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))


def content_of(cell: CellType) -> object:
    """What is in a cell, or ``UNSET``."""
    try:
        return cell.cell_contents
    except ValueError:
        return UNSET


def free_variables(function: FunctionType) -> dict[str, object]:
    """The values of the names around a function, by name, without those that are not set."""
    values = {name: content_of(cell) for name, cell in cells(function).items()}
    return {name: value for name, value in values.items() if value is not UNSET}


def stored_cells(function: FunctionType) -> list[CellType]:
    """The cells into which a function stores: names that are ``nonlocal`` there."""
    own = cells(function)
    return [own[name] for name in _stored(function.__code__) if name in own]


@functools.lru_cache(maxsize=1024)
def _stored(code: CodeType) -> frozenset[str]:
    own = {i.argval for i in dis.get_instructions(code) if i.opname in ("STORE_DEREF", "DELETE_DEREF")}
    inner = {name for c in code.co_consts if isinstance(c, CodeType) for name in _stored(c)}
    return frozenset((own | inner) & set(code.co_freevars))
