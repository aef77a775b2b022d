"""Replays: the launches of a setup as one CUDA graph, which starts them all by one call of the driver.

A graph belongs to one set of exact sizes, and is made when a call sees the same sizes, arena and weights for the second
time. It lives as long as its setup, so there are no more graphs than setups, and a lease makes no more than one for
every ``CALLS_A_GRAPH`` calls, in addition to a few at first: lengths that hardly ever return cost nothing.

Only the addresses of arguments and results differ from call to call. A replay compares them with those of the replay
before, and patches the nodes that use a changed one: their parameters are set in the executable graph, which does not
affect earlier launches. An argument that many nodes use, such as one that a loop slices, would patch all of them; when
it is small, a node of the graph copies it to memory of the graph's own (a result from there), and that node alone is
patched.

Kernels, grids and parameters are those that would be launched one by one, so results have the same bits, and kernels
report errors to the same status words.

A cost model decides whether to make a graph, in units of one launch (about 2.5 microseconds of the host): starting a
graph costs about ``REPLAY``, whatever is in it, and setting a node's parameters about ``PATCH``, since the driver then
has no work to queue. Both are estimates; the workload ``gpu_mlp_replay`` measures them together.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from zenith.backends.cuda.driver import Driver, on_device
from zenith.backends.cuda.memory import ALIGN, Pool
from zenith.backends.cuda.record import AddressOrigin, CallNode, CopyNode, LaunchNode, Recording
from zenith.backends.cuda.setup import LoadedProgram, Setup
from zenith.config import config
from zenith.errors import DeviceError

REPLAY, PATCH = 1.5, 0.5  # the costs of starting a graph and of patching a node, in launches
COPIED_FROM, COPIED_BYTES = 4, 1 << 20  # an argument of more nodes, and of no more bytes, is copied
MOST_NODES = 4096  # a longer loop is launched one by one: a node takes host memory, and device memory when it runs
FIRST_GRAPHS, CALLS_A_GRAPH = 4, 8  # a lease may make so many, and one more after so many calls


class Replay:
    """A graph of nodes, for one setup. Its fixed addresses depend on ``state``."""

    def __init__(self, setup: Setup, program: LoadedProgram, pool: Pool, stream: int, recording: Recording) -> None:
        driver = program.driver
        self.state, self._graphs = setup.state, driver.graphs
        self._frame, self._arguments = setup.buffer, setup.layout.arguments
        self._program = program  # its modules stay loaded until the graph is destroyed
        copied = to_copy(recording)
        self._memory, nodes = _with_copies(recording, copied, self._frame, setup, pool, stream)
        self.launches, self.copies = len(recording.nodes), len(copied)
        self._users: list[list[LaunchNode]] = [[n for n in nodes if word in n.words] for word in range(self._arguments)]
        self._last = self._frame[: self._arguments]
        self._nodes = nodes
        graph = self._graphs.create()
        try:
            self.executable = self._made(graph)
        except Exception:
            self._graphs.destroy(graph, None)
            raise
        self.replays, self.patched = 0, 0
        weakref.finalize(self, _destroy, driver, driver.device(), graph, self.executable).atexit = False

    def _made(self, graph: int) -> int:
        """The executable graph of all nodes, one after the other."""
        dependencies = list[int]()
        for node in self._nodes:
            dependencies = node.add(self._graphs, graph, dependencies)
        return self._graphs.instantiate(graph)

    def __call__(self, stream: int) -> None:
        """Launch everything, with the addresses in the setup's frame."""
        given = self._frame[: self._arguments]
        if given != self._last:
            changed = [word for word, (now, before) in enumerate(zip(given, self._last, strict=True)) if now != before]
            nodes = dict.fromkeys(node for word in changed for node in self._users[word])
            self._last = [-1] * self._arguments  # until all are patched: one may fail
            for node in nodes:
                node.patch(self._graphs, self.executable, given)
            self.patched += len(nodes)
            self._last = given
        self.replays += 1
        self._graphs.launch(self.executable, stream)


def _destroy(driver: Driver, device: int, graph: int, executable: int) -> None:
    with on_device(driver, device):
        driver.graphs.destroy(graph, executable)


def to_copy(recording: Recording) -> list[int]:
    """The words of arguments and results that are copied: those that libraries use, and small ones of many nodes."""
    uses = Counter(word for node in recording.nodes for word in node.words)
    often = {word for word, n in uses.items() if n > COPIED_FROM and 0 < recording.lengths[word] <= COPIED_BYTES}
    return sorted(often | by_libraries(recording))


