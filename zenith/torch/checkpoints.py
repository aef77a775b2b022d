"""Causal language models from folders of Hugging Face's: a configuration, and weights in safetensors."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import AutoModelForCausalLM

from zenith.errors import ArgumentError, user_line

_SHOWN = 3  # names in a message
_COMPUTED = ("rotary_emb.inv_freq", "attn.masked_bias", "attention.masked_bias")  # of old checkpoints, by models since


def from_folder(folder: str | PathLike[str]) -> Any:
    """The model in a folder; ArgumentError where there is none, or its weights are not those of its configuration.

    Nothing is downloaded. Where weights are missing, transformers would draw them at random. Surplus buffers that
    models compute themselves are left out.
    """
    path = Path(folder)
    if not (path / "config.json").is_file():
        raise ArgumentError(f"{path} has no config.json", where=user_line(),
                            fix="give the folder that model.save_pretrained wrote")  # fmt: skip
    try:
        model, info = AutoModelForCausalLM.from_pretrained(path, local_files_only=True, output_loading_info=True)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ArgumentError(f"{path} has no model that transformers can load: {error}", where=user_line(),
                            fix="give the folder that model.save_pretrained wrote") from error  # fmt: skip
    kinds = {"missing": "missing_keys", "surplus": "unexpected_keys"}
    named = {kind: sorted(n for n in info.get(key, ()) if not n.endswith(_COMPUTED)) for kind, key in kinds.items()}
    wrong = {kind: names for kind, names in named.items() if names}
    if wrong:
        parts = (f"{len(names)} {kind} ({', '.join(names[:_SHOWN])}{', ...' * (len(names) > _SHOWN)})"
                 for kind, names in wrong.items())  # fmt: skip
        raise ArgumentError(f"the weights in {path} are not those of its configuration: {' and '.join(parts)}",
                            where=user_line(), fix="use the checkpoint of this model")  # fmt: skip
    return model.eval()
