"""Attention by teams of threads, planned for a GPU and run on lanes: shapes, masks and strides against float64."""

import numpy as np
import pytest

from tests.backends.cpu.test_attention import KINDS, SHAPES, STRIDED, arguments, close, exact, graph
from tests.backends.running import call, check, compiled, plan_of
from zenith.backends.cuda.shared import shared_bytes
from zenith.backends.cuda.target import SHARED, cuda_target
from zenith.ir.text import parse

HERE = "cuda on lanes"


def run(program, values):
    (result,) = call(compiled(program, HERE), program, values)
    return result


@pytest.mark.parametrize(("mask", "causal"), KINDS)
def test_every_shape_from_symbols(mask, causal):
    program = graph(("s", "t", "d", "e"), "f32", mask, causal)
    executable = compiled(program, HERE)
    for seed, shape in enumerate(SHAPES):
        values = arguments(shape, np.float32, mask, seed=seed)
        (result,) = call(executable, program, values)
        close(result, values, mask, causal)


@pytest.mark.parametrize("shape", [(128, 128, 64, 64), (1, 70, 80, 80), (20, 20, 16, 16), (33, 65, 256, 256)], ids=str)
@pytest.mark.parametrize(("kinds", "dtype"), [("f32", np.float32), ("f64", np.float64)])
@pytest.mark.parametrize(("mask", "causal"), [("none", False), ("bool", True)])
def test_fixed_shapes(shape, kinds, dtype, mask, causal):
    program, values = graph(shape, kinds, mask, causal), arguments(shape, dtype, mask)
    result = run(program, values)
    assert result.dtype == dtype
    close(result, values, mask, causal)


def test_transposed_grouped_and_broadcast_operands_are_read_where_they_are():
    """Heads after the queries, two heads to a key, keys of V in its rows, a mask for all: one launch, no memory."""
    program = parse(STRIDED.replace("h,", "6,").replace("g", "3").replace("[b, s, n]", "[b, s, 96]").replace(
        "(b, s, n)", "(b, s, 96)"))  # fmt: skip
    plan = plan_of(program, cuda_target())
    assert len(plan.steps) == 1 and plan.arena == 0
    rng = np.random.default_rng(0)
    shapes = ((2, 70, 6, 16), (2, 90, 3, 16), (2, 3, 16, 90), (2, 90))
    values = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    check(call(compiled(program, HERE), program, values), program, values)


@pytest.mark.parametrize("kinds", ["f32", "f64"])
@pytest.mark.parametrize("head", [1, 16, 64, 80, 128, 256])
def test_a_head_is_in_shared_memory(kinds, head):
    plan = plan_of(graph(("s", "t", head, head), kinds, "bool", True, lead=("b",)), cuda_target())
    (launch,) = plan.steps
    assert plan.arena == 0 and shared_bytes(launch.kernel) <= SHARED


@pytest.mark.parametrize("columns", ["e", 1000])
def test_sums_of_other_heads_are_memory_linear_in_the_queries(columns):
    plan = plan_of(graph(("s", "t", 64, columns), "f32", lead=("b",)), cuda_target())
    small, large = (plan.arena.evaluate({"b": 2, "e": 1000, "s": n, "t": n}) for n in (1024, 10240))
    assert large == 10 * small <= 10 * 2 * 1024 * 1000 * 4 * 33 // 32
    assert shared_bytes(plan.steps[0].kernel) <= SHARED


@pytest.mark.parametrize("mask", ["bool", "add"])
@pytest.mark.parametrize("queries", [2, 40])
@pytest.mark.parametrize("empty", [0.0, float("nan")])
def test_a_query_that_sees_nothing(mask, queries, empty):
    program = graph(("s", "t", "d", "e"), "f32", mask, empty="nan" if empty != empty else empty)
    values = arguments((queries, 70, 16, 20), np.float32, mask)
    hidden = values[3]
    hidden[1] = False if mask == "bool" else -np.inf
    result = run(program, values)
    np.testing.assert_array_equal(result[1], np.full(20, empty, result.dtype))
    assert np.isfinite(result[hidden.any(1) if mask == "bool" else np.arange(queries) != 1]).all()


@pytest.mark.parametrize("empty", ["0.0", "nan"])
def test_without_keys_averages_are_zero(empty):
    program = graph(("s", "t", "d", "e"), "f32", empty=empty)
    np.testing.assert_array_equal(run(program, arguments((9, 0, 4, 5), np.float32)), np.zeros((9, 5)))


def test_scores_may_be_negative_zero_infinite_or_nan():
    """A negative and a zero scale under a causal mask; infinite products; a nan reaches its query only."""
    for scale in (-0.5, 0.0):
        program = graph(("s", "t", "d", "e"), "f32", causal=True, scale=scale)
        values = arguments((70, 80, 8, 8), np.float32)
        close(run(program, values), values, "none", True, scale=scale)
    program, values = graph(("s", "t", "d", "e"), "f32"), arguments((70, 80, 8, 8), np.float32)
    values[0][3, 2], values[0][4], values[0][5] = np.nan, 1e30, 1e38
    result, expected = run(program, values), exact(values, "none", False)
    assert np.isnan(result[3]).all() and np.isfinite(np.delete(result, [3, 5], axis=0)).all()
    np.testing.assert_allclose(result[4], expected[4], rtol=1e-4)
