"""Random draws of a module: each is a step in its program that asks PyTorch's generator, in the module's order.

With the same seed a compiled module draws the numbers that it would draw without being compiled.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch.utils import _pytree as pytree

from zenith.torch import aten, python_numbers
from zenith.torch.asserts import is_assert
from zenith.torch.conditions import fixed_size, tensor_inputs
from zenith.torch.recurrent import STATES
from zenith.torch.sizes import Sizes
from zenith.torch.steps import GraphSteps, draws, packet_name
from zenith.trace import Tracer, current_recorder
from zenith.trace.bind import b

_DROPOUTS = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "native_dropout")
_ATTENTION = torch.ops.aten.scaled_dot_product_attention.default
_DECOMPOSED = torch.ops.aten._scaled_dot_product_attention_math.default
# Draws through which PyTorch has gradients; all others only depend on sizes, or on numbers of no use to a gradient.
_DIFFERENTIABLE = ("_standard_gamma", "_sample_dirichlet")
_SLOPES = "rrelu_with_noise_functional"


def draws_numbers(node: torch.fx.Node) -> bool:
    """Whether a node of an export draws random numbers; dropout does so in training mode only.

    Recurrent layers have dropout between them at most, which their rule refuses.
    """
    if node.target is _ATTENTION:
        return bool(_dropout_of(node))
    if not draws(node.target) or packet_name(node.target) in STATES:
        return False
    if packet_name(node.target) == _SLOPES:
        return len(node.args) > 4 and bool(node.args[4])
    return packet_name(node.target) not in _DROPOUTS or (bool(node.args[2]) and bool(node.args[1]))


def is_one_draw(op: Any) -> bool:
    """Whether an operator draws, and PyTorch itself does not write it in others."""
    return draws(op) and not torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")


def decompose_attention(program: torch.export.ExportedProgram) -> None:
    """Decompose attention with dropout in an export, as PyTorch does: the rule of attention has no dropout."""
    graph = program.graph_module.graph
    for node in graph.find_nodes(op="call_function", target=_ATTENTION):
        if draws_numbers(node):
            with graph.inserting_before(node):
                outputs = graph.call_function(_DECOMPOSED, *_with_numbers(graph, node))
                outputs.meta = {**node.meta, "val": (node.meta["val"], None)}
                first = graph.call_function(operator.getitem, (outputs, 0))
                first.meta = dict(node.meta)
            node.replace_all_uses_with(first)
            graph.erase_node(node)


def _with_numbers(graph: torch.fx.Graph, node: torch.fx.Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call's arguments with a mask of numbers, minus infinity for false: the decomposed operator takes no bools."""
    args, options = node.args, dict(node.kwargs)
    mask = args[3] if len(args) > 3 else options.pop("attn_mask", None)
    if not isinstance(mask, torch.fx.Node) or mask.meta["val"].dtype != torch.bool:
        return node.args, dict(node.kwargs)
    value, like = mask.meta["val"], cast(torch.fx.Node, args[0]).meta["val"]
    zeros = graph.call_function(torch.ops.aten.zeros_like.default, (mask,), {"dtype": like.dtype})
    zeros.meta = {**node.meta, "val": torch.zeros_like(value, dtype=like.dtype)}
    others = graph.call_function(torch.ops.aten.logical_not.default, (mask,))
    others.meta = {**node.meta, "val": torch.logical_not(value)}
    numbers = graph.call_function(torch.ops.aten.masked_fill.Scalar, (zeros, others, -math.inf))
    numbers.meta = zeros.meta
    return (*args[:3], numbers, *args[4:]), options


def rules_of(program: torch.export.ExportedProgram,
             tensors: Sequence[Tracer]) -> Callable[[torch.fx.Node], aten.Rule | None]:  # fmt: skip
    """The rule of each node of an export, those that draw included, when its arguments are ``tensors``."""
    recorder = current_recorder()
    assert recorder is not None, "a module's program is traced"
    sizes = Sizes(recorder.hints)
    for node, tensor in zip(tensor_inputs(program), tensors, strict=True):
        for size, known in zip(node.meta["val"].shape, tensor.value.shape, strict=True):
            if fixed_size(size) is None:
                sizes.know(size, known)
    steps = GraphSteps(sizes, "error", [])

    def find(node: torch.fx.Node) -> aten.Rule | None:
        if is_assert(node):
            return lambda c, *_: None  # a result of the program checks it
        if not draws_numbers(node):
            return python_numbers.rule_of(node, sizes) or aten.find(node.target)
        rule = steps.rule_of(node)
        if packet_name(node.target) == _SLOPES:
            return _by_slopes(rule)
        return rule if packet_name(node.target) in (*_DROPOUTS, *_DIFFERENTIABLE) else _of_constants(rule)

    return find


def _of_constants(rule: aten.Rule) -> aten.Rule:
    """The rule of a draw, whose results have no derivative by its operands."""

    def drawn(c: aten.Context, *args: object, **options: object) -> object:
        return pytree.tree_map_only(Tracer, b.stop_gradient, rule(c, *args, **options))

    return drawn


def _by_slopes(rule: aten.Rule) -> aten.Rule:
    """The rule of ``rrelu`` in training: what it draws are slopes, for elements that are not positive."""

    def drawn(c: aten.Context, x: object, *args: object, **options: object) -> object:
        _, slopes = _of_constants(rule)(c, b.stop_gradient(x), *args, **options)
        return x * slopes, slopes

    return drawn


def _dropout_of(node: torch.fx.Node) -> object:
    return node.args[4] if len(node.args) > 4 else node.kwargs.get("dropout_p", 0)
