"""Attention by cuDNN: layouts, heads, masks and refusals by the values that the driver without a device gives."""

import inspect

import ml_dtypes
import numpy as np
import pytest

import zenith
from tests.backends.cuda.arrays import on_device, on_host
from tests.backends.cuda.fake_cudnn import STEPS, FakeCudnn, FakeGraph, FakeTensor, bound_graph, fake_cudnn
from zenith.arrays import cupy_adapter
from zenith.backends.cuda import cudnn, libraries
from zenith.backends.cuda.libraries import LIBRARIES
from zenith.backends.cuda.link import link
from zenith.backends.cuda.target import cuda_target
from zenith.backends.planner import plan
from zenith.config import config
from zenith.ir.interpret import bind_sizes
from zenith.ir.primitive import get
from zenith.ir.text import parse
from zenith.ir.types import ArrayType, float32

RESULTS = len(get("attention").typing([ArrayType(float32, (1, 8))] * 3, {"mask": "none"}))
A = ", ".join(["a", "logs"][:RESULTS])  # the result of attention, and the logarithms of the queries' sums
ATTEND = f"{A} = attention(w0, w1, w2, scale=0.25, causal=False, mask='none', empty=0.0)"
NUMPY = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}
BODY = """
def main(q: {t}[{q}], k: {t}[{k}], v: {t}[{v}]) -> ({r}[{o}]):
    def body0(p0: {t}[{q}], p1: {t}[{k}], p2: {t}[{v}]) -> ({r}[{o}]):
        {lines}
    v0 = fused(q, k, v, body=body0, anchor='attention')
    return (v0,)
"""


@pytest.fixture
def dnn(gpu, monkeypatch):
    """The library, which computes every attention that it supports."""
    monkeypatch.setattr(config, "engines", ("cudnn",))
    with fake_cudnn(gpu) as found:
        yield found


def group(dtype, shapes, lines, result=None):
    """A program of one group; ``shapes`` are those of the operands and of the result."""
    q, k, v, o = (", ".join(map(str, s)) for s in shapes)
    return parse(BODY.format(t=dtype, r=result or dtype, q=q, k=k, v=v, o=o, lines="\n        ".join(lines)).strip())


def plain(dtype, q, k, v, causal=False, mask="none"):
    """Attention of the operands themselves, rounded to their type."""
    lines = [f"w{i} = cast(p{i}, dtype=f32)" for i in range(3)]
    lines += [f"{A} = attention(w0, w1, w2, scale=0.25, causal={causal}, mask='{mask}', empty=0.0)",
              f"r = cast(a, dtype={dtype})", "return (r,)"]  # fmt: skip
    return group(dtype, (q, k, v, (*q[:-1], v[-1])), lines)


def run(graph, *arrays):
    """The plan, the executable and its result for a graph of one group."""
    planned = plan(graph, cuda_target(libraries=LIBRARIES))
    executable, adapter = link(planned, graph), cupy_adapter(0)
    given = [on_device(a) for a in arrays]
    (found,) = executable.run(given, [adapter] * len(given), bind_sizes(graph, arrays, {}), adapter)
    zenith.synchronize()
    return planned, executable, on_host(found)


