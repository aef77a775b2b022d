"""Matching: whether a fused body computes what a pattern does, for which sizes, and from which inputs.

Both are closed graphs. They match when their operations are the same from the outputs back, their parameters and types
equal for some value of the pattern's sizes. Sizes of the pattern are free; numbers must be the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zenith.ir import params as params_
from zenith.ir.dims import Dim, prove_equal
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.types import ArrayType, Type


@dataclass(frozen=True, slots=True)
class Match:
    """The pattern's sizes in the body's, and for each of the pattern's inputs the name of the body's."""

    sizes: dict[str, Dim]
    inputs: tuple[str, ...]


def match(pattern: Graph, body: Graph) -> Match | str:
    """How a body is an instance of a pattern, or what is different, as text.

    >>> from zenith.ir.text import parse
    >>> pattern = parse("def f(x: f32[n]) -> (f32[n]):\\n    a = exp(x)\\n    return (a,)")
    >>> body = parse("def f(p0: f32[k*k]) -> (f32[k*k]):\\n    a = exp(p0)\\n    return (a,)")
    >>> match(pattern, body)
    Match(sizes={'n': k*k}, inputs=('p0',))
    >>> match(pattern, parse("def f(p0: f32[k]) -> (f32[k]):\\n    a = sin(p0)\\n    return (a,)"))
    'it computes sin where the pattern has exp'
    """
    pairs: dict[int, int] = {}
    if len(pattern.outputs) != len(body.outputs):
        return f"it has {len(body.outputs)} results, the pattern {len(pattern.outputs)}"
    for wanted, found in zip(pattern.outputs, body.outputs, strict=True):
        different = _pair(pattern, body, wanted, found, pairs)
        if different:
            return different
    if len({*pairs.values()} & {v.node for v in body.inputs}) != len(body.inputs):
        return "it has other inputs"
    sizes: dict[str, Dim] = {}
    for value in pattern.inputs:
        different = _bind(value.type, body.node(pairs[value.node]).types[0], sizes)
        if different:
            return different
    for number, other in pairs.items():
        if not _same(pattern.node(number), body.node(other), sizes):
            return f"its {body.node(other).primitive.name} has other types or parameters than the pattern's"
    return Match(sizes, tuple(str(body.node(pairs[v.node]).params["name"]) for v in pattern.inputs))


def _pair(pattern: Graph, body: Graph, wanted: Value, found: Value, pairs: dict[int, int]) -> str:
    """Pair the nodes that define two values and their ancestors; what is different, or nothing."""
    if wanted.node in pairs:
        return "" if pairs[wanted.node] == found.node else "it uses values differently from the pattern"
    ours, theirs = pattern.node(wanted.node).primitive, body.node(found.node).primitive
    if ours is not theirs:
        return f"it computes {theirs.name} where the pattern has {ours.name}"
    pairs[wanted.node] = found.node
    arguments = zip(pattern.args(wanted.node), body.args(found.node), strict=True)
    return next((d for d in (_pair(pattern, body, a, b, pairs) for a, b in arguments) if d), "")


def _bind(wanted: Type, found: Type, sizes: dict[str, Dim]) -> str:
    """Give the plain symbols in an input's shape their value."""
    if not (isinstance(wanted, ArrayType) and isinstance(found, ArrayType)):
        return "an input is no array"
    if wanted.dtype != found.dtype or len(wanted.shape) != len(found.shape):
        return f"an input is {found}, not {wanted}"
    for size, value in zip(wanted.shape, found.shape, strict=True):
        if str(size) in size.symbols():
            sizes.setdefault(str(size), value)
    return ""


def _same(wanted: Node, found: Node, sizes: Mapping[str, Dim]) -> bool:
    if wanted.primitive.name != "input":
        params = params_.substitute(wanted.primitive.params, wanted.params, sizes)
        if found.bodies or params_.text(wanted.primitive.params, params) != found.params_text:
            return False
    return all(_same_type(a, b, sizes) for a, b in zip(wanted.types, found.types, strict=True))


def _same_type(wanted: Type, found: Type, sizes: Mapping[str, Dim]) -> bool:
    if not (isinstance(wanted, ArrayType) and isinstance(found, ArrayType)):
        return wanted == found
    pairs = zip(wanted.shape, found.shape, strict=False)
    same = len(wanted.shape) == len(found.shape) and wanted.dtype == found.dtype
    return same and all(prove_equal(a.substitute(sizes), b) is True for a, b in pairs)
