"""Products of one array with weights become one, unless arithmetic follows them."""

import numpy as np
import pytest

import zenith
from zenith.ir.interpret import interpret
from zenith.passes.cse import cse
from zenith.passes.dce import dce
from zenith.passes.horizontal_fusion import horizontal_fusion

RNG = np.random.default_rng(0)
W = [RNG.standard_normal((n, 8)).astype(np.float32) for n in (4, 6, 4)]
B = [RNG.standard_normal(len(w)).astype(np.float32) for w in W]
X = RNG.standard_normal((5, 8)).astype(np.float32)


def product_counts(function, *args):
    """How many products a function has before and after, with equal results."""
    graph = zenith.make_graph(function)(*args)
    after = dce(cse(horizontal_fusion(graph)))
    sizes = {"x0": 5, "x1": 8}
    for a, b in zip(interpret(graph, *args, sizes=sizes), interpret(after, *args, sizes=sizes), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return [[n.primitive.name for _, n in g.nodes()].count("matmul") for g in (graph, after)]


def heads(y):
    return y.reshape(y.shape[0], 2, -1).transpose(1, 0, 2)


def test_three_with_biases():
    assert product_counts(lambda x: tuple(heads(x @ w.T + b) for w, b in zip(W, B, strict=True)), X) == [3, 1]


def test_three_without_biases():
    assert product_counts(lambda x: tuple(heads(x @ w.T) for w in W), X) == [3, 1]


def test_those_with_a_bias_are_another_family():
    assert product_counts(lambda x: (heads(x @ W[0].T + B[0]), heads(x @ W[1].T), heads(x @ W[2].T)), X) == [3, 2]


def test_one_result_that_is_read_twice():
    assert product_counts(lambda x: [(heads(y), y[1:]) for y in (x @ W[0].T, x @ W[1].T)], X) == [2, 1]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (np.tanh(x @ W[0].T), heads(x @ W[1].T)),
        lambda x: (x @ W[0].T, x @ W[1].T),
        lambda x: (heads(x @ W[0].T), heads((x + 1) @ W[1].T)),
    ],
    ids=["arithmetic after them", "returned as they are", "of other arrays"],
)
def test_what_stays(function):
    assert product_counts(function, X) == [2, 2]


def test_matrices_that_are_arguments_stay():
    graph = zenith.make_graph(lambda x, v, w: (heads(x @ v), heads(x @ w)))(X, W[0].T, W[2].T)
    assert str(horizontal_fusion(graph)) == str(graph)
