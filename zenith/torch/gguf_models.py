"""Causal language models from files in GGUF: their metadata as a configuration, their tensors under other names.

Rows of the matrices for queries and keys are in another order in files of the architecture ``llama``, where a rotation
turns neighbours; here it turns the two halves of a head. Activations are float32, as are embeddings and what is stored
in floats; matrices in levels stay in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, Qwen2Config

from zenith.errors import ArgumentError, UnsupportedError, user_line
from zenith.ir.types import NDArray
from zenith.torch.assembly import fill, outline
from zenith.torch.gguf_blocks import FLOATS, floats, level_matrix
from zenith.torch.gguf_reader import StoredTensor, Value, read
from zenith.torch.grouped_linear import GroupedLinear

CONFIGURATIONS: Mapping[str, Any] = {"llama": LlamaConfig, "qwen2": Qwen2Config}
OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
FREQUENCIES = "rope_freqs.weight"  # what those of a rotation are divided by
Tensors = Mapping[str, StoredTensor]


def from_gguf(path: Path) -> Any:
    """The model in a file; ArgumentError or UnsupportedError for tensors, types and architectures that it has not."""
    metadata, tensors = read(path)
    about = _About(metadata, path)
    config = about.configuration(tensors)
    names = _names(config.num_hidden_layers, tensors, path)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    plain, layers = {}, {}
    for name, module in names.items():
        base, _, last = name.rpartition(".")
        permuted = heads.get(base.rpartition(".")[2]) if about.architecture == "llama" else None
        order = None if permuted is None else _halves(permuted, tensors[name].shape[0])
        if last == "weight" and _is_matrix(name, tensors[name]):
            bias = f"{base}.bias"
            own = _reordered(bias, tensors, order) if bias in tensors else None
            layers[module] = GroupedLinear(level_matrix(name, tensors[name], order), bias=own)
        elif names.get(f"{base}.weight") not in layers:
            plain[f"{module}.{last}"] = _reordered(name, tensors, order)
    if config.tie_word_embeddings is False and "output.weight" not in tensors:
        layers["lm_head"] = GroupedLinear(level_matrix("token_embd.weight", tensors["token_embd.weight"]))
    model = outline(config)
    _check_layers(model, layers, path)
    fill(model, plain, layers, path)
    about.rotate(model, tensors)
    return model


def _is_matrix(name: str, tensor: StoredTensor) -> bool:
    """Whether a tensor is a linear layer's, in levels."""
    return tensor.type not in FLOATS and name != "token_embd.weight"


def _names(layers: int, tensors: Tensors, path: Path) -> dict[str, str]:
    """The modules of tensors, whose weights come before biases; ArgumentError for tensors without a module."""
    bases = {**OUTSIDE, **{f"blk.{n}.{short}": f"model.layers.{n}.{own}" for n in range(layers)
                           for short, own in LAYER.items()}}  # fmt: skip
    missing = [f"{base}.weight" for base in bases if base != "output" and f"{base}.weight" not in tensors]
    found = {f"{b}.{last}": own for last in ("weight", "bias") for b, own in bases.items() if f"{b}.{last}" in tensors}
    surplus = sorted(tensors.keys() - found.keys() - {FREQUENCIES})
    for names, what in ((missing, "missing"), (surplus, "of no layer that the architecture has")):
        if names:
            raise ArgumentError(f"{len(names)} tensors in {path} are {what}: {', '.join(names[:3])}"
                                f"{', ...' * (len(names) > 3)}", where=user_line(),
                                fix="use a file of a whole language model, in one part")  # fmt: skip
    return found


def _halves(heads: int, rows: int) -> NDArray:
    """Where a file has the rows of heads, those of each in two halves."""
    return np.arange(rows).reshape(heads, -1, 2).swapaxes(1, 2).ravel()


def _reordered(name: str, tensors: Tensors, order: NDArray | None) -> torch.Tensor:
    """A tensor in float32, its rows in an order."""
    found = floats(name, tensors[name])
    return torch.from_numpy(found if order is None else found[order])


