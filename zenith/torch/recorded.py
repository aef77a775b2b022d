"""What a module's code says about gradients, in an export: ``torch.no_grad()``, ``detach_()``, derivatives of its own.

``torch.export`` records a stretch of code that runs without recording gradients as a graph of its own, and forgets what
that means when it decomposes operators. Here such graphs are inlined, and read detached tensors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from zenith.errors import UnsupportedError, user_line

_REGION = torch.ops.higher_order.wrap_with_set_grad_enabled
_DETACH, _DETACH_IN_PLACE = torch.ops.aten.detach.default, torch.ops.aten.detach_.default
_HOOKS = ("register_hook", "register_post_accumulate_grad_hook", "retain_grad")


@contextmanager
def recorded(differentiable: bool) -> Iterator[None]:
    """Within this block gradients are recorded, or not; when they are, derivatives that a module defines are refused.

    An export would only see how such a function computes its value.
    """
    with torch.set_grad_enabled(differentiable):
        if not differentiable:
            yield
            return
        own = torch.autograd.Function.__dict__["apply"]
        torch.autograd.Function.apply = classmethod(_refusing(own))  # type: ignore[method-assign, assignment]
        hooks = {name: getattr(torch.Tensor, name) for name in _HOOKS}
        for name, hook in hooks.items():
            setattr(torch.Tensor, name, _refusing_hook(name, hook))
        try:
            yield
        finally:
            torch.autograd.Function.apply = own  # type: ignore[method-assign]
            for name, hook in hooks.items():
                setattr(torch.Tensor, name, hook)


def _refusing_hook(name: str, own: Callable[..., object]) -> object:
    """``Tensor.register_hook`` and its like that raise in this thread."""
    thread = threading.get_ident()

    def register(tensor: torch.Tensor, *args: object, **kwargs: object) -> object:
        if threading.get_ident() != thread:
            return own(tensor, *args, **kwargs)
        raise UnsupportedError(
            f"the module's forward calls {name}() of a tensor, which torch.export does not record",
            where=user_line(), fix='train the module with torch.compile(module, backend="zenith")',
        )  # fmt: skip

    return register


def _refusing(own: Callable[..., object]) -> Any:
    """``Function.apply`` that raises in this thread."""
    thread = threading.get_ident()

    def apply(function: type, *args: object, **kwargs: object) -> object:
        if threading.get_ident() != thread:
            return own.__get__(None, function)(*args, **kwargs)
        raise UnsupportedError(
            f"{function.__name__} defines a derivative of its own, which torch.export does not record",
            where=user_line(), fix='train the module with torch.compile(module, backend="zenith")',
        )  # fmt: skip

    return apply


def detach_unrecorded(program: torch.export.ExportedProgram) -> None:
    """Inline the graphs of stretches without gradients, with ``detach`` of all that they read."""
    graph = program.graph_module.graph
    for node in list(graph.nodes):
        if node.target is _REGION:
            _inline(program.graph_module, node)
        elif node.target is _DETACH_IN_PLACE:
            node.target = _DETACH
            later = set(_nodes_after(node))
            node.args[0].replace_all_uses_with(node, delete_user_cb=later.__contains__)
    program.graph_module.recompile()


def _inline(module: torch.fx.GraphModule, node: torch.fx.Node) -> None:
    """Replace the node of a stretch of code by its operators."""
    enabled, body, *args = node.args
    assert isinstance(body, torch.fx.Node), "the stretch of code is stored with the graph"
    inner, graph = getattr(module, str(body.target)).graph, node.graph
    with graph.inserting_before(node):
        read = args if enabled else [_detached(graph, arg) for arg in args]
        operands = dict(zip(inner.find_nodes(op="placeholder"), read, strict=True))
        results: Any = graph.graph_copy(inner, operands)
    for user in list(node.users):
        user.replace_all_uses_with(results[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)
    if not body.users:
        graph.erase_node(body)


def _detached(graph: torch.fx.Graph, arg: object) -> object:
    if not isinstance(arg, torch.fx.Node) or not isinstance(arg.meta.get("val"), torch.Tensor):
        return arg
    node = graph.call_function(_DETACH, (arg,))
    node.meta = dict(arg.meta)
    return node


def _nodes_after(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    while node.op != "output":
        node = node.next
        yield node
