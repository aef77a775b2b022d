"""A causal language model of Hugging Face's from its configuration, tensors by name, and layers that are ready.

What is not among them never has memory: ``transformers`` would make all weights, and draw them at random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from transformers import AutoModelForCausalLM

from zenith.errors import ArgumentError, UnsupportedError, user_line
from zenith.torch.grouped_linear import GroupedLinear

FIX = "use the checkpoint of this model"
_SHOWN = 3  # names in a message
_COMPUTED = ("rotary_emb.inv_freq", "attn.masked_bias", "attention.masked_bias")  # of old checkpoints, by models since


class _Unallocated(TorchFunctionMode):
    """Within this block ``torch.empty``, by which layers make their weights, gives tensors without memory."""

    def __torch_function__(self, func: Callable[..., object], types: object, args: tuple[Any, ...] = (),
                           kwargs: Mapping[str, object] | None = None) -> object:  # fmt: skip
        return func(*args, **{**(kwargs or {}), **({"device": "meta"} if func is torch.empty else {})})


def outline(config: Any) -> Any:
    """The model of a configuration, in evaluation, most of whose weights have no memory yet."""
    with _Unallocated():
        model = AutoModelForCausalLM.from_config(config)
    return model.eval()


def fill(model: Any, tensors: Mapping[str, Tensor], layers: Mapping[str, GroupedLinear], path: Path) -> None:
    """Give an outline its tensors, in one element type, and layers in the places of others. It is for inference then.

    ArgumentError where that is not all that it needs, or more.
    """
    dtype = model.config.dtype or next((t.dtype for t in tensors.values() if t.is_floating_point()), torch.float32)
    for name, layer in layers.items():
        layer.bias = None if layer.bias is None else layer.bias.to(dtype)
        model.set_submodule(name, layer)
    own = {name: t for name, t in _weights(model).items() if name.rpartition(".")[0] not in layers}
    given = {name: t.to(dtype) if t.is_floating_point() else t for name, t in tensors.items() if name in own}
    for name, tensor in given.items():
        if tensor.shape != own[name].shape:
            raise ArgumentError(f"{name} in {path} has the shape {tuple(tensor.shape)}, and the model's configuration "
                                f"{tuple(own[name].shape)}", where=user_line(), fix=FIX)  # fmt: skip
    model.load_state_dict(given, strict=False, assign=True)
    found = {id(t) for name, t in _weights(model).items() if name in given}
    model.tie_weights()
    missing = [name for name, t in _weights(model).items() if name in own and id(t) not in found]
    refuse_others(path, missing, [name for name in tensors if name not in own])
    unknown = [name for name, buffer in model.named_buffers() if buffer.is_meta]
    if unknown:
        raise UnsupportedError(f"{type(model).__name__} computes {unknown[0]} when it is made, in memory that was not "
                               "initialised", where=user_line(), fix="load it in floats, and quantise it: "
                               "zenith.quantize(model)")  # fmt: skip
    model.requires_grad_(False)


def _weights(model: Any) -> dict[str, Tensor]:
    """The parameters and persistent buffers themselves."""
    found: dict[str, Tensor] = model.state_dict(keep_vars=True)
    return found


def refuse_others(path: Path, missing: Iterable[str], surplus: Iterable[str]) -> None:
    """ArgumentError where there are weights that are missing, or too many; buffers that models compute do not count."""
    kinds = {kind: sorted(name for name in names if not name.endswith(_COMPUTED))
             for kind, names in (("missing", missing), ("surplus", surplus))}  # fmt: skip
    parts = [f"{len(names)} {kind} ({', '.join(names[:_SHOWN])}{', ...' * (len(names) > _SHOWN)})"
             for kind, names in kinds.items() if names]  # fmt: skip
    if parts:
        raise ArgumentError(f"the weights in {path} are not those of its configuration: {' and '.join(parts)}",
                            where=user_line(), fix=FIX)  # fmt: skip
