"""The pipeline: reports, debug mode, switches; random programs keep their meaning; NumPy's idioms take one form."""

import numpy as np
import pytest

from tests.fuzz import programs
from tests.passes.compare import program, random_arguments
from tests.programs import random_program, reference_bounds, violations
from tests.rewrite import damaged
from zenith.config import config
from zenith.errors import SourceLine, VerifyError
from zenith.ir.builder import Builder
from zenith.ir.dims import symbol
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.lowering import Fold, Scalar
from zenith.ir.types import ArrayType, float32
from zenith.ir.verify import verify
from zenith.passes.pipeline import PIPELINE, run
from zenith.passes.simplify import simplify

UNFUSED = tuple(p for p in PIPELINE if p.__name__ != "fuse")
EACH = list({p.__name__: p for p in PIPELINE}.values())
PROGRAMS = programs(30, one_in=4)
NEGATIONS = program("x: f32[n]", "v1 = neg(x)\nv2 = neg(v1)\nreturn (v2,)")


def test_reports_say_what_each_pass_did():
    graph, reports = run(NEGATIONS)
    assert [r.name for r in reports] == [p.__name__ for p in PIPELINE]
    assert (reports[0].before, reports[-1].after) == (3, len(graph)) and len(graph) == 1
    assert all(r.milliseconds >= 0 for r in reports)
    assert "3 -> 3 nodes" in str(reports[0])


def test_passes_are_switched_off_by_name():
    graph, reports = run(NEGATIONS, disabled=("simplify", "fuse"))
    assert len(graph) == 3 and not {"simplify", "fuse"} & {r.name for r in reports}
    with pytest.raises(ValueError, match="no such pass: simplfy"):
        run(NEGATIONS, disabled=("simplfy",))


def broken(graph):
    """A pass that records a wrong type."""
    number = next(i for i, n in graph.nodes() if n.primitive.name == "neg")
    return damaged(graph, number, types=(ArrayType(float32, (3,)),), line=SourceLine("model.py", 7, "step"))


def test_debug_mode_names_the_pass_and_the_line(monkeypatch):
    run(NEGATIONS, passes=(broken,), debug=False)
    with pytest.raises(VerifyError, match=r"pass broken made a malformed graph: .*\n[\s\S]*model\.py:7 in step"):
        run(NEGATIONS, passes=(broken,), debug=True)
    monkeypatch.setattr(config, "debug", True)
    with pytest.raises(VerifyError, match="pass broken"):
        run(NEGATIONS, passes=(broken,))


def test_debug_mode_verifies_what_comes_in():
    with pytest.raises(VerifyError):
        run(broken(NEGATIONS), passes=(simplify,), debug=True)


def assert_within_bounds(graph, args, results):
    assert violations(results, reference_bounds(graph, args)) == []


@pytest.mark.parametrize("step", EACH, ids=lambda p: p.__name__)
def test_one_pass_keeps_the_meaning(step):
    for seed in range(5):
        graph, args = random_program(seed)
        text = str(graph)
        result = verify(step(graph))
        assert str(graph) == text
        assert_within_bounds(graph, args, interpret(result, *args))


@pytest.mark.parametrize("left_out", [p.__name__ for p in EACH])
def test_the_pipeline_without_a_pass_keeps_the_meaning(left_out):
    for seed in range(20, 23):
        graph, args = random_program(seed)
        needed = left_out in ("expand", "split_reductions")  # fusion asks for what these two leave
        result, _ = run(graph, debug=True, disabled={left_out, *(("fuse",) if needed else ())})
        assert_within_bounds(graph, args, interpret(result, *args))


@pytest.mark.fuzz
@pytest.mark.parametrize("symbolic", [True, False], ids=["symbolic", "static"])
def test_the_pipeline_keeps_the_meaning(symbolic):
    for seed in range(1000, 1000 + PROGRAMS):
        graph, args = random_program(seed, symbolic=symbolic)
        result, _ = run(graph, debug=True)
        assert_within_bounds(graph, args, interpret(result, *args))


# --- the form that NumPy's idioms take ------------------------------------------------------------------------------


class Numpy:
    """Graphs as if of traced NumPy code: every broadcast is explicit, keepdims is a reshape, sizes are symbols."""

    def __init__(self, *shape):
        self.graph = Graph("f")
        self.x = self.graph.add_input(ArrayType(float32, [symbol(n) if isinstance(n, str) else n for n in shape]), "x")
        self.b = Builder(self.graph)

    def reduce(self, name, x):
        """Along the last axis, with keepdims=True."""
        out = getattr(self.b, name)(x, axes=(len(x.shape) - 1,))
        return self.b.reshape(out, shape=(*x.shape[:-1], 1))

    def like(self, small, x):
        """Broadcast to the shape of ``x``."""
        axes = range(len(x.shape) - len(small.shape), len(x.shape))
        return self.b.broadcast(small, shape=x.shape, axes=tuple(axes))

    def mean(self, x):
        total = self.reduce("reduce_sum", x)
        count = self.b.cast(self.b.size(value=x.shape[-1]), dtype=float32)
        return self.b.div(total, self.like(count, total))

    def finish(self, *results):
        self.graph.set_outputs(results)
        return self.graph


