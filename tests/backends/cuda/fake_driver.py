"""A driver without a device: "device" memory is host memory, and launched kernels run as NumPy on it.

It has the interface of :class:`zenith.backends.cuda.driver.Driver`. Every call is recorded; memory that no program may
touch is noticed: freed memory is filled with ones, and a kernel's buffer must be inside one allocation.
Addresses are real, so CuPy's own array class works on this memory.
"""

import bisect
import ctypes
import itertools
import threading
import time
from collections import Counter, namedtuple
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import numpy as np

from tests.backends.cuda.fake_graphs import FakeGraphs
from zenith.backends.cpu.texts import TILE_FUNCTIONS
from zenith.backends.cuda import cublaslt, cudnn, cupy_calls, driver
from zenith.backends.cuda.driver import Device
from zenith.backends.cuda.forms import fits, is_team
from zenith.backends.cuda.graph_driver import copy_parameters, kernel_parameters
from zenith.backends.cuda.launch import parameters
from zenith.backends.cuda.memory import ALIGN, NoMemory
from zenith.backends.cuda.shared import dynamic_shared
from zenith.backends.kernel import Kernel
from zenith.backends.lanes.emit import LanesPrinter
from zenith.backends.scalars import LANES_NAMESPACE

Launch = namedtuple("Launch", "name form blocks threads stream tasks buffers sizes")
POISON = 0xA5


class FakeDriver:
    """One device or several, without any; ``launches`` and ``copies`` record what was asked, ``calls`` counts it."""

    def __init__(self, devices=1, memory=1 << 30):
        self.devices, self.memory = devices, memory
        self.launches, self.copies, self.waits, self.calls = [], [], [], Counter()
        self.current_stream, self.delayed = 0, None
        self._local = threading.local()
        self._lock = threading.RLock()
        self._functions, self._numbers = {}, itertools.count(1000)
        self._pieces, self._starts = {}, []
        self.allocated = 0
        self.modules = set()
        self.clock = time.perf_counter
        self.events = {}
        self.graphs = FakeGraphs(self)

    # --- devices and code ---

    def device(self):
        return getattr(self._local, "device", 0)

    def use(self, device):
        assert 0 <= device < self.devices
        self._local.device = device

    def describe(self, device):
        return Device(device, f"fake {device}", (9, 0), self.memory)

    def load(self, code):
        self.graphs.refuse_unsafe("load a module")
        number = next(self._numbers)
        self._functions[number] = (code, lanes_function(code.kernel))
        self.modules.add(number)
        return number, number

    def unload(self, module):
        self.synchronize_device()
        self.modules.remove(module)
        del self._functions[module]

    # --- launches ---

    def launch(self, function, gx, gy, gz, bx, by, bz, shared, stream, table, extra):
        assert (gy, gz, by, bz, extra) == (1, 1, 1, 1, 0) and gx > 0 and bx > 0
        if self.graphs.captures(stream):
            self.graphs.capture_kernel(stream, kernel_parameters(function, gx, bx, shared, table))
            return
        code, run = self._functions[function]
        assert shared == dynamic_shared(code.kernel)
        given = read_parameters(code, table)
        sizes = {name: given[name] for name in code.kernel.sizes}
        tasks = given["tasks"] * (1 if is_team(code.kernel) else code.form.width)
        assert tasks == code.kernel.tasks.evaluate(sizes)
        addresses = [given[b.name] for b in code.kernel.buffers]
        assert fits(code.kernel, code.form, sizes, addresses)
        word = np.ctypeslib.as_array((ctypes.c_int64 * 1).from_address(given["status"])) if given["status"] else [0]
        buffers = [self.view(a, b, sizes) for a, b in zip(addresses, code.kernel.buffers, strict=True)]
        self.launches.append(Launch(code.kernel.name, code.form, gx, bx, stream, tasks, addresses, [*sizes.values()]))

        def work():
            with np.errstate(all="ignore"):
                run(0, tasks, [word, *buffers, *sizes.values()])

        work() if self.delayed is None else self.delayed.append(work)

    def view(self, address, buffer, sizes):
        """The memory of a kernel's buffer: from its address to the end of what was allocated."""
        kind, length = buffer.dtype.numpy, buffer.size.evaluate(sizes) * buffer.dtype.itemsize
        with self._lock:
            at = bisect.bisect_right(self._starts, address) - 1
            start = self._starts[at] if at >= 0 else 0
            end = start + len(self._pieces[start]) if at >= 0 else 0
        if not start <= address < end:
            end = address + length  # borrowed memory
        assert address + length <= end, f"{buffer.name}: {length} bytes at {address} end beyond their memory"
        room = max(length, end - address) // buffer.dtype.itemsize * buffer.dtype.itemsize
        return np.frombuffer((ctypes.c_char * room).from_address(address), kind)

    # --- memory ---

    def piece(self, length):
        """New memory of the device; its address."""
        self.graphs.refuse_unsafe("allocate device memory")
        with self._lock:
            if self.allocated + length > self.memory:
                raise NoMemory
            owner = np.full(length + ALIGN, POISON, np.uint8)
            start = -owner.ctypes.data % ALIGN
            piece = owner[start : start + length]
            self._pieces[piece.ctypes.data] = piece
            bisect.insort(self._starts, piece.ctypes.data)
            self.allocated += length
            return piece.ctypes.data

    def free(self, address):
        self.graphs.refuse_unsafe("free device memory")
        with self._lock:
            self.allocated -= len(self._pieces.pop(address))
            self._starts.remove(address)

    def poison(self, address):
        self._pieces[address][:] = POISON

    def pinned(self, length):
        self.graphs.refuse_unsafe("allocate host memory")
        self.calls["pinned"] += 1
        words = np.zeros(length, np.uint8)
        return SimpleNamespace(address=words.ctypes.data, words=words)

    def copy(self, to, source, length, stream):
        assert length > 0
        if self.graphs.captures(stream):
            self.graphs.capture_copy(stream, copy_parameters(to, source, length))
            return
        self.finish()
        self.copies.append((to, source, length, stream))
        ctypes.memmove(to, source, length)

    def memory_info(self):
        return self.memory - self.allocated, self.memory

    def source(self):
        return FakeSource(self)

    # --- order ---

    def stream(self):
        return getattr(self._local, "stream", self.current_stream)

    def on_stream(self, stream):
        """Make a stream CuPy's current one in this thread."""
        self._local.stream = stream

    def finish(self):
        """Run the delayed work."""
        work, self.delayed = self.delayed, None if self.delayed is None else []
        for step in work or ():
            step()

    def synchronize(self, stream):
        self.graphs.refuse(f"wait for stream {stream}", stream in self.graphs.capturing)
        self.calls["synchronize"] += 1
        self.finish()

    def synchronize_device(self):
        self.graphs.refuse("wait for a device whose stream is captured", bool(self.graphs.capturing))
        self.calls["synchronize_device"] += 1
        self.finish()

    def record(self, stream):
        self.graphs.captures(stream)
        event = next(self._numbers)
        self.events[event] = stream
        return event

    def wait(self, stream, event):
        other = self.events[event]
        inside = self.graphs.capturing.keys() & {stream, other}
        self.graphs.refuse(f"have stream {stream} wait for stream {other}", len(inside) == 1)
        self.waits.append((stream, self.events[event]))

    def is_done(self, event):
        assert event in self.events
        self.graphs.refuse("ask about an event of a capture", self.events[event] in self.graphs.capturing)
        self.graphs.refuse_unsafe("ask about an event")
        return not self.delayed

    def discard(self, event):
        del self.events[event]

    def mark(self, stream):
        event = next(self._numbers)
        self.events[event] = self.clock()
        return event

    def between(self, begin, end):
        return -self.events.pop(begin) + self.events.pop(end)


