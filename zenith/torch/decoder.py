"""A Hugging Face causal model as a pure step: tokens and a cache of keys and values to logits and the same cache.

A cache's arrays are ``[time, batch, heads, columns]``, so that those of the first so many tokens are one block of a
longer array. A step is given all tokens so far, with the last of them still to be written: how many these are is the
number of its ids. The model makes its own masks, such as of sliding windows, and asks the cache for lengths.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, CacheLayerMixin

from zenith.annotations import signature_of
from zenith.arrays import torch_adapter
from zenith.errors import UnsupportedError, user_line
from zenith.ir.types import DType
from zenith.torch.adapters import Adapted
from zenith.torch.attributes import HOOKS

Pair = tuple[Tensor, Tensor]  # keys and values of a layer
_STORED = (2, 0, 1, 3)  # [batch, heads, time, columns], a model's order, as it is stored
_MODELS = (1, 2, 0, 3)  # and back


@dataclass(frozen=True, slots=True)
class CacheArray:
    """What a cache has for each token of each sequence, in one of its arrays: ``heads`` times ``columns`` elements."""

    heads: int
    columns: int
    dtype: DType


class Decoder(Adapted):
    """A causal model as a step, whose logits are those of the last token alone, or of all."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        _refuse_changing_frequencies(model)
        self.model = model
        self._accepted = _accepted(model)
        self._cache = cache_keyword(model)

    def forward(
        self, ids: Tensor, mask: Tensor, positions: Tensor, caches: Sequence[Pair], every: bool = False
    ) -> tuple[Tensor, list[Pair]]:
        """Logits [batch, tokens], and the cache with the keys and values of ``ids`` [batch, count] at its end.

        With ``every`` they are those after each of ``ids``, [count, batch, tokens].
        ``mask`` [batch, time] is 0 for what pads a prompt on its left; ``positions`` [batch, count] do not count it.
        """
        past = mask.shape[1] - ids.shape[1]
        layers = [_Stored(keys.permute(_MODELS), values.permute(_MODELS), past) for keys, values in caches]
        more = {"position_ids": positions, "logits_to_keep": 0 if every else 1}
        result = self.model(
            input_ids=ids, attention_mask=mask, **{self._cache: Cache(layers=layers)}, use_cache=True,
            **{name: value for name, value in more.items() if self._accepted is None or name in self._accepted},
        )  # fmt: skip
        logits = result.logits.transpose(0, 1) if every else result.logits[:, -1]
        return logits, [(y.keys.permute(_STORED), y.values.permute(_STORED)) for y in layers]

    def cache_arrays(self) -> list[tuple[CacheArray, CacheArray]]:
        """The arrays of keys and values of each layer; UnsupportedError for models that keep anything else."""
        cache = Cache(layer_class_to_replicate=_Seen)
        ids = torch.zeros(2, 3, dtype=torch.long, device=next(self.model.parameters()).device)
        with torch.no_grad():
            try:
                self.model(input_ids=ids, **{self._cache: cache}, use_cache=True)
            except IndexError:  # a model with states of another kind looks for its own layers
                if cache.layers:
                    raise
        if not cache.layers:
            raise UnsupportedError(f"{type(self.model).__name__} writes no keys and values into the cache it is given",
                                   where=user_line(), fix="give a causal language model")  # fmt: skip
        return [(_array_of(layer.keys), _array_of(layer.values)) for layer in cache.layers]


def _accepted(model: torch.nn.Module) -> frozenset[str] | None:
    """The arguments of a model by name; None for a wrapper that hands on what it is given."""
    parameters = signature_of(model.forward).parameters
    hands_on = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    return None if hands_on and not isinstance(model, PreTrainedModel) else frozenset(parameters)


def cache_keyword(model: torch.nn.Module) -> str:
    """What a model, or the one that a wrapper hands it on to, calls its cache; transformers 5.24 has another name."""
    own = next((m for m in model.modules() if isinstance(m, PreTrainedModel)), model)
    return "cache" if "cache" in signature_of(own.forward).parameters else "past_key_values"


def _refuse_changing_frequencies(model: torch.nn.Module) -> None:
    """UnsupportedError for positions whose frequencies depend on the length: a cache has those of its time."""
    for m in model.modules():
        kinds = getattr(m, "rope_type", None)
        found = set(kinds.values() if isinstance(kinds, dict) else [kinds]) & {"dynamic", "longrope"}
        if found:
            raise UnsupportedError(
                f"the model's rotary positions are of the kind {found.pop()}, whose frequencies change with the length",
                where=user_line(), fix="use model.generate, or a configuration with another rope_type, such as yarn",
            )  # fmt: skip


def without_wrapper(model: Any) -> Any:
    """The model that a ``PeftModel`` adapts, if its forward is nothing but that one's; else the model itself.

    UnsupportedError for adapters that are virtual tokens: their keys and values come before those of a prompt.
    """
    peft = sys.modules.get("peft")
    if peft is None or not isinstance(model, peft.PeftModel):
        return model
    configs, tuner = list(model.peft_config.values()), model.base_model
    if any(config.is_prompt_learning for config in configs):
        raise UnsupportedError(f"{configs[0].peft_type.value} puts keys and values in front of those of a prompt",
                               where=user_line(), fix="use model.generate, or an adapter of weights: LoRA")  # fmt: skip
    plain = type(tuner).forward is sys.modules["peft.tuners.tuners_utils"].BaseTuner.forward
    hooked = any(vars(m)[kind] for m in (model, tuner) for kind in HOOKS)
    by_tokens = any(getattr(config, "alora_invocation_tokens", None) for config in configs)
    return tuner.model if plain and not (hooked or by_tokens) else model


def _array_of(half: Tensor) -> CacheArray:
    dtype = torch_adapter().dtype(half)
    assert dtype is not None, "a model's keys are of an element type that weights have"
    return CacheArray(half.shape[1], half.shape[3], dtype)


class _Layer(CacheLayerMixin):
    """What the layers of both kinds of cache say of themselves."""

    is_sliding = False

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do."""

    def get_max_length(self) -> int:
        """No limit."""
        return -1


class _Stored(_Layer):
    """A layer's keys and values [batch, heads, time, columns]: ``past`` are there, the others still to be written."""

    def __init__(self, keys: Tensor, values: Tensor, past: int) -> None:
        super().__init__()
        self.keys, self.values, self.past, self.is_initialized = keys, values, past, True

    def update(self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object) -> Pair:
        """All keys and values, with those of the tokens of this step."""
        self.keys = torch.slice_scatter(self.keys, key_states, 2, self.past)
        self.values = torch.slice_scatter(self.values, value_states, 2, self.past)
        return self.keys, self.values

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """How many keys a mask is for, and the number of the first."""
        return self.keys.shape[2], 0

    def get_seq_length(self) -> int:
        """How many tokens were there before this step."""
        return self.past


class _Seen(_Layer):
    """Keeps the keys and values that it is given, for their shapes."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object) -> Pair:
        """These alone."""
        self.keys, self.values = key_states, value_states
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Those of the step alone."""
        return query_length, 0

    def get_seq_length(self) -> int:
        """Nothing was there."""
        return 0
