"""The executable: a linked program, and what one call of it does.

A call leases a frame and an arena (so that calls of many threads do not meet), writes addresses and sizes into the
frame, runs the driver without the GIL, looks at the status words and returns the results. It costs microseconds.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from zenith.backends.cpu.driver import (
    ARENA,
    FIXED,
    SELF,
    STATUS,
    TEAM,
    Frame,
    address,
    driver_source,
    grain_of,
    segments,
)
from zenith.backends.cpu.emit import CpuPrinter
from zenith.backends.cpu.link import Linked, link_driver, link_kernel
from zenith.backends.cpu.threads import team
from zenith.backends.fixed import FixedMemory
from zenith.backends.plan import ALIGN, Call, Launch, Plan
from zenith.backends.weights import WeightTable
from zenith.errors import OutOfBoundsError, SourceLine
from zenith.ir.dims import Dim
from zenith.ir.types import ArrayType, DType

EMPTY_BYTES = 1 << 16  # what stands behind an array without elements: reads of it are discarded


class Adapter(Protocol):
    """How arrays of one kind are read and made (see :mod:`zenith.arrays`)."""

    def address(self, array: Any) -> int: ...

    def shape(self, array: Any) -> tuple[int, ...]: ...

    def strides(self, array: Any) -> tuple[int, ...] | None: ...

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Any: ...

    def numpy(self, array: Any) -> Any: ...


def _aligned(length: int) -> tuple[Any, int]:
    """Memory of ``length`` bytes on an ``ALIGN`` boundary: its owner and its address."""
    owner = np.empty(length + ALIGN, np.uint8)
    return owner, (owner.ctypes.data + ALIGN - 1) // ALIGN * ALIGN


def size_function(symbols: Sequence[str], sizes: Sequence[Dim]) -> Callable[..., tuple[int, ...]]:
    """A Python function from the symbols' values to sizes."""
    body = ", ".join(map(str, sizes))
    source = f"lambda {', '.join(symbols)}: ({body}{',' if len(sizes) == 1 else ''})"
    function: Callable[..., tuple[int, ...]] = eval(source, {"max": max, "min": min})
    return function


@dataclass(frozen=True, slots=True)
class _Fixed:
    """The addresses of what is the same in every call until weights change; a call that runs keeps ``arrays`` alive."""

    number: int
    words: tuple[tuple[int, int], ...]
    arrays: tuple[Any, ...]


class _Lease:
    """A frame and an arena; one call uses it at a time."""

    def __init__(self, executable: Executable) -> None:
        frame = executable.frame
        launches = max(1, len(frame.blocks))
        self.owner, self.address = _aligned(8 * (frame.length + launches))
        self.words = (ctypes.c_int64 * (frame.length + launches)).from_address(self.address)
        self.status = range(frame.length, frame.length + launches)
        ctypes.memset(self.address, 0, 8 * (frame.length + launches))
        self.words[STATUS] = self.address + 8 * frame.length
        self.words[TEAM] = team().address
        self.words[SELF] = self.address
        self.arena: Any = None
        self.capacity = -1
        self.fixed = -1  # the number of the fixed memory whose addresses stand in the frame
        for name, linked in executable.kernels.items():
            self.words[frame.words[f"k_{name}"]] = linked.address

    def take(self, fixed: _Fixed) -> None:
        """Write the addresses of constants, weights and what was prepared from them."""
        for word, value in fixed.words:
            self.words[word] = value
        self.fixed = fixed.number

    def reserve(self, length: int) -> None:
        """Make the arena at least ``length`` bytes."""
        if length > self.capacity:
            self.arena, self.words[ARENA] = _aligned(length)
            self.capacity = length