@contextmanager
def in_place_of_cuda(found):
    """A driver without a device instead of CUDA's, and no libraries of NVIDIA, which cannot use its memory."""
    why = "a driver without a device calls no library"
    with ExitStack() as stack:
        stack.enter_context(driver.using(found))
        for door in (cublaslt.DOOR, cudnn.DOOR, *cupy_calls.DOORS.values()):
            stack.enter_context(door.using(None, why))
        yield found


class FakeSource:
    """A pool in CuPy's manner: blocks of exact sizes, each for its device and stream."""

    name = "a fake pool"

    def __init__(self, driver):
        self.driver, self.misses = driver, 0
        self.free_blocks = {}
        self._reserved = 0

    def allocate(self, length, stream):
        key = (self.driver.device(), stream, length)
        try:
            address = self.free_blocks.setdefault(key, []).pop()
        except IndexError:
            try:
                address = self.driver.piece(length)
            except NoMemory:
                self.release()
                address = self.driver.piece(length)
            self.misses += 1
            self._reserved += length
        return _Owner(self, key, address), address

    def reserved(self):
        return self._reserved

    def unused(self):
        return sum(length * len(blocks) for (_, _, length), blocks in self.free_blocks.items())

    def release(self):
        for (_, _, length), blocks in self.free_blocks.items():
            while blocks:
                self.driver.free(blocks.pop())
                self._reserved -= length

    def counts(self):
        return None


class _Owner:
    def __init__(self, source, key, address):
        self.source, self.key, self.address = source, key, address

    def __del__(self):
        if self.source.driver.delayed is None:
            self.source.driver.poison(self.address)
        self.source.free_blocks.setdefault(self.key, []).append(self.address)


class FakeCompiler:
    """Stands for the compiler: no machine code; ``compiled`` records the calls."""

    def __init__(self):
        self.compiled = []

    def __call__(self, kernel, form, arch):
        self.compiled.append((kernel.name, form, arch))
        return SimpleNamespace(kernel=kernel, form=form, cubin=b"", source=f"# {kernel.name} {form}", ptx="")


def read_parameters(code, table):
    """The parameters of a kernel, by name, from a table of their addresses."""
    names = parameters(code.kernel)
    word = ctypes.c_uint32 if code.form.index == "u32" else ctypes.c_uint64
    kinds = dict.fromkeys(["status", *(b.name for b in code.kernel.buffers)], ctypes.c_uint64)
    addresses = list((ctypes.c_uint64 * len(names)).from_address(table))
    return {name: kinds.get(name, word).from_address(at).value for name, at in zip(names, addresses, strict=True)}


def lanes_function(kernel: Kernel):
    """The kernel as a function on NumPy arrays."""
    scope = {**LANES_NAMESPACE, **TILE_FUNCTIONS}
    exec(compile(LanesPrinter().kernel(kernel), f"<fake {kernel.name}>", "exec"), scope)
    return scope[kernel.name]
