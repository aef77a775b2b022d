"""The pool on a GPU: counters, W2's hit rate, and nothing that grows over ten thousand calls."""

import gc
import resource

import numpy as np

import zenith
from tests.gpu.device import FAKE, download, upload

CALLS = 200 if FAKE else 10_000


def stats():
    gc.collect()
    return zenith.memory.stats()


def test_sixty_products_reach_the_hit_rate_of_w2(rng):
    x, w = (upload(rng.standard_normal((64 if FAKE else 1024,) * 2, dtype=np.float32) / 32) for _ in range(2))
    product = zenith.jit(lambda x, w: x @ w)
    before = stats()
    for _ in range(60):
        product(x, w)
    zenith.synchronize()
    after = stats()
    asked, hits = after.allocations - before.allocations, after.hits - before.hits
    assert asked >= 60 and hits / asked >= 0.935, (before, after)
    assert after.returns - before.returns >= 59 and after.device is not None


def test_nothing_leaks_over_ten_thousand_calls(rng):
    """Sizes change, indices are checked, loops carry: blocks, events and host memory come to rest."""

    @zenith.jit
    def step(x, i):
        y = zenith.fori_loop(0, 2, lambda _, y: np.tanh(y) + x, x)
        return np.sort(y, axis=-1)[i], y.sum(axis=0)

    given = [
        (upload(rng.standard_normal((n, 32), dtype=np.float32)), upload(np.arange(n)[::-1].copy())) for n in (3, 8, 5)
    ]

    def calls(count):
        for number in range(count):
            step(*given[number % 3])
        zenith.synchronize()
        return stats(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    calls(max(60, CALLS // 10))
    before, host = calls(3)
    after, host_after = calls(CALLS)
    assert (after.bytes_in_use, after.reserved_bytes) == (before.bytes_in_use, before.reserved_bytes)
    assert after.by_purpose == before.by_purpose and after.misses == before.misses
    assert host_after - host < 20_000, "kibibytes of host memory"


def test_results_outlive_the_program_and_memory_returns(rng):
    x = rng.standard_normal(1000, dtype=np.float32)
    before = stats().by_purpose["results"] if stats().by_purpose else 0
    found = zenith.jit(lambda x: np.sin(x))(upload(x))
    np.testing.assert_allclose(download(found), np.sin(x), rtol=1e-5, atol=1e-6)
    assert FAKE or stats().by_purpose["results"] > before
    del found
    assert FAKE or stats().by_purpose["results"] == before


def test_one_pool_with_torch(cuda_torch):
    """Once tensors take part, memory comes from PyTorch's allocator, whose counters stats() shows."""
    zenith.jit(lambda x: x + 1)(cuda_torch.ones(1000, device="cuda"))
    assert "torch" in stats().pool.lower()
    before = cuda_torch.cuda.memory_allocated()
    found = zenith.jit(lambda x: x * 2)(cuda_torch.ones(1 << 20, device="cuda"))
    assert cuda_torch.cuda.memory_allocated() >= before + (4 << 20)
    del found
