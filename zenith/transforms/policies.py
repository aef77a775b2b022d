"""Policies for ``checkpoint``: which inner values of a function are saved for its derivative.

A policy is called for each operation of the function, ``policy(name, types, params) -> bool``, with the name of its
primitive, the types of its operands, and its parameters. True saves its results; their ancestors are then not
recomputed for their sake. Loops and functions with rules of their own are one operation each.

The names are those of ``jax.checkpoint_policies``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import zenith.numpy as znp
from zenith import tree
from zenith.errors import TraceError, user_line
from zenith.ir.builder import Builder
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Data, Tile
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType, Type
from zenith.trace.bind import bind
from zenith.trace.results import own_memory

__all__ = [
    "checkpoint_name", "dots_saveable", "dots_with_no_batch_dims_saveable", "everything_saveable", "nothing_saveable",
    "save_any_names_but_these", "save_from_both_policies", "save_only_these_names",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


Values = TypeVar("Values")
Policy = Callable[[str, Sequence[Type], Mapping[str, object]], bool]
_PRODUCTS = ("product", "scaled_product", "attention")  # tile kernels of matrix products


def everything_saveable(name: str, types: Sequence[Type], params: Mapping[str, object]) -> bool:
    """Save the results of every operation."""
    return True


def nothing_saveable(name: str, types: Sequence[Type], params: Mapping[str, object]) -> bool:
    """Save nothing, which is what ``checkpoint`` does without a policy."""
    return False


def dots_saveable(name: str, types: Sequence[Type], params: Mapping[str, object]) -> bool:
    """Save matrix products and attention; recompute elementwise operations and reductions."""
    lowering = get(name).lowering
    return isinstance(lowering, Tile) and lowering.kernel in _PRODUCTS


def dots_with_no_batch_dims_saveable(name: str, types: Sequence[Type], params: Mapping[str, object]) -> bool:
    """Save products of two matrices, those of activations with weights, and not of batches of matrices."""
    return dots_saveable(name, types, params) and all(isinstance(t, ArrayType) and t.rank == 2 for t in types)


def save_only_these_names(*names: str) -> Policy:
    """Save the values that :func:`checkpoint_name` gave one of these names."""
    return lambda name, types, params: name == "checkpoint_name" and params["label"] in names


def save_any_names_but_these(*names: str) -> Policy:
    """Save the values that :func:`checkpoint_name` gave another name."""
    return lambda name, types, params: name == "checkpoint_name" and params["label"] not in names


def save_from_both_policies(first: Policy, second: Policy) -> Policy:
    """Save what one of two policies saves."""
    return lambda name, types, params: first(name, types, params) or second(name, types, params)


def checkpoint_name(x: Values, name: str) -> Values:
    """A tree of arrays, known by ``name`` to the policies of the :func:`zenith.checkpoint` around it.

    >>> import numpy as np, zenith
    >>> @zenith.checkpoint(policy=zenith.checkpoint_policies.save_only_these_names("hidden"))
    ... def layer(x):
    ...     return np.sin(zenith.checkpoint_name(np.exp(x), "hidden"))
    >>> zenith.grad(layer)(0.0).round(4)
    np.float64(0.5403)
    """
    if not isinstance(name, str):
        raise TraceError(f"checkpoint_name needs a text, not a {type(name).__name__}", where=user_line(),
                         fix='write checkpoint_name(x, "hidden")')  # fmt: skip
    leaves, treedef = tree.flatten(x)
    arrays = [znp.asarray(leaf) for leaf in leaves]
    named = [bind(get("checkpoint_name"), array, label=name) for array in arrays]
    result: Values = tree.unflatten(treedef, own_memory(named, arrays))
    return result


def marked(graph: Graph, policy: Policy) -> Graph:
    """The graph with a mark on every value that the policy saves."""
    new, moved = Graph(graph.name), dict[tuple[int, int], Value]()
    builder = Builder(new)
    for number, node in graph.nodes():
        if node.primitive.name == "input":
            moved[number, 0] = new.add_input(node.types[0], str(node.params["name"]))
            continue
        args = graph.args(number)
        results = builder.transplant(graph, node, [moved[a.node, a.output] for a in args])
        builder.line = node.line
        if not isinstance(node.primitive.lowering, Data) and _saves(policy, node, [a.type for a in args]):
            results = tuple(builder.saved(r) if isinstance(r.type, ArrayType) else r for r in results)
        moved.update({(number, i): value for i, value in enumerate(results)})
    new.set_outputs(moved[v.node, v.output] for v in graph.outputs)
    return new


def _saves(policy: Policy, node: Node, types: Sequence[Type]) -> bool:
    answer = policy(node.primitive.name, types, node.params)
    if not isinstance(answer, bool):
        raise TraceError(
            f"a policy of checkpoint answered {answer!r} for {node.primitive.name}, neither True nor False",
            where=user_line(), fix="take one of zenith.checkpoint_policies; save_only_these_names takes names first",
        )  # fmt: skip
    return answer
