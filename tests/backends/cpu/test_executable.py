"""The executable: any arrays, bitwise repeatable results, errors with the user's line, leases that come back."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zenith
from tests.backends.running import call, check, compiled
from tests.sampling import leave
from zenith.arrays import NUMPY
from zenith.backends.cpu import arenas as arenas_module
from zenith.backends.cpu import executable as executable_module
from zenith.backends.cpu import threads
from zenith.backends.cpu.arenas import IDLE, ArenaMemory, Arenas
from zenith.backends.cpu.executable import Executable
from zenith.backends.cpu.link import linked_count
from zenith.errors import OutOfBoundsError, SourceLine
from zenith.ir.graph import Graph
from zenith.ir.text import parse

ROOT = Path(__file__).resolve().parents[3]

MIXED = parse("""\
def f(x: f32[n, m], y: f32[n, m], v: f32[m], i: i64[k]) -> (f32[n, m], f32[n], f32[m], f32, f32[k, m], f32[n, n]):
    v4 = mul(x, y)
    v5 = broadcast(v, shape=(n, m), axes=(1,))
    v6 = add(v4, v5)
    v7 = tanh(v6)
    v8 = reduce_sum(v7, axes=(1,))
    v9 = reduce_max(y, axes=(0,))
    v10 = reduce_sum(x, axes=(0, 1))
    v11 = take(x, i, axis=0)
    v12 = transpose(y, axes=(1, 0))
    v13 = matmul(x, v12)
    return (v7, v8, v9, v10, v11, v13)""")


@pytest.fixture(scope="module")
def mixed() -> Executable:
    executable: Executable = compiled(MIXED, "cpu")
    return executable


def _matrix(rng: np.random.Generator, shape: tuple[int, ...], layout: str) -> Any:
    """A matrix of a shape with the layout of that name in memory."""
    full = rng.standard_normal([2 * n + 1 for n in shape]).astype(np.float32)
    n, m = shape
    array = {
        "dense": lambda: full[:n, :m].copy(),
        "fortran": lambda: np.asfortranarray(full[:n, :m]),
        "reversed": lambda: full[:n, :m].copy()[::-1, ::-1],
        "stepped": lambda: full[: 2 * n : 2, 1 : 2 * m + 1 : 2],
        "repeated": lambda: np.broadcast_to(full[0, :m], shape),
        "read-only": lambda: full[:n, :m].copy(),
    }[layout]()
    if layout == "read-only":
        array.flags.writeable = False
    return array


LAYOUTS = st.sampled_from(["dense", "fortran", "reversed", "stepped", "repeated", "read-only"])


@settings(max_examples=60)
@given(n=st.integers(0, 40), m=st.integers(0, 40), k=st.integers(0, 5), layouts=st.tuples(LAYOUTS, LAYOUTS))
def test_any_sizes_and_any_memory_layout(n: int, m: int, k: int, layouts: tuple[str, str], mixed: Executable) -> None:
    """One compilation serves all; sizes 0 and 1 among them. The maximum of no rows is minus infinity."""
    rng = np.random.default_rng([n, m, k])
    x, y = (_matrix(rng, (n, m), layout) for layout in layouts)
    v, i = rng.standard_normal(3 * m).astype(np.float32)[::-3], rng.integers(0, max(n, 1), k if n else 0)
    before, linked = [a.copy() for a in (x, y, v, i)], linked_count()
    check(call(mixed, MIXED, [x, y, v, i]), MIXED, [x, y, v, i])
    assert all(np.array_equal(a, b) for a, b in zip((x, y, v, i), before, strict=True)), "arguments are only read"
    assert linked_count() == linked


def test_the_same_array_twice_and_overlapping_views(mixed: Executable) -> None:
    x = np.random.default_rng(0).standard_normal((9, 8)).astype(np.float32)
    i = np.arange(3)
    for args in ([x, x, x[0], i], [x[:8], x[1:], x[2], i], [x[:8], x[:8].T, x[:8, 1], i]):
        check(call(mixed, MIXED, args), MIXED, args)


@pytest.mark.parametrize("backend", ["cpu", "lanes", "scalar"])
def test_no_axes_and_no_elements(backend: str) -> None:
    graph = parse("""\
