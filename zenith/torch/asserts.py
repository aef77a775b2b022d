"""``torch._assert_async``, and conditions on floats, in an export: the program raises when one does not hold.

Such an operator has no result. Its check is one of the module's results instead: they are always computed, and checked
unless all are without elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import torch

import zenith.numpy as znp
from zenith.checks import error_if
from zenith.errors import UnsupportedError
from zenith.torch import python_numbers
from zenith.torch.lines import at_line, line_of
from zenith.torch.steps import packet_name
from zenith.trace import Tracer

_NAMES = ("_assert_async", "_functional_assert_async")
UNNAMED = "an assertion of the module does not hold"


def is_assert(node: torch.fx.Node) -> bool:
    """Whether a node computes nothing, and raises where a tensor, or a comparison of floats, is not true."""
    if node.target is torch.ops.aten._assert_scalar.default:
        return isinstance(node.args[0], torch.fx.Node) and python_numbers.compares_floats(node.args[0])
    return isinstance(node.target, torch._ops.OpOverload) and packet_name(node.target) in _NAMES


def with_asserts(graph: torch.fx.Graph, values: Mapping[object, object], results: Sequence[object]) -> list[object]:
    """The results of a graph, whose arrays check what the graph asserts."""
    found = list(results)
    for node in filter(is_assert, graph.nodes):
        if not any(isinstance(result, Tracer) for result in found):
            raise UnsupportedError("a module without a tensor as result asserts nothing", where=line_of(node),
                                   fix="return the tensor that it checks")  # fmt: skip
        condition, why = (*node.args, UNNAMED)[:2]
        wrong = ~znp.all(znp.astype(values[condition], bool))
        found = [at_line(node, partial(error_if, r, wrong, why)) if isinstance(r, Tracer) else r for r in found]
    return found
