"""Attention in one kernel: shapes, masks and strides against float64; its memory; the same bits on any team."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.backends.running import call, check, compiled, plan_of
from zenith.backends.cpu.vectors import TABLE, host_features, select
from zenith.ir.interpret import interpret
from zenith.ir.text import parse
from zenith.ir.types import bfloat16


def graph(shape, kinds, mask="none", causal=False, empty=0.0, scale=0.3, lead=()):
    """Attention of S queries and T keys, of D and E columns, given by ``shape``: sizes or names."""
    s, t, d, e = shape
    leading = "".join(f"{n}, " for n in lead)
    inputs = [f"q: {kinds}[{leading}{s}, {d}]", f"k: {kinds}[{leading}{t}, {d}]", f"v: {kinds}[{leading}{t}, {e}]"]
    operands = "q, k, v"
    if mask != "none":
        inputs.append(f"m: {'bool' if mask == 'bool' else kinds}[{leading}{s}, {t}]")
        operands += ", m"
    params = f"scale={scale}, causal={causal}, mask={mask!r}, empty={empty}"
    lines = [f"    v1, l = attention({operands}, {params})", "    return (v1,)"]
    return parse(f"def f({', '.join(inputs)}) -> ({kinds}[{leading}{s}, {e}]):\n" + "\n".join(lines))


def arguments(shape, dtype, mask="none", lead=(), seed=0):
    s, t, d, e = shape
    rng = np.random.default_rng(seed)
    found = [rng.standard_normal((*lead, n, m)).astype(dtype) for n, m in ((s, d), (t, d), (t, e))]
    if mask == "add":
        found.append(rng.standard_normal((*lead, s, t)).astype(dtype))
    if mask == "bool":
        seen = rng.random((*lead, s, t)) < 0.7
        seen[..., : s // 3, :] = False
        found.append(seen)
    return found


def exact(values, mask, causal, empty=0.0, scale=0.3):
    wide = [v.astype(np.float64) if v.dtype.kind == "f" else v for v in values]
    lead = tuple(f"l{i}" for i in range(values[0].ndim - 2))
    return interpret(graph(("s", "t", "d", "e"), "f64", mask, causal, empty, scale, lead), *wide)[0]


def close(result, values, mask, causal, **options):
    """Within some roundings of the weighted sum of the values' magnitudes."""
    q, k, v, *masks = values
    sizes = exact([q, k, np.abs(v), *masks], mask, causal, **options)
    scores = np.abs(q).astype(np.float64) @ np.abs(np.swapaxes(k, -1, -2))
    slack = 8 * np.finfo(result.dtype).eps * (4 + 0.3 * scores.max(initial=0.0)) * (sizes + 1e-30)
    wrong = np.abs(result - exact(values, mask, causal, **options)) > slack
    assert not wrong.any(), f"{wrong.sum()} of {wrong.size} elements"


SHAPES = [
    (1, 1, 16, 16), (1, 5, 64, 64), (1, 1030, 64, 64), (2, 300, 32, 48), (3, 7, 5, 3), (4, 4, 16, 16), (5, 5, 64, 64),
    (6, 6, 1, 1), (17, 9, 80, 80), (40, 130, 96, 20), (64, 64, 64, 64), (65, 63, 128, 128), (130, 200, 32, 256),
    (70, 1, 16, 17), (12, 0, 8, 8), (0, 5, 8, 8), (9, 5, 0, 4), (9, 5, 4, 0), (130, 77, 256, 100),
]  # fmt: skip
KINDS = [("none", False), ("none", True), ("bool", False), ("add", True)]


@pytest.mark.parametrize(("mask", "causal"), KINDS)
def test_every_shape_from_symbols(mask, causal):
    program = graph(("s", "t", "d", "e"), "f32", mask, causal)
    executable = compiled(program, "cpu")
    for seed, shape in enumerate(SHAPES):
        values = arguments(shape, np.float32, mask, seed=seed)
        (result,) = call(executable, program, values)
        close(result, values, mask, causal)


BRAIN = bfloat16.numpy
needs_pairs = pytest.mark.skipif(not select().multiplies_pairs, reason="no instruction for pairs of bfloat16")


def close_in_brain(result, values, mask, causal):
    """Within the roundings of the result and of weights, to bfloat16; queries and keys are small."""
    wide = [v.astype(np.float32) if v.dtype == BRAIN else v for v in values]
    q, k, v, *masks = wide
    sizes = exact([q, k, np.abs(v), *masks], mask, causal)
    wrong = np.abs(result.astype(np.float64) - exact(wide, mask, causal)) > 2**-7 * sizes
    assert result.dtype == BRAIN and not wrong.any(), f"{wrong.sum()} of {wrong.size} elements"


