"""The backward pass of attention: shapes, masks and strides against float64; its memory; the same bits on any team."""

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.backends.cpu.test_attention import KINDS
from tests.backends.running import call, check, compiled, plan_of
from tests.sampling import leave
from zenith.backends.steps import LaunchStep, walk
from zenith.ir.interpret import interpret
from zenith.ir.text import parse

STEP = """def f({inputs}) -> ({results}):
    o, l = attention({operands}, scale={scale}, causal={causal}, mask='{mask}', empty={empty})
    o1 = cast(o, dtype={sums})
    ct1 = cast(ct, dtype={sums})
    p = mul(o1, ct1)
    m = reduce_sum(p, axes=({last},))
    dq, dk, dv = attention_vjp(q, k, v, ct, l, m{tail}, scale={scale}, causal={causal}, mask='{mask}')
    return (o, l, dq, dk, dv)"""
SCALE = 0.3


def graph(shape, kinds, mask="none", causal=False, lead=(), empty="0.0"):
    """Forward and backward pass for S queries and T keys, of D and E columns, given by ``shape``: sizes or names."""
    s, t, d, e = shape
    before = "".join(f"{n}, " for n in lead)
    q, k, v, o = (f"{kinds}[{before}{x}]" for x in (f"{s}, {d}", f"{t}, {d}", f"{t}, {e}", f"{s}, {e}"))
    inputs = f"q: {q}, k: {k}, v: {v}, ct: {o}"
    if mask != "none":
        inputs += f", mask: {'bool' if mask == 'bool' else kinds}[{before}{s}, {t}]"
    sums = "f32" if kinds in ("f16", "bf16") else kinds
    results = f"{o}, {sums}[{before}{s}], {q}, {k}, {v}"
    tail = "" if mask == "none" else ", mask"
    words = {
        "scale": SCALE,
        "causal": causal,
        "mask": mask,
        "empty": empty,
        "last": len(lead) + 1,
        "tail": tail,
        "sums": sums,
    }
    return parse(STEP.format(inputs=inputs, results=results, operands=f"q, k, v{tail}", **words))


