"""The footprint of statements: which buffers they read and write, and which sizes and places they mention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from zenith.backends.kernel import (
    Apply,
    AtomicAdd,
    CallNative,
    Check,
    Expr,
    Fold,
    Let,
    Load,
    PackPanel,
    ProductTile,
    SharedProduct,
    SoftmaxTile,
    Source,
    Statement,
    Store,
    walk,
)
from zenith.ir.dims import Dim


def buffers_of(statements: tuple[Statement, ...]) -> set[str]:
    """The names of all buffers that statements read or write."""
    read, written = touched(statements)
    return read | written


def touched(statements: tuple[Statement, ...]) -> tuple[set[str], set[str]]:
    """The buffers that statements read, and those that they write; what others wrote may do both with all."""
    read, written = set[str](), set[str]()
    for s in walk(statements):
        match s:
            case Let(_, value) | Check(_, value):
                read |= _loads(value)
            case Store(buffer, _, value) | AtomicAdd(buffer, _, value):
                read |= _loads(value) | ({buffer} if isinstance(s, AtomicAdd) else set())
                written.add(buffer)
            case Fold():
                read |= {b for a in s.accumulators for b in _loads(a.value)}
            case ProductTile() | SharedProduct():
                read |= {s.a.buffer, s.b.buffer, *([] if s.onto == 0 else [s.target.buffer])}
                written.add(s.target.buffer)
            case PackPanel():
                read.add(s.source.buffer)
                written.add(s.target)
            case SoftmaxTile():
                read |= {s.scores.buffer, *s.state}
                written |= {s.scores.buffer, *s.state}
            case Source(_, buffers):
                read |= {*buffers}
                written |= {*buffers}
            case CallNative():
                read |= {s.function, *(buffer for buffer, _ in s.elements)}
                written |= {buffer for buffer, _ in s.elements}
    return read, written


def _loads(expr: Expr) -> set[str]:
    if isinstance(expr, Load):
        return {expr.buffer}
    return {b for a in expr.args for b in _loads(a)} if isinstance(expr, Apply) else set()


def index_expressions(part: object) -> Iterator[Dim]:
    """Every index expression in statements: sizes, limits of loops, places."""
    if isinstance(part, Dim):
        yield part
    elif isinstance(part, tuple):
        for item in part:
            yield from index_expressions(item)
    elif is_dataclass(part):
        for f in fields(part):
            yield from index_expressions(getattr(part, f.name))


def symbols_of(part: object) -> set[str]:
    """Every name in the index expressions of statements."""
    return {name for at in index_expressions(part) for name in at.symbols()}
