"""What PyTorch computes in the middle of a program: operators that Zenith has no rule for, and random draws.

Each is a step of its own, a call of PyTorch between kernels. Draws come from PyTorch's generator, in program order, so
that a compiled model draws the numbers that it would draw without being compiled.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

import zenith.numpy as znp
from zenith.arrays import torch_adapter
from zenith.control.trees import record
from zenith.errors import FallbackWarning, SourceLine, UnsupportedError, ZenithError, user_line
from zenith.ir.dims import Dim
from zenith.ir.external import External
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType, bool_
from zenith.torch import aten
from zenith.torch.checked import WITH_EFFECTS, apart_from_state, checked
from zenith.torch.layouts import Layout, element_type
from zenith.torch.sizes import Sizes
from zenith.trace import Recorder, TracedSize, current_recorder
from zenith.trace.sizes import user_size

_ADVICE = "the derivative of what PyTorch computes is an operator of PyTorch's own"
_NO_RULE = "Zenith has no rule for it"
warned: set[str] = set()  # names of operators


@dataclass(frozen=True)
class Step:
    """What PyTorch computes in a program: the operator, whether it draws random numbers, why it does, and where."""

    name: str
    draws: bool
    why: str
    line: SourceLine | None


@dataclass(frozen=True)
class Steps:
    """The rules of a graph's nodes, and the list of the steps that these leave to PyTorch.

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
        rule = apart_from_state(node) or aten.find(node.target)
        size = node.meta["val"]
        if rule is None and isinstance(size, torch.SymInt) and size.node.has_hint():  # such as a stride, by its formula
            return lambda c, *args, **kwargs: user_size(self.sizes.of(size), _recorder())
        if rule is None:
            return lambda c, *args, **kwargs: self._by_torch(node, args, kwargs, None)
        known = checked(node, rule)

        def computed(c: aten.Context, *args: Any, **kwargs: Any) -> Any:
            try:
                return known(c, *args, **kwargs)
            except ZenithError as error:
                return self._by_torch(node, args, kwargs, error)

        return computed

    def _by_torch(self, node: torch.fx.Node, args: Any, kwargs: Any, refused: ZenithError | None) -> Any:
        """The results of an operator as arrays that PyTorch computes while the program runs."""
        self._note(node, node.target, refused)
        examples, structure = pytree.tree_flatten(node.meta["val"])
        found = self._called(node, node.target, (args, kwargs), examples, draws(node.target))
        return pytree.tree_unflatten(found, structure)

    def _with_effects(
        self, node: torch.fx.Node, c: aten.Context, token: Any, target: Any, *args: Any, **kw: Any
    ) -> Any:
        """An operator that AOTAutograd keeps in order by tokens, of which programs have their own."""
        if target is not torch.ops.aten._linalg_check_errors.default:  # it computes nothing
            self._note(node, target, None)
        examples = pytree.tree_leaves(node.meta["val"][1:])
        if all(example is None for example in examples):  # a step has some result, here one without elements
            examples = [torch.empty(0)]
        return (None, *self._called(node, target, (args, kw), examples, True))

    def _called(
        self, node: torch.fx.Node, target: Any, given: Any, examples: Sequence[Any], in_order: bool
    ) -> list[Any]:
        """The results of a step that calls an operator; they look as examples do, and None stays None."""
        leaves, spec = pytree.tree_flatten(given)
        types = tuple(_type(target, example, self.sizes) for example in examples if example is not None)
        own = node.args[len(node.args) - len(given[0]) :]  # an effect's operator comes behind a token and its name
        read = pytree.tree_leaves(torch.fx.map_arg((own, node.kwargs), lambda n: n.meta.get("val")))
        kinds = tuple(map(_kind, leaves, read))
        call = _Call(target, spec, kinds, leaves, [Layout.of(t) for t in read if isinstance(t, torch.Tensor)])
        arrays = [leaf.as_array() if isinstance(leaf, TracedSize) else leaf
                  for leaf, kind in zip(leaves, kinds, strict=True) if kind]  # fmt: skip
        external = External(str(target), call, False, None, None, _ADVICE)
        kind = "call_python_in_order" if in_order else "call_python"
        made = iter(record(get(kind), arrays, function=external, results=types, mapped=0))
        return [None if example is None else next(made) for example in examples]

    def _dropout(self, node: torch.fx.Node, c: aten.Context, x: Any, p: float, train: bool | None) -> Any:
        """As PyTorch rounds without a compiler, ``x * (mask / (1 - p))``; the mask lies in memory as x does."""
        if not train or p in (0, 1):
            keep = p == 0 or not train
            return (x if keep else x * 0), znp.full(x.shape, keep)
        self._note(node, node.target, None)
        layout = Layout.of(node.all_input_nodes[0].meta["val"])

        def draw(arrays: list[Any], results: list[Any]) -> list[Any]:
            mask = torch.empty([results[0].shape[axis] for axis in layout.order], dtype=torch.bool).bernoulli_(1 - p)
            return [layout.counted(mask).numpy()]

        external = External(f"{node.target}: its mask", draw, False, None, None, _ADVICE)
        types = (ArrayType(bool_, _shape(node.meta["val"][1], self.sizes)),)
        (mask,) = record(get("call_python_in_order"), [], function=external, results=types, mapped=0)
        return x * (znp.astype(mask, c.dtype) * c.dtype.type(1 / (1 - p))), mask

    def _note(self, node: torch.fx.Node, target: Any, refused: ZenithError | None) -> None:
        """List the step; raise when the user wants none but draws, else warn, once for each operator."""
        name, where, reason, drawn = str(target), user_line(), aten.reason_of(target), draws(target)
        why = refused.what if refused is not None else reason[0] if reason else _NO_RULE
        if not drawn and self.fallback == "error":
            fix = 'options={"fallback": "pytorch"} has PyTorch compute it'
            raise UnsupportedError(f"{name}: {why}", where=where, fix=fix) from refused
        self.found.append(Step(name, drawn, why, where))
        if not drawn and name not in warned:
            warned.add(name)
            place = "" if where is None else f", at {where}"
            message = f"{name} is computed by PyTorch, between kernels{place}: {why}"
            warnings.warn(message, FallbackWarning, stacklevel=2)


