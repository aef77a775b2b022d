"""CUDA graphs on the driver without a device: nodes keep copies of their parameters, as CUDA's do.

A graph is launched as the launches and copies of its nodes. ``live`` is what was made and not destroyed, and the
driver's ``calls`` count what was asked.
"""

import ctypes
import itertools
from types import SimpleNamespace

from zenith.backends.cuda.emit import parameters


class FakeGraphs:
    """The interface of :class:`zenith.backends.cuda.graph_driver.Graphs`."""

    def __init__(self, driver):
        self.driver = driver
        self.live = {}  # graphs with their nodes, and executable graphs with the nodes' parameters
        self._numbers = itertools.count(50_000)

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
        for kind, given in self.live[executable].steps.values():
            if kind == "copy":
                self.driver.copy(*given, stream)
            else:
                self._launch_kernel(*given, stream)

    def _launch_kernel(self, function, blocks, threads, shared, words, stream):
        values = (ctypes.c_int64 * len(words))(*words)
        start = ctypes.addressof(values)
        table = (ctypes.c_int64 * len(words))(*range(start, start + 8 * len(words), 8))
        self.driver.launch(function, *blocks, *threads, shared, stream, ctypes.addressof(table), 0)

    def destroy(self, graph, executable):
        del self.live[executable], self.live[graph]

    def _kernel(self, p):
        """A launch with the values of its parameters, read behind the table now."""
        code, _ = self.driver._functions[p.function]
        names = parameters(code.kernel)
        table = (ctypes.c_int64 * len(names)).from_address(p.table)
        words = tuple(ctypes.c_int64.from_address(at).value for at in table)
        return "kernel", (p.function, tuple(p.blocks), tuple(p.threads), p.shared, words)

    def _copy(self, p):
        assert (p.source.kind, p.to.kind, p.rows, p.planes) == (4, 4, 1, 1) and p.width > 0
        return "copy", (p.to.device, p.source.device, p.width)
