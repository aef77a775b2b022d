"""Graphs that PyTorch computes as a whole, with a warning that has the user's line.

These are graphs with values that no program has, such as sparse tensors, every graph that fails to compile, and graphs
in which sizes depend on values. TorchDynamo records operators such as ``nonzero`` only where
``torch._dynamo.config.capture_dynamic_output_shape_ops`` asks for it, or ``capture_scalar_outputs`` for whole numbers
of ``item()``. Without these it ends a graph before them, and the rest is a graph with sizes that are known when it
is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from zenith.errors import UnsupportedError, ZenithError
from zenith.torch import aten
from zenith.torch.dynamo.blocks import LAYOUT, Blocked
from zenith.torch.lines import line_of
from zenith.torch.steps import Step, warn_once
from zenith.torch.translate import returned
from zenith.torch.unexportable import first_of_unknown_size, has_unknown_size

_WHY = "its sizes depend on values"
_FIX = """leave torch._dynamo.config.capture_dynamic_output_shape_ops and capture_scalar_outputs off, which ends the \
graph there, or keep the shape: torch.where(mask, x, 0) for x[mask]"""


class NotCompiled(Exception):
    """Compiling a graph for a call failed: ``__cause__`` says why, ``args`` are the call's."""


class EagerGraph:
    """A graph that PyTorch computes, called as a :class:`~zenith.torch.dynamo.graphs.CompiledGraph` is.

    Attributes
    ----------
    steps: one, which says why.
    operators: how many are called in it.
    calls: how often it was called.
    """

    def __init__(self, module: torch.fx.GraphModule, name: str, step: Step) -> None:
        self.__name__, self.steps, self.calls = name, [step], 0
        self._module: Callable[..., Iterable[object]] = module
        self.operators = sum(n.op == "call_function" for n in module.graph.nodes)
        self._takes = _in_blocks(module.graph.find_nodes(op="placeholder"))
        self._gives = _in_blocks(returned(module.graph))

    def __call__(self, args: list[Any]) -> list[object]:
        """The graph's results; ``args`` is emptied, as AOTAutograd wants it."""
        self.calls += 1
        given = args.copy()
        args.clear()
        for index, layout in self._takes.items():
            given[index] = layout.unpacked(given[index])
        found: list[Any] = list(self._module(*given))
        for index, layout in self._gives.items():
            found[index] = layout.packed(found[index])
        return found


def eager_graph(module: torch.fx.GraphModule, name: str, fallback: str) -> EagerGraph | None:
    """The graph as one that PyTorch computes, with a warning, where sizes depend on values; else None.

    With ``fallback="error"`` UnsupportedError is raised instead.
    """
    node = next((n for n in module.graph.nodes if has_unknown_size(n)), None)
    if node is None:
        return None
    operator = first_of_unknown_size(module.graph)
    target = "a gradient" if operator is None else str(operator.target)
    where = line_of(node if operator is None else operator)
    why = ((None if operator is None else aten.reason_of(operator.target)) or (_WHY, ""))[0]
    if fallback == "error":
        raise UnsupportedError(f"{target}: {why}", where=where, fix=_FIX)
    warn_once(f"{target} has all of its graph computed by PyTorch", target, where, why)
    return EagerGraph(module, name, Step(target, False, f"{why}: all of the graph", where))


def eager_after(error: BaseException, module: torch.fx.GraphModule, name: str, fallback: str) -> EagerGraph:
    """The graph as one that PyTorch computes, with a warning, because compiling it failed with ``error``.

    With ``fallback="error"`` that is raised.
    """
    if fallback == "error":
        raise error
    if isinstance(error, ZenithError):
        why, where = error.what, error.where
    else:
        why, where = f"compiling it fails, a fault of Zenith's: {type(error).__name__}: {error}", None
    lines = (line_of(node) for node in module.graph.nodes if node.op == "call_function")
    where = where or next((line for line in lines if line is not None), None)
    warn_once(f"{name} is computed by PyTorch as a whole", f"{name}: {why}", where, why)
    return EagerGraph(module, name, Step("all of the graph", False, why, where))


def _in_blocks(nodes: Sequence[object]) -> dict[int, Blocked]:
    """The layouts of the residuals that are in blocks of channels, by index."""
    layouts = [n.meta.get(LAYOUT) if isinstance(n, torch.fx.Node) else None for n in nodes]
    return {index: layout for index, layout in enumerate(layouts) if layout is not None}