def f(a: f64, b: i32[0], c: f32[0, 3]) -> (f64, i32[0], i32, f32[0], f32[3], f32[3, 3], f64[2, 2]):
    v3 = exp(a)
    v4 = add(b, b)
    v5 = reduce_sum(b, axes=(0,))
    v6 = reduce_max(c, axes=(1,))
    v7 = reduce_sum(c, axes=(0,))
    v8 = transpose(c, axes=(1, 0))
    v9 = matmul(v8, c)
    v10 = broadcast(a, shape=(2, 2), axes=())
    return (v3, v4, v5, v6, v7, v9, v10)""")
    args = [np.float64(0.5), np.zeros(0, np.int32), np.zeros((0, 3), np.float32)]
    args = [np.asarray(a) for a in args]
    check(call(compiled(graph, backend), graph, args), graph, args)


@pytest.mark.parametrize("backend", ["cpu", "lanes", "scalar"])
def test_no_index_is_read_or_checked_where_there_is_none(backend: str) -> None:
    """Loops of no iteration: their invariants are computed before them, but may not fail there."""
    graph = parse("""\
def f(x: i64[6], i: i64[0, 2], u: u32[0, 2], e: f32[0]) -> (i64[6], i64, f32, f32[0]):
    v4 = remainder(u, u)
    v5 = scatter_add(x, i, v4)
    v6 = take(x, v4, axis=0)
    v7 = reduce_sum(v6, axes=(0, 1))
    v8 = slice(i, start=(0, 0), stop=(0, 1), step=(1, 1))
    v9 = reshape(v8, shape=(0,))
    v10 = gather(e, v9)
    v11 = reduce_sum(v10, axes=(0,))
    v12 = scatter_add(e, v10, v9)
    return (v5, v7, v11, v12)""")
    args = [np.arange(6), np.zeros((0, 2), np.int64), np.zeros((0, 2), np.uint32), np.zeros(0, np.float32)]
    executable = compiled(graph, backend)
    for _ in range(3):
        check(call(executable, graph, args), graph, args, exact=True)


def _mixed_args(rows: int = 301, columns: int = 67) -> list[Any]:
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal((rows, columns)).astype(np.float32) for _ in range(2))
    return [x, y, rng.standard_normal(columns).astype(np.float32), rng.integers(0, rows, 50)]


def test_results_depend_neither_on_the_call_nor_on_the_number_of_threads(mixed: Executable) -> None:
    args = [np.ascontiguousarray(a) for a in _mixed_args()]
    before = threads.team().size
    seen = set()
    try:
        for count in (1, 2, 5, 2):
            threads.set_num_threads(count)
            for _ in range(5):
                seen.add(tuple(r.tobytes() for r in call(mixed, MIXED, args)))
    finally:
        threads.set_num_threads(before)
    assert len(seen) == 1


# --- errors and leases --------------------------------------------------------------------------------------------


def _take() -> Graph:
    graph = Graph("f")
    first = parse("def f(x: f32[n], i: i64[k]) -> (f32[k]):\n    v2 = take(x, i, axis=0)\n    return (v2,)")
    x, i = (graph.add_input(v.type, name) for v, name in zip(first.inputs, "xi", strict=True))
    line = SourceLine("model.py", 12, "step")
    graph.set_outputs(graph.add(first.node(first.outputs[0].node).primitive, (x, i), {"axis": 0}, line))
    return graph


@pytest.mark.parametrize("backend", ["cpu", "lanes", "scalar"])
def test_an_index_outside_its_axis_raises_with_the_line_and_the_next_call_works(backend: str) -> None:
    graph, x = _take(), np.arange(5, dtype=np.float32)
    executable = compiled(graph, backend)
    for wrong in (5, -1, 2**40, -(2**62)):
        with pytest.raises(OutOfBoundsError, match=r"(?s)an index is out of bounds for its axis.*model.py:12 in step"):
            call(executable, graph, [x, np.array([0, wrong, 1])])
        np.testing.assert_array_equal(call(executable, graph, [x, np.array([4, 0])])[0], [4, 0])
    with pytest.raises(OutOfBoundsError):
        call(executable, graph, [x[:0], np.array([0])])


@pytest.mark.parametrize("backend", ["cpu", "lanes"])
def test_work_on_constants_checks_its_indices_too(backend: str) -> None:
    """Partial results of a long sum over constants are computed when the program is linked."""
    holder = Graph("holder")
    holder.add_constant(np.arange(50_000, dtype=np.float32))
    holder.add_constant(np.full(60_000, 70_000))
    x, i = holder.constants
    graph = parse(f"""\
