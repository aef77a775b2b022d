"""The register tile against exact arithmetic, its twin, the choice of instruction set, and the schedules."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numba import cfunc, types

import zenith.backends.cpu.tile_code  # noqa: F401  (teaches Numba the tile)
from zenith.backends.cpu import vectors
from zenith.backends.cpu.product_schedule import ProductSchedule, choose
from zenith.backends.cpu.tile import BLOCK, gathered_tile, lookahead, product_tile
from zenith.backends.cpu.vectors import TABLE, UnknownInstructionSet, select
from zenith.ir.types import DType, float32, float64, int32, int64, uint32

DTYPES = (float32, float64, int32, int64, uint32)
ISAS = [name for name, row in TABLE.items() if row.runs_on(vectors.host_features())]
TERMS = (0, 1, 2, 3, 7, BLOCK, BLOCK + 5)
SENTINEL = 77

every_kind = pytest.mark.parametrize("isa", ISAS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)

Kernel = Callable[..., None]


def source(schedule: ProductSchedule) -> str:
    """A kernel that computes one tile of ``rows`` rows, at most the schedule's."""
    tile = (
        "product_tile({rows}, {vectors}, {lanes}, 2, c, c_at, c_row, a, a_at, a_row, a_k, b, b_at, b_k, k, b_at, onto)"
    )
    lines = ["def kernel(rows, c, c_at, c_row, a, a_at, a_row, a_k, b, b_at, b_k, k, onto):"]
    for rows in range(1, schedule.rows + 1):
        call = tile.format(rows=rows, vectors=schedule.vectors, lanes=schedule.lanes)
        lines += [f"    if rows == {rows}:", f"        {call}"]
    return "\n".join(lines)


def twin(schedule: ProductSchedule) -> Kernel:
    namespace: dict[str, Any] = {"product_tile": product_tile}
    exec(source(schedule), namespace)
    return namespace["kernel"]


@cache
def compiled(schedule: ProductSchedule, dtype: DType) -> Kernel:
    i, p = types.intp, types.CPointer(getattr(types, dtype.numpy_name))
    kernel = cfunc(types.void(i, p, i, i, p, i, i, i, p, i, i, i, i), nopython=True, error_model="numpy")(
        twin(schedule)
    )
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p if t is p else ctypes.c_int64 for t in kernel._sig.args])
    entry = function(kernel.address)

    def call(*args: Any) -> None:
        entry(*[x.ctypes.data if isinstance(x, np.ndarray) else x for x in args])

    call.keep = kernel  # type: ignore[attr-defined]
    return call


def random(shape: tuple[int, ...], dtype: DType, seed: int) -> np.ndarray:
    """Normal numbers, or integers of the whole range, so that products wrap."""
    generator = np.random.default_rng(seed)
    if dtype.is_float:
        return generator.standard_normal(shape).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    return generator.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)


