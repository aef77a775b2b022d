"""Interrupts: signals that arrive while a program runs, and while one is compiled."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

import zenith
from tests.sampling import leave
from zenith.backends.cpu import compiler, threads
from zenith.backends.cpu.inline_cache import is_supported
from zenith.interrupts import deferred

SOON = 5.0  # seconds, on a machine that is busy; it takes 0.2
FOREVER = 10**9

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this platform has no such timers")


class Late(Exception):
    """What the handler of an alarm raises."""


@contextmanager
def alarm(after, handler):
    """Call ``handler`` after some seconds, in the main thread."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def late(*_):
    raise Late


@zenith.jit
def endless(x):
    """A loop of tiny iterations."""
    return zenith.while_loop(lambda v: v[0] >= 0, lambda v: v * 0.999, x)


@zenith.jit
def iterations(x, n):
    """Large launches in a loop."""
    return zenith.fori_loop(0, n, lambda i, v: np.cos(v) * 0.5, x)


@zenith.jit
def long(a, b):
    """One launch, which takes minutes for large operands."""
    return np.sum(np.exp(-np.abs(a[:, None] - b[None, :])), axis=1)


@zenith.jit
def search(n):
    """A loop that may not end, in a loop of one kernel."""
    total = 0
    for i in range(n):
        k = i
        while k % 7 != 9:
            k += 1
        total += k
    return total


@zenith.jit
def counted(n, x):
    """A loop of one kernel with so many turns that it takes hours."""
    for i in range(n):
        x = 0.5 * x + i
    return x


BIG = np.linspace(0, 1, 400_000, dtype=np.float32)
CALLS = {
    "an endless loop": lambda: endless(np.ones(3, np.float32)),
    "a loop of large launches": lambda: iterations(BIG, FOREVER),
    "one large launch": lambda: long(BIG, BIG),
    "an endless loop in a kernel": lambda: search(3),
    "a kernel with many turns": lambda: counted(10**14, 1.0),
}


@pytest.fixture(params=[1, 2])
def team(request):
    """A team of so many threads."""
    before = threads.team().size
    threads.set_num_threads(request.param)
    yield threads.team()
    threads.set_num_threads(before)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_ends_with_what_a_handler_raises(call, team):
    endless(-np.ones(3, np.float32)), iterations(BIG[:4], 1), long(BIG[:4], BIG[:4]), search(0), counted(1, 1.0)
    with alarm(0.3, late):
        started = time.monotonic()
        with pytest.raises(Late):
            call()
        assert time.monotonic() - started < 0.3 + SOON
    assert not team._raised and not team._load(threads.LOCK) and not team._load(threads.RAISED)
    assert counted(2, 1.0) == 1.25
    np.testing.assert_allclose(long(BIG[:4], BIG[:4]), np.exp(-abs(BIG[:4, None] - BIG[:4])).sum(1), rtol=1e-5)


@pytest.mark.skipif(not is_supported(), reason="native code reads no objects of this interpreter")
def test_a_call_that_is_cached_inline_ends_with_what_a_handler_raises():
    endless = zenith.jit(lambda x: zenith.while_loop(lambda v: v[0] >= 0, lambda v: v * 0.999, x))
    for _ in range(12):
        endless(-np.ones(3))
    inline = endless.cache_info().inline
    assert inline > 0
    with alarm(0.3, late), pytest.raises(Late):
        endless(np.ones(3))
    assert endless(-np.ones(3)).sum() == -3 and endless.cache_info().inline == inline, "its frame is lost"


def test_control_c_is_a_keyboard_interrupt():
    endless(-np.ones(3, np.float32))
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        endless(np.ones(3, np.float32))
    assert time.monotonic() - started < 0.3 + SOON


def test_a_handler_that_raises_nothing_changes_nothing():
    x, calls = BIG, []
    expected = iterations(x, 50)
    with alarm(0.05, lambda *_: calls.append(iterations(x[:10], 3))):
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        n = 2000
        found = iterations(x, n)
        assert len(calls) >= 2, "and may itself call compiled functions"
    np.testing.assert_array_equal(found, iterations(x, n))
    np.testing.assert_array_equal(iterations(x, 50), expected)


def test_calls_of_other_threads_go_on():
    x, found = BIG, []
    iterations(x, 1)
    thread = threading.Thread(target=lambda: found.append(iterations(x, 1500)))
    with alarm(0.3, late), pytest.raises(Late):
        thread.start()
        endless(np.ones(3, np.float32))
    thread.join()
    np.testing.assert_array_equal(found[0], iterations(x, 1500))


def test_the_number_of_threads_stays_while_a_call_runs():
    def handler(*_):
        threads.set_num_threads(1 if threads.team().size > 1 else 2)

    iterations(BIG, 1)
    with alarm(0.3, handler), pytest.raises(threads.ThreadCountError, match="by a signal's handler while a call"):
        iterations(BIG, FOREVER)


def test_handlers_wait_and_all_of_them_run():
    found = []

    def handler(number, frame):
        found.append((number, frame.f_code.co_name))
        raise Late

    with alarm(100, handler), pytest.raises(Late), deferred():
        signal.raise_signal(signal.SIGALRM)
        signal.raise_signal(signal.SIGALRM)
        found.append("inside")
    assert found == ["inside", *[(signal.SIGALRM, "test_handlers_wait_and_all_of_them_run")] * 2]


COMPILATIONS = """
import gc, random, signal, sys, threading, time
import numpy as np
from zenith.backends.cpu import link

signal.signal(signal.SIGINT, signal.default_int_handler)  # which shells have jobs in the background ignore
KERNEL = '''def kernel(begin, end, args):
    p0 = f32_buffer(args, 1, 2)
    out0 = f32_buffer(args, 2, 2)
    for i in range(begin, end):
        out0[i] = f32(exp(p0[i]) * {factor})
'''
def compile_some(number):
    link.link_kernels({f"k{i}": KERNEL.format(factor=74_000_000 + 2 * number + i) for i in range(2)})

link.store = lambda: None
rng, interval, interrupted = random.Random(0), sys.getswitchinterval(), 0
compile_some(0)
started = time.perf_counter()
compile_some(1)
took = time.perf_counter() - started
for number in range(2, 2 + int(sys.argv[1])):
    timer = threading.Timer(rng.random() * took, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    try:
        timer.start()
        compile_some(number)
        timer.join()
        time.sleep(0)
    except KeyboardInterrupt:
        interrupted += 1
    try:
        timer.join()
    except KeyboardInterrupt:
        interrupted += 1
    assert gc.isenabled() and sys.getswitchinterval() == interval, number
    if number % 10 == 0:
        compile_some(75_000_000 + number)
other = threading.Thread(target=compile_some, args=(75_000_001,), daemon=True)
other.start()
other.join(120)
print(interrupted, other.is_alive())
"""


@pytest.mark.parametrize("count", leave([2000], [20, 2000]))
def test_interrupted_compilations_leave_everything_in_order(count):
    command = [sys.executable, "-c", COMPILATIONS, str(count)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == (f"{count} False", "")


def test_numba_is_prepared_anew_after_an_exception_from_another_thread(monkeypatch):
    def compile_extra(*_, **__):
        raise KeyboardInterrupt

    before = compiler.contexts()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(compiler, "compile_extra", compile_extra)
        compiler.written_kernel(lambda begin, end, args: None, "kernel_74001")
    assert compiler.contexts() is not before
