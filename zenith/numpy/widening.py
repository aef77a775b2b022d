"""Widening: a scalar of float64 that nobody asked for makes arrays of float32 arrays of float64.

By NumPy's rules (NEP 50) Python's numbers take the type of arrays, and NumPy's own scalars do not: ``np.sqrt(n)`` of a
size, ``np.log(2)`` and ``np.float64(s)`` are float64, and so is what they are computed with. That is twice the memory
and often a multiple of the time, and rarely meant, so traces note it.

It was asked for where float64 comes from an argument or an array, or where the line says ``float64``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

import numpy as np

from zenith.errors import SourceLine, user_line
from zenith.ir.graph import Node, Value
from zenith.ir.types import ArrayType, NumPyType
from zenith.trace.memory import NUMBER
from zenith.trace.recorder import WideningReport, current_recorder
from zenith.trace.tracer import Tracer

WIDE = (np.dtype(np.float64), np.dtype(np.complex128))
_ASKED = ("float64", "complex128", "double")
_SIZE, _NUMBER, _GIVEN = "size", "number", "given"  # where a scalar of float64 comes from


def note_widening(name: str, operands: Iterable[object], dtype: NumPyType) -> None:
    """Note it when operands of narrower floats have the result type ``dtype`` through scalars that nobody asked for."""
    recorder = current_recorder()
    if dtype not in WIDE or recorder is None or recorder.widenings is None:
        return
    traced = [o for o in operands if isinstance(o, Tracer)]
    narrow = next((t for t in traced if t.ndim and t.dtype.kind not in "biu" and t.dtype not in WIDE), None)
    if narrow is None:
        return
    wide = [o for o in operands if _is_wide(o)]
    line = user_line()
    if not (wide and all(map(_is_scalar, wide))) or _asks(line):
        return
    origins = {origin for o in wide for origin in _origins(o)}
    if origins and _GIVEN not in origins:
        recorder.widenings.append(WideningReport(name, str(narrow.dtype), _SIZE in origins, line))


def _is_wide(operand: object) -> bool:
    """Whether an operand is of float64, and no Python number."""
    return isinstance(operand, (Tracer, np.ndarray, np.generic)) and operand.dtype in WIDE and not _is_weak(operand)


def _is_weak(operand: object) -> bool:
    return isinstance(operand, Tracer) and operand.weak


def _is_scalar(operand: object) -> bool:
    """Whether it is one of NumPy's scalars; an array without axes was made with a type."""
    if isinstance(operand, Tracer):
        return not operand.ndim and operand.memory.access == NUMBER
    return isinstance(operand, np.generic)


def _asks(line: SourceLine | None) -> bool:
    """Whether a line of the user's names the type."""
    return line is not None and any(word in line.code for word in _ASKED)


def _origins(scalar: object) -> Iterator[str]:
    """Where a scalar comes from: the sizes, numbers and given values that it is computed from."""
    if not isinstance(scalar, Tracer):
        yield _NUMBER
        return
    graph, weak = scalar.recorder.graph, scalar.recorder.weak
    pending, seen = [scalar.value], set[Value]()
    while pending:
        value = pending.pop()
        if value in seen or _is_narrow(value):
            continue
        seen.add(value)
        node = graph.node(value.node)
        origin = _GIVEN if _asks(node.line) else _origin(value, node, weak)
        if origin is None:
            pending.extend(graph.args(value.node))
        else:
            yield origin


def _is_narrow(value: Value) -> bool:
    """Whether a value is of narrower floats: what is computed from it and a scalar has that scalar's type."""
    assert isinstance(value.type, ArrayType)
    return value.type.dtype.kind in "fc" and value.type.dtype.numpy not in WIDE


def _origin(value: Value, node: Node, weak: Set[str]) -> str | None:
    """What a value is; None for one that is what its operands are."""
    assert isinstance(value.type, ArrayType)
    if node.primitive.name == "size":
        return _SIZE
    if node.primitive.name == "input":
        return _NUMBER if node.params["name"] in weak else _GIVEN
    if value.type.rank:
        return _GIVEN
    return _NUMBER if node.primitive.name == "literal" else None
