"""One compiled function used by many: Python threads, forked children, data-loader workers, and torch in between."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import zenith

THREADS = 8
ROUNDS = 7
TRIES = 5  # of a comparison of times: the machine may be busy during one
FORK = multiprocessing.get_context("fork") if hasattr(os, "fork") else None
needs_fork = pytest.mark.skipif(FORK is None, reason="this platform does not fork")

_RNG = np.random.default_rng(0)
_W1, _W2 = (_RNG.standard_normal((256, 256), np.float32) / 16 for _ in range(2))


@zenith.jit
def network(x: Any) -> Any:
    """Products, row reductions, elementwise functions and a full reduction, so that every kind of kernel is there."""
    hidden = np.tanh(x @ _W1)
    hidden = hidden - np.max(hidden, axis=-1, keepdims=True)
    weights = np.exp(hidden) / np.sum(np.exp(hidden), axis=-1, keepdims=True)
    return weights @ _W2, np.sum(weights * hidden), np.sum(hidden, axis=0)


def batches(count: int, rows: int = 64) -> list[Any]:
    """Batches of different sizes."""
    rng = np.random.default_rng(1)
    return [rng.standard_normal((rows + 3 * i, 256), np.float32) for i in range(count)]


def bits(results: Sequence[Any]) -> list[bytes]:
    """Results as bytes, so that equal means bitwise equal."""
    return [np.asarray(r).tobytes() for r in results]


def together(functions: Sequence[Callable[[], Any]]) -> list[Any]:
    """Results of functions that threads start at the same moment."""
    barrier = threading.Barrier(len(functions))

    def run(function: Callable[[], Any]) -> Any:
        barrier.wait(30)
        return function()

    with ThreadPoolExecutor(len(functions)) as pool:
        return [f.result(60) for f in [pool.submit(run, function) for function in functions]]


def test_threads_get_bitwise_the_same_results() -> None:
    inputs = batches(THREADS)
    expected = [bits(network(x)) for x in inputs]
    for _ in range(5):
        got = together([lambda x=x: [bits(network(x)) for _ in range(5)] for x in inputs])
        assert got == [[e] * 5 for e in expected]


def test_threads_that_ask_at_once_compile_once() -> None:
    @zenith.jit
    def fresh(x: Any) -> Any:
        return np.cosh(x) * 3.25 - np.arctan(x), np.sum(x * 1.75, axis=-1)

    x = batches(1)[0]
    results = together([lambda: bits(fresh(x))] * THREADS)
    assert results == [results[0]] * THREADS
    assert fresh.cache_info().misses == 1


def test_threads_meet_in_first_and_later_calls() -> None:
    """Each with a size and one of two types of its own: nothing is compiled twice, and no call is lost or mistaken."""

    def positive(x: Any, c: Any) -> Any:
        total = x[0] * 0
        for i in range(len(x)):
            if x[i] > 0:
                total = total + x[i] * c
        return total, np.cosh(x) * c, x[x > 0]

    xs = [_RNG.standard_normal(5 + 7 * i).astype([np.float64, np.float32][i % 2]) for i in range(THREADS)]
    expected = [positive(x, 1.625) for x in xs]
    compiled = zenith.jit(positive)

    def calls(i: int) -> None:
        for _ in range(ROUNDS):
            for got, own in zip(compiled(xs[i], 1.625), expected[i], strict=True):
                np.testing.assert_allclose(got, own, rtol=1e-5)

    together([lambda i=i: calls(i) for i in range(THREADS)])
    info = compiled.cache_info()
    assert (info.misses, info.hits) == (2, THREADS * ROUNDS - 2)


def best(function: Callable[[], Any]) -> float:
    """Seconds of the fastest of several runs."""
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return min(times)


@pytest.mark.timing
def test_threads_take_hardly_longer_than_the_same_calls_in_a_row() -> None:
    inputs = batches(THREADS, rows=200)
    in_a_row = lambda: [network(x) for x in inputs for _ in range(10)]  # noqa: E731
    at_once = lambda: together([lambda x=x: [network(x) for _ in range(10)] for x in inputs])  # noqa: E731
    in_a_row(), at_once()
    assert any(best(at_once) <= 1.3 * best(in_a_row) for _ in range(TRIES))


@pytest.mark.timing
def test_torch_and_zenith_in_turn_do_not_hinder_each_other() -> None:
    torch = pytest.importorskip("torch")
    x, a = batches(1, rows=256)[0], torch.randn(512, 512)
    ours, theirs = (lambda: network(x)), (lambda: torch.mm(a, a))
    ours(), theirs()

    def alone() -> float:
        return best(lambda: [ours() for _ in range(20)]) + best(lambda: [theirs() for _ in range(20)])

    def in_turn() -> float:
        return best(lambda: [(ours(), theirs()) for _ in range(20)])

    assert any(in_turn() <= 1.5 * alone() for _ in range(TRIES))


def _child(channel: Any, inputs: Sequence[Any]) -> None:
    try:
        channel.send([bits(network(x)) for x in inputs])
    except BaseException:
        channel.send(traceback.format_exc())


def _in_child(inputs: Sequence[Any]) -> Any:
    """What a forked child computes."""
    assert FORK is not None
    receiver, sender = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_child, args=(sender, inputs))
    child.start()
    try:
        assert receiver.poll(60), "the child hangs"
        return receiver.recv()
    finally:
        child.kill()
        child.join()


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_calls_the_function_again() -> None:
    inputs = batches(3, rows=400)
    expected = [bits(network(x)) for x in inputs]
    assert _in_child(inputs) == expected
    assert [bits(network(x)) for x in inputs] == expected, "the parent goes on"
    assert _in_child(inputs) == expected


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_a_thread_compiles() -> None:
    tracing, go_on = threading.Event(), threading.Event()

    @zenith.jit
    def f(x: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            tracing.set()
            assert go_on.wait(120)
        return x * 3 + 1

    @zenith.jit
    def known(x: Any) -> Any:
        return x * 2

    x = np.ones((3, 4), np.float32)
    expected = [bits([x * 3 + 1]), bits([known(x)])]
    with ThreadPoolExecutor(1) as pool:
        compiled = pool.submit(f, x)
        try:
            assert tracing.wait(60)
            assert FORK is not None
            receiver, sender = FORK.Pipe(duplex=False)
            child = FORK.Process(target=lambda: sender.send([bits([f(x)]), bits([known(x)])]))
            child.start()
            try:
                assert receiver.poll(60), "the child hangs"
                found = receiver.recv()
            finally:
                child.kill()
                child.join()
        finally:
            go_on.set()
        assert bits([compiled.result(60)]) == expected[0]
    assert found == expected


@needs_fork
@pytest.mark.skipif("t" in getattr(sys, "abiflags", ""), reason="there, a thread may have any dict locked at a fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_threads_are_calling() -> None:
    inputs = batches(2, rows=300)
    expected = [bits(network(x)) for x in inputs]
    stop = threading.Event()

    def keep_calling() -> None:
        while not stop.is_set():
            network(inputs[0])

    callers = [threading.Thread(target=keep_calling) for _ in range(3)]
    for caller in callers:
        caller.start()
    try:
        assert [_in_child(inputs) for _ in range(5)] == [expected] * 5
    finally:
        stop.set()
        for caller in callers:
            caller.join()


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(sys.platform == "darwin", reason="torch's workers are not forked there")
def test_workers_of_a_data_loader_call_the_function() -> None:
    torch = pytest.importorskip("torch")
    inputs = batches(6, rows=100)
    expected = [network(x)[0] for x in inputs]

    class Rows(torch.utils.data.Dataset):  # type: ignore[name-defined,misc]
        def __len__(self) -> int:
            return len(inputs)

        def __getitem__(self, i: int) -> Any:
            return network(inputs[i])[0]

    data = torch.utils.data
    loader = data.DataLoader(Rows(), batch_size=None, num_workers=2, timeout=300, multiprocessing_context=FORK)
    for got, want in zip(loader, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)
