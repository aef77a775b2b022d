"""Copies of graphs under another view: symbols as numbers, floats as float64, one node broken."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from zenith.ir import params as params_
from zenith.ir.graph import Graph, Guard, Value
from zenith.ir.primitive import Primitive
from zenith.ir.types import ArrayType, DType, Type, complex128, float64, kind_of


def rewrite(
    graph: Graph,
    change_type: Callable[[Type], Type],
    change_array: Callable[[Any], Any],
    change_params: Callable[[Primitive, Mapping[str, Any]], Mapping[str, Any]],
) -> Graph:
    """The same program with input types, constants, weights and parameters changed; subgraphs too."""
    copy = Graph(graph.name)
    values: dict[tuple[int, int], Value] = {}
    for number, node in graph.nodes():
        if node.primitive.name == "input":
            values[number, 0] = copy.add_input(change_type(node.types[0]), node.params["name"], node.line)
        elif node.primitive.name == "constant" and node.params["id"] in graph.constants:
            values[number, 0] = copy.add_constant(change_array(graph.constants[node.params["id"]]), node.line)
        elif node.primitive.name == "weight" and node.params["name"] in graph.weights:
            array = change_array(graph.weights[node.params["name"]])
            values[number, 0] = copy.add_weight(node.params["name"], array, node.line)
        else:
            params = {
                name: rewrite(value, change_type, change_array, change_params) if isinstance(value, Graph) else value
                for name, value in change_params(node.primitive, node.params).items()
            }
            args = [values[a.node, a.output] for a in graph.args(number)]
            results = copy.add(node.primitive, args, params, node.line)
            values.update({(number, r.output): r for r in results})
    copy.set_outputs(values[v.node, v.output] for v in graph.outputs)
    copy.guards = graph.guards
    return copy


def specialize(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """The program for one choice of sizes: every symbol is replaced by its number."""

    def change_type(type: Type) -> Type:
        return type.with_shape([s.substitute(sizes) for s in type.shape]) if isinstance(type, ArrayType) else type

    copy = rewrite(graph, change_type, lambda a: a, lambda p, values: params_.substitute(p.params, values, sizes))
    copy.guards = tuple(
        Guard(g.kind, g.left.substitute(sizes), g.relation, g.right.substitute(sizes), g.reason, g.line)
        for g in graph.guards
    )
    return copy


def widen(graph: Graph) -> Graph:
    """The program in double precision: every float becomes float64 everywhere, complex ones complex128."""

    def change_dtype(dtype: DType) -> DType:
        return complex128 if dtype.is_complex else float64 if dtype.is_float else dtype

    def change_type(type: Type) -> Type:
        return type.with_dtype(change_dtype(type.dtype)) if isinstance(type, ArrayType) else type

    def change_params(primitive: Primitive, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {n: change_dtype(v) if primitive.params[n] == "dtype" else v for n, v in params.items()}

    return rewrite(graph, change_type, widen_array, change_params)


def widen_array(array: Any) -> Any:
    """An array of floats as float64, of complex numbers as complex128; any other as it is."""
    wide = {"f": np.float64, "c": np.complex128}
    return array if array is None else array.astype(wide.get(kind_of(array.dtype), array.dtype), copy=False)


def damaged(graph: Graph, number: int, args: Sequence[Value] | None = None, **changes: Any) -> Graph:
    """The graph with other arguments or another record for one node, whether that makes sense or not."""
    copy = graph.beginning(number)
    for n in range(number, len(graph)):
        node = dataclasses.replace(graph.node(n), **(changes if n == number else {}))
        copy.add_record(node, tuple(args) if n == number and args is not None else graph.args(n))
    copy.inputs, copy.constants = list(graph.inputs), graph.constants
    copy.set_outputs(graph.outputs)
    return copy
