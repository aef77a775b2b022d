"""Checkpoint folders whose linear layers are levels packed into words of 32 bits: GPTQ's layout, and AWQ's.

Of a layer [terms, columns] both have ``qweight``, ``qzeros`` (the levels that stand for zero) and ``scales`` [groups,
columns]. A number is ``(level - zero) * scale``.

``gptq``  a word of ``qweight`` has levels of neighbouring terms, one of ``qzeros`` those of neighbouring columns, the
          lowest bits first; ``g_idx`` says the group of each term. The first version of the format stores each zero
          less one, modulo the number of levels.
``awq``   words of both have levels of neighbouring columns, in the order 0, 2, 4, 6, 1, 3, 5, 7.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor
from transformers import AutoConfig, GenerationConfig

from zenith.errors import ArgumentError, UnsupportedError, user_line
from zenith.ir.ops.scaled_product import TOGETHER, WIDTHS
from zenith.ir.types import NDArray
from zenith.torch.assembly import FIX, fill, outline
from zenith.torch.grouped_linear import GroupedLinear, LevelMatrix

WORD = 32  # bits
ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # of AWQ's columns in a word, from the lowest bits on
PARTS = ("qweight", "qzeros", "scales", "g_idx")
Reader = Callable[[str], Tensor]  # of a tensor by its name


@dataclass(frozen=True, slots=True)
class Packing:
    """How the layers of a folder are packed: ``bits`` to a level, ``group`` terms to a scale, None for all of them.

    ``stored_less`` is what zeros are stored less by; ``ordered`` says that terms are in an order of their own.
    """

    method: str
    bits: int
    group: int | None
    stored_less: int
    ordered: bool

    @classmethod
    def of(cls, config: Mapping[str, Any], path: Path) -> Packing:
        """That of a ``quantization_config``; UnsupportedError for one that is not read here."""
        method, bits, group = str(config.get("quant_method")), config.get("bits", 0), config.get("group_size", -1)
        versions = ("checkpoint_format",) if method == "gptq" else ("version", "format", "checkpoint_format")
        version = str(next((config[key] for key in versions if config.get(key)), method)).lower()
        known = version in _FORMATS.get(method, ()) and bits in _BITS[method]
        if not (known and isinstance(group, int) and (group == -1 or group > 0)):
            raise UnsupportedError(
                f"{path} has weights by the method {method!r} in the format {version!r}, with {bits} bits and groups "
                f"of {group}", where=user_line(),
                fix="use a checkpoint by gptq (formats gptq and gptq_v2, 4 or 8 bits) or awq (gemm, 4 bits), or one in "
                'floats, quantised here: zenith.quantize(model, scheme="weight_only", bits=4, granularity="group:64")',
            )  # fmt: skip
        return cls(method, bits, None if group == -1 else group, version == "gptq", bool(config.get("desc_act")))


_FORMATS = {"gptq": ("gptq", "gptq_v2"), "awq": ("gemm", "awq")}
_BITS = {"gptq": WIDTHS, "awq": (4,)}


def from_packed_folder(path: Path, packing: Mapping[str, Any]) -> Any:
    """The model in a folder, whose packed layers stay in levels."""
    how, readers = Packing.of(packing, path), _readers(path)
    config = AutoConfig.from_pretrained(path, local_files_only=True)
    del config.quantization_config
    names = list(dict.fromkeys(n.rpartition(".")[0] for n in readers if n.rpartition(".")[2] in PARTS))
    if "lm_head" in names:
        config.tie_word_embeddings = False  # it has numbers of its own
    model, layers = outline(config), {}
    for name in names:
        layers[name] = _layer(how, name, _linear(model, name, path), readers, path)
    used = {f"{name}.{part}" for name in names for part in (*PARTS[: 4 if how.method == "gptq" else 3], "bias")}
    plain = {name: read(name) for name, read in readers.items() if name not in used}
    fill(model, plain, layers, path)
    if (path / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(path, local_files_only=True)
    return model


def _readers(path: Path) -> dict[str, Reader]:
    """What reads each tensor of a folder, from one file or several."""
    files, index = [path / "model.safetensors"], path / "model.safetensors.index.json"
    if not files[0].is_file() and index.is_file():
        found = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
        files = [path / name for name in dict.fromkeys(found)]
    absent = next((file.name for file in files if not file.is_file()), None)
    if absent:
        raise ArgumentError(f"{path} has no {absent}", where=user_line(),
                            fix="give the folder of a checkpoint in safetensors, with all of its files")  # fmt: skip
    opened = [safe_open(file, "pt") for file in files]
    return {name: file.get_tensor for file in opened for name in file.keys()}  # noqa: SIM118  it is no mapping


def _linear(model: Any, name: str, path: Path) -> torch.nn.Linear:
    """The layer of a model that is packed in a folder."""
    try:
        found = model.get_submodule(name)
    except AttributeError:
        raise ArgumentError(f"{path} has packed weights of {name}, which the model of its configuration does not have",
                            where=user_line(), fix=FIX) from None  # fmt: skip
    if not isinstance(found, torch.nn.Linear):
        raise UnsupportedError(f"{name} in {path} has packed weights and is a {type(found).__name__}, no linear layer",
                               where=user_line(), fix="use a checkpoint in floats")  # fmt: skip
    return found


def _layer(
    how: Packing, name: str, linear: torch.nn.Linear, readers: Mapping[str, Reader], path: Path
) -> GroupedLinear:
    """A packed layer in levels."""
    terms, columns, together = linear.in_features, linear.out_features, WORD // how.bits
    group = how.group or terms
    if terms % group or group % TOGETHER or columns % together:
        raise UnsupportedError(f"{name} in {path} has {terms} terms in groups of {group}, and {columns} columns",
                               where=user_line(), fix=f"use groups of a multiple of {TOGETHER} terms")  # fmt: skip
    groups, packed = terms // group, columns // together
    along = (terms // together, columns) if how.method == "gptq" else (terms, packed)
    shapes = {"qweight": along, "qzeros": (groups, packed), "scales": (groups, columns), "g_idx": (terms,)}
    if how.method == "awq" or not (how.ordered or f"{name}.g_idx" in readers):
        del shapes["g_idx"]
    parts = {part: _part(f"{name}.{part}", shape, readers, path) for part, shape in shapes.items()}
    order = None
    if how.method == "awq":
        levels, zeros = (_columns(parts[part], 4)[:, _places(columns)] for part in ("qweight", "qzeros"))
    else:
        levels, zeros = _rows(parts["qweight"], how.bits), _columns(parts["qzeros"], how.bits)
        zeros = zeros + how.stored_less & (1 << how.bits) - 1
        order = _order(parts.get("g_idx"), f"{name}.g_idx", group, path)
        levels = levels if order is None else levels[order]
    matrix = LevelMatrix.with_zeros(how.bits, levels, parts["scales"], zeros)
    return GroupedLinear(matrix, order, _bias(name, linear, readers, path))


def _part(name: str, shape: tuple[int, ...], readers: Mapping[str, Reader], path: Path) -> NDArray:
    """A tensor of a packed layer, which must have this shape."""
    if name not in readers:
        raise ArgumentError(f"{path} has no {name}, and other parts of that layer", where=user_line(), fix=FIX)
    found = readers[name](name)
    if tuple(found.shape) != shape or found.is_floating_point() != name.endswith("scales"):
        raise ArgumentError(f"{name} in {path} is {found.dtype} of the shape {tuple(found.shape)}, not of {shape}",
                            where=user_line(), fix="look at bits and group_size in config.json")  # fmt: skip
    return (found.to(torch.float32) if found.is_floating_point() else found).numpy()


def _columns(words: NDArray, bits: int) -> NDArray:
    """The numbers u8 [rows, columns] in words of neighbouring columns, the lowest bits first."""
    steps = np.arange(0, WORD, bits, dtype=np.uint32)
    found = words.view(np.uint32)[..., None] >> steps & np.uint32((1 << bits) - 1)
    return found.astype(np.uint8).reshape(len(words), -1)


def _rows(words: NDArray, bits: int) -> NDArray:
    """The numbers u8 [rows, columns] in words of neighbouring rows."""
    return np.ascontiguousarray(_columns(np.ascontiguousarray(words.T), bits).T)


def _places(columns: int) -> NDArray:
    """Where AWQ has each column."""
    first = np.arange(0, columns, len(ORDER))[:, None]
    return (first + np.argsort(ORDER)).ravel()


def _order(groups: NDArray | None, name: str, size: int, path: Path) -> NDArray | None:
    """The terms group by group; None where they are stored so."""
    if groups is None:
        return None
    order = np.argsort(groups, kind="stable")
    if not np.array_equal(groups[order], np.arange(len(groups)) // size):
        raise UnsupportedError(f"{name} in {path} does not have {size} terms for each of {len(groups) // size} groups",
                               where=user_line(), fix="use a checkpoint whose groups are equally large")  # fmt: skip
    return None if np.array_equal(order, np.arange(len(order))) else order


def _bias(name: str, linear: torch.nn.Linear, readers: Mapping[str, Reader], path: Path) -> Tensor | None:
    """The bias of a layer; some checkpoints have zeros for layers without one."""
    stored = f"{name}.bias"
    found = readers[stored](stored) if stored in readers else None
    if linear.bias is None and found is not None and not found.any():
        return None
    if (linear.bias is None) != (found is None) or (found is not None and found.shape != (linear.out_features,)):
        what = "no" if found is None else f"a bias of the shape {tuple(found.shape)}:"
        raise ArgumentError(f"{path} has {what} {stored}, unlike the model of its configuration", where=user_line(),
                            fix=FIX)  # fmt: skip
    return found
