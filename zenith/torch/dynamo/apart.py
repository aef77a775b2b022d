"""Graphs in which sizes depend on values: PyTorch computes them as a whole, and says so with the user's line.

TorchDynamo records operators such as ``nonzero`` only where ``torch._dynamo.config.capture_dynamic_output_shape_ops``
asks for it, or ``capture_scalar_outputs`` for whole numbers made by ``item()``. Without these it ends a graph before
them, and the rest is a graph with sizes that are known when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from zenith.errors import UnsupportedError
from zenith.torch import aten
from zenith.torch.steps import Step, warn_once
from zenith.torch.translate import line_of

_WHY = "its sizes depend on values"
_FIX = """leave torch._dynamo.config.capture_dynamic_output_shape_ops and capture_scalar_outputs off, which ends the \
graph there, or keep the shape: torch.where(mask, x, 0) for x[mask]"""


class ApartGraph:
    """A graph that PyTorch computes, called as a :class:`~zenith.torch.dynamo.graphs.CompiledGraph` is.

    Attributes
    ----------
    steps: one, the first operator whose sizes nobody knows before.
    operators: how many are called in it.
    calls: how often it was called.
    """

    def __init__(self, module: torch.fx.GraphModule, name: str, step: Step) -> None:
        self.__name__, self.steps, self.calls = name, [step], 0
        self._module: Callable[..., Any] = module
        self.operators = sum(n.op == "call_function" for n in module.graph.nodes)

    def __call__(self, args: list[Any]) -> list[Any]:
        """The graph's results; ``args`` is emptied, as AOTAutograd wants it."""
        self.calls += 1
        given = args.copy()
        args.clear()
        return list(self._module(*given))


def apart(module: torch.fx.GraphModule, name: str, fallback: str) -> ApartGraph | None:
    """The graph as one that PyTorch computes, with a warning, where sizes depend on values; else None.

    With ``fallback="error"`` UnsupportedError is raised instead.
    """
    node = next((n for n in module.graph.nodes if _has_unknown_size(n)), None)
    if node is None:
        return None
    operator = _operator_of(module.graph)
    target = "the way back" if operator is None else str(operator.target)
    where = line_of(node if operator is None else operator)
    why = ((None if operator is None else aten.reason_of(operator.target)) or (_WHY, ""))[0]
    if fallback == "error":
        raise UnsupportedError(f"{target}: {why}", where=where, fix=_FIX)
    warn_once(f"{target} has all of its graph computed by PyTorch", target, where, why)
    return ApartGraph(module, name, Step(target, False, f"{why}: all of the graph", where))


def _has_unknown_size(node: torch.fx.Node) -> bool:
    """Whether a node is such a tensor, or a whole number that may become a size."""
    leaves = pytree.tree_leaves(node.meta.get("val"))
    return any(isinstance(leaf, torch.Tensor | torch.SymInt) and free_unbacked_symbols(leaf) for leaf in leaves)


def _operator_of(graph: torch.fx.Graph) -> torch.fx.Node | None:
    """The operator that makes the first unknown size; a graph that begins with one, such as a way back, has none."""
    if any(map(_has_unknown_size, graph.find_nodes(op="placeholder"))):
        return None
    return next((n for n in graph.nodes if n.op == "call_function" and _has_unknown_size(n)), None)