class Executable:
    """A compiled program for the CPU; made by :func:`zenith.compile.compile_graph`."""

    def __init__(self, plan: Plan, weights: WeightTable) -> None:
        self.plan = plan
        self.report: Any = None
        self.stages: dict[str, str] = {}
        self.frame = Frame.of(plan)
        launches = [s for s in plan.steps if isinstance(s, Launch)]
        self.kernels: dict[str, Linked] = {s.kernel.name: link_kernel(s.kernel) for s in launches}
        self.drivers = self._link_segments()
        self._empty, self._empty_address = _aligned(EMPTY_BYTES)
        self._empty[:] = 0
        self._once = {p.launch.kernel.name: link_kernel(p.launch.kernel).address for p in plan.prepared}
        self._numbers = itertools.count()
        self._fixed: FixedMemory[_Fixed] = FixedMemory(plan, weights, self._once)
        self._fixed.bind(self)
        self._leases: list[_Lease] = []
        self._arena_bytes = size_function(plan.symbols, [plan.arena])
        self._shapes = [size_function(plan.symbols, t.shape) for _, t in plan.outputs]
        self._dtypes = [t.dtype for _, t in plan.outputs]
        self._pack = struct.Struct(f"={len(plan.inputs) + len(plan.outputs)}q").pack_into
        self._pack_sizes = struct.Struct(f"={len(plan.symbols)}q").pack_into
        self._sizes_at = 8 * min((self.frame.words[s] for s in plan.symbols), default=0)
        self._checked = [i for i, s in enumerate(launches) if s.kernel.can_fail]
        self._lines = [s.lines for s in launches]

    def run_once(self, launch: Launch, arrays: Sequence[Any]) -> None:
        """Run a prepared launch."""
        kernel = self._once[launch.kernel.name]
        status = np.zeros(1, np.int64)
        places = map(self._address_of, arrays)
        block = np.array([status.ctypes.data, *places, *(0 for _ in launch.kernel.sizes)], np.int64)
        grain = grain_of(launch.kernel.cost.static or 1)
        team().launch(kernel, launch.kernel.tasks.evaluate({}), grain, block.ctypes.data)
        if status[0]:
            raise _out_of_bounds(launch.lines)

    def fix(self, arrays: Mapping[str, Any]) -> _Fixed:
        """The words of frames for the arrays at fixed places."""
        words = tuple((self.frame.words[f"a_{name}"], self._address_of(array)) for name, array in arrays.items())
        return _Fixed(next(self._numbers), words, tuple(arrays.values()))

    def _address_of(self, array: Any) -> int:
        address: int = array.ctypes.data if array.size else self._empty_address
        return address

    def _link_segments(self) -> list[Any]:
        linked: list[Any] = []
        self.driver_sources: list[str] = []
        first = 0
        for steps in segments(self.plan):
            if isinstance(steps[0], Call):
                linked.append(_HostCall(self.plan, self.frame, steps[0]))
                continue
            source = driver_source(self.plan, self.frame, steps, first, "driver")
            self.driver_sources.append(source)
            linked.append(link_driver(source))
            first += len(steps)
        return linked

    def run(
        self, arrays: Sequence[Any], adapters: Sequence[Adapter], sizes: Mapping[str, int], results: Adapter
    ) -> list[Any]:
        """Run on arrays (read through their adapters); results are made by ``results``.

        Raises OutOfBoundsError when an index was outside its axis.
        """
        values = [sizes[s] for s in self.plan.symbols]
        out = [results.empty(shape(*values), dtype) for shape, dtype in zip(self._shapes, self._dtypes, strict=True)]
        keep: list[Any] = []
        addresses = [self._address(a, adapter, keep) for a, adapter in zip(arrays, adapters, strict=True)]
        addresses += [results.address(a) for a in out]
        fixed = self._fixed.state or self._fixed.bind(self)
        try:
            lease = self._leases.pop()
        except IndexError:
            lease = _Lease(self)
        if lease.fixed != fixed.number:
            lease.take(fixed)
        lease.reserve(self._arena_bytes(*values)[0])
        self._pack(lease.words, 8 * FIXED, *addresses)
        self._pack_sizes(lease.words, self._sizes_at, *values)
        for run in self.drivers:
            run(lease.address)
        failed = self._failed(lease) if self._checked else []
        self._leases.append(lease)  # not after an exception: what status words say then is not known
        if failed:
            raise _out_of_bounds(self._lines[failed[0]])
        return out

    def _address(self, array: Any, adapter: Adapter, keep: list[Any]) -> int:
        if 0 in adapter.shape(array):
            return self._empty_address
        if adapter.strides(array) is None:
            return adapter.address(array)
        dense = np.ascontiguousarray(adapter.numpy(array))
        keep.append(dense)
        address: int = dense.ctypes.data
        return address

    def _failed(self, lease: _Lease) -> list[int]:
        """The launches that met an index outside its axis; their status words are cleared."""
        failed = [i for i in self._checked if lease.words[lease.status[i]]]
        for i in failed:
            lease.words[lease.status[i]] = 0
        return failed

    def kernel_text(self, with_lines: bool = True) -> str:
        """The sources of all kernels and drivers."""
        printer = CpuPrinter(with_lines)
        kernels = {s.kernel.name: s.kernel for s in self.plan.steps if isinstance(s, Launch)}
        return "\n".join([*(printer.kernel(k) for k in kernels.values()), *self.driver_sources])


def _out_of_bounds(lines: Sequence[SourceLine]) -> OutOfBoundsError:
    fix = "check the indices against the array's shape"
    return OutOfBoundsError("an index is outside its axis", where=next(iter(lines), None), fix=fix)


class _HostCall:
    """A step that calls Python with arrays that stand at places of the frame."""

    def __init__(self, plan: Plan, frame: Frame, step: Call) -> None:
        self.step, self.length = step, frame.length
        self.symbols = [(s, frame.words[s]) for s in plan.symbols]
        self.addresses = [
            eval(f"lambda frame, {', '.join(plan.symbols) or '_'}: " + address(plan, frame, p)) for p in step.places
        ]

    def __call__(self, frame_address: int) -> None:
        frame = (ctypes.c_int64 * self.length).from_address(frame_address)
        sizes = {s: frame[at] for s, at in self.symbols}
        arrays = [
            _array_at(find(frame, *(sizes.values() or (0,))), type, sizes)
            for find, type in zip(self.addresses, self.step.types, strict=True)
        ]
        lowering: Any = self.step.node.primitive.lowering
        lowering.function([None, *arrays], self.step.node.params)


def _array_at(address: int, type: ArrayType, sizes: Mapping[str, int]) -> Any:
    shape = tuple(n.evaluate(sizes) for n in type.shape)
    length = int(np.prod(shape, dtype=np.int64)) * type.dtype.itemsize
    return np.frombuffer(bytearray(ctypes.string_at(address, length)), type.dtype.numpy).reshape(shape)