def layernorm(np_, weight):
    b, x = np_.b, np_.x
    d = b.sub(x, np_.like(np_.mean(x), x))
    var = np_.mean(b.power(d, 2.0))
    return np_.finish(b.mul(b.div(d, np_.like(b.sqrt(b.add(var, 1e-5)), x)), np_.like(weight, x)))


def softmax(np_):
    b, x = np_.b, np_.x
    e = b.exp(b.sub(x, np_.like(np_.reduce("reduce_max", x), x)))
    return np_.finish(b.div(e, np_.like(np_.reduce("reduce_sum", e), e)))


def rms(np_):
    b, x = np_.b, np_.x
    scale = b.div(b.full(1.0, float32, (*x.shape[:-1], 1)), b.sqrt(b.add(np_.mean(b.mul(x, x)), 1e-6)))
    return np_.finish(b.mul(x, np_.like(scale, x)), b.neg(scale))


def with_weight(*shape):
    np_ = Numpy(*shape)
    weight = np_.graph.add_input(ArrayType(float32, (np_.x.shape[-1],)), "w")
    return layernorm(np_, weight)


IDIOMS = {
    f"{name} of rank {len(shape)}{' static' if 1 in shape else ''}": make(shape)
    for shape in (("n", "m"), ("a", "b", "m"), (1, 8))
    for name, make in (
        ("layernorm", lambda s: with_weight(*s)),
        ("softmax", lambda s: softmax(Numpy(*s))),
        ("rms", lambda s: rms(Numpy(*s))),
    )
}


@pytest.mark.parametrize("name", IDIOMS)
def test_what_follows_a_row_reduction_works_on_rows(name):
    """A reduction's result meets only elementwise work of its own shape, and the broadcast back."""
    graph = IDIOMS[name]
    result, _ = run(graph, passes=UNFUSED, debug=True)
    small = graph.inputs[0].shape[:-1]
    for number, node in result.nodes():
        if not isinstance(node.primitive.lowering, Scalar | Fold) or node.types[0].shape != small:
            continue
        for _, user, _ in result.users(number):
            other = result.node(user)
            fits = isinstance(other.primitive.lowering, Scalar) and other.types[0].shape == small
            spread = other.primitive.name == "broadcast" and other.params["axes"] == tuple(range(len(small)))
            leaves = other.primitive.name == "reshape" and not result.users(user)
            assert fits or spread or leaves, str(result)
    sizes = {"n": 3, "m": 5, "a": 2, "b": 4}
    args = random_arguments(graph, sizes)
    for a, b in zip(interpret(graph, *args), interpret(result, *args), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6)


@pytest.mark.parametrize("name", IDIOMS)
def test_each_idiom_is_one_kernel_of_rows(name):
    result, _ = run(IDIOMS[name], debug=True)
    anchors = [n.params["anchor"] for _, n in result.nodes() if n.primitive.name == "fused"]
    assert anchors.count("rows") == 1


def test_gelu_of_a_linear_layer_is_an_epilogue_of_one_product():
    body = """
    w1 = broadcast(w, shape=(b, m, k), axes=(1, 2))
    v1 = matmul(x, w1)
    c1 = broadcast(c, shape=(b, s, k), axes=(2,))
    v2 = add(v1, c1)
    l3 = literal(value=3.0, dtype=f32)
    v3 = broadcast(l3, shape=(b, s, k), axes=())
    v4 = power(v2, v3)
    l5 = literal(value=0.044715, dtype=f32)
    v5 = broadcast(l5, shape=(b, s, k), axes=())
    v6 = mul(v5, v4)
    v7 = add(v2, v6)
    v8 = tanh(v7)
    l9 = literal(value=1.0, dtype=f32)
    v9 = broadcast(l9, shape=(b, s, k), axes=())
    v10 = add(v9, v8)
    v11 = mul(v2, v10)
    return (v11,)"""
    graph = program("x: f32[b, s, m], w: f32[m, k], c: f32[k]", body)
    result, _ = run(graph, debug=True)
    names = [n.primitive.name for _, n in result.nodes()]
    assert names == ["input", "input", "input", "reshape", "fused", "reshape"]
    (kernel,) = (n for _, n in result.nodes() if n.primitive.name == "fused")
    inside = {n.primitive.name for _, n in kernel.params["body"].nodes()}
    assert kernel.params["anchor"] == "product" and "power" not in inside and "tanh" in inside
