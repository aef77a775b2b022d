"""Linking: several kernels at once, by several threads, with errors, and while the process ends."""

import os
import subprocess
import sys

import pytest

from tests.threads import in_threads
from zenith.backends.cpu import compiler, link
from zenith.errors import CompileError

KERNEL = """def kernel(begin, end, args):
    p0 = f32_buffer(args, 1, 2)
    out0 = f32_buffer(args, 2, 2)
    for i in range(begin, end):
        out0[i] = f32(p0[i] * {factor})
"""


@pytest.fixture
def alone(monkeypatch):
    """A process that has linked nothing, without the cache on disk."""
    monkeypatch.setattr(link, "_LINKER", link._Linker())
    monkeypatch.setattr(link, "store", lambda: None)


def kernels(*factors):
    return {f"times_{factor}": KERNEL.format(factor=factor) for factor in factors}


def test_threads_that_want_the_same_kernels_compile_each_once(alone):
    factors, found = range(60001, 60005), {}

    def work(number):
        found[number] = link.link_kernels(kernels(*factors[number : number + 2]))

    in_threads(3, work)
    assert link.linked_count() == 4
    assert found[0]["times_60002"] is found[1]["times_60002"] and found[1]["times_60003"] is found[2]["times_60003"]
    assert all(linked.milliseconds > 0 and not linked.cached for made in found.values() for linked in made.values())


def test_an_error_of_the_thread_beside_tells_the_kernel_and_keeps_those_in_front(alone, monkeypatch):
    def optimized(kernel):
        if kernel.symbol == link._symbol(KERNEL.format(factor=60008)):
            raise CompileError("generated code needs NRT_Allocate, which only Numba has")
        return real(kernel)

    real = compiler.optimized_kernel
    kept = []
    monkeypatch.setattr(link, "_keep", lambda text, *more: kept.append(text) or link._Code(more[1], False, more[2]))
    monkeypatch.setattr(compiler, "optimized_kernel", optimized)
    with pytest.raises(CompileError, match=r"needs NRT_Allocate[\s\S]*p0\[i\] \* 60008[\s\S]*defect of Zenith"):
        link.link_kernels(kernels(60007, 60008))
    assert kept == [*kernels(60007).values()]
    monkeypatch.setattr(compiler, "optimized_kernel", real)
    assert len(link.link_kernels(kernels(60007, 60008))) == 2


PROGRAM = """
import threading
import numpy as np
import zenith

def work():
    threading.main_thread().join()
    print(zenith.jit(lambda x: x * 60011 + 1)(np.zeros(3, np.float32)))

zenith.jit(lambda x: x * 60011)(np.zeros(3, np.float32))
threading.Thread(target=work).start()
"""


def test_a_thread_compiles_after_the_main_one_has_ended():
    """From then on executors take no work."""
    environment = os.environ | {"ZENITH_CACHE": "0"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)
    assert (done.stdout.strip(), done.stderr) == ("[1. 1. 1.]", "")
