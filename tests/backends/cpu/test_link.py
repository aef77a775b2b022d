"""Linking: several kernels at once, by several threads, with errors, and while the process ends."""

import multiprocessing
import os
import subprocess
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from llvmlite.binding import ffi

import zenith
from tests.threads import in_threads
from zenith.backends.cpu import compiler, link
from zenith.backends.cpu.executable import Executable
from zenith.backends.cpu.texts import kernel_function
from zenith.collection import without_collection
from zenith.errors import CompileError

PATIENCE = 180.0  # seconds until a test that hangs fails
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


def test_an_error_of_the_helper_thread_names_the_kernel_and_retains_earlier_ones(alone, monkeypatch):
    def optimized(kernel):
        if kernel.symbol == link._symbol(KERNEL.format(factor=60008)):
            raise CompileError("generated code needs NRT_Allocate, which only Numba has")
        return real(kernel)

    def keep(source, code, milliseconds):
        stored.append(source.text)
        return link._Code(code, False, milliseconds)

    real = compiler.optimized_kernel
    stored = []
    monkeypatch.setattr(link, "_keep", keep)
    monkeypatch.setattr(compiler, "optimized_kernel", optimized)
    with pytest.raises(CompileError, match=r"needs NRT_Allocate[\s\S]*p0\[i\] \* 60008[\s\S]*defect of Zenith"):
        link.link_kernels(kernels(60007, 60008))
    assert stored == [*kernels(60007).values()]
    monkeypatch.setattr(compiler, "optimized_kernel", real)
    assert len(link.link_kernels(kernels(60007, 60008))) == 2


def test_threads_switch_soon_only_while_there_is_a_helper_thread(alone, monkeypatch):
    def optimized(kernel):
        found.append(sys.getswitchinterval())
        return real(kernel)

    real, found, before = compiler.optimized_kernel, [], sys.getswitchinterval()
    monkeypatch.setattr(compiler, "optimized_kernel", optimized)
    link.link_kernels(kernels(60012))
    link.link_kernels(kernels(60012))
    assert len(found) == 1 and found[0] < before and sys.getswitchinterval() == before
    with pytest.raises(ZeroDivisionError), link.linking() as begun:
        begun.kernels(kernels(60013))
        raise ZeroDivisionError
    assert sys.getswitchinterval() == before


def test_a_thread_that_finds_its_kernels_in_the_process_waits_for_nobody(alone):
    link.link_kernels(kernels(60014))
    with ThreadPoolExecutor(1) as others, link.linking() as begun:
        begun.kernels(kernels(60015))
        assert len(others.submit(link.link_kernels, kernels(60014)).result(PATIENCE)) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_links_while_a_thread_of_its_parent_does(alone):
    begun_there, leave = threading.Event(), threading.Event()

    def other():
        with link.linking() as begun:
            link.finished(begun.kernels(kernels(60019)))
            begun_there.set()
            leave.wait(PATIENCE)

    thread = threading.Thread(target=other)
    thread.start()
    assert begun_there.wait(PATIENCE)
    child = multiprocessing.get_context("fork").Process(target=link.link_kernels, args=(kernels(60020),), daemon=True)
    child.start()
    child.join(PATIENCE)
    leave.set()
    thread.join()
    assert child.exitcode == 0


def test_kernels_are_written_without_llvm(monkeypatch):
    """Its library serves one thread at a time, and may be busy with another kernel."""
    text = KERNEL.format(factor=60016).replace("for i", "scratch = f32_scratch(60016)\n    for i", 1)
    text = text.replace("out0[i] = ", "scratch[i] = f32(0)\n        out0[i] = ")
    link.link_kernels(kernels(60017))
    calls = []
    monkeypatch.setattr(ffi._lib_fn_wrapper, "__call__", lambda *_: calls.append(traceback.format_stack()))
    with without_collection():  # which may free modules of other tests in LLVM
        written = compiler.written_kernel(kernel_function(text), "kernel_60016")
    assert "[60016 x float]" in written.text and calls == []


def test_weights_are_packed_while_kernels_are_compiled(monkeypatch):
    """A kernel that reads what is packed is not optimised before it is packed."""

    def optimized(kernel):
        if "product_tile" in kernel.text:
            assert packed.wait(PATIENCE)
        return real(kernel)

    def run_once(self, launch, arrays):
        nonlocal runs
        runs += 1
        run(self, launch, arrays)
        packed.set()

    real, run, runs, packed = compiler.optimized_kernel, Executable.run_once, 0, threading.Event()
    weight = np.linspace(-1, 1, 40 * 37, dtype=np.float32).reshape(40, 37)
    compiled = zenith.jit(lambda x: x @ weight + 60018)
    x = np.ones((3, 40), np.float32)
    monkeypatch.setattr(link, "store", lambda: None)
    monkeypatch.setattr(compiler, "optimized_kernel", optimized)
    monkeypatch.setattr(Executable, "run_once", run_once)
    np.testing.assert_allclose(compiled(x), x @ weight + 60018, rtol=1e-5)
    assert runs == 1


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
