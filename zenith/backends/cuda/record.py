"""Recording: the launches of a setup's actions as nodes of a CUDA graph that know where their addresses come from.

Nothing is captured from a stream. Every launch of a program and all of its parameters are known here, so its nodes are
made one by one. That does not disturb other work of the process (during a capture no thread may wait for the device),
works for programs on the legacy stream, which cannot be captured, and gives the handle of each node, which would have
to be searched for in a captured graph.

The launches of a library are known to it alone. Such a call is captured, from a stream of its own, into the graph that
is made; its addresses cannot be patched, so arguments and results that it uses are copied.

A node has a copy of its parameters. An *origin* says that a parameter is an address in an argument or a result, and at
which offset in bytes: loops that the host counts are unrolled, so the node of an iteration reads a slice of it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple, Protocol

from zenith.backends.cuda.actions import Action, HostLoop, Launches, LibraryCall, Row
from zenith.backends.cuda.graph_driver import Graphs, copy_parameters, kernel_parameters
from zenith.backends.cuda.launch import parameters
from zenith.backends.cuda.setup import Setup
from zenith.backends.routines import Ready


class AddressOrigin(NamedTuple):
    """An address: the word of an argument or a result in the frame, and an offset in bytes."""

    word: int
    offset: int


class LaunchNode(Protocol):
    """One launch or copy, or all launches of a library's call."""

    @property
    def words(self) -> set[int]:
        """The words of the arguments and results that it reads or writes."""
        ...

    def fix(self, word: int, address: int) -> None:
        """Use a fixed address instead of that of an argument or a result."""
        ...

    def add(self, graphs: Graphs, graph: int, dependencies: Sequence[int]) -> list[int]:
        """Make it in a graph, after its dependencies; returns the dependencies of the next node."""
        ...

    def patch(self, graphs: Graphs, executable: int, frame: Sequence[int]) -> None:
        """Take the addresses of arguments and results from a frame, in an executable graph."""
        ...


class KernelNode:
    """A launch with parameters of its own; ``origins`` are those of parameters that change with calls, by position."""

    def __init__(self, row: Row, values: Sequence[int], origins: dict[int, AddressOrigin]) -> None:
        function, blocks, threads, shared, _ = row
        self._values = (ctypes.c_int64 * len(values))(*values)
        start = ctypes.addressof(self._values)
        self._table = (ctypes.c_int64 * len(values))(*range(start, start + 8 * len(values), 8))
        self._parameters = kernel_parameters(function, blocks, threads, shared, ctypes.addressof(self._table))
        self._reference = ctypes.byref(self._parameters)
        self.origins, self.handle = origins, 0

    @property
    def words(self) -> set[int]:
        """The arguments and results among its buffers."""
        return {origin.word for origin in self.origins.values()}

    def fix(self, word: int, address: int) -> None:
        """Write the address into its parameters."""
        for index in [index for index, origin in self.origins.items() if origin.word == word]:
            self._values[index] = address + self.origins.pop(index).offset

    def add(self, graphs: Graphs, graph: int, dependencies: Sequence[int]) -> list[int]:
        """With the current parameters."""
        self.handle = graphs.add_kernel(graph, dependencies, self._parameters)
        return [self.handle]

    def patch(self, graphs: Graphs, executable: int, frame: Sequence[int]) -> None:
        """All parameters are set at once, as CUDA requires."""
        values = self._values
        for index, (word, offset) in self.origins.items():
            values[index] = frame[word] + offset
        graphs.set_kernel(executable, self.handle, self._reference)


class CopyNode:
    """A copy of bytes between two ends, each a fixed address or an origin."""

    def __init__(self, to: int | AddressOrigin, source: int | AddressOrigin, length: int, frame: Any) -> None:
        self.to, self.source, self.length, self.handle = to, source, length, 0
        self._parameters = copy_parameters(_address(to, frame), _address(source, frame), length)
        self._reference = ctypes.byref(self._parameters)

    @property
    def words(self) -> set[int]:
        """The arguments and results among its ends."""
        return {end.word for end in (self.to, self.source) if isinstance(end, AddressOrigin)}

    def fix(self, word: int, address: int) -> None:
        """Replace the ends that are in this argument or result."""
        if isinstance(self.to, AddressOrigin) and self.to.word == word:
            self._parameters.to.device = self.to = address + self.to.offset
        if isinstance(self.source, AddressOrigin) and self.source.word == word:
            self._parameters.source.device = self.source = address + self.source.offset

    def add(self, graphs: Graphs, graph: int, dependencies: Sequence[int]) -> list[int]:
        """With the current addresses."""
        self.handle = graphs.add_copy(graph, dependencies, self._parameters)
        return [self.handle]

    def patch(self, graphs: Graphs, executable: int, frame: Sequence[int]) -> None:
        """Both ends are set at once."""
        self._parameters.to.device = _address(self.to, frame)
        self._parameters.source.device = _address(self.source, frame)
        graphs.set_copy(executable, self.handle, self._reference)