def f() -> (f32):
    v1 = constant(id={x!r}, dtype=f32, shape=(50000,))
    v2 = constant(id={i!r}, dtype=i64, shape=(60000,))
    v3 = take(v1, v2, axis=0)
    v4 = reduce_sum(v3, axes=(0,))
    return (v4,)""", holder.constants)  # fmt: skip
    with pytest.raises(OutOfBoundsError):
        call(compiled(graph, backend), graph, [])


def test_leases_come_back_from_good_and_failing_calls() -> None:
    graph, x = _take(), np.arange(5, dtype=np.float32)
    executable = compiled(graph, "cpu")
    for k in range(20):
        try:
            call(executable, graph, [x, np.array([k % 7])])
        except OutOfBoundsError:
            assert k % 7 > 4
    assert len(executable._leases) == 1


def test_a_host_call_that_raises_leaves_no_trace_in_the_next_call() -> None:
    """The failing index before it was seen by a kernel, but the host call raised first."""
    graph, x = _take(), np.arange(5, dtype=np.float32)
    executable = compiled(graph, "cpu")

    def fail(frame: int) -> None:
        raise ZeroDivisionError

    executable.segments.append(fail)
    with pytest.raises(ZeroDivisionError):
        call(executable, graph, [x, np.array([7])])
    executable.segments.pop()
    np.testing.assert_array_equal(call(executable, graph, [x, np.array([3])])[0], [3])


def test_an_arena_grows_and_serves_smaller_sizes_later() -> None:
    graph = parse("""\
def f(x: f32[n]) -> (f32[n]):
    v1 = reverse(x, axes=(0,))
    v2 = reduce_max(v1, axes=(0,))
    v3 = broadcast(v2, shape=(n,), axes=())
    v4 = sub(v1, v3)
    return (v4,)""")
    executable = compiled(graph, "cpu")
    for n in (1, 100, 70_000, 3, 200_000, 0, 5):
        args = [np.random.default_rng(n).standard_normal(n).astype(np.float32)]
        if n:
            check(call(executable, graph, args), graph, args, exact=True)
        else:
            assert call(executable, graph, args)[0].shape == (0,)


def test_programs_that_run_in_turn_share_an_arena_that_goes_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executable_module, "ARENAS", Arenas())  # programs of other tests keep theirs
    text = """\
def f(x: f32[n]) -> (f32[n]):
    v1 = reverse(x, axes=(0,))
    v2 = reduce_max(v1, axes=(0,))
    v3 = broadcast(v2, shape=(n,), axes=())
    v4 = {}(v1, v3)
    return (v4,)"""
    arenas = weakref.WeakSet[Any]()
    graphs = [parse(text.format(name)) for name in ("sub", "mul")]
    executables = [compiled(graph, "cpu") for graph in graphs]
    for n in (5, 7, 3000, 7):
        args = [np.arange(n, dtype=np.float32)]
        for graph, executable in zip(graphs, executables, strict=True):
            check(call(executable, graph, args), graph, args)
        arenas |= {lease.arena for executable in executables for lease in executable._leases}
        assert len({lease.arena for executable in executables for lease in executable._leases}) == 1
    executables.clear()
    del executable
    gc.collect()
    assert not arenas


def _open(arenas: list[ArenaMemory]) -> list[ArenaMemory]:
    return [arena for arena in arenas if arena._owner is not None]


def test_a_burst_of_calls_leaves_a_bounded_amount_of_memory() -> None:
    arenas, length = Arenas(), IDLE // 2 + 1  # nothing is written, so nothing becomes resident
    burst = [arenas.take(length) for _ in range(8)]
    assert len({arena.address for arena in burst}) == 8
    for arena in burst:
        arenas.give_back(arena)
    assert _open(burst) == burst[-2:], "the one that was used last, and what else is within the bound"
    assert arenas.take(length) is burst[-1] and arenas.take(length) is burst[-2]
    assert arenas.take(length) not in burst


@pytest.mark.parametrize("length", [1 << 20, IDLE * 8])
def test_calls_of_one_thread_have_one_arena_however_large(length: int) -> None:
    arenas = Arenas()
    first = arenas.take(length)
    for _ in range(3):
        arenas.give_back(first)
        assert arenas.take(length) is first and _open([first])


def test_small_arenas_of_a_burst_stay() -> None:
    arenas = Arenas()
    burst = [arenas.take(IDLE // 16) for _ in range(8)]
    for arena in burst:
        arenas.give_back(arena)
    assert {id(arenas.take(IDLE // 16)) for _ in range(8)} == {id(arena) for arena in burst}


def test_threads_never_share_an_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor get one that was closed, while the bound is exceeded all the time."""
    monkeypatch.setattr(arenas_module, "IDLE", 5000)
    arenas, used, wrong = Arenas(), set[int](), []

    def work(seed: int) -> None:
        rng, mine = np.random.default_rng(seed), []
        for _ in range(2000):
            arena = arenas.take(int(rng.integers(1, 4000)))
            if id(arena) in used or arena._owner is None:
                wrong.append(arena)
            used.add(id(arena))
            mine.append(arena)  # as leases do
            used.discard(id(arena))
            arenas.give_back(arena)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong and sum(free().length for free in arenas._free if free()) <= 5000 + 4000


