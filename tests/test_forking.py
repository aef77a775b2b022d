"""Forks: children of a process whose other threads are in the middle of something."""

import importlib
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.sampling import leave
from zenith import forking
from zenith.backends.cpu import compiler, link
from zenith.backends.cpu.texts import kernel_function

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
PATIENCE = 180.0  # seconds until a child that hangs is a failure
KERNEL = """def kernel(begin, end, args):
    p0 = f32_buffer(args, 1, 2)
    out0 = f32_buffer(args, 2, 2)
    for i in range(begin, end):
        out0[i] = f32(p0[i] * {factor})
"""


def compile_one(factor):
    """Write, optimise and load a kernel that is in no cache."""
    link.link_kernel(f"times_{factor}", KERNEL.format(factor=factor))


def in_child(work):
    """Run ``work`` in a forked child; whether it ended well, and in time."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(1e-3)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


@pytest.mark.parametrize("forks", leave([1000], [8, 1000]))
def test_a_child_compiles_whatever_other_threads_were_compiling(forks, monkeypatch):
    monkeypatch.setattr(link, "store", lambda: None)
    stop, rng = threading.Event(), random.Random(0)

    def compile_on(thread):
        for number in range(10**6):
            if stop.is_set():
                break
            compile_one(71_000_000 + 2 * number + thread)

    threads = [threading.Thread(target=compile_on, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(forks):
            time.sleep(rng.random() * 0.05)
            assert in_child(lambda number=number: compile_one(73_000_000 + number)), f"fork {number}"
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("lock", ["numba", "llvm", "code memory", "temporary"])
def test_a_fork_waits_for_the_lock_of_another_thread(lock):
    found = next(w.lock for w in forking._waited if forking.ORDER[w.rank] == lock)
    has_it, seen = threading.Event(), []

    def work():
        found.acquire()
        has_it.set()
        time.sleep(0.1)
        seen.append(lock)
        found.release()

    thread = threading.Thread(target=work)
    thread.start()
    assert has_it.wait(PATIENCE)
    assert in_child(lambda: seen == [lock] or os._exit(2))
    thread.join()


def test_a_fork_waits_for_an_import_of_another_thread(tmp_path, monkeypatch):
    (tmp_path / "zenith_slow.py").write_text("import time\ntime.sleep(0.1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(forking, "LIBRARIES", ("zenith_slow",))
    thread = threading.Thread(target=importlib.import_module, args=("zenith_slow",))
    thread.start()
    while not forking._is_importing():
        assert thread.is_alive()
    assert in_child(lambda: importlib.import_module("zenith_slow"))
    thread.join()


def test_all_locks_are_free_after_a_fork():
    assert in_child(lambda: compiler.written_kernel(kernel_function(KERNEL.format(factor=71_001)), "kernel_71001"))
    threads = [threading.Thread(target=compile_one, args=(71_002 + number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


FIRST = """
import os, signal, sys, threading, time
import numpy as np
import zenith

x, delay = np.zeros(3, np.float32), float(sys.argv[1])
thread = threading.Thread(target=lambda: zenith.jit(lambda x: x * (71010 + delay))(x))
thread.start()
time.sleep(delay)
child = os.fork()
if not child:
    signal.alarm(120)
    zenith.jit(lambda x: x * (71012 + delay))(x)
    os._exit(0)
print(os.waitpid(child, 0)[1])
thread.join()
"""


@pytest.mark.parametrize("delay", leave(lambda delay: delay != 0.3, [i / 50 for i in range(1, 40)]))
def test_a_child_of_a_process_that_compiles_for_the_first_time(delay):
    """Another thread imports the compiler meanwhile."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FIRST, str(delay)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("0", "")
