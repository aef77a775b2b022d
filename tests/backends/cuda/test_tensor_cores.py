"""Products on tensor cores: refusals, values on lanes and on a grid of threads in the true layout, schedules."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import zenith
from tests.backends.cpu.test_product import VARIANTS, assert_product, random, seen, stored
from tests.backends.cuda.grid import GridExecutable
from tests.backends.running import call, plan_of
from zenith.backends.cpu.texts import TILE_FUNCTIONS
from zenith.backends.cuda.emit import CudaPrinter
from zenith.backends.cuda.forms import forms
from zenith.backends.cuda.schedules import CHIPS, MIDDLING, chip, cycles, matrix_tiles, resident, shared_memory
from zenith.backends.cuda.shared import scheduled
from zenith.backends.cuda.target import cuda_target
from zenith.backends.lanes.executable import LanesExecutable
from zenith.backends.steps import LaunchStep
from zenith.backends.tf32 import rounded_to_tf32
from zenith.backends.weights import WeightTable
from zenith.ir.types import bfloat16, float16, float32

ELEMENTS = {"f16": float16, "bf16": bfloat16, "tf32": float32}
SIZES = [(0, 3, 2), (1, 0, 1), (1, 1, 1), (3, 40, 70), (64, 513, 64), (65, 33, 129), (130, 8193, 5)]
EVEN = [(8, 16, 24), (72, 48, 136)]  # sizes that copies of 16 bytes need


def as_product(name):
    """A variant of a product whose operands may be 16-bit floats, its result float32."""
    return lambda x, y: VARIANTS[name](x.astype(np.float32), y.astype(np.float32))


def forced(name, arch="sm_90a"):
    """A target that takes the schedule of a name."""
    return replace(cuda_target(arch, tf32=True), pick=lambda tiles, _: next(t for t in tiles if t.name == name))


def planned(function, args, target=None, known=False):
    """The graph of a function and its plan, with sizes that are known or not."""
    specs = [zenith.ShapeDtypeStruct(a.shape, a.dtype) for a in args]
    graph = zenith.make_graph(function)(*(specs if known else args))
    return graph, plan_of(graph, target or cuda_target(tf32=True))


def on_lanes(graph, plan):
    return LanesExecutable(plan, TILE_FUNCTIONS, WeightTable.of(graph))


def rounded(x):
    return rounded_to_tf32(x) if x.dtype == np.float32 else x


def kernels(plan):
    return [s.kernel for s in plan.steps if isinstance(s, LaunchStep)]


@cache
def symbolic(name, element):
    """A variant without a known size, and its executable on lanes."""
    graph, plan = planned(as_product(name), stored(name, 5, 7, 11, ELEMENTS[element]))
    assert plan.groups[0].choice.engine == "tensor_cores"
    return graph, on_lanes(graph, plan)


# --- values ---


@pytest.mark.parametrize("element", [
    pytest.param(e, marks=[pytest.mark.thorough] * (e != "f16")) for e in ELEMENTS
])  # fmt: skip
@pytest.mark.parametrize("name", VARIANTS)
def test_every_remainder_and_layout(name, element):
    graph, executable = symbolic(name, element)
    for sizes in SIZES:
        x, y = stored(name, *sizes, ELEMENTS[element])
        (result,) = call(executable, graph, [x, y])
        assert_product(result, *seen(name, rounded(x), rounded(y)))


GRID = [
    # element, variant, schedule, architecture, widest, sizes
    ("f16", "plain", "64x64", "sm_90a", True, EVEN[1]),
    ("f16", "plain", "64x64", "sm_90a", False, (65, 37, 67)),
    ("f16", "both transposed", "64x64", "sm_90a", True, EVEN[1]),
    ("f16", "both transposed", "64x64", "sm_90a", False, (3, 70, 65)),
    ("bf16", "right transposed", "16x128", "sm_90a", True, EVEN[1]),
    ("bf16", "left transposed", "32x64", "sm_80", True, EVEN[1]),
    ("bf16", "reversed", "32x64", "sm_80", True, (40, 40, 16)),
    ("f16", "every other", "64x64", "sm_90a", True, EVEN[0]),
    ("tf32", "plain", "64x64", "sm_90a", True, EVEN[1]),
    ("tf32", "both transposed", "16x128", "sm_90a", True, EVEN[1]),
    ("tf32", "right transposed", "32x64", "sm_90a", False, (33, 19, 66)),
    ("f16", "plain", "64x64", "sm_75", True, EVEN[1]),
    ("f16", "both transposed", "64x64", "sm_75", False, (5, 37, 9)),
    ("f16", "right transposed", "128x64", "sm_75", True, EVEN[0]),
    ("bf16", "plain", "128x128", "sm_90a", True, (136, 72, 136)),
    ("f16", "plain", "128x256", "sm_90a", True, (8, 40, 264)),
    ("f16", "plain", "64x128", "sm_90a", True, (72, 40, 136)),
]


@pytest.mark.parametrize(("element", "name", "tile", "arch", "widest", "sizes"), [
    pytest.param(*case, marks=[pytest.mark.thorough] * (number % 12 != 0)) for number, case in enumerate(GRID)
])  # fmt: skip
def test_the_printed_source_on_a_grid_of_threads(element, name, tile, arch, widest, sizes):
    """With the true lane layout: exact, since few terms of small integers have exact sums in any order."""
    x, y = (np.round(4 * a.astype(np.float32)).astype(a.dtype) for a in stored(name, *sizes, ELEMENTS[element]))
    graph, plan = planned(as_product(name), [x, y], forced(f"{element}_{tile}", arch), known=True)
    (kernel,) = kernels(plan)
    assert scheduled(kernel)[0].schedule.name == f"{element}_{tile}"
    (result,) = call(GridExecutable(plan, WeightTable.of(graph), widest=widest), graph, [x, y])
    left, right = seen(name, x.astype(np.float32), y.astype(np.float32))
    np.testing.assert_array_equal(result, left @ right)


@pytest.mark.thorough
@pytest.mark.parametrize("arch", ["sm_90a", "sm_75"])
def test_known_and_unknown_sizes_with_an_epilogue_and_split_terms(arch):
    """Batches, split terms and a bias with an activation, whose result is transposed and rounded."""
    x, w, b = (random(s, float16, n) for n, s in enumerate([(2, 24, 296), (2, 296, 40), (40,)]))

    def layer(x, w, b):
        return np.transpose(np.tanh(x @ w * np.float16(0.05) + b), (1, 0, 2))

    wide = layer(*(a.astype(np.float64) for a in (x, w, b)))
    for known in (True, False):
        graph, plan = planned(layer, [x, w, b], cuda_target(arch), known)
        (kernel,) = kernels(plan)
        assert scheduled(kernel)
        for executable in (on_lanes(graph, plan), GridExecutable(plan, WeightTable.of(graph), widest=True)):
            np.testing.assert_allclose(call(executable, graph, [x, w, b])[0], wide, atol=4e-3)


def test_many_rows_of_tiles_are_taken_some_at_a_time():
    x, y = random((2, 1100, 24), float16, 1), random((2, 24, 200), float16, 2)
    for known in (True, False):
        graph, plan = planned(as_product("plain"), [x, y], forced("f16_32x64"), known)
        assert_product(call(on_lanes(graph, plan), graph, [x, y])[0], x.astype(np.float32), y.astype(np.float32))


def test_tf32_rounds_operands_and_nothing_else():
    x, w = random((70, 50), seed=1), random((50, 30), seed=2)
    graph, plan = planned(lambda x, w: x @ w, [x, w])
    (result,) = call(on_lanes(graph, plan), graph, [x, w])
    assert_product(result, rounded(x), rounded(w))
    assert not np.allclose(result, x @ w, rtol=1e-6, atol=1e-6)


@pytest.mark.thorough
def test_a_long_sum_is_cut_into_blocks():
    """One float32 accumulator cannot count beyond 2**24; blocks can."""
    k = 2**24 + 2**14
    x, y = np.ones((1, k), np.float16), np.ones((k, 1), np.float16)
    graph, plan = planned(as_product("plain"), [x, y])
    assert call(on_lanes(graph, plan), graph, [x, y])[0] == k
    assert all(p.schedule.block < 2**24 for p in scheduled(kernels(plan)[0]))


def test_a_block_of_terms_on_the_grid_joins_those_before():
    """Sums of several blocks, each from zero, added up in shared memory."""
    tile = next(t for t in cuda_target().matrix_tiles if t.name == "f16_32x64")
    target = replace(cuda_target(), pick=lambda tiles, shape: replace(tile, block=64, tasks=1))
    x, y = (np.round(4 * random(s, float16, n)) for n, s in enumerate([(9, 200), (200, 16)]))
    graph, plan = planned(as_product("plain"), [x, y], target, known=True)
    (result,) = call(GridExecutable(plan, WeightTable.of(graph), widest=True), graph, [x, y])
    np.testing.assert_array_equal(result, x.astype(np.float32) @ y.astype(np.float32))


def test_without_its_waits_the_result_is_wrong(monkeypatch):
    """The grid's copies are asynchronous: it would notice a wait that is missing."""
    x, y = stored("plain", *EVEN[1], float16)
    graph, plan = planned(as_product("plain"), [x, y], forced("f16_64x64"), known=True)
    original = CudaPrinter.kernel
    monkeypatch.setattr(
        CudaPrinter, "kernel", lambda self, k: original(self, k).replace("wait_copies(2)", "wait_copies(4)")
    )
    (result,) = call(GridExecutable(plan, WeightTable.of(graph), widest=True), graph, [x, y])
    with np.errstate(all="ignore"):
        assert not np.allclose(result, x.astype(np.float32) @ y.astype(np.float32), atol=1e-2)