def draws(target: Any) -> bool:
    """Whether an operator takes its results from PyTorch's generator."""
    if isinstance(target, torch._ops.HigherOrderOperator):
        return target.name() in ("run_and_save_rng_state", "run_with_rng_state")  # of checkpointed parts
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags


def _type(target: Any, example: Any, sizes: Sizes) -> ArrayType:
    if not isinstance(example, torch.Tensor):
        raise UnsupportedError(f"{target} gives a {type(example).__name__}, which is no tensor", where=user_line(),
                               fix="compute with tensors")  # fmt: skip
    return ArrayType(element_type(example, f"a result of {target}"), _shape(example, sizes))


def _shape(example: torch.Tensor, sizes: Sizes) -> tuple[Dim, ...]:
    """A result's sizes as the trace in progress writes them."""
    return tuple(_recorder().canonical(sizes.of(size)) for size in example.shape)


def _recorder() -> Recorder:
    recorder = current_recorder()
    assert recorder is not None, "steps are recorded"
    return recorder


def _kind(leaf: Any, example: Any) -> str:
    """What an argument is while the program runs: nothing new for what is known now."""
    if isinstance(example, torch.Tensor):
        return "tensor"
    is_computed = isinstance(leaf, TracedSize) or (hasattr(leaf, "dtype") and hasattr(leaf, "shape"))
    return "number" if is_computed else ""


@dataclass(frozen=True)
class _Call:
    """An operator of PyTorch on NumPy arrays: tensors get their axes in the order of memory that PyTorch gave them."""

    target: Any
    spec: Any
    kinds: Sequence[str]
    leaves: Sequence[Any]
    layouts: Sequence[Layout]

    def __call__(self, arrays: list[Any], results: list[Any]) -> list[Any]:
        given, layouts = iter(arrays), iter(self.layouts)
        known = zip(self.kinds, self.leaves, strict=True)
        leaves = [self._leaf(kind, next(given), layouts) if kind else leaf for kind, leaf in known]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        with torch.no_grad():
            found = pytree.tree_leaves(self.target(*args, **kwargs))
        found = [t for t in found if t is not None] or [torch.empty(0)]  # a check has no result
        return [torch_adapter().numpy(t.resolve_conj().resolve_neg()) for t in found]

    def _leaf(self, kind: str, array: Any, layouts: Iterator[Layout]) -> Any:
        if kind == "number":
            return array.item()
        layout = next(layouts)
        return layout.counted(layout.in_memory(torch_adapter().from_numpy(array)).contiguous())