# --- instruction sets and threads of the environment --------------------------------------------------------------

_PROGRAM = """
import hashlib
import numpy as np
from tests.backends.cpu.test_executable import MIXED, _mixed_args
from tests.backends.running import call, check, compiled
args = _mixed_args()
executable = compiled(MIXED, "cpu")
results = call(executable, MIXED, args)
check(results, MIXED, args)
print(hashlib.sha256(b"".join(r.tobytes() for r in results)).hexdigest())
"""


def _run(**environment: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", _PROGRAM], cwd=ROOT, capture_output=True, text=True,
                          timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT), **environment})  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("isa", leave(("avx2",), ["avx2", "portable"]))
def test_a_program_on_a_forced_instruction_set(isa: str) -> None:
    from zenith.backends.cpu.vectors import TABLE, host_features

    if not TABLE[isa].runs_on(host_features()):
        pytest.skip(f"this processor does not execute {isa}")
    _run(ZENITH_ISA=isa)


def test_bits_do_not_depend_on_the_number_of_threads_of_the_environment() -> None:
    assert _run(ZENITH_NUM_THREADS="1") == _run(ZENITH_NUM_THREADS="3")


def test_adapters_make_the_results(mixed: Executable) -> None:
    results = call(mixed, MIXED, _mixed_args(4, 3))
    assert [type(r) for r in results] == [type(NUMPY.empty((1,), v.dtype)) for v in MIXED.outputs]
    assert results[3].shape == ()


def test_strided_arrays_after_dense_ones_of_the_same_sizes() -> None:
    """Native code reads the addresses of dense arrays itself; others are copied, and what is written copied back."""

    @zenith.jit
    def scaled(x: Any, y: Any) -> Any:
        for i in range(len(x)):
            y[i] += 2 * x[i]
        return x.sum(), y * 1

    wide = np.random.default_rng(0).random((2, 12))
    for x, y in [(wide[0, :6], wide[1, :6]), (wide[0, ::2], wide[1, :6]), (wide[0, :6], wide[1, ::-2])] * 2:
        expected = y + 2 * x
        total, result = scaled(x, y)
        np.testing.assert_allclose(total, x.sum())
        np.testing.assert_allclose(y, expected)
        np.testing.assert_array_equal(result, y)
    for n in (0, 6, 0):
        total, result = scaled(np.ones(n), np.ones(n))
        assert total == n and result.tolist() == [3.0] * n
    assert scaled.cache_info().misses <= 2


def test_calls_of_many_threads_with_arrays_of_their_own() -> None:
    add = zenith.jit(lambda x, k: x + k)
    xs = [np.full(50, float(k)) for k in range(8)]

    def many(k: int) -> bool:
        return all((add(xs[k], float(k)) == 2 * k).all() for _ in range(200))

    add(xs[0], 0.0)
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(many, range(8)))