def _check_layers(model: Any, layers: Mapping[str, GroupedLinear], path: Path) -> None:
    for name, layer in layers.items():
        own = model.get_submodule(name)
        sizes, wanted = (layer.out_features, layer.in_features), (own.out_features, own.in_features)
        if sizes != wanted or (layer.bias is None) != (own.bias is None):
            raise ArgumentError(f"{name} in {path} has the shape {sizes} {'without' if layer.bias is None else 'with'} "
                                f"a bias, unlike its metadata, by which it is {wanted}", where=user_line(),
                                fix="convert the model again")  # fmt: skip


class _About:
    """What a file's metadata say of its model."""

    def __init__(self, metadata: Mapping[str, Value], path: Path) -> None:
        self.metadata, self.path = metadata, path
        self.architecture = str(metadata.get("general.architecture"))
        if self.architecture not in CONFIGURATIONS:
            raise UnsupportedError(f"{path} has a model of the architecture {self.architecture!r}", where=user_line(),
                                   fix=f"give one of {' or '.join(CONFIGURATIONS)}, or a folder of Hugging "
                                   "Face's")  # fmt: skip

    def number(self, key: str, default: float | None = None) -> Any:
        """A number about the architecture."""
        found = self.metadata.get(f"{self.architecture}.{key}", default)
        if not isinstance(found, int | float):
            what = "a list for" if f"{self.architecture}.{key}" in self.metadata else "no"
            raise UnsupportedError(f"{self.path} has {what} {self.architecture}.{key} in its metadata",
                                   where=user_line(), fix="convert the model again")  # fmt: skip
        return found

    def configuration(self, tensors: Tensors) -> Any:
        """The configuration of the model."""
        width, heads = self.number("embedding_length"), self.number("attention.head_count")
        columns = self.number("attention.key_length", width // heads)
        if self.number("attention.value_length", columns) != columns or (
            self.number("rope.dimension_count", columns) != columns
        ):
            raise UnsupportedError(f"{self.path} has heads whose values or rotations are not {columns} wide, as keys "
                                   "are", where=user_line(), fix="give a folder of Hugging Face's")  # fmt: skip
        table = tensors.get("token_embd.weight")
        tied = "output.weight" not in tensors and table is not None and table.type in FLOATS
        ends = {f"{kind}_token_id": self.metadata.get(f"tokenizer.ggml.{long}_token_id")
                for kind, long in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))}  # fmt: skip
        more = {"attention_bias": "blk.0.attn_q.bias" in tensors, "mlp_bias": "blk.0.ffn_up.bias" in tensors}
        return CONFIGURATIONS[self.architecture](
            hidden_size=width, num_hidden_layers=self.number("block_count"), tie_word_embeddings=tied,
            num_attention_heads=heads, num_key_value_heads=self.number("attention.head_count_kv", heads),
            head_dim=columns,
            intermediate_size=self.number("feed_forward_length"), vocab_size=1 if table is None else table.shape[0],
            rms_norm_eps=self.number("attention.layer_norm_rms_epsilon"), rope_theta=self.number("rope.freq_base", 1e4),
            max_position_embeddings=self.number("context_length"), dtype=torch.float32, **ends,
            **(more if self.architecture == "llama" else {}),
        )  # fmt: skip

    def rotate(self, model: Any, tensors: Tensors) -> None:
        """Divide the frequencies of rotations by what the file says."""
        kind = self.metadata.get(f"{self.architecture}.rope.scaling.type", "none")
        if kind not in ("none", "linear"):
            raise UnsupportedError(f"{self.path} has rotations of the kind {kind!r}", where=user_line(),
                                   fix="give a folder of Hugging Face's")  # fmt: skip
        factors = torch.tensor(float(self.number("rope.scaling.factor", 1.0)) if kind == "linear" else 1.0)
        if FREQUENCIES in tensors:
            factors = factors * torch.from_numpy(floats(FREQUENCIES, tensors[FREQUENCIES]))
        model.model.rotary_emb.inv_freq /= factors