@needs_pairs
@pytest.mark.parametrize(("mask", "causal"), KINDS)
def test_pairs_of_bfloat16_of_every_shape(mask, causal):
    program = graph(("s", "t", "d", "e"), "bf16", mask, causal)
    executable = compiled(program, "cpu")
    for seed, shape in enumerate(SHAPES):
        values = arguments(shape, BRAIN, mask, seed=seed)
        close_in_brain(call(executable, program, values)[0], values, mask, causal)


@needs_pairs
@pytest.mark.parametrize("shape", [(128, 128, 64, 64), (1, 70, 80, 80), (20, 21, 33, 32), (9, 33, 20, 36)], ids=str)
def test_pairs_of_bfloat16_of_fixed_shapes(shape):
    program, values = graph(shape, "bf16"), arguments(shape, BRAIN)
    close_in_brain(call(compiled(program, "cpu"), program, values)[0], values, "none", False)


@needs_pairs
def test_keys_after_the_last_are_not_read():
    """What is not finite beyond a block's keys, of an odd number, or beyond their terms, gets into no sum."""
    program = graph(("s", "t", "d", "e"), "bf16")
    executable = compiled(program, "cpu")
    for shape in ((70, 65, 33, 20), (8, 7, 5, 3)):
        values = arguments(shape, BRAIN)
        whole = [np.full((v.shape[0] + 9, v.shape[1] + 9), np.nan, BRAIN) for v in values]
        inside = [np.ndarray(v.shape, BRAIN, w.reshape(-1)[20:]) for v, w in zip(values, whole, strict=True)]
        for v, w in zip(values, inside, strict=True):
            w[:] = v
        close_in_brain(call(executable, program, inside)[0], values, "none", False)


def test_weights_are_rounded_only_where_the_result_is():
    """Attention in float32 of values that were bfloat16 is as exact as ever."""
    program = parse("""def f(q: bf16[40, 32], k: bf16[70, 32], v: bf16[70, 32]) -> (f32[40, 32]):
    v1 = cast(q, dtype=f32)
    v2 = cast(k, dtype=f32)
    v3 = cast(v, dtype=f32)
    v4, l = attention(v1, v2, v3, scale=0.3, causal=False, mask='none', empty=0.0)
    return (v4,)""")
    values = arguments((40, 70, 32, 32), BRAIN)
    (result,) = call(compiled(program, "cpu"), program, values)
    close(result, [v.astype(np.float32) for v in values], "none", False)


@pytest.mark.parametrize("shape", [(128, 128, 64, 64), (1, 70, 80, 80), (20, 20, 32, 32), (9, 33, 20, 36)], ids=str)
def test_fixed_shapes(shape):
    for kinds, dtype in (("f32", np.float32), ("f64", np.float64)):
        program, values = graph(shape, kinds), arguments(shape, dtype)
        (result,) = call(compiled(program, "cpu"), program, values)
        assert result.dtype == dtype
        close(result, values, "none", False)


@pytest.mark.parametrize("isa", ["avx512", "avx2", pytest.param("portable", marks=pytest.mark.thorough)])
def test_every_instruction_set(isa):
    """In a process of its own, since the instruction set is chosen once."""
    if not TABLE[isa].runs_on(host_features()):
        pytest.skip(f"this processor does not execute {isa}")
    script = "from tests.backends.cpu.test_attention import same_on_lanes; same_on_lanes()"
    environment = {**os.environ, "ZENITH_ISA": isa}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def same_on_lanes():
    """A shape that runs every loop, compiled and as NumPy."""
    for shape in ((70, 45, 20, 36), (2, 45, 20, 36), (70, 45, 21, 36)):
        program, values = graph(shape, "f32", "bool", True), arguments(shape, np.float32, "bool")
        brain = graph(shape, "bf16", "bool", True)
        for backend in ("cpu", "lanes"):
            check(call(compiled(program, backend), program, values), program, values)
            short = arguments(shape, BRAIN, "bool")
            close_in_brain(call(compiled(brain, backend), brain, short)[0], short, "bool", True)


STRIDED = """def f(q: f32[b, s, h, 16], k: f32[b, t, g, 16], v: f32[b, g, 16, t], m: f32[b, t]) -> (f32[b, s, n]):
    v1 = reshape(q, shape=(b, s, g, 2, 16))
    v2 = transpose(v1, axes=(0, 2, 3, 1, 4))
    v3 = transpose(k, axes=(0, 2, 1, 3))
    v4 = broadcast(v3, shape=(b, g, 2, t, 16), axes=(0, 1, 3, 4))
    v5 = transpose(v, axes=(0, 1, 3, 2))
    v6 = broadcast(v5, shape=(b, g, 2, t, 16), axes=(0, 1, 3, 4))
    v7 = broadcast(m, shape=(b, g, 2, s, t), axes=(0, 4))
    v8, l = attention(v2, v4, v6, v7, scale=0.25, causal=False, mask='add', empty=0.0)
    v9 = transpose(v8, axes=(0, 3, 1, 2, 4))
    v10 = reshape(v9, shape=(b, s, n))
    return (v10,)"""


