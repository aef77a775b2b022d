"""A Llama of Hugging Face's as a GGUF file without a vocabulary: ``python -m benchmarks.decoding.gguf_file folder``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import load_file

TYPES = {
    "f32": gguf.GGMLQuantizationType.F32, "bf16": gguf.GGMLQuantizationType.BF16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0,
}  # fmt: skip
NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}  # fmt: skip


def renamed(name: str) -> str:
    """A tensor's name in llama.cpp."""
    stem, _, kind = name.rpartition(".")
    if not stem.startswith("model.layers."):
        return f"{NAMES[stem]}.{kind}"
    _, _, number, rest = stem.split(".", 3)
    return f"blk.{number}.{NAMES[rest]}.{kind}"


def turned(weight: Any, heads: int) -> Any:
    """Rows in the order in which llama.cpp rotates them: pairs of neighbours, not halves."""
    rows = weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
    return rows.swapaxes(1, 2).reshape(weight.shape)


def write(folder: Path, kind: str) -> None:
    """The model as a file of one type; vectors stay float32."""
    config = json.loads((folder / "config.json").read_text())
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    out = gguf.GGUFWriter(folder / f"{kind}.gguf", "llama")
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(config["hidden_size"])
    out.add_block_count(config["num_hidden_layers"])
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_head_count(heads)
    out.add_head_count_kv(groups)
    out.add_layer_norm_rms_eps(config["rms_norm_eps"])
    out.add_rope_freq_base(config.get("rope_theta") or config["rope_parameters"]["rope_theta"])
    out.add_rope_dimension_count(config["hidden_size"] // heads)
    out.add_vocab_size(config["vocab_size"])
    out.add_tokenizer_model("none")
    for path in sorted(folder.glob("*.safetensors")):
        for name, weight in load_file(path).items():
            own = {"q_proj": heads, "k_proj": groups}.get(name.split(".")[-2])
            array = np.ascontiguousarray(turned(weight, own) if own else weight, np.float32)
            type = TYPES[kind] if array.ndim > 1 else TYPES["f32"]
            out.add_tensor(renamed(name), gguf.quants.quantize(array, type), raw_dtype=type)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    for kind in TYPES:
        write(Path(sys.argv[1]), kind)
