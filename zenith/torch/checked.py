"""Rules checked against PyTorch's shape inference: a result of another element type or size is as good as none.

Here also are the wrappers that AOTAutograd puts around some operators: tokens that keep effects in order, and generator
states from which checkpointed regions draw the same numbers a second time.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch

import zenith.numpy as znp
from zenith.arrays import torch_adapter
from zenith.errors import UnsupportedError, user_line
from zenith.ir.types import dtype_of
from zenith.torch import aten

WITH_EFFECTS = torch.ops.higher_order.with_effects


def checked(node: torch.fx.Node, rule: aten.Rule) -> aten.Rule:
    """A node's rule, which raises UnsupportedError unless every result that is read has PyTorch's type and sizes."""
    if not isinstance(node.target, torch._ops.OpOverload | torch._ops.HigherOrderOperator):
        return rule  # Python's own, on sizes and tuples

    def computed(c: aten.Context, *args: object, **kwargs: object) -> Any:
        values, example = rule(c, *args, **kwargs), node.meta["val"]
        if not isinstance(values, (tuple, list)):
            _require(node, values, example)
            return values
        readers = _readers(node)
        found = [_with_code(value, readers.get(index, [])) for index, value in enumerate(values)]
        for index in readers.keys() & set(range(len(found))):
            _require(node, found[index], example[index])
        return tuple(found)

    return computed


def without_rng_state(node: torch.fx.Node) -> aten.Rule | None:
    """The rule of an operator in a checkpointed region, which is passed the generator's state and ignores it.

    The one that would save the state gives zeros for it, since the rule of the one that is passed them reads none.
    """
    if not isinstance(node.target, torch._ops.HigherOrderOperator) or "rng_state" not in node.target.name():
        return None
    index = next(index for index, arg in enumerate(node.args) if isinstance(arg, torch._ops.OpOverload))
    rule = aten.find(node.args[index])
    if rule is None:
        return None
    inner: aten.Rule = rule

    def computed(c: aten.Context, *args: object, **kwargs: object) -> Any:
        value = c.value if index else c.value[1]
        found = inner(aten.Context(value, c.arguments[index + 1 :]), *args[index + 1 :], **kwargs)
        return found if index else (znp.zeros(node.meta["val"][0].shape, "uint8"), found)

    return computed


def is_token(node: torch.fx.Node) -> bool:
    """Whether a node is one of the tokens by which AOTAutograd keeps operators in order; it has no tensor."""
    if node.op == "placeholder":
        return bool(node.users) and all(u.target is WITH_EFFECTS and u.args[0] is node for u in node.users)
    of = node.args[0] if node.target is operator.getitem else None
    return isinstance(of, torch.fx.Node) and of.target is WITH_EFFECTS and not node.args[1]


def _readers(node: torch.fx.Node) -> Mapping[Any, list[torch.fx.Node]]:
    """Who reads which of a node's results."""
    found: dict[Any, list[torch.fx.Node]] = {}
    for user in node.users:
        found.setdefault(user.args[1] if user.target is operator.getitem else None, []).append(user)
    return found


def _with_code(value: object, readers: list[torch.fx.Node]) -> object:
    """A code that says which matrices have no inverse or factor, where only PyTorch's check reads it."""
    return value.code if isinstance(value, aten.Failed) and all(map(_is_checked_only, readers)) else value


def _is_checked_only(node: torch.fx.Node) -> bool:
    check = torch.ops.aten._linalg_check_errors.default
    return all(user.target is WITH_EFFECTS and user.args[1] is check for user in node.users)


def _require(node: torch.fx.Node, value: Any, example: Any) -> None:
    """Raise UnsupportedError for a result that is not as PyTorch inferred it."""
    if isinstance(value, aten.RefusedResult):
        raise UnsupportedError(value.why, where=user_line(), fix=value.fix)
    if not isinstance(example, torch.Tensor):
        return
    if not hasattr(value, "dtype") or dtype_of(value.dtype) != torch_adapter().dtype(example):
        found = getattr(value, "dtype", type(value).__name__)
        raise UnsupportedError(f"{node.target} gives {example.dtype} here, and its rule {found}", where=user_line(),
                               fix="leave it to PyTorch")  # fmt: skip
    sizes = zip(value.shape, example.shape, strict=False)
    if value.ndim != example.ndim or any(type(n) is type(m) is int and n != m for n, m in sizes):
        raise UnsupportedError(f"{node.target} gives sizes {tuple(example.shape)} here, and its rule {value.shape}",
                               where=user_line(), fix="leave it to PyTorch")  # fmt: skip