def arguments(shape, dtype, mask="none", lead=(), seed=0):
    s, t, d, e = shape
    rng = np.random.default_rng(seed)
    found = [rng.standard_normal((*lead, n, m)).astype(dtype) for n, m in ((s, d), (t, d), (t, e), (s, e))]
    if mask == "add":
        found.append(rng.standard_normal((*lead, s, t)).astype(dtype))
    if mask == "bool":
        seen = rng.random((*lead, s, t)) < 0.7
        seen[..., : s // 3, :] = False
        found.append(seen)
    return found


def exact(values, mask, causal):
    wide = [x if x.dtype == bool else x.astype(np.float64) for x in values]
    lead = tuple(f"l{i}" for i in range(values[0].ndim - 2))
    return interpret(graph(("s", "t", "d", "e"), "f64", mask, causal, lead), *wide)


def close(results, values, mask, causal, eps=None, least=1e-30):
    """Within some roundings of the sums of the magnitudes of all terms; ``least`` is the smallest number that is
    rounded to ``eps`` of itself.
    """
    q, k, v, ct, *masks = (x if x.dtype == bool else np.abs(x).astype(np.float64) for x in values)
    eps = np.finfo(results[0].dtype).eps if eps is None else eps
    weights = exact_weights(values, mask, causal) + least
    dscores = least + weights * (ct @ transposed(v) + np.sum((weights @ v) * ct, axis=-1, keepdims=True))
    scores = SCALE * np.max(q @ transposed(k), initial=0.0) + max((np.max(m, initial=0.0) for m in masks), default=0.0)
    sizes = SCALE * dscores @ k, SCALE * transposed(dscores) @ q, transposed(weights) @ ct
    expected = exact(values, mask, causal)[2:]
    for name, result, wanted, size in zip(("dq", "dk", "dv"), results[2:], expected, sizes, strict=True):
        assert result.shape == wanted.shape
        wrong = np.abs(result - wanted) > 8 * eps * (4 + scores) * (size + least)
        assert not wrong.any(), f"{wrong.sum()} of {wrong.size} elements of {name}"


def exact_weights(values, mask, causal):
    """Every weight in float64: the averages of a matrix of ones and zeros."""
    t = values[1].shape[-2]
    ones = np.broadcast_to(np.eye(t), (*values[0].shape[:-2], t, t))
    nothing = np.zeros((*values[0].shape[:-1], t))
    return exact([values[0], values[1], ones, nothing, *values[4:]], mask, causal)[0]


def transposed(x):
    return np.swapaxes(x, -1, -2)


SHAPES = [
    (1, 1, 16, 16), (1, 5, 64, 64), (1, 300, 64, 64), (2, 130, 32, 48), (3, 7, 5, 3), (17, 9, 80, 80),
    (40, 130, 96, 20), (64, 64, 64, 64), (65, 63, 128, 128), (130, 70, 32, 256), (70, 1, 16, 17), (12, 0, 8, 8),
    (0, 5, 8, 8), (9, 5, 0, 4), (9, 5, 4, 0), (130, 77, 256, 100),
]  # fmt: skip


@pytest.mark.parametrize("backend", ["cpu", "cuda on lanes"])
@pytest.mark.parametrize(("mask", "causal"), leave((("none", False), ("bool", False)), KINDS))
def test_every_shape_from_symbols(mask, causal, backend):
    program = graph(("s", "t", "d", "e"), "f32", mask, causal)
    executable = compiled(program, backend)
    for seed, shape in enumerate(SHAPES):
        values = arguments(shape, np.float32, mask, seed=seed)
        close(call(executable, program, values), values, mask, causal)


@pytest.mark.parametrize("backend", ["cpu", "cuda on lanes"])
@pytest.mark.parametrize(
    "shape",
    [(70, 33, 80, 36), (20, 20, 256, 256), pytest.param((128, 128, 64, 64), marks=pytest.mark.thorough)],
    ids=str,
)
def test_fixed_shapes(shape, backend):
    for kinds, dtype in (("f32", np.float32), ("f64", np.float64)):
        program, values = graph(shape, kinds, causal=True, lead=(2,)), arguments(shape, dtype, lead=(2,))
        results = call(compiled(program, backend), program, values)
        assert all(r.dtype == dtype for r in results)
        close(results, values, "none", True)


@pytest.mark.parametrize("backend", ["cpu", "cuda on lanes"])
@pytest.mark.parametrize("kinds", ["f16", "bf16"])
def test_16_bits_are_read_and_written_as_they_are(kinds, backend):
    """The kernels read 16-bit arrays and round their results once; only sums are as wide as float32."""
    program = graph(("s", "t", 32, 32), kinds, causal=True, lead=("b",))
    values = [x.astype(program.inputs[0].dtype.numpy) for x in arguments((40, 50, 32, 32), np.float32, lead=(2,))]
    results = call(compiled(program, backend), program, values)
    assert results[0].dtype == results[2].dtype == values[0].dtype and results[1].dtype == np.float32
    limits = (2.0**-11, 2.0**-14) if kinds == "f16" else (2.0**-8, 1e-30)
    close([r.astype(np.float32) for r in results], values, "none", True, *limits)


def hidden_rows(mask):
    values = arguments((30, 70, 16, 20), np.float32, mask)
    values[4][1] = False if mask == "bool" else -np.inf
    return values


@pytest.mark.parametrize("backend", ["cpu", "cuda on lanes"])
@pytest.mark.parametrize("mask", ["bool", "add"])
def test_a_query_that_sees_nothing_has_no_derivative_or_nan(mask, backend):
    values = hidden_rows(mask)
    program = graph(("s", "t", "d", "e"), "f32", mask)
    results = call(compiled(program, backend), program, values)
    assert np.all(results[2][1] == 0) and results[1][1] == 0 and all(np.isfinite(r).all() for r in results)
    close(results, values, mask, False)
    program = graph(("s", "t", "d", "e"), "f32", mask, empty="nan")
    results = call(compiled(program, backend), program, values)
    assert np.isnan(results[1][1]) and np.isnan(results[2][1]).all() and np.isfinite(results[2][-1]).all()


STRIDED = """def f(q: f32[b, s, 6, 16], k: f32[b, t, 3, 16], v: f32[b, 3, 16, t], ct: f32[b, s, 96]):
    q1 = reshape(q, shape=(b, s, 3, 2, 16))
    q2 = transpose(q1, axes=(0, 2, 3, 1, 4))
    k1 = transpose(k, axes=(0, 2, 1, 3))
    k2 = broadcast(k1, shape=(b, 3, 2, t, 16), axes=(0, 1, 3, 4))
    v1 = transpose(v, axes=(0, 1, 3, 2))
    v2 = broadcast(v1, shape=(b, 3, 2, t, 16), axes=(0, 1, 3, 4))
    c1 = reshape(ct, shape=(b, s, 3, 2, 16))
    c2 = transpose(c1, axes=(0, 2, 3, 1, 4))
    o, l = attention(q2, k2, v2, scale=0.25, causal=False, mask='none', empty=0.0)
    p = mul(o, c2)
    m = reduce_sum(p, axes=(4,))
    dq, dk, dv = attention_vjp(q2, k2, v2, c2, l, m, scale=0.25, causal=False, mask='none')
    r = transpose(o, axes=(0, 3, 1, 2, 4))
    rq = transpose(dq, axes=(0, 3, 1, 2, 4))
    sk = reduce_sum(dk, axes=(2,))
    sv = reduce_sum(dv, axes=(2,))
    return (r, rq, sk, sv)"""


@pytest.mark.parametrize("backend", ["cpu", "cuda on lanes"])
def test_transposed_and_grouped_operands_are_read_where_they_are(backend):
    program = parse(STRIDED)
    rng = np.random.default_rng(0)
    shapes = ((2, 70, 6, 16), (2, 90, 3, 16), (2, 3, 16, 90), (2, 70, 96))
    values = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    check(call(compiled(program, backend), program, values), program, values)
    kernels = [s.kernel for s in walk(plan_of(program).steps) if isinstance(s, LaunchStep)]
    movements = {"transpose", "broadcast", "reshape", "copy"}
    assert len(kernels) == 6 and all(set(k.doc.split("; ")) - movements for k in kernels), "nothing is copied"


@pytest.mark.parametrize("kinds", ["f32", "f16"])
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_memory_is_linear_in_the_sequence(kinds, target):
    """No buffer of the whole step grows with S * T: ten times the sequence takes ten times the memory."""
    from zenith.backends.cuda.target import cuda_target

    program = graph(("s", "t", "d", "e"), kinds, causal=True, lead=("b",))
    plan = plan_of(program, cuda_target() if target == "cuda" else None)
    sizes = {"b": 2, "d": 64, "e": 64}
    small, large = (plan.arena.evaluate({**sizes, "s": n, "t": n}) for n in (1000, 10000))
    assert 0 < large <= 11 * small


def test_results_that_nobody_asks_for_are_not_computed():
    body = "dq, dk, dv = attention_vjp(q, k, v, ct, l, m, scale=1.0, causal=False, mask='none')\n    return ({})"
    head = "def f(q: f32[s, 8], k: f32[t, 8], v: f32[t, 8], ct: f32[s, 8], l: f32[s], m: f32[s]):\n    "
    for results, kernels in (("dq,", 1), ("dk,", 1), ("dv,", 1), ("dk, dv", 1), ("dq, dv", 2)):
        program = parse(head + body.format(results))
        assert len(plan_of(program).steps) == kernels
        values = [*arguments((20, 30, 8, 8), np.float32), *np.random.default_rng(1).random((2, 20), np.float32)]
        check(call(compiled(program, "cpu"), program, values), program, values)


def digest(threads):
    """The bits of results of several shapes, from a process with a team of that size."""
    script = "from tests.backends.cpu.test_attention_vjp import print_digest; print_digest()"
    environment = {**os.environ, "ZENITH_NUM_THREADS": str(threads)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def print_digest():
    program = graph(("s", "t", 32, 48), "f32", causal=True, lead=("b",))
    executable, found = compiled(program, "cpu"), hashlib.sha256()
    for shape in ((300, 300, 32, 48), (3, 40, 32, 48)):
        for result in call(executable, program, arguments(shape, np.float32, lead=(5,))):
            found.update(result.tobytes())
    print(found.hexdigest())


@pytest.mark.thorough
def test_results_do_not_depend_on_the_team():
    assert digest(1) == digest(2) == digest(3)