def attention(q, k, v, scale=0.25, causal=False):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = scale * q @ np.swapaxes(k, -1, -2)
    scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf) if causal else scores
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def random(shape, dtype="bf16", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(NUMPY[dtype])


def close(found, want):
    bound = 2e-2 if found.dtype == ml_dtypes.bfloat16 else 2e-3
    np.testing.assert_allclose(found.astype(np.float64), want, bound, bound)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize(("lead", "names"), [((2, 3), "b, h"), ((4,), "b"), ((), ""), ((2, 1, 3), "a, b, c")])
def test_leading_axes(dnn, dtype, causal, lead, names):
    shape = tuple(filter(None, names.split(", ")))
    graph = plain(dtype, (*shape, "s", 16), (*shape, "t", 16), (*shape, "t", 24), causal)
    q, k, v = random((*lead, 5, 16), dtype), random((*lead, 7, 16), dtype, 1), random((*lead, 7, 24), dtype, 2)
    planned, _, found = run(graph, q, k, v)
    assert len(dnn.executed) == 1 and not dnn.driver.launches
    assert f"call cudnn.sdpa [{dtype}{', causal' if causal else ''}](q, k, v, result0, workspace)" in str(planned)
    close(found, attention(q, k, v, causal=causal))


def heads_in_rows(shares=False):
    """Operands and result [batch, sequence, heads, size], read and written without copies; heads may share keys."""
    t = "transpose({}, axes=(0, 2, 1, 3))"
    lines = [f"t{i} = {t.format(f'p{i}')}" for i in range(3)]
    if shares:
        keys = "shape=(2, 3, 7, 16), axes=(0, 2, 3)"
        lines = [lines[0], f"t1 = broadcast(p1, {keys})", f"t2 = broadcast(p2, {keys})"]
    lines += [f"w{i} = cast(t{i}, dtype=f32)" for i in range(3)]
    lines += [ATTEND, "c = cast(a, dtype=bf16)", f"r = {t.format('c')}", "return (r,)"]
    keys = (2, 7, 16) if shares else (2, 7, 3, 16)
    return group("bf16", ((2, 5, 3, 16), keys, keys, (2, 5, 3, 16)), lines)


def test_heads_are_read_and_written_without_copies(dnn):
    q, k, v = random((2, 5, 3, 16)), random((2, 7, 3, 16), seed=1), random((2, 7, 3, 16), seed=2)
    _, _, found = run(heads_in_rows(), q, k, v)
    assert len(dnn.executed) == 1 and not dnn.driver.launches
    close(found, attention(*(x.transpose(0, 2, 1, 3) for x in (q, k, v))).transpose(0, 2, 1, 3))


def test_heads_share_keys(dnn):
    q, k, v = random((2, 5, 3, 16)), random((2, 7, 16), seed=1), random((2, 7, 16), seed=2)
    _, _, found = run(heads_in_rows(shares=True), q, k, v)
    assert [e.operation.k.dim for e in dnn.executed] == [[2, 1, 7, 16]]
    close(found, attention(q.transpose(0, 2, 1, 3), k[:, None], v[:, None]).transpose(0, 2, 1, 3))


@pytest.mark.skipif(RESULTS < 2, reason="attention gives no logarithms of sums")
def test_logarithms_of_sums_are_a_result(dnn):
    """The residual of the backward pass."""
    text = """
def main(q: f16[2, s, 16], k: f16[2, t, 16], v: f16[2, t, 8]) -> (f16[2, s, 8], f32[2, s]):
    def body0(p0: f16[2, s, 16], p1: f16[2, t, 16], p2: f16[2, t, 8]) -> (f16[2, s, 8], f32[2, s]):
        {lines}
        return (r, logs)
    v0_0, v0_1 = fused(q, k, v, body=body0, anchor='attention')
    return (v0_0, v0_1)
"""
    lines = [*(f"w{i} = cast(p{i}, dtype=f32)" for i in range(3)), ATTEND, "r = cast(a, dtype=f16)"]
    graph = parse(text.format(lines="\n        ".join(lines)).strip())
    q, k, v = random((2, 5, 16), "f16"), random((2, 7, 16), "f16", 1), random((2, 7, 8), "f16", 2)
    executable, adapter = link(plan(graph, cuda_target(libraries=LIBRARIES)), graph), cupy_adapter(0)
    found, logs = executable.run(
        [on_device(a) for a in (q, k, v)], [adapter] * 3, bind_sizes(graph, (q, k, v), {}), adapter
    )
    assert len(dnn.executed) == 1
    close(on_host(found), attention(q, k, v))
    scores = 0.25 * q.astype(np.float64) @ np.swapaxes(k.astype(np.float64), 1, 2)
    np.testing.assert_allclose(on_host(logs), np.log(np.exp(scores).sum(-1)), 1e-4, 1e-4)


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (plain("bf16", (5, 12), (7, 12), (7, 16)), "no multiples of 8 up to 256"),
        (plain("bf16", (5, 264), (7, 264), (7, 16)), "no multiples of 8 up to 256"),
        (plain("f32", (5, 16), (7, 16), (7, 16)), "its operands are no floats of 16 bits"),
        (group("bf16", ((5, 16), (7, 16), (7, 16), (5, 16)),
               [*(f"w{i} = cast(p{i}, dtype=f32)" for i in range(3)),
                ATTEND, "return (a,)"], "f32"),
         "its result is f32, of which the library computes 16 bits"),
    ],
    ids=["odd", "large", "float32", "float32 results"],
)  # fmt: skip
def test_refusals_when_planned(dnn, graph, why):
    (choice,) = [g.choice for g in plan(graph, cuda_target(libraries=LIBRARIES)).groups]
    assert choice.engine != "cudnn" and why in dict(choice.others)["cudnn"]


