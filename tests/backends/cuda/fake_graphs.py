"""CUDA graphs on the driver without a device: nodes have copies of their parameters, as CUDA's do.

A graph is launched as the launches and copies of its nodes. ``live`` has whatever was made and not destroyed, and the
driver's ``calls`` count what was asked.

:meth:`FakeGraphs.capture` corresponds to ``torch.cuda.graph``. During it the driver refuses the calls that CUDA
refuses, and the capture has failed then: see "Prohibited and Unhandled Operations" in the CUDA programming guide, and
for threads the manual of ``cuThreadExchangeStreamCaptureMode``; the mode is the global one, torch's default.
"""

import ctypes
import itertools
import threading
from collections import deque
from contextlib import contextmanager
from types import SimpleNamespace

from zenith.backends.cuda.graph_driver import Captured
from zenith.backends.cuda.launch import parameters


class CaptureFailed(Exception):
    """CUDA_ERROR_STREAM_CAPTURE_...: CUDA's answer to an operation that it forbids during capture."""


class FakeCapture:
    """A graph that somebody captures: its steps, and the numbers of the objects that it retains."""

    def __init__(self, graphs, number, stream):
        self.graphs, self.number, self.stream = graphs, number, stream
        self.steps, self.retained, self.failed = [], [], False

    def replay(self, stream=0):
        """Launch it."""
        assert not self.failed
        for step in self.steps:
            self.graphs.run(step, stream)

    def destroy(self):
        """The graph and all executable graphs of it are gone."""
        self.steps.clear()
        self.graphs.ended.extend(self.retained)


class FakeGraphs:
    """The interface of :class:`zenith.backends.cuda.graph_driver.Graphs`."""

    def __init__(self, driver):
        self.driver = driver
        self.live = {}  # graphs with their nodes, and executable graphs with the nodes' parameters
        self._numbers = itertools.count(50_000)
        self.capturing = {}  # streams and their captures
        self.ended, self.retained = deque(), {}
        self._thread = threading.local()

    def _new(self, thing):
        number = next(self._numbers)
        self.live[number] = thing
        return number

    def create(self):
        return self._new({})

    def _add(self, graph, after, step):
        nodes = self.live[graph]
        assert list(after) == list(nodes)[-1:], "each node comes after the one before"
        node = next(self._numbers)
        nodes[node] = step
        return node

    def add_kernel(self, graph, after, parameters):
        return self._add(graph, after, self._kernel(parameters))

    def add_copy(self, graph, after, parameters):
        return self._add(graph, after, self._copy(parameters))

    def add_captured(self, graph, after, work):
        """A library's work runs when the graph is launched, with the same addresses."""
        return [self._add(graph, after, ("call", work))]

    def instantiate(self, graph):
        self.driver.calls["graphs made"] += 1
        return self._new(SimpleNamespace(graph=graph, steps=dict(self.live[graph])))

    def set_kernel(self, executable, node, reference):
        self._set(executable, node, self._kernel(reference._obj))

    def set_copy(self, executable, node, reference):
        self._set(executable, node, self._copy(reference._obj))

    def _set(self, executable, node, step):
        found = self.live[executable]
        assert node in self.live[found.graph] and found.steps[node][0] == step[0]
        self.driver.calls["nodes set"] += 1
        found.steps[node] = step

    def launch(self, executable, stream):
        self.driver.calls["graph launches"] += 1
        self.refuse("launch a graph of one's own", self.captures(stream))
        for step in self.live[executable].steps.values():
            self.run(step, stream)

    def run(self, step, stream):
        kind, given = step
        if kind == "copy":
            self.driver.copy(*given, stream)
        elif kind == "call":
            given(stream)
        else:
            self._launch_kernel(*given, stream)

    def _launch_kernel(self, function, blocks, threads, shared, words, stream):
        values = (ctypes.c_int64 * len(words))(*words)
        start = ctypes.addressof(values)
        table = (ctypes.c_int64 * len(words))(*range(start, start + 8 * len(words), 8))
        self.driver.launch(function, *blocks, *threads, shared, stream, ctypes.addressof(table), 0)

    def destroy(self, graph, executable):
        self.live.pop(graph)
        if executable is not None:
            self.live.pop(executable)

    def _kernel(self, p):
        """A launch with the values of its parameters, read through the table now."""
        code, _ = self.driver._functions[p.function]
        names = parameters(code.kernel)
        table = (ctypes.c_int64 * len(names)).from_address(p.table)
        words = tuple(ctypes.c_int64.from_address(at).value for at in table)
        return "kernel", (p.function, tuple(p.blocks), tuple(p.threads), p.shared, words)

    def _copy(self, p):
        assert (p.source.kind, p.to.kind, p.rows, p.planes) == (4, 4, 1, 1) and p.width > 0
        return "copy", (p.to.device, p.source.device, p.width)

    # --- captures of others ---

    @contextmanager
    def capture(self, stream):
        """Capture the work for a stream inside this block."""
        found = self.capturing[stream] = FakeCapture(self, next(self._numbers), stream)
        try:
            yield found
        finally:
            del self.capturing[stream]
        assert not found.failed, "a capture that has failed ends with an error"

    def refuse(self, what, forbidden):
        """Fail, with all captures, when something is forbidden now."""
        if forbidden:
            for capture in self.capturing.values():
                capture.failed = True
            raise CaptureFailed(what)

    def refuse_unsafe(self, what):
        """Fail when something is asked that a capture could miss, by a thread that has not said that it knows."""
        self.refuse(what, self.capturing and not getattr(self._thread, "relaxed", 0))

    def captures(self, stream):
        """Whether work for a stream is captured; the legacy stream may not be used meanwhile."""
        self.refuse("use the legacy stream", stream in (0, 1) and self.capturing)
        return stream in self.capturing

    def capture_kernel(self, stream, parameters):
        self.capturing[stream].steps.append(self._kernel(parameters))

    def capture_copy(self, stream, parameters):
        self.capturing[stream].steps.append(self._copy(parameters))

    def capture_library(self, stream, work):
        """The launches of a library, with the addresses that it was given."""
        self.capturing[stream].steps.append(("call", lambda stream: work()))

    def is_capturing(self, stream):
        self.refuse("ask about the legacy stream", stream in (0, 1) and self.capturing)
        return stream in self.capturing

    def sequence(self, stream):
        return Captured(self.capturing[stream].number, stream)

    def keep(self, captured, thing):
        number = next(self._numbers)
        self.retained[number] = thing
        self.capturing[captured.graph].retained.append(number)

    def forget(self):
        while self.ended:
            del self.retained[self.ended.popleft()]

    @contextmanager
    def relaxed(self):
        self._thread.relaxed = getattr(self._thread, "relaxed", 0) + 1
        try:
            yield
        finally:
            self._thread.relaxed -= 1
