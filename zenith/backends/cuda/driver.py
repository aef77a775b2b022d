"""The one narrow door to the device: loading, launching, copying, streams and memory for status words.

A :class:`Driver` is the interface of CUDA to the rest of Zenith; the real one is CuPy's low-level modules. The frequent
operations of a call are functions of CuPy's itself, with no Python around them. A test replaces it by another driver
(:func:`using`). Addresses, streams, functions and events are integers, as CUDA's own handles are.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from zenith.backends.cuda.graph_driver import CudaGraphs, Graphs
from zenith.backends.cuda.presence import find, problem
from zenith.backends.cuda.shared import dynamic_shared

LEGACY, PER_THREAD = 1, 2  # CUDA's handles of the default streams; 0 is the legacy one, too


@dataclass(frozen=True)
class Device:
    """A GPU: its number, name, compute capability and bytes of memory."""

    number: int
    name: str
    capability: tuple[int, int]
    memory: int

    @property
    def arch(self) -> str:
        """The architecture that kernels are compiled for, with its specific instructions (``a``) where it has such."""
        major, minor = self.capability
        return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


class Pinned(Protocol):
    """Pinned host memory, which the device reads and writes at the same address."""

    @property
    def address(self) -> int: ...


class Driver(Protocol):
    """The interface to CUDA that Zenith uses. Everything happens on the current device of the calling thread."""

    launch: Callable[..., None]
    """``cuLaunchKernel(function, 3 of grid, 3 of block, shared bytes, stream, address of parameters, 0)``."""
    graphs: Graphs
    """CUDA graphs: of Zenith's own, and captures by other code."""

    def device(self) -> int:
        """The number of the calling thread's current device, which is ready for launches."""
        ...

    def use(self, device: int) -> None:
        """Make a device the calling thread's current one."""
        ...

    def describe(self, device: int) -> Device:
        """A device."""
        ...

    def load(self, code: Any) -> tuple[int, int]:
        """The module and the function of compiled code (its ``cubin``, and its kernel's name)."""
        ...

    def unload(self, module: int) -> None:
        """Unload a module, once all launches are done."""
        ...

    def stream(self) -> int:
        """CuPy's current stream in this thread."""
        ...

    def copy(self, to: int, source: int, length: int, stream: int) -> None:
        """Copy bytes in the order of a stream, between any memories."""
        ...

    def synchronize(self, stream: int) -> None:
        """Wait until everything on a stream is done."""
        ...

    def synchronize_device(self) -> None:
        """Wait until everything on the current device is done."""
        ...

    def record(self, stream: int) -> int:
        """An event that happens after all earlier work on a stream."""
        ...

    def wait(self, stream: int, event: int) -> None:
        """Have later work on a stream wait for an event."""
        ...

    def is_done(self, event: int) -> bool:
        """Whether an event has happened."""
        ...

    def discard(self, event: int) -> None:
        """Let an event be reused; work that already waits for it is not affected."""
        ...

    def mark(self, stream: int) -> int:
        """An event that records its time after all earlier work on a stream."""
        ...

    def between(self, begin: int, end: int) -> float:
        """The seconds between two such events, which it waits for and destroys."""
        ...

    def pinned(self, length: int) -> Pinned:
        """Zeroed host memory that kernels can write to; it lives as long as something refers to it."""
        ...

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes of the current device."""
        ...

    def source(self) -> Any:
        """The source of device memory (:class:`zenith.backends.cuda.memory.MemorySource`)."""
        ...


class CudaDriver:
    """CUDA through CuPy. Raises DeviceError when it cannot be used here, with the reason and the fix."""

    def __init__(self) -> None:
        why = problem(find())
        if why is not None:
            raise why
        import cupy
        from cupy_backends.cuda.api import driver, runtime

        self._cupy, self._driver, self._runtime = cupy, driver, runtime
        self.launch: Callable[..., None] = driver.launchKernel
        self.graphs: Graphs = CudaGraphs(runtime)
        self._here = threading.local()  # the devices whose context a thread has
        self.use, self.synchronize = runtime.setDevice, runtime.streamSynchronize
        self.synchronize_device, self.memory_info = runtime.deviceSynchronize, runtime.memGetInfo
        self._free_events: dict[int, list[int]] = {}
        self._device_of: dict[int, int] = {}

    def device(self) -> int:
        """The device; the first call in a thread sets up the device's context, which the driver's functions need."""
        device = int(self._runtime.getDevice())
        try:
            ready = self._here.devices
        except AttributeError:
            ready = self._here.devices = set()
        if device not in ready:
            self._runtime.free(0)
            ready.add(device)
        return device

    def describe(self, device: int) -> Device:
        """A device, by its properties."""
        found = self._runtime.getDeviceProperties(device)
        return Device(device, found["name"].decode(), (found["major"], found["minor"]), found["totalGlobalMem"])

    def load(self, code: Any) -> tuple[int, int]:
        """The module and the function of a cubin."""
        self.device()  # the thread needs the device's context
        module = self._driver.moduleLoadData(code.cubin)
        function = self._driver.moduleGetFunction(module, code.kernel.name)
        shared = dynamic_shared(code.kernel)
        if shared:
            limit = self._driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._driver.funcSetAttribute(function, limit, shared)
        return module, function

    def unload(self, module: int) -> None:
        """Wait, since launched kernels may be running, and unload."""
        self._runtime.deviceSynchronize()
        self._driver.moduleUnload(module)

    def stream(self) -> int:
        """CuPy's current stream."""
        return int(self._cupy.cuda.get_current_stream().ptr)

    def copy(self, to: int, source: int, length: int, stream: int) -> None:
        """Any direction: the addresses say which memory they are of."""
        self._runtime.memcpyAsync(to, source, length, self._runtime.memcpyDefault, stream)

    def record(self, stream: int) -> int:
        """An event without a time: one that was discarded on this device, or a new one."""
        device = self.device()
        free = self._free_events.setdefault(device, [])
        try:
            event = free.pop()
        except IndexError:
            event = int(self._runtime.eventCreateWithFlags(self._runtime.eventDisableTiming))
            self._device_of[event] = device
        self._runtime.eventRecord(event, stream)
        return event

    def wait(self, stream: int, event: int) -> None:
        """On the device; the host goes on."""
        self._runtime.streamWaitEvent(stream, event)

    def is_done(self, event: int) -> bool:
        """CUDA says 0 for an event that has happened, 600 for one that has not."""
        try:
            return int(self._runtime.eventQuery(event) or 0) == 0
        except self._runtime.CUDARuntimeError as error:
            if error.status == 600:
                return False
            raise

    def discard(self, event: int) -> None:
        """Cache the event for the next use."""
        self._free_events[self._device_of[event]].append(event)

    def mark(self, stream: int) -> int:
        """An event with a time."""
        event = int(self._runtime.eventCreate())
        self._runtime.eventRecord(event, stream)
        return event

    def between(self, begin: int, end: int) -> float:
        """CUDA measures in milliseconds."""
        self._runtime.eventSynchronize(end)
        seconds = self._runtime.eventElapsedTime(begin, end) / 1e3
        self._runtime.eventDestroy(begin)
        self._runtime.eventDestroy(end)
        return float(seconds)

    def pinned(self, length: int) -> Pinned:
        """Mapped memory: under unified addressing the device's address of it is the host's."""
        return _PinnedMemory(self._runtime, length)

    def source(self) -> Any:
        """A pool of CuPy's."""
        from zenith.backends.cuda.memory import CupySource

        return CupySource()


class _PinnedMemory:
    def __init__(self, runtime: Any, length: int) -> None:
        self.address = int(runtime.hostAlloc(length, runtime.hostAllocMapped | runtime.hostAllocPortable))
        self._free = runtime.freeHost
        ctypes.memset(self.address, 0, length)

    def __del__(self) -> None:
        if getattr(self, "address", 0) and not sys.is_finalizing():
            self._free(self.address)


_driver: Driver | None = None
_guard = threading.Lock()


def driver() -> Driver:
    """The process's driver; the first call looks for CUDA. Raises DeviceError when there is none."""
    global _driver
    if _driver is None:
        with _guard:
            _driver = _driver or CudaDriver()
    return _driver


def driver_in_use() -> Driver | None:
    """The process's driver if it was needed already."""
    return _driver


@contextmanager
def using(other: Driver) -> Iterator[None]:
    """Within this block another driver replaces CUDA."""
    global _driver
    before, _driver = _driver, other
    try:
        yield
    finally:
        _driver = before


@contextmanager
def on_device(driver: Driver, device: int) -> Iterator[None]:
    """Within this block a device is the calling thread's current one."""
    before = driver.device()
    if before == device:
        yield
        return
    driver.use(device)
    try:
        yield
    finally:
        driver.use(before)