def test_transposed_grouped_and_broadcast_operands_are_read_where_they_are():
    """Heads after the queries, two heads to a key, keys of V in its rows, a mask for all: one launch, no memory."""
    program = parse(STRIDED.replace("h,", "6,").replace("g", "3").replace("[b, s, n]", "[b, s, 96]").replace(
        "(b, s, n)", "(b, s, 96)"))  # fmt: skip
    plan = plan_of(program)
    assert len(plan.steps) == 1 and plan.arena == 0
    rng = np.random.default_rng(0)
    shapes = ((2, 70, 6, 16), (2, 90, 3, 16), (2, 3, 16, 90), (2, 90))
    values = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    check(call(compiled(program, "cpu"), program, values), program, values)


def test_memory_is_linear_in_the_sequence():
    plan = plan_of(graph(("s", "t", "d", "e"), "f32", lead=("b",)))
    sizes = {"b": 2, "d": 64, "e": 64}
    small, large = (plan.arena.evaluate({**sizes, "s": n, "t": n}) for n in (1000, 10000))
    assert large <= 11 * small
    assert plan_of(graph(("s", "t", 64, 64), "f32", lead=("b", 12))).arena == 0


@pytest.mark.parametrize("mask", ["bool", "add"])
@pytest.mark.parametrize("queries", [2, 30])
@pytest.mark.parametrize("empty", [0.0, float("nan")])
def test_a_query_that_sees_nothing(mask, queries, empty):
    text = "nan" if empty != empty else empty
    for kinds, backend in (("f32", "cpu"), ("f64", "cpu"), ("f32", "lanes")):
        program = graph(("s", "t", "d", "e"), kinds, mask, empty=text)
        values = arguments((queries, 70, 16, 20), np.float32 if kinds == "f32" else np.float64, mask)
        hidden = values[3]
        hidden[1] = False if mask == "bool" else -np.inf
        (result,) = call(compiled(program, backend), program, values)
        np.testing.assert_array_equal(result[1], np.full(20, empty, result.dtype))
        assert np.isfinite(result[hidden.any(1) if mask == "bool" else np.arange(queries) != 1]).all()


def test_without_keys_averages_are_zero():
    for empty in ("0.0", "nan"):
        program = graph(("s", "t", "d", "e"), "f32", empty=empty)
        for backend in ("cpu", "lanes"):
            (result,) = call(compiled(program, backend), program, arguments((9, 0, 4, 5), np.float32))
            np.testing.assert_array_equal(result, np.zeros((9, 5)))


def test_scores_may_be_negative_zero_infinite_or_nan():
    """A negative and a zero scale under a causal mask; infinite products; a nan reaches its query only."""
    for scale in (-0.5, 0.0):
        program = graph(("s", "t", "d", "e"), "f32", causal=True, scale=scale)
        values = arguments((20, 30, 8, 8), np.float32)
        (result,) = call(compiled(program, "cpu"), program, values)
        close(result, values, "none", True, scale=scale)
    program, values = graph(("s", "t", "d", "e"), "f32"), arguments((20, 30, 8, 8), np.float32)
    values[0][3, 2], values[0][4], values[0][5] = np.nan, 1e30, 1e38
    (result,) = call(compiled(program, "cpu"), program, values)
    expected = exact(values, "none", False)
    assert np.isnan(result[3]).all() and np.isfinite(np.delete(result, [3, 5], axis=0)).all()
    np.testing.assert_allclose(result[4], expected[4], rtol=1e-4)


def bits(threads):
    """The bits of results of several shapes, from a process with a team of that size."""
    script = (
        "import hashlib, numpy as np; from tests.backends.cpu.test_attention import *\n"
        "digest = hashlib.sha256()\n"
        "program = graph(('s', 't', 32, 48), 'f32', causal=True, lead=('b',)); executable = compiled(program, 'cpu')\n"
        "for shape in ((300, 300, 32, 48), (1, 700, 32, 48), (3, 40, 32, 48)):\n"
        "    digest.update(call(executable, program, arguments(shape, np.float32, lead=(5,)))[0].tobytes())\n"
        "print(digest.hexdigest())"
    )
    environment = {**os.environ, "ZENITH_NUM_THREADS": str(threads)}
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_results_do_not_depend_on_the_team():
    assert bits(1) == bits(2) == bits(3)