def by_libraries(recording: Recording) -> set[int]:
    """The words of arguments and results that calls of libraries use."""
    return {word for node in recording.nodes if isinstance(node, CallNode) for word in node.words}


def pays(recording: Recording) -> bool:
    """Whether replaying costs the host less than launching, when every address differs from the call before."""
    copied = set(to_copy(recording))
    patched = sum(not node.words <= copied for node in recording.nodes) + len(copied)
    return REPLAY + PATCH * patched < len(recording.nodes)


def _with_copies(
    recording: Recording, copied: Sequence[int], frame: Any, setup: Setup, pool: Pool, stream: int
) -> tuple[Any, list[LaunchNode]]:
    """Memory for the copies, and the nodes with the nodes of copies around them."""
    nodes, copies_in, copies_out = recording.nodes, list[LaunchNode](), list[LaunchNode]()
    lengths = [-(-recording.lengths[word] // ALIGN) * ALIGN for word in copied]
    block = pool.allocate(sum(lengths), stream, "arenas") if copied else None
    address = 0 if block is None else block.address
    for word, length in zip(copied, lengths, strict=True):
        for node in nodes:
            node.fix(word, address)
        exact, there = recording.lengths[word], AddressOrigin(word, 0)
        if not exact:
            continue
        if word < len(setup.layout.plan.inputs):
            copies_in.append(CopyNode(address, there, exact, frame))
        else:
            copies_out.append(CopyNode(there, address, exact, frame))
        address += length
    return block, [*copies_in, *nodes, *copies_out]


class Starter:
    """Starts the actions of a lease's setups: one by one, or as a graph."""

    def __init__(self, program: LoadedProgram, pool: Pool, stream: int) -> None:
        self._program, self._pool, self._stream = program, pool, stream
        self._calls = self._graphs = 0

    def __call__(self, setup: Setup) -> None:
        """Start the actions of a call with the addresses in the setup's frame."""
        graph = setup.graph
        self._calls += 1
        if graph is None or graph.state != setup.state or not config.graphs:
            graph = setup.graph = self._graph(setup) if config.graphs and setup.why_not is None else None
        if graph is not None:
            graph(self._stream)
            return
        for action in setup.actions:
            action(self._stream)

    def _graph(self, setup: Setup) -> Replay | None:
        """The graph for a setup that is used a second time with the same state, when it pays."""
        if setup.seen != setup.state:
            setup.seen = setup.state
            return None
        setup.put_off = self._graphs >= FIRST_GRAPHS + self._calls // CALLS_A_GRAPH
        if setup.put_off:
            return None
        recording = Recording(setup, MOST_NODES)
        setup.why_not = _refusal(recording)
        if setup.why_not is not None:
            return None
        self._graphs += 1
        try:
            with self._program.driver.graphs.relaxed():  # another thread may be capturing
                return Replay(setup, self._program, self._pool, self._stream, recording)
        except DeviceError as error:
            if not any(isinstance(node, CallNode) for node in recording.nodes):
                raise
            setup.why_not = f"a library's call cannot be captured: {str(error).splitlines()[0]}"
            return None


def _refusal(recording: Recording) -> str | None:
    """Why a recorded setup is not worth a graph."""
    if not recording.is_whole:
        return f"more than {MOST_NODES} launches"
    large = max((recording.lengths[word] for word in by_libraries(recording)), default=0)
    if large > COPIED_BYTES:
        return f"a library's call uses an argument or a result of {large} bytes, which would have to be copied"
    if not pays(recording):
        uses = sum(bool(node.words) for node in recording.nodes)
        return f"{len(recording.nodes)} launches, {uses} of them on arguments or results: launching costs no more"
    return None


def rows(setups: Iterable[Setup]) -> list[tuple[str, ...]]:
    """The rows that ``explain()`` shows, one for each set of sizes."""
    return [_row(setup) for setup in setups]


def _row(setup: Setup) -> tuple[str, ...]:
    sizes = ", ".join(f"{name}={n}" for name, n in setup.sizes.items()) or "none"
    graph = setup.graph
    if graph is None:
        return sizes, "0", "", "", "", _reason(setup)
    patched = f"{graph.patched / max(graph.replays, 1):.1f}"
    return sizes, str(graph.replays), str(graph.launches), patched, str(graph.copies), ""


def _reason(setup: Setup) -> str:
    if not config.graphs:
        return "turned off by ZENITH_GRAPHS=0"
    if setup.why_not is not None:
        return setup.why_not
    return "graphs were made for many other sizes just before" if setup.put_off else "seen once so far"
