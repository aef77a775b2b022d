"""The verifier names node and line of whatever is broken; each test breaks a sound graph in one way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.programs import random_program
from tests.rewrite import damaged
from zenith.errors import SourceLine, VerifyError
from zenith.ir.builder import Builder
from zenith.ir.graph import Graph, Value
from zenith.ir.types import TOKEN, ArrayType, float32, float64, int64
from zenith.ir.verify import verify

LINE = SourceLine("model.py", 12, "step")
AT = "\n  at model.py:12 in step"


def sound() -> Graph:
    """x, y: f32[3] -> nodes 2 add, 3 mul, 4 constant, 5 sub, 6 token, 7 debug_print."""
    graph = Graph("g")
    x, y = (graph.add_input(ArrayType(float32, (3,)), name) for name in "xy")
    b = Builder(graph, LINE)
    product = b.mul(b.add(x, y), y)
    difference = b.sub(product, graph.add_constant(np.float32([1, 2, 3]), LINE))
    graph.set_outputs((difference, b.debug_print(b.token(), product, format="{}")))
    return graph


def _last_argument_missing(graph: Graph) -> Graph:
    return damaged(graph, 3, graph.args(3)[:1])


def _backwards(graph: Graph) -> Graph:
    return damaged(graph, 3, [graph.results(5)[0], graph.args(3)[1]])


def _of_itself(graph: Graph) -> Graph:
    return damaged(graph, 3, [graph.results(3)[0], graph.args(3)[1]])


def _from_nowhere(graph: Graph) -> Graph:
    return damaged(graph, 3, [graph.args(3)[0], graph.args(3)[1]._replace(node=-1)])


def _no_such_output(graph: Graph) -> Graph:
    return damaged(graph, 3, [graph.args(3)[0]._replace(output=1), graph.args(3)[1]])


def _argument_type(graph: Graph) -> Graph:
    return damaged(graph, 3, [graph.args(3)[0]._replace(type=TOKEN), graph.args(3)[1]])


def _wrong_type(graph: Graph) -> Graph:
    return damaged(graph, 3, types=(ArrayType(float64, (3,)),))


def _wrong_operand(graph: Graph) -> Graph:
    return damaged(graph, 2, types=(ArrayType(int64, (3,)),))


def _wrong_params(graph: Graph) -> Graph:
    return damaged(graph, 4, params={**graph.node(4).params, "id": "cafe"})


def _weight_missing(graph: Graph) -> Graph:
    graph.add_weight("w", np.ones(3, np.float32), LINE)
    del graph.weights["w"]
    return graph


def _weight_of_another_type(graph: Graph) -> Graph:
    graph.add_weight("w", np.ones(3, np.float32), LINE)
    graph.weights["w"] = np.ones((3, 1))
    return graph


def _input_names(graph: Graph) -> Graph:
    return damaged(graph, 1, params={"name": "x"})


def _input_not_listed(graph: Graph) -> Graph:
    graph.inputs.pop()
    return graph


def _output_of(value: Value) -> Callable[[Graph], Graph]:
    def damage(graph: Graph) -> Graph:
        graph.set_outputs((value,))
        return graph

    return damage


def _token_twice(graph: Graph) -> Graph:
    token = Value(6, 0, TOKEN)
    Builder(graph, LINE).debug_print(token, format="again")
    return graph


def _in_a_subgraph(graph: Graph) -> Graph:
    body = Graph("body")
    x = body.add_input(ArrayType(float32, (3,)), "a")
    body.set_outputs((Builder(body, LINE).exp(x),))
    fused = Builder(graph).fused(graph.outputs[0], body=body, anchor="")
    return damaged(graph, fused.node, params={"body": damaged(body, 1, ()), "anchor": ""})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_last_argument_missing, "g: node 3 (mul): mul takes 2 arguments, not 1\n  types: f32[3]" + AT),
        (_backwards, "g: node 3 (mul): argument 0 comes from node 5, which is no earlier one\n  types: f32[3]" + AT),
        (_of_itself, "g: node 3 (mul): argument 0 comes from node 3, which is no earlier one\n  types: f32[3]" + AT),
        (_from_nowhere, "g: node 3 (mul): argument 1 comes from node -1, which is no earlier one\n"
         "  types: f32[3]" + AT),
        (_no_such_output, "g: node 3 (mul): argument 0 is output 1 of node 2, which has fewer\n  types: f32[3]" + AT),
        (_argument_type, "g: node 3 (mul): argument 0 is taken for token, not f32[3]\n  types: f32[3]" + AT),
        (_wrong_type, "g: node 3 (mul): recorded types are not f32[3]\n  types: f64[3]" + AT),
        (_wrong_operand, "g: node 2 (add): recorded types are not f32[3]\n  types: i64[3]" + AT),
        (_wrong_params, "g: node 4 (constant): constant cafe is not stored with the graph\n  types: f32[3]" + AT),
        (_weight_missing, "g: node 8 (weight): weight w is not stored with the graph\n  types: f32[3]" + AT),
        (_weight_of_another_type, "g: node 8 (weight): weight w is stored as float64[3, 1]\n  types: f32[3]" + AT),
        (_input_names, "g: input names repeat: x, x"),
        (_input_not_listed, "g: the inputs are nodes [0, 1], not [0]"),
        (_output_of(Value(99, 0, TOKEN)), "g: output 0 of node 99 does not exist"),
        (_output_of(Value(3, 1, TOKEN)), "g: output 1 of node 3 does not exist"),
        (_output_of(Value(3, 0, TOKEN)), "g: node 3 (mul): it is an output of type token\n  types: f32[3]" + AT),
        (_token_twice, "g: node 6 (token): its token is used twice, so that the order of effects is not defined\n"
         "  types: token" + AT),
        (_in_a_subgraph, "body: node 1 (exp): exp takes 1 arguments, not 0\n  types: f32[3]" + AT),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)  # fmt: skip
def test_what_is_broken_is_named(damage: Callable[[Graph], Graph], message: str) -> None:
    graph = damage(verify(sound()))
    with pytest.raises(VerifyError) as error:
        verify(graph)
    assert str(error.value) == message


@given(st.integers(0, 10**6))
def test_random_programs_are_sound_until_an_argument_is_missing(seed: int) -> None:
    graph, _ = random_program(seed)
    assert verify(graph) is graph
    candidates = [(number, position) for number, _ in graph.nodes() for position in range(len(graph.args(number)))]
    number, position = candidates[seed % len(candidates)]
    args = graph.args(number)
    broken = damaged(graph, number, args[:position] + args[position + 1 :])
    if graph.node(number).primitive.name not in ("concat", "gather"):  # they take any number of arguments
        with pytest.raises(VerifyError, match=f"node {number} "):
            verify(broken)
