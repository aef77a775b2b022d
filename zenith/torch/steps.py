"""What PyTorch computes in the middle of a program: operators that Zenith has no rule for, and random draws.

Each is a step of its own, a call of PyTorch between kernels (:mod:`zenith.torch.operator_calls`). Draws come from
PyTorch's generator of the device, in program order: a compiled model draws what it would draw without being compiled.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

import zenith.numpy as znp
from zenith.control.trees import record
from zenith.errors import FallbackWarning, SourceLine, UnsupportedError, ZenithError, user_line
from zenith.ir.dims import Dim
from zenith.ir.external import External
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType, bool_, is_narrow
from zenith.torch import aten, python_numbers
from zenith.torch.checked import WITH_EFFECTS, checked, without_rng_state
from zenith.torch.layouts import MemoryFormat, element_type
from zenith.torch.operator_calls import MaskCall, OperatorCall, on_gpu
from zenith.torch.sizes import Sizes
from zenith.trace import Recorder, TracedSize, current_recorder

_ADVICE = "the derivative of what PyTorch computes is an operator of PyTorch's own"
_NO_RULE = "Zenith has no rule for it"
_CHECKS = ("_linalg_check_errors", "_assert_async", "_assert_scalar", "_assert_tensor_metadata")  # compute nothing
warned: set[str] = set()  # names of operators, and what was said of options


@dataclass(frozen=True)
class Step:
    """What PyTorch computes in a program: the operator, whether it draws random numbers, why it does, and where."""

    name: str
    draws: bool
    why: str
    line: SourceLine | None


@dataclass(frozen=True)
class GraphSteps:
    """The rules of a graph's nodes, and the list of the steps that they leave to PyTorch.

    With ``fallback="error"`` a step that is no draw is refused.
    """

    sizes: Sizes
    fallback: str
    found: list[Step]

    def rule_of(self, node: torch.fx.Node) -> aten.Rule:
        """What computes a node: its operator's rule, or PyTorch where there is none or it refuses, as when it draws."""
        if node.target is torch.ops.aten.native_dropout.default:
            return partial(self._dropout, node)
        if node.target is WITH_EFFECTS:
            return partial(self._with_effects, node)
        rule = without_rng_state(node) or python_numbers.rule_of(node, self.sizes) or aten.find(node.target)
        size = node.meta.get("val")
        if rule is None and isinstance(size, torch.SymInt) and size.node.has_hint():  # such as a stride, by its formula
            return lambda c, *args, **kwargs: python_numbers.as_number(self.sizes, size)
        if rule is None:
            return lambda c, *args, **kwargs: self._by_torch(node, args, kwargs, None)
        known = checked(node, rule)

        def computed(c: aten.Context, *args: object, **kwargs: object) -> Any:
            try:
                return known(c, *args, **kwargs)
            except Warning:
                raise  # the user has warnings raised
            except Exception as error:
                return self._by_torch(node, args, kwargs, _as_zenith_error(error))

        return computed

    def _by_torch(
        self, node: torch.fx.Node, args: Sequence[object], kwargs: object, refused: ZenithError | None
    ) -> object:
        """The results of an operator as arrays that PyTorch computes while the program runs."""
        if not _is_check(node.target):
            self._note(node, node.target, refused)
        examples, structure = pytree.tree_flatten(node.meta.get("val"))
        in_order = draws(node.target) or not any(isinstance(example, torch.Tensor) for example in examples)
        found = self._called(node, node.target, (args, kwargs), examples, in_order)
        return pytree.tree_unflatten(found, structure)

    def _with_effects(
        self, node: torch.fx.Node, c: aten.Context, token: object, target: object, *args: object, **kw: object
    ) -> object:
        """An operator that AOTAutograd keeps in order by tokens; programs have tokens of their own."""
        if not _is_check(target):
            self._note(node, target, None)
        examples = pytree.tree_leaves(node.meta["val"][1:])
        return (None, *self._called(node, target, (args, kw), examples, True))

    def _called(
        self,
        node: torch.fx.Node,
        target: Any,
        given: tuple[Sequence[object], object],
        examples: Sequence[object],
        in_order: bool,
    ) -> list[object]:
        """The results of a step that calls an operator; they look as examples do, and None stays None."""
        leaves, spec = pytree.tree_flatten(given)
        present = [example for example in examples if example is not None] or [torch.empty(0)]  # a step has some result
        types = tuple(_type(target, example, self.sizes) for example in present)
        own = node.args[len(node.args) - len(given[0]) :]  # an effect's operands follow a token and the operator
        read = pytree.tree_leaves(torch.fx.map_arg((own, node.kwargs), lambda n: n.meta.get("val")))
        kinds = tuple(map(_kind, leaves, read))
        call = OperatorCall.of(target, spec, kinds, leaves, [t for t in read if isinstance(t, torch.Tensor)])
        arrays = [leaf.as_array() if isinstance(leaf, TracedSize) else leaf
                  for leaf, kind in zip(leaves, kinds, strict=True) if kind]  # fmt: skip
        external = External(str(target), call, False, None, None, _ADVICE, on_gpu(call.on_device))
        kind = "call_python_in_order" if in_order else "call_python"
        computed = iter(record(get(kind), arrays, function=external, results=types, mapped=0))
        return [None if example is None else next(computed) for example in examples]

    def _dropout(self, node: torch.fx.Node, c: aten.Context, x: Any, p: float, train: bool | None) -> object:
        """As PyTorch rounds without a compiler, on the CPU ``x * (mask / (1 - p))``."""
        if not train or p in (0, 1):
            keep = p == 0 or not train
            return (x if keep else x * 0), znp.full(x.shape, keep)
        self._note(node, node.target, None)
        example = node.all_input_nodes[0].meta["val"]
        draw = MaskCall(1 - p, MemoryFormat.of(example), example.dtype)
        external = External(f"{node.target}: its mask", draw, False, None, None, _ADVICE, on_gpu(draw.on_device))
        types = (ArrayType(bool_, _shape(node.meta["val"][1], self.sizes)),)
        (mask,) = record(get("call_python_in_order"), [], function=external, results=types, mapped=0)
        if example.is_cuda and is_narrow(c.dtype):  # a GPU rounds once, after both products
            wide = znp.astype(x, "float32") * znp.astype(mask, "float32") * np.float32(1 / (1 - p))
            return znp.astype(wide, c.dtype), mask
        return x * (znp.astype(mask, c.dtype) * c.dtype.type(1 / (1 - p))), mask

    def _note(self, node: torch.fx.Node, target: object, refused: ZenithError | None) -> None:
        """List the step; raise when the user wants none but draws, else warn, once for each operator."""
        name, where, reason = str(target), user_line(), aten.reason_of(target)
        drawn = draws(target) and (refused is None or _may_drop(node))
        why = refused.what if refused is not None else reason[0] if reason else _NO_RULE
        if not drawn and self.fallback == "error":
            fix = 'options={"fallback": "pytorch"} has PyTorch compute it'
            raise UnsupportedError(f"{name}: {why}", where=where, fix=fix) from refused
        self.found.append(Step(name, drawn, why, where))
        if not drawn:
            warn_once(f"{name} is computed by PyTorch, between kernels", name, where, why)


