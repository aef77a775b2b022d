"""Causal language models from folders of Hugging Face's, a configuration and weights in safetensors, or from files."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from transformers import AutoModelForCausalLM

from zenith.errors import ArgumentError, ZenithError, user_line
from zenith.torch.assembly import refuse_others
from zenith.torch.gguf_models import from_gguf
from zenith.torch.packed_checkpoints import from_packed_folder


def from_path(path: str | PathLike[str]) -> Any:
    """The model in a folder, or in a file in GGUF."""
    return from_gguf(Path(path)) if Path(path).is_file() else from_folder(path)


def from_folder(folder: str | PathLike[str]) -> Any:
    """The model in a folder; ArgumentError where there is none, or its weights are not those of its configuration.

    Nothing is downloaded. Where weights are missing, transformers would draw them at random. Surplus buffers that
    models compute themselves are left out. Weights in levels of few bits (GPTQ, AWQ) stay as they are.
    """
    path = Path(folder)
    if not (path / "config.json").is_file():
        raise ArgumentError(f"{path} has no config.json", where=user_line(),
                            fix="give the folder that model.save_pretrained wrote, or a file in GGUF")  # fmt: skip
    try:
        packing = json.loads((path / "config.json").read_text(encoding="utf-8")).get("quantization_config")
        if packing is not None:
            return from_packed_folder(path, packing)
        model, info = AutoModelForCausalLM.from_pretrained(path, local_files_only=True, output_loading_info=True)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        if isinstance(error, ZenithError):
            raise
        raise ArgumentError(f"{path} has no model that transformers can load: {error}", where=user_line(),
                            fix="give the folder that model.save_pretrained wrote") from error  # fmt: skip
    refuse_others(path, info.get("missing_keys", ()), info.get("unexpected_keys", ()))
    return model.eval()
