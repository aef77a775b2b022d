"""Intrinsics of tensor cores: their twins have the layout of the PTX ISA, and they become its instructions."""

import platform
import re
import sys

import numpy as np
import pytest

from tests.backends.cuda.grid import run_block
from zenith.backends.cpu.texts import define
from zenith.backends.cuda import fragments
from zenith.backends.cuda.architecture import capability
from zenith.backends.cuda.compile import available, link, memory_type
from zenith.backends.cuda.cubin import resources
from zenith.backends.cuda.instructions import INSTRUCTIONS, instructions
from zenith.backends.tf32 import rounded_to_tf32
from zenith.errors import UnsupportedError
from zenith.ir.types import DTYPES, bfloat16, float16, float32

EXPECTED = sys.platform == "linux" and platform.machine() == "x86_64"
needs_compiler = pytest.mark.skipif(
    not EXPECTED and not available(), reason="the CUDA compiler has wheels for Linux x86-64"
)
BY_NAME = {i.name: i for i in INSTRUCTIONS}
KINDS = {str(d): d for d in DTYPES}
ARCHES = ("sm_75", "sm_80", "sm_90a")
LANES = range(32)


def isa_left(shape, i, lane):
    """Row and column of element ``i`` of A's fragment, as the PTX ISA states it for each shape."""
    group, thread = lane >> 2, lane % 4
    if shape == "m16n8k16":
        row = group if i in (0, 1, 4, 5) else group + 8
        return row, thread * 2 + (i & 1) if i < 4 else thread * 2 + (i & 1) + 8
    if shape == "m16n8k8":  # of 16-bit elements
        return group if i < 2 else group + 8, thread * 2 + (i & 1)
    return group if i in (0, 2) else group + 8, thread if i < 2 else thread + 4  # of TF32


def isa_right(shape, i, lane):
    """Row and column of element ``i`` of B's fragment."""
    group, thread = lane >> 2, lane % 4
    if shape == "m16n8k16":
        return thread * 2 + (i & 1) if i < 2 else thread * 2 + (i & 1) + 8, group
    if shape == "m16n8k8":
        return thread * 2 + i, group
    return thread if i == 0 else thread + 4, group


def isa_sums(i, lane):
    """Row and column of element ``i`` of the fragment of C and D, the same for all shapes."""
    group, thread = lane >> 2, lane % 4
    return group if i < 2 else group + 8, thread * 2 + (i & 1)


def shape_of(instruction):
    return "tf32" if instruction.type == "tf32" else instruction.shape


def random(dtype, shape, seed=0):
    x = np.random.default_rng(seed).standard_normal(shape).astype(dtype.numpy)
    return rounded_to_tf32(x) if dtype == float32 else x


