"""What a graph of AOTAutograd returns, put together from the call's arguments and the program's results.

An argument comes back as it was given. Results that share memory without a compiler do so here: the program computes
their base, once, and PyTorch makes the views.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from zenith.ir.dims import Dim
from zenith.torch.checked import is_token
from zenith.torch.dynamo.blocks import Blocked, layout_of
from zenith.torch.layouts import MemoryFormat, is_dense
from zenith.torch.sizes import Sizes
from zenith.torch.translate import returned

SizeValues = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ArgumentResult:
    """A result that is an argument."""

    index: int

    def of(self, args: Sequence[object], made: Sequence[object], sizes: SizeValues) -> object:
        """The argument."""
        return args[self.index]


@dataclass(frozen=True, slots=True)
class Nothing:
    """A result that is None, such as the gradient of what has none."""

    def of(self, args: Sequence[object], made: Sequence[object], sizes: SizeValues) -> object:
        """None."""
        return None


@dataclass(frozen=True, slots=True)
class Made:
    """A result of the program: its number there, and a tensor's layout, or what a bare number is for Python."""

    number: int
    layout: MemoryFormat | Blocked | type[int] | type[float]

    def of(self, args: Sequence[object], made: Sequence[Any], sizes: SizeValues) -> object:
        """The tensor, with its axes in PyTorch's order, or the number."""
        found = made[self.number]
        return self.layout(found) if isinstance(self.layout, type) else self.layout.in_torch_order(found)


@dataclass(frozen=True, slots=True)
class Viewed:
    """A view of another result: PyTorch's operators that make it, with their further arguments."""

    root: ArgumentResult | Made
    operators: tuple[Any, ...]

    def of(self, args: Sequence[object], made: Sequence[object], sizes: SizeValues) -> object:
        """The view."""
        found = self.root.of(args, made, sizes)
        for target, more, named in self.operators:
            found = target(found, *_known(more, sizes), **{name: _known(value, sizes) for name, value in named})
        return found


Result = ArgumentResult | Nothing | Made | Viewed


def results(graph: torch.fx.Graph, sizes: Sizes) -> tuple[list[Result], list[torch.fx.Node]]:
    """How each result comes about, and the nodes whose values the program gives, in order."""
    arguments = {node: index for index, node in enumerate(graph.find_nodes(op="placeholder"))}
    wanted: list[torch.fx.Node] = []

    def made(node: torch.fx.Node) -> ArgumentResult | Made:
        if node in arguments:
            return ArgumentResult(arguments[node])
        if node not in wanted:
            wanted.append(node)
        value = node.meta["val"]
        kind = float if isinstance(value, torch.SymFloat) else int
        return Made(wanted.index(node), layout_of(node) if isinstance(value, torch.Tensor) else kind)

    nodes = [node if _has_value(node) else None for node in returned(graph)]
    shared = Counter(root_of(node) for node in dict.fromkeys(nodes) if node is not None)

    def result(node: torch.fx.Node | None) -> Result:
        if node is None:
            return Nothing()
        root = root_of(node)
        if root is not node and view_key(root) == view_key(node):
            return made(root)
        if root is node or not (root in arguments or shared[root] > 1 or not is_dense(node.meta["val"])):
            return made(node)
        return Viewed(made(root), _operators(node, root, sizes))

    return [result(node) for node in nodes], wanted


def _has_value(node: object) -> bool:
    return isinstance(node, torch.fx.Node) and node.meta.get("val") is not None and not is_token(node)


def view_key(node: torch.fx.Node) -> str:
    """What distinguishes a tensor from other views of its memory."""
    value = node.meta["val"]
    signs = value.is_conj(), value.is_neg()  # which views may have otherwise
    return str((value.shape, value.stride(), value.storage_offset(), value.dtype, signs))


def root_of(node: torch.fx.Node) -> torch.fx.Node:
    """The node whose memory a node is a view of."""
    while (before := _viewed(node)) is not None:
        node = before
    return node


def _viewed(node: torch.fx.Node) -> torch.fx.Node | None:
    """What a node is a view, or one of several views, of; None when it has memory of its own."""
    if node.op != "call_function":
        return None
    if node.target is operator.getitem:
        of = node.args[0]
        return of if isinstance(of, torch.fx.Node) and _is_view(of) else None
    return node.args[0] if _is_view(node) and isinstance(node.args[0], torch.fx.Node) else None


def _is_view(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def _operators(node: torch.fx.Node, root: torch.fx.Node, sizes: Sizes) -> tuple[Any, ...]:
    found: list[object] = []
    while node is not root:
        arguments: Any = (node.args[1:], node.kwargs)
        more, named = pytree.tree_map_only(torch.fx.Node, lambda n: sizes.of(n.meta["val"]), arguments)
        found.append((node.target, tuple(more), tuple(named.items())))
        node = node.args[0]  # type: ignore[assignment]  # _viewed has seen that it is a node
    return tuple(reversed(found))


def _known(value: Any, sizes: SizeValues) -> Any:
    """An argument with formulas evaluated for this call."""
    if isinstance(value, Dim):
        return value.evaluate(sizes)
    return type(value)(_known(v, sizes) for v in value) if isinstance(value, (list, tuple)) else value


def needs_sizes(found: Sequence[Result]) -> bool:
    """Whether some view has a size that differs from call to call."""
    return any(_has_formula(o[1:]) for r in found if isinstance(r, Viewed) for o in r.operators)


def _has_formula(value: object) -> bool:
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return any(map(_has_formula, value))
    return isinstance(value, Dim) and value.static is None
