"""Machine code in memory: pages that are taken and freed, objects placed in them, and code without owners."""

import ctypes
import gc
import itertools
import mmap
import os
import platform
import random
import subprocess
import sys
import threading
from collections import deque

import llvmlite.binding as llvm
import numpy as np
import pytest

import zenith
from zenith.backends.cpu import compiler, link, machine
from zenith.backends.cpu.code_memory import CodeBlock, CodeMemory, check_room
from zenith.backends.cpu.native import SYMBOLS, native
from zenith.backends.cpu.objects import RelocatableObject, UnsupportedObject
from zenith.backends.cpu.texts import kernel_function

PATIENCE = 180.0  # seconds until a test that hangs fails
PAGE = mmap.PAGESIZE
KERNEL = """def kernel(begin, end, args):
    p0 = f32_buffer(args, 1, 2)
    out0 = f32_buffer(args, 2, 2)
    for i in range(begin, end):
        out0[i] = f32(exp(p0[i]) * {factor})
"""
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="memory maps are counted on Linux")
here = platform.machine().lower() in ("x86_64", "amd64") and sys.platform == "linux"
by_zenith = pytest.mark.skipif(not here, reason="objects are placed by LLVM's linker on this platform")


@pytest.fixture(scope="module")
def code():
    """An object with constants of several kinds, and the symbol of its function."""
    module = compiler.kernel_module(kernel_function(KERNEL.format(factor=70001)), "kernel_70001")
    return compiler.object_code(module), "kernel_70001"


def times_exp(address):
    """The results of the kernel at an address for 0 and 1."""
    x, out = np.array([0, 1], np.float32), np.zeros(2, np.float32)
    args = np.array([0, x.ctypes.data, out.ctypes.data], np.int64)
    ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(address)(0, 2, args.ctypes.data)
    return out.tolist()


def maps():
    """The memory maps of this process: where each begins and ends, and its rights."""
    with open("/proc/self/maps") as file:
        lines = [line.split() for line in file]
    return [(*(int(end, 16) for end in line[0].split("-")), line[1]) for line in lines]