def packed(instruction, registers, element_of):
    """The words of all lanes, each element asked for by its number and lane."""
    dtype = instruction.element
    elements = [[element_of(i, lane) for i in range(registers * 4 // dtype.itemsize)] for lane in LANES]
    return np.array(elements, dtype.numpy).view(np.uint32)


def in_fragments(instruction, a, b, c):
    """A, B and C as the PTX ISA lays them out."""
    shape = shape_of(instruction)
    left = packed(instruction, instruction.left_words, lambda i, lane: a[isa_left(shape, i, lane)])
    right = packed(instruction, instruction.right_words, lambda i, lane: b[isa_right(shape, i, lane)])
    return left, right, np.array([[c[isa_sums(i, lane)] for i in range(4)] for lane in LANES], np.float32)


def matrices(i):
    left, right = random(i.element, (i.rows, i.terms), 1), random(i.element, (i.terms, i.columns), 2)
    return left, right, random(float32, (i.rows, i.columns), 3)


@pytest.mark.parametrize("name", BY_NAME)
def test_the_layout_of_operands_is_the_isas(name):
    i = BY_NAME[name]
    for lines, registers, isa in [(i.rows, i.left_words, isa_left), (i.columns, i.right_words, isa_right)]:
        line, term = fragments.operand_coordinates(lines, registers, i.element.itemsize)
        each = 4 // i.element.itemsize
        for lane in LANES:
            for number in range(registers * each):
                found = line[lane, number // each, number % each], term[lane, number // each, number % each]
                assert found == (isa(shape_of(i), number, lane)[:: 1 if isa is isa_left else -1])


def test_the_layout_of_sums_is_the_isas():
    row, column = fragments.sum_coordinates(4)
    assert all((row[lane, i], column[lane, i]) == isa_sums(i, lane) for lane in LANES for i in range(4))


@pytest.mark.parametrize("name", BY_NAME)
def test_a_whole_product(name):
    i = BY_NAME[name]
    a, b, c = matrices(i)
    left, right, sums = in_fragments(i, a, b, c)
    wanted = a.astype(np.float64) @ b.astype(np.float64) + c
    made = fragments.mma(i, sums, left, right)
    assert made.dtype == np.float32
    for lane in LANES:
        for number in range(4):
            assert made[lane, number] == np.float32(wanted[isa_sums(number, lane)])


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix_brings_lane_l_a_pair_of_row_l_over_4(count, trans):
    """PTX ISA: thread 4 * r + c holds elements 2c and 2c + 1 of row r; with .trans, of column r."""
    halves = np.arange(32 * 8, dtype=np.uint16).reshape(4, 8, 8)
    made = fragments.ldmatrix(halves.reshape(32, 8).view(np.uint32), count, trans)
    assert made.shape == (32, count)
    for number in range(count):
        matrix = halves[number].T if trans else halves[number]
        for lane in LANES:
            low, high = matrix[lane // 4, 2 * (lane % 4)], matrix[lane // 4, 2 * (lane % 4) + 1]
            assert made[lane, number] == int(low) | int(high) << 16


def test_tf32_keeps_10_bits_of_the_fraction_and_rounds_ties_away():
    one, step = np.float32(1), np.float32(2**-10)
    assert rounded_to_tf32(one + step / 2) == one + step
    assert rounded_to_tf32(-(one + step / 2)) == -(one + step)
    assert rounded_to_tf32(one + step / 4) == one
    special = np.array([np.inf, -np.inf, np.finfo(np.float32).max, 0.0, -0.0], np.float32)
    assert np.array_equal(rounded_to_tf32(special), np.array([np.inf, -np.inf, np.inf, 0, 0], np.float32))
    assert np.isnan(rounded_to_tf32(np.float32(np.nan)))
    with pytest.raises(ValueError, match="rounded to tf32"):
        fragments.mma(BY_NAME["mma_m16n8k8_tf32"], 0, np.full((32, 4), 1, np.uint32), np.zeros((32, 2), np.uint32))


def test_instructions_by_architecture():
    assert [i.shape for i in instructions(float16, (7, 5))] == ["m16n8k8"]
    assert [i.shape for i in instructions(float16, (9, 0, "a"))] == ["m16n8k16", "m16n8k8"]
    assert [i.shape for i in instructions(bfloat16, (8, 0))] == ["m16n8k16"] and not instructions(bfloat16, (7, 5))
    assert [i.type for i in instructions(float32, (8, 0))] == ["tf32"] and not instructions(float32, (7, 5))


# --- a product by one warp, as kernels write it: run on the grid and compiled ---------------------------------------


def product_source(i, trans=False):
    """C += A B: operands through shared memory by ldmatrix, B as [column][term] or, transposed, [term][column]."""
    size = i.element.itemsize
    line = 16 // size  # elements of a line of a small matrix
    left = f"u32((lane % 16) * {i.terms} + lane // 16 * {line})" if i.left_words == 4 else f"u32(lane % 16 * {i.terms})"
    right = f"u32(lane % 8 * {i.terms} + lane // 8 % {i.right_words} * {line})"
    if trans:
        right = f"u32(lane % {8 * i.right_words} * {i.columns})"
    rounds = [f"    for j in range({n}):\n        {x}[j] = tf32({x}[j])" for x, n in
              (("left", i.left_words), ("right", i.right_words))] if i.rounds else []  # fmt: skip
    return "\n".join([
        "def product(a, b, c):",
        "    lane = u32(cuda.threadIdx.x)",
        f"    tile_a = {i.element}_shared({i.rows * i.terms})",
        f"    tile_b = {i.element}_shared({i.columns * i.terms})",
        f"    for j in range({i.rows * i.terms // 32}):",
        "        tile_a[u32(32 * j) + lane] = a[u32(32 * j) + lane]",
        f"    for j in range({i.columns * i.terms // 32}):",
        "        tile_b[u32(32 * j) + lane] = b[u32(32 * j) + lane]",
        "    cuda.syncthreads()",
        f"    left = u32_local({i.left_words})",
        f"    right = u32_local({i.right_words})",
        f"    sums = f32_local({i.sums})",
        "    row = u32(lane // 4)",
        "    column = u32(lane % 4 * 2)",
        "    for j in range(4):",
        f"        sums[j] = c[u32((row + j // 2 * 8) * {i.columns}) + column + j % 2]",
        f"    ldmatrix_{i.left_words}(left, 0, tile_a, {left})",
        f"    ldmatrix_{i.right_words}{'_transposed' if trans else ''}(right, 0, tile_b, {right})",
        *rounds,
        f"    {i.name}(sums, 0, left, 0, right, 0)",
        "    for j in range(4):",
        f"        c[u32((row + j // 2 * 8) * {i.columns}) + column + j % 2] = sums[j]",
        "",
    ])  # fmt: skip


COPY = """def move(x, y):
    lane = u32(cuda.threadIdx.x)
    tile = f16_shared(512)
    copy_async(tile, u32(lane * 8), x, u32(lane * 8), 8)
    commit_copies()
    copy_async(tile, u32(256 + lane * 8), x, u32(256 + lane * 8), u32(lane % 9))
    commit_copies()
    wait_copies({first})
    cuda.syncthreads()
    y[lane] = tile[u32(8 * (31 - lane))]
    wait_copies({second})
    cuda.syncthreads()
    for j in range(8):
        y[u32(32 + 8 * lane + j)] = tile[u32(256 + 8 * lane + j)]
"""

PAIRS = """def pairs(x, y):
    lane = u32(cuda.threadIdx.x)
    y[lane] = pair_{kind}(x[u32(2 * lane)], x[u32(2 * lane + 1)])
"""


def compiled(source, name, kinds, arch):
    """PTX and cubin of a source whose parameters are pointers."""
    from numba import cuda
    from numba.core import types

    from zenith.backends.cuda.scalars import namespace

    signature = types.void(*[types.CPointer(memory_type(KINDS[kind])) for kind in kinds])
    function = define(source, name, namespace())
    text, _ = cuda.compile(function, signature, device=False, abi="numba", cc=capability(arch))
    return text, link(text, arch)


def architectures(i):
    return [arch for arch in ARCHES if capability(arch)[:2] >= i.since]


CASES = [(i.name, trans) for i in INSTRUCTIONS for trans in (False, True) if not (trans and i.element == float32)]


@pytest.mark.parametrize(("name", "trans"), CASES)
def test_a_product_through_shared_memory_on_the_grid(name, trans):
    i = BY_NAME[name]
    a, b, c = matrices(i)
    sums = c.copy()
    right = b if trans else b.T
    run_block(product_source(i, trans), "product", [a.ravel(), np.ascontiguousarray(right).ravel(), sums.reshape(-1)])
    np.testing.assert_array_equal(sums, (a.astype(np.float64) @ b.astype(np.float64) + c).astype(np.float32))


@needs_compiler
@pytest.mark.parametrize(("name", "trans"), CASES)
def test_a_product_compiles_to_the_instruction(name, trans):
    i = BY_NAME[name]
    kinds = (str(i.element), str(i.element), "f32")
    for arch in architectures(i):
        ptx, cubin = compiled(product_source(i, trans), "product", kinds, arch)
        assert f"mma.sync.aligned.{i.shape}.row.col.f32.{i.type}.{i.type}.f32" in ptx
        assert f"ldmatrix.sync.aligned.m8n8.x{i.left_words}.shared.b16" in ptx
        assert f"ldmatrix.sync.aligned.m8n8.x{i.right_words}{'.trans' if trans else ''}.shared.b16" in ptx
        assert bool(re.search(r"cvt\.rna\.tf32\.f32", ptx)) == i.rounds
        assert resources(cubin).stack == 0 and not re.search(r"(ld|st)\.local", ptx)


@needs_compiler
@pytest.mark.parametrize("name", [i.name for i in INSTRUCTIONS if i.since > (7, 5)])
def test_an_older_architecture_is_refused(name):
    i = BY_NAME[name]
    with pytest.raises(UnsupportedError, match=r"(mma_\w+|cvt\.rna\.tf32) needs a GPU of compute capability 8\.0"):
        compiled(product_source(i), "product", (str(i.element), str(i.element), "f32"), "sm_75")


def test_copies_arrive_when_they_are_waited_for():
    x = np.arange(1, 513).astype(np.float16)

    def moved(first, second):
        y = np.zeros(32 + 256, np.float16)
        run_block(COPY.format(first=first, second=second), "move", [x, y])
        return y[:32], y[32:].reshape(32, 8)

    inside = np.arange(8) < (np.arange(32) % 9)[:, None]
    first, second = moved(1, 0)
    assert np.array_equal(first, x[:256:8][::-1]) and np.array_equal(
        second, np.where(inside, x[256:].reshape(32, 8), 0)
    )
    assert not np.array_equal(moved(2, 0)[0], first), "the first group was not waited for"
    assert not np.array_equal(moved(1, 1)[1], second), "the second group was not waited for"


def test_a_copy_is_aligned_and_inside_of_its_source():
    copies, x = fragments.Copies(), np.zeros(16, np.float16)
    for at, count, message in [(4, 8, "aligned"), (16, 8, "outside"), (8, 9, "outside")]:
        with pytest.raises(ValueError, match=message):
            copies.copy(np.zeros(8, np.float16), 0, x, at, count)


@needs_compiler
def test_copies_compile_to_their_instructions():
    for arch in ("sm_80", "sm_90a"):
        ptx, cubin = compiled(COPY.format(first=1, second=0), "move", ("f16", "f16"), arch)
        assert ptx.count("cp.async.cg.shared.global [") == 2 and ptx.count("cp.async.commit_group") == 2
        assert re.findall(r"cp\.async\.wait_group (\d)", ptx) == ["1", "0"] and cubin
    with pytest.raises(UnsupportedError, match=r"cp\.async needs a GPU of compute capability 8\.0"):
        compiled(COPY.format(first=1, second=0), "move", ("f16", "f16"), "sm_75")


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_pairs(dtype):
    x, y = np.random.default_rng(4).standard_normal(64).astype(np.float32), np.zeros(32, np.uint32)
    run_block(PAIRS.format(kind=dtype), "pairs", [x, y])
    assert np.array_equal(y.view(dtype.numpy), x.astype(dtype.numpy))


@needs_compiler
@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
def test_pairs_compile(dtype):
    for arch in ARCHES:
        ptx, cubin = compiled(PAIRS.format(kind=dtype), "pairs", ("f32", "u32"), arch)
        assert (f"cvt.rn.{dtype}x2.f32" in ptx) == (arch != "sm_75") and cubin