# --- groups that engines take ---


@pytest.mark.parametrize(("left", "right", "target", "why"), [
    (float32, float32, cuda_target(), "would round float32 operands to TF32: compile with tf32=True"),
    (float32, float32, cuda_target("sm_75", tf32=True), "cuda-sm_75 has no instruction for f32"),
    (bfloat16, bfloat16, cuda_target("sm_75"), "cuda-sm_75 has no instruction for bf16"),
    (float16, bfloat16, cuda_target(), "one operand is f16, the other bf16"),
    (float16, float32, cuda_target(tf32=True), "one operand is f16, the other f32"),
    (float16, float16, None, "has no tensor cores"),
])  # fmt: skip
def test_refusals(left, right, target, why):
    x, y = random((4, 4), left), random((4, 4), right)
    graph = zenith.make_graph(as_product("plain"))(x, y)
    (group,) = plan_of(graph, target).groups
    assert group.choice.engine == "product"
    assert why in dict(group.choice.others)["tensor_cores"]


def test_float64_and_integers_are_refused():
    for dtype in (np.float64, np.int32):
        (group,) = planned(lambda x: x @ x, [np.ones((4, 4), dtype)])[1].groups
        assert "tensor cores sum in float32" in dict(group.choice.others)["tensor_cores"]


# --- schedules ---


