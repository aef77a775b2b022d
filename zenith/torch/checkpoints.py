"""Causal language models from folders of Hugging Face's: a configuration, and weights in safetensors."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import AutoModelForCausalLM

from zenith.errors import ArgumentError, user_line

_SHOWN = 3  # names in a message


def from_folder(folder: str | PathLike[str]) -> Any:
    """The model in a folder; ArgumentError where there is none, or its weights are not those of its configuration.

    Nothing is downloaded. Where weights are missing, transformers would draw them at random.
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
    wrong = {kind: sorted(info[key]) for kind, key in kinds.items() if info.get(key)}
    if wrong:
        parts = (f"{len(names)} {kind} ({', '.join(names[:_SHOWN])}{', ...' * (len(names) > _SHOWN)})"
                 for kind, names in wrong.items())  # fmt: skip
        raise ArgumentError(f"the weights in {path} are not those of its configuration: {' and '.join(parts)}",
                            where=user_line(), fix="use the checkpoint of this model")  # fmt: skip
    return model.eval()
