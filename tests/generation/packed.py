"""Packed linear layers, written from the definitions of the formats: what checkpoints by GPTQ and AWQ have in files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Packed:
    """A layer's tensors in a file, and the matrix [columns, terms], float32, that they stand for."""

    tensors: Arrays
    matrix: np.ndarray


def _words(numbers: np.ndarray, bits: int, order: tuple[int, ...] | None = None) -> np.ndarray:
    """Rows of numbers as int32: each word takes neighbours, of which ``order`` says the one at each place."""
    together = 32 // bits
    found = np.zeros((numbers.shape[0], numbers.shape[1] // together), np.int64)
    for word in range(found.shape[1]):
        for place in range(together):
            column = word * together + (order or range(together))[place]
            found[:, word] |= numbers[:, column].astype(np.int64) << bits * place
    return found.astype(np.uint32).view(np.int32)


def _drawn(rng: np.random.Generator, terms: int, columns: int, bits: int, groups: int, middle: bool) -> Any:
    top = 1 << bits
    levels = rng.integers(0, top, (terms, columns))
    zeros = np.full((groups, columns), top // 2) if middle else rng.integers(0, top, (groups, columns))
    scales = (rng.uniform(0.5, 1.5, (groups, columns)) / top / terms**0.5).astype(np.float16)
    return levels, zeros, scales


def gptq(
    rng: np.random.Generator, terms: int, columns: int, bits: int, group: int, *,
    middle: bool = False, ordered: bool = False, version: int = 1,
) -> Packed:  # fmt: skip
    """A layer by GPTQ: words along terms; the first version of the format stores zeros less one."""
    size = terms if group == -1 else group
    levels, zeros, scales = _drawn(rng, terms, columns, bits, terms // size, middle)
    groups = np.arange(terms) // size
    groups = rng.permutation(groups) if ordered else groups
    matrix = (levels - zeros[groups]) * scales[groups].astype(np.float32)
    stored = zeros - 1 & (1 << bits) - 1 if version == 1 else zeros
    tensors = {"qweight": np.ascontiguousarray(_words(levels.T, bits).T), "qzeros": _words(stored, bits),
               "scales": scales, "g_idx": groups.astype(np.int32)}  # fmt: skip
    return Packed(tensors, matrix.T.astype(np.float32))


def awq(rng: np.random.Generator, terms: int, columns: int, bits: int, group: int) -> Packed:
    """A layer by AWQ: words along columns, in an order of their own."""
    order, size = (0, 2, 4, 6, 1, 3, 5, 7), terms if group == -1 else group
    levels, zeros, scales = _drawn(rng, terms, columns, bits, terms // size, False)
    groups = np.arange(terms) // size
    matrix = (levels - zeros[groups]) * scales[groups].astype(np.float32)
    tensors = {"qweight": _words(levels, bits, order), "qzeros": _words(zeros, bits, order), "scales": scales}
    return Packed(tensors, matrix.T.astype(np.float32))


def write_checkpoint(
    folder: Path, model: Any, config: dict[str, Any], pack: Callable[[int, int], Packed], shards: int = 1
) -> Any:
    """Write a model with packed linear layers (but for its head); the model itself gets the numbers of the levels."""
    tensors: dict[str, torch.Tensor] = {}
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear) and name != "lm_head":
            packed = pack(module.in_features, module.out_features)
            tensors.update({f"{name}.{part}": torch.from_numpy(a) for part, a in packed.tensors.items()})
            module.weight.data = torch.from_numpy(np.ascontiguousarray(packed.matrix)).to(module.weight.dtype)
            del packed
    given = {key.rpartition(".")[0] for key in tensors}
    for name, tensor in model.state_dict().items():
        base, _, last = name.rpartition(".")
        if not (base in given and last == "weight") and not (
            name == "lm_head.weight" and model.config.tie_word_embeddings
        ):
            tensors[name] = tensor.clone()
    folder.mkdir(exist_ok=True)
    model.config.save_pretrained(folder)
    edit_config(folder, quantization_config=config)
    write_tensors(folder, tensors, shards)
    return tensors


def edit_config(folder: Path, **entries: Any) -> None:
    """Change entries of a folder's ``config.json``."""
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **entries}))


def write_tensors(folder: Path, tensors: dict[str, torch.Tensor], shards: int = 1) -> None:
    """Write tensors into a folder, as one file or several with an index."""
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
        return
    names = {name: f"model-{i % shards + 1:05}-of-{shards:05}.safetensors" for i, name in enumerate(sorted(tensors))}
    for file in set(names.values()):
        save_file({name: tensors[name] for name in names if names[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
