"""What PyTorch computes in the middle of a program: operators that Zenith has no rule for, and random draws.

Each is a step of its own, a call of PyTorch between kernels. Draws come from PyTorch's generator, in program order, so
that a compiled model draws the numbers that it would draw without being compiled.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

import zenith.numpy as znp
from zenith.arrays import torch_adapter
from zenith.control.trees import record
from zenith.errors import UnsupportedError, ZenithError
from zenith.ir.dims import Dim
from zenith.ir.external import External
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType, bool_, dtype_of
from zenith.torch import aten
from zenith.torch.dynamo.ends import Sizes, axis_order, inverse
from zenith.trace import TracedSize, current_recorder

_ADVICE = "the derivative of what PyTorch computes is an operator of PyTorch's own"


@dataclass(frozen=True)
class Step:
    """An operator that PyTorch computes: its name, whether it draws random numbers, why Zenith does not compute it."""

    name: str
    draws: bool
    why: str
    line: str


def rule_of(node: torch.fx.Node, sizes: Sizes) -> aten.Rule:
    """What computes a node of a graph: dropout's mask is drawn by PyTorch, and so is all that there is no rule for."""
    if node.target is torch.ops.aten.native_dropout.default:
        return partial(_dropout, node, sizes)
    if node.target is WITH_EFFECTS:
        return partial(_with_effects, node, sizes)
    found = aten.find(node.target)  # attention, too, draws where it drops out, and its rule refuses that

    def computed(c: aten.Context, *args: Any, **kwargs: Any) -> Any:
        if found is not None and not isinstance(node.target, torch._ops.OpOverload):
            return found(c, *args, **kwargs)  # Python's own, on sizes and tuples
        values = _refused if found is None else _by_rule(node, found, c, args, kwargs)
        return by_torch(node, sizes, args, kwargs) if values is _refused else values

    return computed


_refused = object()
WITH_EFFECTS = torch.ops.higher_order.with_effects


def _by_rule(node: torch.fx.Node, rule: aten.Rule, c: aten.Context, args: Any, kwargs: Any) -> Any:
    """What a rule gives; ``_refused`` where it computes no such case, or not all of the results that are read.

    PyTorch has accepted the call, so whatever a rule says against it is that Zenith does not have the case.
    """
    try:
        values = rule(c, *args, **kwargs)
    except ZenithError:
        return _refused
    if not isinstance(values, (tuple, list)):
        return values if _fits(values, node.meta["val"]) else _refused
    readers: dict[Any, list[torch.fx.Node]] = {}
    for user in node.users:
        readers.setdefault(user.args[1] if user.target is operator.getitem else None, []).append(user)
    found = []
    for place, (value, example) in enumerate(zip(values, node.meta["val"], strict=True)):
        if isinstance(value, aten.Failed) and all(_checks(user) for user in readers.get(place, ())):
            value = value.code
        if place in readers and not _fits(value, example):
            return _refused
        found.append(value)
    return tuple(found)


def _checks(node: torch.fx.Node) -> bool:
    """Whether a result is read only by what raises PyTorch's own error for matrices that have no inverse or factor."""
    check = torch.ops.aten._linalg_check_errors.default
    return all(user.target is WITH_EFFECTS and user.args[1] is check for user in node.users)


def _fits(value: Any, example: Any) -> bool:
    """Whether a rule's result has the element type and the sizes that PyTorch has found."""
    if not isinstance(example, torch.Tensor):
        return not isinstance(value, aten.Absent)
    if not hasattr(value, "dtype") or dtype_of(value.dtype) != torch_adapter().dtype(example):
        return False
    sizes = zip(value.shape, example.shape, strict=False)
    return value.ndim == example.ndim and not any(type(n) is type(m) is int and n != m for n, m in sizes)


def _with_effects(
    node: torch.fx.Node, sizes: Sizes, c: aten.Context, token: Any, target: Any, *args: Any, **kwargs: Any
) -> Any:
    """An operator that AOTAutograd keeps in order by tokens, of which programs have their own."""
    read = torch.fx.map_arg((node.args[2:], node.kwargs), lambda n: n.meta["val"])
    examples = [leaf for leaf in pytree.tree_leaves(node.meta["val"][1:]) if leaf is not None]
    nothing = not examples  # a check: a step has some result, here one without elements
    examples = examples or [torch.empty(0)]
    found = _record("call_python_in_order", target, examples, read, sizes, (args, kwargs))
    return (None,) if nothing else (None, *found)


def is_token(node: torch.fx.Node) -> bool:
    """Whether a node is one of the tokens by which AOTAutograd keeps operators in order; no tensor is behind it."""
    if node.op == "placeholder":
        return bool(node.users) and all(u.target is WITH_EFFECTS and u.args[0] is node for u in node.users)
    of_effects = node.target is operator.getitem and node.args[0].target is WITH_EFFECTS
    return of_effects and node.args[1] == 0