def _as_zenith_error(error: Exception) -> ZenithError:
    """Why a rule does not compute an operator, in words for the user."""
    if isinstance(error, ZenithError):
        return error
    found = ZenithError(f"its rule fails, a fault of Zenith's: {type(error).__name__}: {error}")
    found.__cause__ = error
    return found


def _is_check(target: object) -> bool:
    """Whether an operator computes nothing, and raises where something is not as it should be."""
    return getattr(target, "namespace", "") == "aten" and packet_name(target) in _CHECKS


def packet_name(target: Any) -> str:
    """An operator's name without its namespace and overload: ``add`` of ``aten.add.Tensor``."""
    return str(target._schema.name).rpartition("::")[2]


def warn_once(message: str, name: str, where: SourceLine | None, why: str) -> None:
    """Warn of an operator that PyTorch computes, the first time."""
    if name not in warned:
        warned.add(name)
        at = "" if where is None else f", at {where}"
        warnings.warn(f"{message}{at}: {why}", FallbackWarning, stacklevel=3)


def draws(target: object) -> bool:
    """Whether an operator takes its results from PyTorch's generator."""
    if isinstance(target, torch._ops.HigherOrderOperator):
        return target.name() in ("run_and_save_rng_state", "run_with_rng_state")  # of checkpointed regions
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags


def _may_drop(node: torch.fx.Node) -> bool:
    """Whether an operator that can draw does so here: one of attention does not where it drops nothing."""
    schema: Any = getattr(node.target, "_schema", None)
    names = [] if schema is None else [argument.name for argument in schema.arguments]
    if "dropout_p" not in names:
        return True
    index = names.index("dropout_p")
    return bool(node.args[index] if index < len(node.args) else node.kwargs.get("dropout_p", 0.0))


def _type(target: object, example: object, sizes: Sizes) -> ArrayType:
    if not isinstance(example, torch.Tensor):
        raise UnsupportedError(f"{target} gives a {type(example).__name__}, which is no tensor", where=user_line(),
                               fix="compute with tensors")  # fmt: skip
    return ArrayType(element_type(example, f"a result of {target}"), _shape(example, sizes))


def _shape(example: torch.Tensor, sizes: Sizes) -> tuple[Dim, ...]:
    """A result's sizes as the trace in progress writes them."""
    return tuple(sizes.in_trace(size, _recorder()) for size in example.shape)


def _recorder() -> Recorder:
    recorder = current_recorder()
    assert recorder is not None, "steps are recorded"
    return recorder


def _kind(leaf: object, example: object) -> str:
    """What an argument is while the program runs; empty for one that is known now."""
    if isinstance(example, torch.Tensor):
        return "tensor"
    is_computed = isinstance(leaf, TracedSize) or (hasattr(leaf, "dtype") and hasattr(leaf, "shape"))
    return "number" if is_computed else ""
