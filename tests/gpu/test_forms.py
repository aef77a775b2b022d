"""Each form of a kernel with values: threads, teams of every size, tiles by a block, wide and plain, 64-bit indices."""

import itertools

import numpy as np
import pytest

import zenith
from tests.backends.cpu.test_attention_vjp import arguments as inputs
from tests.backends.cpu.test_attention_vjp import close
from tests.backends.cpu.test_attention_vjp import graph as back_and_forth
from tests.backends.cuda.programs import PROGRAMS, graph
from tests.backends.running import call, check, compiled
from tests.gpu.device import FAKE, download, upload

# Multiples of all widths, no multiples, one element, nothing.
SIZES = ({"n": 8, "m": 768, "k": 200}, {"n": 7, "m": 13, "k": 5}, {"n": 130, "m": 66, "k": 129},
         {"n": 1, "m": 1, "k": 1}, {"n": 3, "m": 0, "k": 4})  # fmt: skip


def arguments(found, sizes, rng):
    """Arrays for a graph's inputs; indices stay inside the shortest axis."""
    for value in found.inputs:
        shape, dtype = [d.evaluate(sizes) for d in value.type.shape], value.dtype.numpy
        if dtype.kind == "b":
            yield rng.random(shape) < 0.5
        elif dtype.kind in "iu":
            yield rng.integers(0, min(sizes["n"], 3), shape).astype(dtype)
        else:
            yield rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_kind_of_kernel_at_sizes_of_every_kind(name, rng):
    found = graph(name)
    program = compiled(found, "cuda")
    for sizes in SIZES:
        if sizes["m"] == 0 and name in ("softmax", "attended"):
            continue  # the greatest of nothing
        args = list(arguments(found, sizes, rng))
        check(call(program, found, args), found, args)


@pytest.mark.parametrize(("rows", "length"), [(2000, 96), (8, 100), (8, 768), (8, 4096), (3, 40_001), (1, 1 << 20)])
def test_teams_of_a_warp_up_to_a_block(rows, length, rng):
    x = rng.standard_normal((rows, length), dtype=np.float32)
    softmax = zenith.jit(
        lambda x: np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)
    )
    exact = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    exact /= exact.sum(-1, keepdims=True)
    np.testing.assert_allclose(download(softmax(upload(x))), exact, rtol=3e-6, atol=1e-9)


@pytest.mark.parametrize("start", range(4))
def test_addresses_that_are_not_aligned(start, rng):
    """A dense slice of an array begins at an address that wide accesses cannot use."""
    x = rng.standard_normal(4096 + 4, dtype=np.float32)
    step = zenith.jit(lambda x: np.tanh(x) * 2)
    found = download(step(upload(x)[start : start + 4096]))
    np.testing.assert_allclose(found, np.tanh(x[start : start + 4096]) * 2, rtol=2e-6)


@pytest.mark.parametrize(
    ("m", "k", "n"), [*itertools.product((1, 63, 64, 65), (1, 17, 256), (1, 64, 127)), (512, 1000, 300)]
)
def test_products_around_the_edges_of_tiles(m, k, n, rng):
    product = zenith.jit(lambda a, b: a @ b)
    a, b = rng.standard_normal((m, k), dtype=np.float32), rng.standard_normal((k, n), dtype=np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    room = k * np.finfo(np.float32).eps * (np.abs(a).astype(np.float64) @ np.abs(b)) + 1e-7
    assert (np.abs(download(product(upload(a), upload(b))) - exact) <= room).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys", "width"), [(1, 7, 16), (65, 65, 64), (128, 200, 64), (33, 500, 32)])
def test_attention(queries, keys, width, causal, rng):
    q, k, v = (rng.standard_normal((2, n, width), dtype=np.float32) for n in (queries, keys, keys))
    shift = np.where(np.arange(keys) > np.arange(queries)[:, None], -np.inf, 0.0).astype(np.float32)

    def attend(q, k, v):
        scores = q @ k.swapaxes(-1, -2) / np.float32(width**0.5) + (shift if causal else np.zeros_like(shift))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v

    found = download(zenith.jit(attend)(*map(upload, (q, k, v))))
    np.testing.assert_allclose(found, attend(*(a.astype(np.float64) for a in (q, k, v))), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("kinds", "width"), [("f32", 64), ("f16", 32), ("f16", 64), ("bf16", 128), ("f16", 256)])
def test_attention_forward_and_back(kinds, width, causal):
    """On threads and on tensor cores, in the form that takes any addresses and sizes and in the wide one."""
    program = back_and_forth(("s", "t", width, width), kinds, causal=causal, lead=("b",))
    executable = compiled(program, "cuda")
    for queries, keys in ((1, 7), (64, 128), (65, 65), (200, 33), (136, 264)):
        values = [
            x.astype(program.inputs[0].dtype.numpy) for x in inputs((queries, keys, width, width), "f4", lead=(3,))
        ]
        found = [r.astype(np.float32) for r in call(executable, program, values)]
        limits = {"f32": (2.0**-23,), "f16": (2.0**-11, 2.0**-14), "bf16": (2.0**-8,)}[kinds]
        close(found, values, "none", causal, *limits)


def test_scatters_repeat_bit_by_bit(rng):
    """Sums into rows that many indices share: in the order of the program, without atomics."""
    indices, x = rng.integers(0, 50, 20_000), rng.standard_normal((20_000, 8), dtype=np.float32)
    gradient = zenith.jit(zenith.grad(lambda table, i, x: np.sum(table[i] * x)))
    table, i, x = upload(np.zeros((50, 8), np.float32)), upload(indices), upload(x)
    first, second = download(gradient(table, i, x)), download(gradient(table, i, x))
    np.testing.assert_array_equal(first, second)
    exact = np.zeros((50, 8))
    np.add.at(exact, indices, download(x).astype(np.float64))
    np.testing.assert_allclose(first, exact, rtol=1e-4, atol=1e-4)


def test_scatters_by_atomics_differ_by_rounding_only(rng):
    indices, x = rng.integers(0, 50, 20_000), rng.standard_normal((20_000, 8), dtype=np.float32)
    sums = zenith.jit(zenith.grad(lambda table, i, x: np.sum(table[i] * x)), repeatable=False)
    found = download(sums(upload(np.zeros((50, 8), np.float32)), upload(indices), upload(x)))
    exact = np.zeros((50, 8))
    np.add.at(exact, indices, x.astype(np.float64))
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(FAKE, reason="arrays of two billion elements")
def test_more_elements_than_32_bits_count(real):
    count = (1 << 31) + 24
    free, _ = real.cuda.runtime.memGetInfo()
    if free < 4 * count:
        pytest.skip(f"{4 * count >> 30} GiB of device memory are wanted, {free >> 30} are free")
    x = real.zeros(count, bool)
    x[-3:] = True
    found = zenith.jit(lambda x: ~x)(x)
    assert int((~found).sum()) == 3 and not bool(found[-1]) and bool(found[0])