def test_blocks_are_disjoint_and_freed_ones_are_reused():
    memory, rng, blocks = CodeMemory(64 * PAGE), random.Random(0), []
    for _ in range(3000):
        if blocks and rng.random() < 0.5:
            blocks.pop(rng.randrange(len(blocks)))
        else:
            blocks.append(memory.take(rng.randrange(1, 5 * PAGE)))
            ends = sorted((b.address, b.end) for b in blocks)
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(ends))
    used = sum(b.end - b.address for b in blocks)
    assert memory.unused() + used == memory.mapped
    blocks.clear()
    assert memory.unused() == memory.mapped
    before = memory.mapped
    taken = [memory.take(PAGE) for _ in range(before // PAGE)]
    assert memory.mapped == before and memory.unused() == 0 and len(taken) == before // PAGE
    big = memory.take(65 * PAGE)
    assert big.end - big.address == 65 * PAGE


@on_linux
def test_a_region_is_few_maps_and_no_page_can_be_written_and_run():
    memory, rng = CodeMemory(512 * PAGE), random.Random(1)
    blocks = [memory.take(PAGE) for _ in range(512)]
    begin, end = blocks[0].address, blocks[-1].end
    for block in blocks:
        memory.write(block, b"\xc3" * PAGE)
    rng.shuffle(blocks)
    for _ in range(4):
        del blocks[::2]
        blocks += [memory.take(PAGE) for _ in range(100)]
        for block in blocks[-100:]:
            memory.write(block, b"\xc3" * PAGE)
    inside = [rights for first, last, rights in maps() if first < end and last > begin]
    assert len(inside) <= 4 and not any("w" in rights and "x" in rights for rights in inside)
    ctypes.CFUNCTYPE(None)(blocks[-1].address)()


def test_a_block_that_is_freed_while_pages_are_taken_waits_for_nobody():
    """As the collector frees one, in the thread that has the lock."""
    memory = CodeMemory(8 * PAGE)
    block = memory.take(PAGE)
    with memory.lock:
        del block
    assert memory.unused() == memory.mapped


@by_zenith
def test_objects_are_where_they_are_placed_and_compute_the_same_as_when_llvm_loads_them(code):
    loaded, engine = machine.load(code[0], (code[1],)), machine.load_by_engine(code[0], (code[1],))
    assert isinstance(loaded.memory, CodeBlock) and not isinstance(engine.memory, CodeBlock)
    found = times_exp(loaded.addresses[0])
    assert found == times_exp(engine.addresses[0]) == pytest.approx([70001, 70001 * np.e], rel=1e-6)


@by_zenith
def test_symbols_of_an_object_must_be_found(code):
    with pytest.raises(ValueError, match="no function other"):
        machine.load(code[0], ("other",))
    with pytest.raises(UnsupportedObject, match="no ELF file for x86-64"):
        RelocatableObject(b"\x7fELF\x02\x01" + bytes(10) + b"\x01\x00\xb7\x00" + code[0][20:])
    with pytest.raises(UnsupportedObject, match="nowhere"):
        RelocatableObject(calls("memset")).placed(0, lambda name: None)
    with pytest.raises(ValueError, match="needs zenith_nowhere, which this process has not"):
        machine.load(calls("zenith_nowhere"), ("f",))
    (address,), _ = loaded = machine.load(calls("abs"), ("f",))
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(address)(-3) == 3 and loaded.memory


def test_a_new_process_loads_what_another_has_compiled():
    """LLVM has not been asked for the process's functions by then; at exit nobody frees code."""
    program = "import numpy as np, zenith\nf = zenith.jit(lambda x: x * 70002)\nprint(f(np.ones(1)))"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("[70002.]\n", "")


def calls(name):
    """An object that calls a function of libc."""
    text = f"""
declare i32 @{name}(i32)
define i32 @f(i32 %x) {{
  %y = call i32 @{name}(i32 %x)
  ret i32 %y
}}"""
    code: bytes = machine.target_machine().emit_object(llvm.parse_assembly(text))
    return code


@by_zenith
def test_an_object_with_memory_that_is_written_is_llvms():
    text = """
@count = internal global i64 41
define i64 @counted() {
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  ret i64 %new
}"""
    code = machine.target_machine().emit_object(llvm.parse_assembly(text))
    with pytest.raises(UnsupportedObject, match="is written to"):
        RelocatableObject(code)
    loaded = machine.load(code, ("counted",))
    assert [ctypes.CFUNCTYPE(ctypes.c_int64)(loaded.addresses[0])() for _ in range(2)] == [42, 43]


def new_linker(monkeypatch):
    """A process that has linked no kernels."""
    linker = link._Linker()
    linker.linked[SYMBOLS] = native().linked
    monkeypatch.setattr(link, "_LINKER", linker)
    return linker


@pytest.fixture
def forgetful(monkeypatch):
    """A process that loads code anew, and unloads what no program has."""
    linker = new_linker(monkeypatch)
    linker.recent = deque(maxlen=0)
    monkeypatch.setattr(machine, "MEMORY", CodeMemory())
    return linker


def use_up(memory):
    """Fill all pages without code with instructions that end the process."""
    blocks = []
    while memory.unused():
        blocks.append(memory.take(PAGE))
        memory.write(blocks[-1], b"\xcc" * PAGE)
    return blocks


def times(factor):
    """A compiled function whose kernel no other factor has."""
    return zenith.jit(lambda x: x * factor)


def make_and_delete(numbers):
    """Compile a function for each number, call it, and forget it."""
    x = np.arange(3, dtype=np.float32)
    for number in numbers:
        compiled = times(number + 0.5)
        np.testing.assert_array_equal(compiled(x), x * (number + 0.5))
        del compiled
    gc.collect()


def test_code_is_unloaded_with_the_functions_that_have_it(forgetful):
    make_and_delete(range(70100, 70104))
    assert set(forgetful.linked) == {SYMBOLS} and forgetful.count == 4
    assert machine.MEMORY.unused() == machine.MEMORY.mapped


def test_code_is_unloaded_with_the_programs_that_are_cleared(forgetful):
    compiled = zenith.jit(lambda x: x * 70110)
    x = np.arange(3, dtype=np.float32)
    first = compiled(x)
    others = [compiled(x.astype(t)) for t in (np.float64, np.int64)]
    assert len(forgetful.linked) == 4
    compiled.cache_clear()
    gc.collect()
    assert len(forgetful.linked) == 2, "the latest program can still be asked about"
    np.testing.assert_array_equal(first, compiled(x))
    assert [o.dtype for o in others] == [np.float64, np.int64]


def test_a_function_that_is_forgotten_while_it_runs_ends_well(forgetful):
    """Its code stays until the call is over, in whichever thread that is."""
    x, rounds = np.linspace(0, 1, 400_000, dtype=np.float32), 30
    compiled = zenith.jit(lambda x: zenith.fori_loop(0, rounds, lambda i, v: np.cos(v) * 0.70120, x))
    expected, running, found = compiled(x), threading.Event(), []

    def work(function):
        running.set()
        found.append(function(x))

    thread = threading.Thread(target=work, args=(compiled,))
    thread.start()
    del compiled
    assert running.wait(PATIENCE)
    while thread.is_alive():
        gc.collect()
        use_up(machine.MEMORY)
    thread.join()
    np.testing.assert_array_equal(found[0], expected)


def test_recent_code_stays_for_functions_that_are_made_anew(monkeypatch):
    new_linker(monkeypatch)
    make_and_delete([70130] * 4)
    assert link.linked_count() == 1


def test_prepared_results_are_known_by_their_code_not_by_an_address():
    """Another kernel may be at the address later."""
    weight = np.linspace(-1, 1, 40 * 37, dtype=np.float32).reshape(40, 37)
    compiled = zenith.jit(lambda x: x @ weight + 70140)
    compiled(np.ones((3, 40), np.float32))
    executable = compiled._specializer.latest.executable
    codes = executable._fixed.codes
    assert codes and {name: code[0] for name, code in codes.items()} == {
        name: linked.symbols for name, linked in executable.preparing.items()
    }


PROGRAM = """
import ctypes, mmap
import numpy as np
import zenith
from zenith.backends.cpu.code_memory import _LIBC, CodeMemoryError

zenith.jit(lambda x: x * 70150)(np.zeros(3, np.float32))
limit = int(open("/proc/sys/vm/max_map_count").read())
pages = _LIBC.mmap(None, 2 * limit * mmap.PAGESIZE, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
page = pages
while not _LIBC.mprotect(page, mmap.PAGESIZE, mmap.PROT_READ):
    page += 2 * mmap.PAGESIZE
try:
    zenith.jit(lambda x: x * 70151)(np.zeros(3, np.float32))
except CodeMemoryError as error:
    print(str(error).splitlines()[0])
_LIBC.munmap(pages, 2 * limit * mmap.PAGESIZE)
print(zenith.jit(lambda x: x + 70151)(np.zeros(3, np.float32)))
"""


@on_linux
def test_a_process_without_memory_maps_gets_an_error_and_goes_on():
    environment = os.environ | {"ZENITH_CACHE": "0"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    message, after = done.stdout.splitlines()
    assert message.startswith("the system gives no memory for machine code: Cannot allocate memory")
    assert after == "[70151. 70151. 70151.]"


NEAR_A_LIMIT = """
import resource, sys
import numpy as np
import zenith
from zenith.backends.cpu.code_memory import CodeMemoryError

for factor, spare in ((70152, 200 << 20), (70153, 60 << 20)):  # before Numba is there, and afterwards
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + spare, resource.RLIM_INFINITY))
    try:
        zenith.jit(lambda x: x * factor)(np.zeros(3, np.float32))
    except CodeMemoryError as error:
        print(error, "numba" in sys.modules)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(zenith.jit(lambda x: x + factor)(np.zeros(3, np.float32)))
"""


@on_linux
def test_a_process_near_its_limit_of_memory_gets_an_error_and_goes_on():
    """LLVM would end it by std::bad_alloc."""
    environment = os.environ | {"ZENITH_CACHE": "0"}
    done = subprocess.run([sys.executable, "-c", NEAR_A_LIMIT], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    first, fix, after, second, _, last = done.stdout.splitlines()
    assert first == second == "the system gives no memory for machine code: Cannot allocate memory"
    assert "ulimit -v" in fix and fix.endswith("False")
    assert (after, last) == ("[70152. 70152. 70152.]", "[70153. 70153. 70153.]")


@on_linux
def test_looking_for_room_leaves_nothing():
    check_room()
    before = len(maps())
    for _ in range(10):
        check_room()
    assert len(maps()) <= before + 2


def resident():
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * PAGE


@on_linux
@pytest.mark.parametrize("count", [60, pytest.param(20_000, marks=pytest.mark.thorough)])
def test_memory_is_flat_over_many_functions(count, monkeypatch):
    monkeypatch.setattr(link, "store", lambda: None)
    start = 80_000
    make_and_delete(range(start, start + count // 10))  # until the allocator has what it needs
    memory, mapped, before = resident(), machine.MEMORY.mapped, len(maps())
    make_and_delete(range(start + count // 10, start + count))
    assert machine.MEMORY.mapped == mapped and len(maps()) <= before + 16
    assert resident() - memory <= (4 << 20) + 2048 * count, "llvmlite loses 1.5 KiB a compilation"
