"""The footprint of statements: which buffers they read and write, and which sizes and places they mention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from zenith.backends.kernel import (
    Apply,
    CallNative,
    Check,
    Expr,
    Fold,
    FoldHeld,
    HeldProduct,
    Let,
    Load,
    PackPanel,
    ProductTile,
    SharedProduct,
    SoftmaxTile,
    Source,
    StageTile,
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
            case Store(buffer, _, value):
                read |= _loads(value)
                written.add(buffer)
            case Fold():
                read |= {b for a in s.accumulators for b in _loads(a.value)}
            case Source(_, buffers):
                read |= {*buffers}
                written |= {*buffers}
            case CallNative():
                read |= {s.function, *(buffer for buffer, _ in s.elements)}
                written |= {buffer for buffer, _ in s.elements}
            case _:
                reads, writes = _of_tile(s)
                read |= reads
                written |= writes
    return read, written


def _of_tile(s: Statement) -> tuple[set[str], set[str]]:
    """The same of a statement of tile kernels; nothing of others."""
    match s:
        case ProductTile() | SharedProduct():
            return {s.a.buffer, s.b.buffer, *([] if s.onto == 0 else [s.target.buffer])}, {s.target.buffer}
        case HeldProduct():
            return {s.a, s.b, *([s.target] if s.onto else [])}, {s.target}
        case PackPanel() | StageTile():
            return {s.source.buffer}, {s.target}
        case FoldHeld():
            return {s.target, s.source}, {s.target}
        case SoftmaxTile():
            both = {s.scores.buffer, *s.state}
            return both, both
    return set(), set()


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
