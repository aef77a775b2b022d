"""Copies of programs with other types: the same operations in double precision, for one, to measure errors against.

>>> from zenith.ir.text import parse
>>> print(in_double(parse("def f(x: f32[n]) -> (f32[n]):\\n    v1 = exp(x)\\n    return (v1,)")))
def f(x: f64[n]) -> (f64[n]):
    v1 = exp(x)
    return (v1,)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zenith.ir.graph import Graph, Value
from zenith.ir.primitive import Params, Primitive
from zenith.ir.types import ArrayType, DType, NDArray, Type, complex128, float64, kind_of


def retyped(
    graph: Graph,
    change_type: Callable[[Type], Type],
    change_array: Callable[[NDArray], NDArray],
    change_params: Callable[[Primitive, Params], Params],
) -> Graph:
    """The same program with input types, constants, weights and parameters changed; subgraphs too."""
    copy = Graph(graph.name)
    values: dict[tuple[int, int], Value] = {}

    def inside(value: object) -> object:
        if isinstance(value, Graph):
            return retyped(value, change_type, change_array, change_params)
        return tuple(map(inside, value)) if isinstance(value, tuple) else value

    for number, node in graph.nodes():
        if node.primitive.name == "input":
            values[number, 0] = copy.add_input(change_type(node.types[0]), node.params["name"], node.line)
        elif node.primitive.name == "constant" and node.params["id"] in graph.constants:
            values[number, 0] = copy.add_constant(change_array(graph.constants[node.params["id"]]), node.line)
        elif node.primitive.name == "weight" and node.params["name"] in graph.weights:
            array = change_array(graph.weights[node.params["name"]])
            values[number, 0] = copy.add_weight(node.params["name"], array, node.line)
        else:
            params = {name: inside(value) for name, value in change_params(node.primitive, node.params).items()}
            args = [values[a.node, a.output] for a in graph.args(number)]
            results = copy.add(node.primitive, args, params, node.line)
            values.update({(number, r.output): r for r in results})
    copy.set_outputs(values[v.node, v.output] for v in graph.outputs)
    copy.guards = graph.guards
    return copy


def in_double(graph: Graph) -> Graph:
    """The program in double precision: every float becomes float64 everywhere, complex ones complex128."""

    def change_dtype(dtype: DType) -> DType:
        return complex128 if dtype.is_complex else float64 if dtype.is_float else dtype

    def change_type(type: Type) -> Type:
        return type.with_dtype(change_dtype(type.dtype)) if isinstance(type, ArrayType) else type

    def change_params(primitive: Primitive, params: Params) -> Params:
        return {n: change_dtype(v) if primitive.params[n] == "dtype" else v for n, v in params.items()}

    return retyped(graph, change_type, array_in_double, change_params)


def array_in_double(array: NDArray) -> NDArray:
    """An array of floats as float64, of complex numbers as complex128; any other as it is."""
    wide = {"f": np.float64, "c": np.complex128}
    return array.astype(wide.get(kind_of(array.dtype), array.dtype), copy=False)
