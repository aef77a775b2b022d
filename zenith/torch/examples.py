"""Example arguments of an export: every tensor among them an argument of its own.

``torch.export`` finds an argument by the identity of its example. One tensor given twice (``labels=input_ids``), or one
that the module has itself (a buffer, a parameter, an attribute), would be one value in every call. An example's values
do not matter, so each is exported as a tensor with memory of its own, which nothing ever reads or writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from zenith.annotations import signature_of
from zenith.errors import ZenithError
from zenith.torch.calls import TENSORS

_SIZES = (3, 5, 7, 11, 13, 17)  # by axis, so that batch axes of several arguments stay equal


class Examples:
    """The example arguments of one export.

    Attributes
    ----------
    tensors: what represents the inputs among the arguments, in order: tensors, no two of which share memory, and those
        that carry Python numbers.
    """

    def __init__(
        self, args: tuple[object, ...], kwargs: Mapping[str, object], inputs: Mapping[int, torch.Tensor]
    ) -> None:
        """``inputs`` are the tensors that a program takes, by their index among all leaves of the arguments."""
        self._given = args, dict(kwargs)
        self._leaves, self._spec = pytree.tree_flatten(self._given)
        self._inputs = {index: (type(self._leaves[index]), _distinct(tensor)) for index, tensor in inputs.items()}
        self.tensors = [tensor for _, tensor in self._inputs.values()]
        for index, (_, tensor) in self._inputs.items():
            self._leaves[index] = tensor

    def as_arguments(self, module: torch.nn.Module) -> torch.nn.Module:
        """The module, with the same weights, as a function of the tensors alone; the other arguments are fixed.

        torch.export cannot give dynamic shapes to keywords that a module collects in ``**kwargs``.
        """
        twin = object.__new__(type(module))
        twin.__dict__.update(module.__dict__)
        own = module.__dict__.get("forward") or (lambda *a, **k: type(module).forward(twin, *a, **k))  # as it is then

        def forward(*tensors: torch.Tensor) -> object:
            values = list(self._leaves)
            for (index, (kind, _)), tensor in zip(self._inputs.items(), tensors, strict=True):
                values[index] = _as_given(kind, tensor)
            args, kwargs = pytree.tree_unflatten(values, self._spec)
            return own(*args, **kwargs)

        twin.__dict__["forward"] = forward
        return twin

    def dynamic(self, module: torch.nn.Module, dynamic_shapes: Any) -> list[object]:
        """The entry of ``dynamic_shapes`` for each tensor; they are given in the form of the module's arguments."""
        args, kwargs = pytree.tree_unflatten(self._leaves, self._spec)
        arguments = signature_of(module.forward).bind(*args, **kwargs).arguments
        if hasattr(dynamic_shapes, "dynamic_shapes"):  # torch's ShapesCollection, which knows the user's own tensors
            dynamic_shapes = dynamic_shapes.dynamic_shapes(module, *self._given)
        if not isinstance(dynamic_shapes, Mapping):
            dynamic_shapes = dict(zip(arguments, dynamic_shapes, strict=True))
        found: dict[int, object] = {}
        try:
            pytree.tree_map(
                lambda leaf, entry: found.setdefault(id(leaf), entry), dict(arguments), dict(dynamic_shapes)
            )
        except ValueError as error:
            raise ZenithError(
                f"dynamic_shapes has not the form of the arguments: {error}",
                fix=f"give an entry for each of {', '.join(arguments)}, None where sizes are fixed",
            ) from error
        return [found[id(tensor)] for tensor in self.tensors]


def _as_given(kind: type, tensor: torch.Tensor) -> object:
    """What the module's own code is given for an input: the tensor, or the number that it carries."""
    return tensor.shape[0] if kind is int else tensor.item() if kind is float else tensor


def _distinct(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that looks like this one and is none that the module or another argument has.

    Memory that nothing touches costs address space alone.
    """
    if type(tensor) not in TENSORS or tensor.layout is not torch.strided:
        return tensor  # left to torch.export
    with torch.inference_mode(False):
        fresh = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        return fresh.requires_grad_(tensor.requires_grad)


def enlarged(tensor: torch.Tensor, axes: int | None) -> torch.Tensor:
    """The tensor, or one without sizes 0 and 1 on the first ``axes`` axes (on all for None)."""
    last = tensor.ndim if axes is None else axes
    sizes = [_SIZES[a % 6] if n < 2 and a < last else n for a, n in enumerate(tensor.shape)]
    return tensor if sizes == list(tensor.shape) else tensor.new_zeros(sizes)
