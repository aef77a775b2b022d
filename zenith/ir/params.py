"""Kinds of primitive parameters: how each prints, parses, and takes part in sizes.

A parameter's value is immutable. Its text is canonical: two parameters are equal when their texts are.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from zenith.errors import ParseError
from zenith.ir import dims as dims_
from zenith.ir import external
from zenith.ir.dims import Dim, DimLike
from zenith.ir.types import BY_NAME, ArrayType, DType

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ParamKind:
    """A parameter kind: printing, parsing, and mapping a function over the sizes inside."""

    text: Callable[[Any], str]
    parse: Callable[[ast.expr], Any]
    map_sizes: Callable[[Any, Callable[[Dim], Any]], Any]


def _tuple_text(items: Iterable[object]) -> str:
    texts = [str(i) for i in items]
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def _parse_tuple(node: ast.expr, item: Callable[[ast.expr], T]) -> tuple[T, ...]:
    if not isinstance(node, ast.Tuple):
        raise ValueError(f"not a tuple: {ast.unparse(node)}")
    return tuple(item(e) for e in node.elts)


def _number_text(value: complex | int | bool) -> str:
    if isinstance(value, complex):  # not Python's sum, which loses signs of zeros
        return f"complex({_number_text(value.real)}, {_number_text(value.imag)})"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return repr(value)


def _parse_number(node: ast.expr) -> Any:
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "complex" and len(node.args) == 2:
        return complex(*map(_parse_number, node.args))
    text = ast.unparse(node)
    return float(text) if text in ("nan", "inf", "-inf") else ast.literal_eval(node)


def _parse_dtype(node: ast.expr) -> DType:
    if isinstance(node, ast.Name) and node.id in BY_NAME:
        return BY_NAME[node.id]
    raise ValueError(f"not an element type: {ast.unparse(node)}")


def _unchanged(value: T, function: Callable[[Dim], object]) -> T:
    return value


def parse_type(node: ast.expr) -> ArrayType:
    """The array type that a text such as ``f32[n, 3]`` means; ParseError when it means none."""
    match node:
        case ast.Name(id=name) if name in BY_NAME:
            return ArrayType(BY_NAME[name], ())
        case ast.Subscript(value=ast.Name(id=name), slice=index) if name in BY_NAME:
            sizes = index.elts if isinstance(index, ast.Tuple) else [index]
            try:
                return ArrayType(BY_NAME[name], [dims_.parse(s) for s in sizes])
            except ValueError as error:
                raise ParseError(f"not a type: {ast.unparse(node)}: {error}") from error
    raise ParseError(f"not a type: {ast.unparse(node)}")


def _parse_external(node: ast.expr) -> external.External:
    return external.known(ast.literal_eval(node))


def _map_types(types: Sequence[ArrayType], function: Callable[[Dim], DimLike]) -> tuple[ArrayType, ...]:
    return tuple(t.with_shape([function(size) for size in t.shape]) for t in types)


KINDS: dict[str, ParamKind] = {
    "sizes": ParamKind(_tuple_text, lambda n: _parse_tuple(n, dims_.parse), lambda v, f: tuple(map(f, v))),
    "size": ParamKind(str, dims_.parse, lambda v, f: f(v)),
    "ints": ParamKind(_tuple_text, ast.literal_eval, _unchanged),
    "int": ParamKind(str, ast.literal_eval, _unchanged),
    "number": ParamKind(_number_text, _parse_number, _unchanged),
    "bool": ParamKind(str, ast.literal_eval, _unchanged),
    "text": ParamKind(repr, ast.literal_eval, _unchanged),
    "dtype": ParamKind(str, _parse_dtype, _unchanged),
    "types": ParamKind(_tuple_text, lambda n: _parse_tuple(n, parse_type), _map_types),
    "external": ParamKind(str, _parse_external, _unchanged),
    "graph": ParamKind(lambda g: g.name, ast.unparse, _unchanged),
    "graphs": ParamKind(lambda gs: _tuple_text(g.name for g in gs), lambda n: _parse_tuple(n, ast.unparse), _unchanged),
}


def normalize(kinds: Mapping[str, str], params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters in declared order with sizes as :class:`Dim`; TypeError on missing or unknown names."""
    if params.keys() != kinds.keys():
        raise TypeError(f"parameters are {sorted(kinds)}, not {sorted(params)}")
    return {name: KINDS[kind].map_sizes(params[name], dims_.dim) for name, kind in kinds.items()}


def evaluate(kinds: Mapping[str, str], params: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Parameters with every size as an int."""
    return {n: KINDS[kinds[n]].map_sizes(v, lambda d: dims_.dim(d).evaluate(sizes)) for n, v in params.items()}


def symbols(kinds: Mapping[str, str], params: Mapping[str, Any]) -> set[str]:
    """The symbols of all sizes among parameters, without those of subgraphs."""
    found: set[str] = set()

    def note(size: Dim) -> Dim:
        found.update(size.symbols())
        return size

    for name, value in params.items():
        KINDS[kinds[name]].map_sizes(value, note)
    return found


def substitute(kinds: Mapping[str, str], params: Mapping[str, Any], values: Mapping[str, DimLike]) -> dict[str, Any]:
    """Parameters with symbols replaced."""
    return {n: KINDS[kinds[n]].map_sizes(v, lambda d: dims_.dim(d).substitute(values)) for n, v in params.items()}


def text(kinds: Mapping[str, str], params: Mapping[str, Any]) -> str:
    """``name=value, ...`` in declared order."""
    return ", ".join(f"{name}={KINDS[kinds[name]].text(value)}" for name, value in params.items())