@pytest.mark.parametrize("capability", CHIPS)
def test_every_schedule_can_be_printed_and_fits(capability):
    arch = f"sm_{capability[0]}{capability[1]}"
    for tile in matrix_tiles(capability, tf32=True):
        assert shared_memory(tile) <= chip(capability).shared * 1024 and tile.threads <= 256
        x = random((3, 5), tile.instruction.element)
        _, plan = planned(as_product("both transposed"), [x, x.T], forced(tile.name, arch))
        for kernel in kernels(plan):
            for form in forms(kernel):
                assert CudaPrinter(form).kernel(kernel)


def test_the_model_prefers_large_tiles_for_large_products_and_many_for_small_ones():
    pick, tiles = cuda_target().pick, [t for t in cuda_target().matrix_tiles if t.instruction.element == bfloat16]
    large, small = pick(tiles, (1, 8192, 8192, 8192)), pick(tiles, (1, 128, 768, 768))
    assert large.rows * large.panel >= 128 * 128 > small.rows * small.panel
    assert pick(tiles, (1, 1, 4096, 4096)).rows == 16
    assert pick(tiles, (None,) * 4) == pick(tiles, MIDDLING)


def test_a_product_of_twice_the_size_takes_longer_by_the_model():
    gpu = chip((9, 0))
    for tile in matrix_tiles((9, 0), tf32=True):
        assert cycles(tile, (1, 4096, 4096, 4096), gpu) < cycles(tile, (1, 8192, 4096, 4096), gpu)
        assert resident(tile, gpu) >= 1


def test_another_choice_of_schedules_is_taken_by_name():
    x = random((64, 64), bfloat16)
    _, plan = planned(as_product("plain"), [x, x], forced("bf16_32x64"), known=True)
    assert scheduled(kernels(plan)[0])[0].schedule.name == "bf16_32x64"