class CallNode:
    """A call of a library with addresses; those of arguments and results have to be fixed before it is added."""

    def __init__(self, run: Ready, addresses: Sequence[int | AddressOrigin]) -> None:
        self._run, self._addresses = run, list(addresses)

    @property
    def words(self) -> set[int]:
        """The arguments and results among its addresses."""
        return {address.word for address in self._addresses if isinstance(address, AddressOrigin)}

    def fix(self, word: int, address: int) -> None:
        """Call it with the address."""
        for index, found in enumerate(self._addresses):
            if isinstance(found, AddressOrigin) and found.word == word:
                self._addresses[index] = address + found.offset

    def add(self, graphs: Graphs, graph: int, dependencies: Sequence[int]) -> list[int]:
        """The nodes of its launches; none where the library has nothing to do."""
        addresses = [_fixed(address) for address in self._addresses]
        return graphs.add_captured(graph, dependencies, partial(self._run, addresses)) or list(dependencies)

    def patch(self, graphs: Graphs, executable: int, frame: Sequence[int]) -> None:
        """It has no addresses that change."""
        raise AssertionError("what a library launches cannot be patched")


def _fixed(address: int | AddressOrigin) -> int:
    assert isinstance(address, int), "arguments and results of a library's call are copied"
    return address


def _address(end: int | AddressOrigin, frame: Any) -> int:
    return frame[end.word] + end.offset if isinstance(end, AddressOrigin) else end


class Recording:
    """The nodes of a setup whose frame holds the addresses of a call; ``lengths`` are the bytes of arguments by words.

    No more than ``most`` nodes are recorded; ``is_whole`` says whether that was enough.
    """

    def __init__(self, setup: Setup, most: int) -> None:
        self._setup, self._frame, self._arguments = setup, setup.buffer, setup.layout.arguments
        self._moved: dict[
            int, AddressOrigin | None
        ] = {}  # words of allocations that loops move, and their addresses now
        self.nodes: list[LaunchNode] = []
        self.lengths: dict[int, int] = {}
        self._most = most
        self.is_whole = self._record(setup.actions)

    def _record(self, actions: Iterable[Action]) -> bool:
        for action in actions:
            match action:
                case Launches():
                    for row in action.rows:
                        self._launch(row)
                case HostLoop():
                    if not self._loop(action):
                        return False
                case LibraryCall():
                    self._call(action)
                case _:
                    raise AssertionError(f"{action} was found to be an obstacle before")
            if len(self.nodes) > self._most:
                return False
        return True

    def _launch(self, row: Row) -> None:
        layout, number = self._setup.layout, self._setup.launches[row[-1]]
        launch, words = layout.launches[number], layout.parameters(number)
        names = parameters(launch.kernel)
        positions = {name: position for position, name in enumerate(names)}
        origins = {}
        for buffer in launch.kernel.buffers:
            origin = self._origin(words[buffer.name])
            if origin is not None:
                origins[positions[buffer.name]] = origin
                self._note(origin, buffer.size.evaluate(self._setup.sizes) * buffer.dtype.itemsize)
        self.nodes.append(KernelNode(row, [self._frame[words[name]] for name in names], origins))

    def _call(self, call: LibraryCall) -> None:
        addresses = [self._origin(word) or self._frame[word] for word in call.operands]
        for address, type in zip(addresses, call.step.types, strict=False):  # a workspace has no type
            if isinstance(address, AddressOrigin):
                sizes = (n.evaluate(self._setup.sizes) for n in type.shape)
                self._note(address, prod(sizes) * type.dtype.itemsize)
        self.nodes.append(CallNode(call.run, addresses))

    def _loop(self, loop: HostLoop) -> bool:
        assert loop.count is not None, "a loop with a condition on the device is an obstacle"
        for number in range(loop.count + 1):
            self._move(loop.carries_at(number))
            if number < loop.count:
                self._move(loop.slices_at(number))
                if not self._record(loop.steps):
                    return False
        for to, source, length in loop.last_copies():
            ends = [self._origin(word) or self._frame[word] for word in (to, source)]
            for end in ends:
                if isinstance(end, AddressOrigin):
                    self._note(end, length)
            self.nodes.append(CopyNode(ends[0], ends[1], length, self._frame))
        return True

    def _move(self, moves: Iterable[tuple[int, int, int]]) -> None:
        for word, source, offset in moves:
            self._frame[word] = self._frame[source] + offset
            origin = self._origin(source)
            self._moved[word] = origin and AddressOrigin(origin.word, origin.offset + offset)

    def _origin(self, word: int) -> AddressOrigin | None:
        return AddressOrigin(word, 0) if word < self._arguments else self._moved.get(word)

    def _note(self, origin: AddressOrigin, length: int) -> None:
        """Note that so many bytes of an argument or a result are used from an origin on."""
        self.lengths[origin.word] = max(self.lengths.get(origin.word, 0), origin.offset + length)
