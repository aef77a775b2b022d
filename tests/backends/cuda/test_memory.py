"""The pool's counters, and its error when there is no memory, on a driver without a device."""

import gc
import subprocess
import sys

import pytest

import zenith
from tests.backends.cuda.fake_driver import FakeDriver
from zenith.backends.cuda.driver import using
from zenith.backends.cuda.memory import OutOfMemoryError, pool


def test_a_block_that_came_back_is_reused(fake):
    first = pool().allocate(1000, 0, "results")
    address = first.address
    del first
    second = pool().allocate(1000, 0, "results")
    assert second.address == address
    stats = zenith.memory.stats()
    assert (stats.allocations, stats.hits, stats.misses, stats.returns) == (2, 1, 1, 1)
    assert stats.bytes_in_use == stats.peak_bytes == stats.reserved_bytes == 1024
    assert stats.hit_rate == 0.5 and stats.device == "fake 0"
    assert "2 allocations, 1 hits, 1 returns, hit rate 50.0%" in str(stats)


def test_streams_do_not_share_blocks(fake):
    first = pool().allocate(1000, 3, "results")
    address = first.address
    del first
    assert pool().allocate(1000, 4, "results").address != address


def test_cached_memory_can_be_released(fake):
    block = pool().allocate(5000, 0, "arenas")
    assert zenith.memory.stats().by_purpose["arenas"] == block.length
    del block
    assert fake.allocated > 0
    zenith.memory.release()
    assert fake.allocated == 0 and zenith.memory.stats().reserved_bytes == 0


def test_out_of_memory_reports_the_request_and_the_memory_in_use():
    with using(FakeDriver(memory=10_000_000)):
        blocks = [pool().allocate(4_000_000, 0, purpose) for purpose in ("arenas", "constants and weights")]
        with pytest.raises(OutOfMemoryError) as caught:
            pool().allocate(6_000_000, 0, "results")
        text = str(caught.value)
        assert "6.00 MB of results" in text and "4.00 MB in arenas" in text and "0 bytes in results" in text
        assert "2.00 MB of 10.00 MB are free" in text and "zenith.memory.release()" in text
        assert isinstance(caught.value, MemoryError) and len(blocks) == 2


def test_stale_memory_is_found_before_out_of_memory_is_raised():
    with using(FakeDriver(memory=10_000_000)):
        block = pool().allocate(8_000_000, 0, "arenas")
        del block
        gc.collect()
        assert pool().allocate(9_000_000, 0, "results").length >= 9_000_000


def test_stats_without_a_gpu_are_zeros_with_a_reason():
    code = "import zenith; s = zenith.memory.stats(); print(s.allocations, s.device, bool(s.note)); print(s)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == "0 None True" and second.startswith("no device memory: ")


def test_another_source_takes_over_and_misses_are_still_counted(fake):
    before = pool().allocate(100, 0, "results")
    pool().draw_on(fake.source())
    after = pool().allocate(100, 0, "results")
    stats = zenith.memory.stats()
    assert before.address != after.address and stats.misses == 2 and stats.hits == 0


def test_out_of_memory_does_not_take_tensors_for_memory_that_torch_caches(monkeypatch):
    torch = pytest.importorskip("torch")
    from zenith.arrays.tensors import TorchSource

    def refuse(*given):
        raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 9_000_000)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 8_000_000)  # most of it the user's tensors
    monkeypatch.setattr(torch.cuda, "caching_allocator_alloc", refuse)
    with using(FakeDriver(memory=10_000_000)):
        pool().draw_on(TorchSource())
        with pytest.raises(OutOfMemoryError, match=r"PyTorch's caching allocator keeps 1\.00 MB more"):
            pool().allocate(6_000_000, 0, "results")
