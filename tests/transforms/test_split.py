"""Residuals that the forward pass of a derivative saves, and operations that its backward pass recomputes."""

import numpy as np
import pytest

import zenith
from zenith.ir.ops.step_sums import StepSums
from zenith.ir.text import parse
from zenith.transforms.reverse import vjp_graph
from zenith.transforms.split import split


def residuals(source, **options):
    """Type and primitive of each residual of a derivative, and the primitives of its backward pass."""
    graph = parse(source)
    joint = vjp_graph(graph, [True] * len(graph.inputs), [True])
    late = [i >= len(graph.inputs) for i in range(len(joint.inputs))]
    pair = split(joint, late, **options)
    made = [node.primitive.name for _, node in pair.unknown.nodes()]
    return [(str(v.type), pair.known.node(v.node).primitive.name) for v in pair.residual_values], made


def test_the_result_of_a_function_is_saved_rather_than_its_derivative():
    saved, made = residuals("def f(x: f32[n]) -> (f32[n]):\n    v1 = tanh(x)\n    return (v1,)")
    assert saved == [("f32[n]", "tanh")]
    assert {"mul", "sub"} <= set(made)


def test_cheap_operations_are_recomputed_and_expensive_ones_are_saved():
    chain = "\n    ".join(f"v{i + 1} = mul(v{i}, v{i})" for i in range(1, 4))
    saved, made = residuals(f"def f(x: f32[n]) -> (f32[n]):\n    v1 = mul(x, x)\n    {chain}\n    return (v4,)")
    assert saved == [("f32[n]", "input")]
    assert made.count("mul") > 4
    saved, made = residuals(
        "def f(x: f32[n]) -> (f32[n]):\n    v1 = exp(x)\n    v2 = sin(v1)\n    return (v2,)", there=()
    )
    assert {name for _, name in saved} <= {"exp", "cos", "input"} and saved
    assert "exp" not in made


def test_views_are_recomputed_from_their_operands():
    source = "def f(x: f32[n, m], w: f32[m, k]) -> (f32[n, k]):\n    v1 = matmul(x, w)\n    return (v1,)"
    saved, made = residuals(source)
    assert saved == [("f32[n, m]", "input"), ("f32[m, k]", "input")]
    assert made.count("transpose") == 2


def rnn_gradient(length):
    w = np.eye(8, dtype=np.float32)

    def loss(w, h, xs):
        last, ys = zenith.scan(lambda h, x: (np.tanh(h @ w + x), h), h, xs)
        return np.sum(ys * ys) + np.sum(last)

    gradient = zenith.jit(zenith.grad(loss))
    gradient(w, np.zeros((2, 8), np.float32), np.ones((length, 2, 8), np.float32))
    return gradient


def test_a_scan_stacks_no_matrix_that_is_the_same_in_all_steps_and_carries_no_sum_of_products():
    scans = [node for node in rnn_gradient(5).graph.walk() if node.primitive.name == "scan"]
    assert len(scans) == 2
    for scan in scans:
        assert scan.params["carried"] == 1
        stacked = scan.types[1:]
        assert all(str(t).count(",") == 2 for t in stacked), stacked
        assert len(stacked) <= 2


@pytest.mark.parametrize("use", ["once", "twice", "transposed", "with another addend", "large rows"])
def test_sums_over_steps_after_the_loop_are_those_of_the_unrolled_loop(use):
    rng = np.random.default_rng(3)
    w, b, h = (
        rng.standard_normal((4, 4)),
        rng.standard_normal(4),
        rng.standard_normal((9 if use == "large rows" else 2, 4)),
    )
    xs = rng.standard_normal((5, *h.shape))
    steps = {
        "once": lambda w, b, h, x: np.tanh(h @ w + x + b),
        "twice": lambda w, b, h, x: np.tanh(np.tanh(h @ w + b) @ w + x),
        "transposed": lambda w, b, h, x: np.tanh(h @ w.T + x * b),
        "with another addend": lambda w, b, h, x: np.tanh(h @ w + x + b) * np.sum(w * w) + np.sin(w[0]),
        "large rows": lambda w, b, h, x: np.tanh(h @ w + x + b),
    }

    def looped(w, b):
        return np.sum(zenith.scan(lambda h, x: (steps[use](w, b, h, x), None), h, xs)[0])

    def unrolled(w, b):
        state = h
        for x in xs:
            state = steps[use](w, b, state, x)
        return np.sum(state)

    for wrap in (zenith.jit, lambda f: f):
        found, wanted = (wrap(zenith.grad(f, argnums=(0, 1)))(w, b) for f in (looped, unrolled))
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    found = zenith.vmap(zenith.grad(looped))(np.stack([w, 2 * w]), np.stack([b, b]))
    np.testing.assert_allclose(found[0], zenith.grad(unrolled)(w, b), rtol=1e-10, atol=1e-12)
    second, unrolled_second = (
        zenith.grad(lambda w, f=f: np.sum(zenith.grad(f)(w, b) ** 2))(w) for f in (looped, unrolled)
    )
    np.testing.assert_allclose(second, unrolled_second, rtol=1e-9, atol=1e-11)


def test_long_chains_are_recomputed_without_recursion():
    def chain(x):
        for _ in range(1500):
            x = x * x + 0.1
        return np.sum(x)

    with zenith.disable_jit():
        wanted = zenith.grad(chain)(np.full(3, 0.2))
    compiled = zenith.jit(zenith.grad(chain), backend="reference")
    np.testing.assert_allclose(compiled(np.full(3, 0.2)), wanted, rtol=1e-12)
    assert sum(node.primitive.name == "optimization_barrier" for node in compiled.graph.walk()) <= 2


def test_a_sum_that_is_read_twice_is_one_addend():
    doubled = [f"    v{i + 2} = add(v{i + 1}, v{i + 1})" for i in range(10)]
    lines = ["def step(x: f64[3]) -> (f64[3]):", "    v1 = add(x, x)", *doubled, "    return (v11,)"]
    sums = StepSums(parse("\n".join(lines)), 1, same=[], parts=[])
    assert len(sums.carried[0]) == 2


def saved_values(activation, backend):
    """How many residuals a gradient saves of a layer: all results of its kernel are residuals."""
    shapes = [zenith.ShapeDtypeStruct(s, "float32") for s in (("n", 8), (8, 16), (16, 4))]
    gradient = zenith.grad(lambda x, w, v: np.sum(activation(x @ w) @ v), argnums=(0, 1, 2))
    graph = zenith.jit(gradient, backend=backend).lower(*shapes)._lowering.lowered.graph
    first = next(node for _, node in graph.nodes() if node.primitive.name == "fused")
    return len(first.types)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978846 * (x + 0.044715 * x * x * x)))


@pytest.mark.parametrize(
    ("activation", "backend", "saved"),
    [
        (lambda x: np.maximum(x, 0), "cpu", 1),  # its argument, not the mask
        (gelu, "cpu", 2),  # its argument and the tanh in it, not 1 - tanh**2
        (gelu, "cuda", 1),  # its argument, where moving bytes takes longer
    ],
    ids=["relu", "gelu", "gelu on a GPU"],
)
def test_local_derivatives_are_no_results_of_the_forward_pass(activation, backend, saved):
    assert saved_values(activation, backend) == saved