def test_masks_are_refused(dnn):
    text = str(plain("bf16", (5, 16), (7, 16), (7, 16)))
    masked = text.replace("mask='none'", "mask='add'").replace("v: bf16[7, 16])", "v: bf16[7, 16], m: f32[5, 7])")
    masked = masked.replace("p2: bf16[7, 16])", "p2: bf16[7, 16], p3: f32[5, 7])").replace(
        "fused(q, k, v,", "fused(q, k, v, m,"
    )
    masked = masked.replace(", scale=0.25", ", p3, scale=0.25")
    (choice,) = [g.choice for g in plan(parse(masked), cuda_target(libraries=LIBRARIES)).groups]
    assert dict(choice.others)["cudnn"] == "it has a mask, of which a query may see nothing"


def test_an_attention_without_a_plan_is_a_kernel(dnn):
    dnn.refuses = lambda operation: True
    q, k, v = random((5, 16)), random((7, 16), seed=1), random((7, 16), seed=2)
    _, executable, found = run(plain("bf16", ("s", 16), ("t", 16), ("t", 16)), q, k, v)
    assert not dnn.executed and dnn.driver.launches
    assert executable.refused == [
        ("cudnn.sdpa [bf16]", "cuDNN has no plan for it: no valid execution plans built.")]  # fmt: skip
    close(found, attention(q, k, v))


def test_more_workspace_than_planned_is_refused(dnn):
    dnn.workspace = 1 << 24
    _, executable, _ = run(
        plain("bf16", ("s", 16), ("t", 16), ("t", 16)), random((5, 16)), random((7, 16)), random((7, 16))
    )
    assert executable.refused[0][1].startswith("it needs 16777216 bytes to work in")


@pytest.mark.parametrize("sizes", [(0, 7), (5, 0)])
def test_nothing_to_attend(dnn, sizes):
    s, t = sizes
    _, _, found = run(plain("bf16", ("s", 16), ("t", 16), ("t", 16)), random((s, 16)), random((t, 16)), random((t, 16)))
    assert not dnn.executed and np.array_equal(found, np.zeros((s, 16), ml_dtypes.bfloat16))


def test_small_attention_is_a_kernel_and_graphs_are_built_once(gpu, monkeypatch):
    monkeypatch.setattr(libraries, "CALL", 1e-7)
    graph = plain("bf16", ("b", "s", 64), ("b", "t", 64), ("b", "t", 64))
    with fake_cudnn(gpu) as dnn:
        small, large = random((1, 8, 64)), random((8, 128, 64))
        for _ in range(2):
            planned, _, found = run(graph, large, large, large)
        close(found, attention(large, large, large))
        assert dnn.built == 1 and len(dnn.executed) == 2 and "where " in str(planned)
        run(graph, small, small, small)
        assert len(dnn.executed) == 2


def test_without_the_library(gpu):
    with cudnn.DOOR.using(None, "cudnn is not installed (pip install nvidia-cudnn-frontend)"):
        (choice,) = [g.choice for g in plan(plain("bf16", ("s", 16), ("t", 16), ("t", 16)),
                                            cuda_target(libraries=LIBRARIES)).groups]  # fmt: skip
    assert dict(choice.others)["cudnn"] == "cudnn is not installed (pip install nvidia-cudnn-frontend)"


# --- the real front end ---


def test_the_front_end_has_all_functions_and_options_in_use():
    real = pytest.importorskip("cudnn", reason="nvidia-cudnn-frontend is not installed")
    for name in ("create_handle", "set_stream", "backend_version", "cudnnGraphNotSupportedError", "pygraph"):
        assert hasattr(real, name) and hasattr(FakeCudnn, name)
    for enum in ("data_type", "heur_mode", "diagonal_alignment"):
        assert {m.name for m in getattr(FakeCudnn, enum)} <= set(getattr(real, enum).__members__)
    for name in (*STEPS, "get_workspace_size", "execute", "tensor", "sdpa", "sdpa_backward"):
        assert hasattr(real.pygraph, name) and hasattr(FakeGraph, name)
    for name in ("set_output", "set_dim", "set_stride", "set_data_type", "set_uid"):
        assert hasattr(real.tensor, name) and hasattr(FakeTensor, name)
    bound = bound_graph(real)
    for method in ("sdpa", "sdpa_backward"):
        words = getattr(bound, method).__doc__ + bound.__init__.__doc__
        used = [*inspect.signature(getattr(FakeGraph, method)).parameters, *inspect.signature(FakeGraph).parameters]
        assert all(f"{name}:" in words for name in used if name not in ("self", "owner"))
    assert inspect.signature(real.pygraph.tensor).parameters.keys() >= {"dim", "stride", "data_type", "name", "uid"}


def test_the_real_front_end_says_what_is_missing():
    pytest.importorskip("cudnn", reason="nvidia-cudnn-frontend is not installed")
    with cudnn.DOOR.using(None):
        why = cudnn.DOOR.problem()
    assert why == "" or why.startswith("the library cannot be loaded: ")