def assert_product(result: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """Integers equal modulo 2**bits; floats within the bound of a sum in order."""
    if result.dtype.kind in "iu":
        exact = a.astype(object) @ b.astype(object) if a.shape[1] else np.zeros(result.shape, object)
        bits = 8 * result.dtype.itemsize
        assert np.array_equal(result.astype(object) % 2**bits, exact % 2**bits)
        return
    wide_a, wide_b = a.astype(np.longdouble), b.astype(np.longdouble)
    k = a.shape[1]
    bound = (k + 2) * np.finfo(result.dtype).eps * (abs(wide_a) @ abs(wide_b))
    assert (abs(result - wide_a @ wide_b) <= bound).all()


def run(kernel: Kernel, schedule: ProductSchedule, a: np.ndarray, b: np.ndarray, pad: int = 3) -> np.ndarray:
    """The tile of A and B, any strides, through buffers with margins; what surrounds the tile must stay untouched."""
    rows, k = a.shape
    c = np.full((rows + 2, schedule.panel + pad), SENTINEL, a.dtype)
    strides = [s // a.itemsize for s in (*a.strides, b.strides[0])]
    starts = [x.__array_interface__["data"][0] for x in (a, b)]
    flat = [_flat(x) for x in (a, b)]
    at = [(start - x.ctypes.data) // x.itemsize for start, x in zip(starts, flat, strict=True)]
    kernel(rows, c.reshape(-1), c.shape[1], c.shape[1], flat[0], at[0], *strides[:2], flat[1], at[1], strides[2], k, 0)
    inside = np.zeros(c.shape, bool)
    inside[1:-1, : schedule.panel] = True
    assert (c[~inside] == SENTINEL).all()
    return c[1:-1, : schedule.panel]


def _flat(x: np.ndarray) -> np.ndarray:
    """The whole buffer that a view looks into, as one dimension."""
    base = x
    while isinstance(base.base, np.ndarray):
        base = base.base
    return base.reshape(-1)


def views(rows: int, k: int, dtype: DType) -> dict[str, np.ndarray]:
    """A in four layouts."""
    return {
        "row major": random((rows, k), dtype, 1),
        "transposed": random((k, rows), dtype, 2).T,
        "padded": random((rows, k + 5), dtype, 3)[:, 2 : k + 2],
        "reversed": random((rows, k), dtype, 4)[::-1, ::-1],
    }


@every_kind
@every_dtype
def test_every_tile_height_layout_and_length(isa: str, dtype: DType) -> None:
    schedule = choose(dtype, TABLE[isa])
    for rows in range(1, schedule.rows + 1):
        for k in TERMS:
            b = random((k, schedule.panel), dtype, 5)
            for a in views(rows, k, dtype).values():
                assert_product(run(compiled(schedule, dtype), schedule, a, b), a, b)


@every_kind
@every_dtype
def test_the_twin_computes_the_same(isa: str, dtype: DType) -> None:
    schedule = choose(dtype, TABLE[isa])
    for k in TERMS:
        b = random((k, schedule.panel), dtype, 6)
        for a in views(schedule.rows, k, dtype).values():
            ours, theirs = (run(kernel, schedule, a, b) for kernel in (compiled(schedule, dtype), twin(schedule)))
            assert_product(theirs, a, b)
            if not dtype.is_float:
                assert np.array_equal(ours, theirs)


@every_kind
@pytest.mark.parametrize("dtype", (float32, float64), ids=str)
def test_an_element_does_not_depend_on_the_tile(isa: str, dtype: DType) -> None:
    full, narrow = choose(dtype, TABLE[isa]), choose(dtype, TABLE[isa], columns=1)
    a, b = random((full.rows, BLOCK + 37), dtype, 7), random((BLOCK + 37, full.panel), dtype, 8)
    together = run(compiled(full, dtype), full, a, b)
    for row in range(full.rows):
        assert np.array_equal(run(compiled(full, dtype), full, a[row : row + 1], b)[0], together[row])
    some = run(compiled(narrow, dtype), narrow, a, b)  # B has the same stride, and the tile reads its first columns
    assert np.array_equal(some, together[:, : narrow.panel])


@every_kind
@every_dtype
def test_sums_are_added_to_the_old_tile(isa: str, dtype: DType) -> None:
    schedule = choose(dtype, TABLE[isa], columns=1)
    a, b, c = (np.arange(n, dtype=dtype.numpy) for n in (3, 3 * schedule.lanes, schedule.lanes))
    expected = c + a @ b.reshape(3, -1)
    for kernel in (compiled(schedule, dtype), twin(schedule)):
        result = c.copy()
        kernel(1, result, 0, 0, a, 0, 0, 1, b, 0, schedule.lanes, 3, 1)
        assert np.array_equal(result, expected)


@every_kind
def test_not_a_number_and_infinity_stay_in_their_row(isa: str) -> None:
    schedule = choose(float32, TABLE[isa])
    a, b = np.ones((2, 3), np.float32), np.ones((3, schedule.panel), np.float32)
    a[0] = np.inf, -np.inf, np.nan
    result = run(compiled(schedule, float32), schedule, a, b)
    assert np.isnan(result[0]).all() and (result[1] == 3).all()


def test_sizes_must_be_literals() -> None:
    p = types.CPointer(types.float32)

    def kernel(c: Any, a: Any, b: Any, rows: int) -> None:
        product_tile(rows, 1, 4, 1, c, 0, 4, a, 0, 1, 1, b, 0, 4, 1, 0, 0)

    with pytest.raises(Exception, match="No implementation of function"):
        cfunc(types.void(p, p, p, types.intp), nopython=True)(kernel)


SPILLS = """
import re, sys
from numba import cfunc, types
import zenith.backends.cpu.tile_code
from zenith.backends.cpu.product_schedule import choose
from zenith.backends.cpu.tile import product_tile
from zenith.backends.cpu.vectors import TABLE
from zenith.ir.types import float32, float64, int32, int64
for dtype in (float32, float64, int32, int64):
    s = choose(dtype, TABLE[sys.argv[1]])
    p, i, space = types.CPointer(getattr(types, dtype.numpy_name)), types.intp, {"product_tile": product_tile}
    exec(f"def f(c, a, b, k, r, s, t): product_tile({s.rows}, {s.vectors}, {s.lanes}, 8, c, 0, {s.panel}, a, 0, r, s, "
         f"b, 0, t, k, 0, 0)", space)
    text = cfunc(types.void(p, p, p, i, i, i, i), nopython=True)(space["f"])._library.get_asm_str()
    blocks = re.split(r"(?m)^[.]?L\\w+:", text)
    (loop,) = [block for block in blocks if "prefetch" in block]
    print(dtype, len(re.findall(r"(?m)^.*\\(%rsp\\).*%[xyz]mm|^.*%[xyz]mm.*\\(%rsp\\)", loop)))
"""

PROCESSORS = {
    "avx512": ("skylake-avx512", "+avx512f,+avx512dq,+avx512bw,+avx512vl,+avx2,+fma"),
    "avx2": ("haswell", "+avx2,+fma"),
    "portable": ("x86-64", "+sse2"),
}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads x86-64 assembly")
@pytest.mark.parametrize("isa", PROCESSORS)
def test_sums_stay_in_registers(isa: str) -> None:
    """On a processor of that kind the loop over K has no vector on the stack, whether strides are known or not."""
    name, features = PROCESSORS[isa]
    environment = {**os.environ, "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features, "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-c", SPILLS, isa]
    report = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert report.split() == ["f32", "0", "f64", "0", "i32", "0", "i64", "0"]


def test_the_instruction_set_can_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(vectors.VARIABLE, "portable")
    assert select().name == "portable"
    monkeypatch.setattr(vectors, "host_features", lambda: {"avx2": True, "fma": True})
    assert select("avx2").name == "avx2"
    monkeypatch.delenv(vectors.VARIABLE)
    assert select().name == "avx2"
    with pytest.raises(UnknownInstructionSet, match="there is no instruction set 'mmx'\n  fix: choose one of avx512"):
        select("mmx")
    with pytest.raises(UnknownInstructionSet, match=r"does not execute avx512 \(it lacks avx512bw, .*avx512vl\)"):
        select("avx512")


@every_dtype
@pytest.mark.parametrize("isa", TABLE)
def test_schedules_fit_the_registers(isa: str, dtype: DType) -> None:
    schedule = choose(dtype, TABLE[isa])
    assert schedule.rows * schedule.vectors + schedule.vectors + 1 <= TABLE[isa].registers
    assert schedule.lanes * dtype.itemsize == TABLE[isa].width
    assert lookahead(dtype.itemsize) * dtype.itemsize * 4 == 64


def test_narrow_results_get_narrow_panels() -> None:
    wide = choose(float32, TABLE["avx512"])
    assert choose(float32, TABLE["avx512"], columns=10).panel == 16
    assert choose(float32, TABLE["avx512"], columns=1000) == wide
    assert choose(float32, TABLE["avx512"], columns=0).vectors == 1


GATHERED = (
    "def kernel(c, a, rows, offsets, b):\n"
    "    gathered_tile({}, {}, {}, 3, c, 2, {}, a, 1, rows, 1, 2, offsets, 1, 3, b, 0, {}, 5, 0, 1)"
)


@every_kind
@pytest.mark.parametrize("dtype", [float32, int64], ids=str)
def test_rows_and_blocks_of_terms_are_gathered(isa: str, dtype: DType) -> None:
    schedule = choose(dtype, TABLE[isa])
    rows, panel = schedule.rows, schedule.panel
    namespace: dict[str, Any] = {"gathered_tile": gathered_tile}
    exec(GATHERED.format(rows, schedule.vectors, schedule.lanes, panel, panel), namespace)
    p, q = types.CPointer(getattr(types, dtype.numpy_name)), types.CPointer(types.int64)
    kernel = cfunc(types.void(p, p, q, q, p), nopython=True, error_model="numpy")(namespace["kernel"])
    a, b, offsets = random((200,), dtype, 1), random((15, panel), dtype, 2), np.array([99, 40, 0, 17])
    offsets_of_rows = np.random.default_rng(4).permutation(100)[: 1 + 2 * rows]
    c = random((2 + rows * panel,), dtype, 3)
    found, twin_found = c.copy(), c.copy()
    entry = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(kernel.address)
    entry(*[x.ctypes.data for x in (found, a, offsets_of_rows, offsets, b)])
    namespace["kernel"](twin_found, a, offsets_of_rows, offsets, b.reshape(-1))
    own = offsets_of_rows[1 : 1 + rows]
    left = np.stack([[a[1 + p + row + 2 * k] for p in offsets[1:] for k in range(5)] for row in own])
    assert (found[:2] == c[:2]).all() and (twin_found[:2] == c[:2]).all()
    for result in (found, twin_found):
        tile, before = result[2:].reshape(rows, panel), c[2:].reshape(rows, panel)
        assert_product(tile, np.hstack([left, np.eye(rows, dtype=dtype.numpy)]), np.vstack([b, before]))