def _dropout(node: torch.fx.Node, sizes: Sizes, c: aten.Context, x: Any, p: float, train: bool | None) -> Any:
    """As PyTorch rounds without being compiled: the mask over 1 - p, times x; drawn in x's order of memory."""
    if not train or p == 0:
        return x, znp.ones(x.shape, dtype=bool)
    if p == 1:
        return x * 0, znp.zeros(x.shape, dtype=bool)
    order = axis_order(node.args[0].meta["val"])

    def draw(arrays: list[Any], results: list[Any]) -> list[Any]:
        mask = torch.empty([results[0].shape[axis] for axis in order], dtype=torch.bool).bernoulli_(1 - p)
        return [mask.permute(inverse(order)).numpy()]

    type = ArrayType(bool_, _sizes(node.meta["val"][1], sizes))
    external = External("aten.native_dropout, its mask", draw, False, None, None, _ADVICE)
    (mask,) = record(get("call_python_in_order"), [], function=external, results=(type,), mapped=0)
    noise = znp.astype(mask, c.dtype) * c.dtype.type(1 / (1 - p))
    return x * noise, mask


def draws(target: Any) -> bool:
    """Whether an operator takes its results from PyTorch's generator."""
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags


def by_torch(node: torch.fx.Node, sizes: Sizes, args: Any, kwargs: Any) -> Any:
    """The results of an operator as arrays that PyTorch computes while the program runs."""
    leaves, spec = pytree.tree_flatten(node.meta["val"])
    examples = [leaf for leaf in leaves if leaf is not None]
    read = torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    kind = "call_python_in_order" if draws(node.target) else "call_python"
    found = iter(_record(kind, node.target, examples, read, sizes, (args, kwargs)))
    return pytree.tree_unflatten([None if leaf is None else next(found) for leaf in leaves], spec)


def _record(kind: str, target: Any, examples: Sequence[Any], read: Any, sizes: Sizes, given: Any) -> tuple[Any, ...]:
    """A step that calls an operator with ``given``, which is what PyTorch knows as ``read``; it gives such examples."""
    types = tuple(_type(example, sizes) for example in examples)
    leaves, spec = pytree.tree_flatten(given)
    plain = [_Hole(example) if _is_computed(leaf) else leaf
             for leaf, example in zip(leaves, pytree.tree_leaves(read), strict=True)]  # fmt: skip
    external = External(str(target), _Call(target, spec, plain), False, None, None, _ADVICE)
    arrays = [_array(leaf) for leaf in leaves if _is_computed(leaf)]
    return tuple(record(get(kind), arrays, function=external, results=types, mapped=0))


def _type(example: Any, sizes: Sizes) -> ArrayType:
    if not isinstance(example, torch.Tensor):
        raise UnsupportedError(f"a step of PyTorch gives a {type(example).__name__}, which is no tensor")
    dtype = torch_adapter().dtype(example)
    if dtype is None:
        raise UnsupportedError(f"Zenith has no element type for {example.dtype}")
    return ArrayType(dtype, _sizes(example, sizes))


def _sizes(example: torch.Tensor, sizes: Sizes) -> tuple[Dim, ...]:
    """A result's sizes as the trace in progress writes them."""
    recorder = current_recorder()
    assert recorder is not None, "steps are recorded"
    return tuple(recorder.canonical(sizes.of(size)) for size in example.shape)


def _tensors(values: Any) -> Sequence[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _is_computed(leaf: Any) -> bool:
    return (hasattr(leaf, "dtype") and hasattr(leaf, "shape")) or isinstance(leaf, TracedSize)


def _array(leaf: Any) -> Any:
    return leaf.as_array() if isinstance(leaf, TracedSize) else leaf


class _Hole:
    """An argument that the program computes: a tensor whose axes PyTorch has in some order of memory, or a number."""

    def __init__(self, example: Any) -> None:
        self.order = axis_order(example) if isinstance(example, torch.Tensor) else None

    def filled(self, array: Any) -> Any:
        if self.order is None:
            return array.item()
        return torch_adapter().from_numpy(array).permute(self.order).contiguous().permute(inverse(self.order))


class _Call:
    """An operator of PyTorch on NumPy arrays: tensors in the order of memory in which PyTorch would have them."""

    def __init__(self, target: Any, spec: Any, leaves: Sequence[Any]) -> None:
        self.target, self.spec, self.leaves = target, spec, leaves

    def __call__(self, arrays: list[Any], results: list[Any]) -> list[Any]:
        given = iter(arrays)
        leaves = [leaf.filled(next(given)) if isinstance(leaf, _Hole) else leaf for leaf in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        with torch.no_grad():
            found = self.target(*args, **kwargs)
        found = _tensors(found) or [torch.empty(0)]
        return [torch_adapter().numpy(t.resolve_conj().resolve_neg()) for t in found]
