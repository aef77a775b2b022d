"""Folders of GPTQ and AWQ: the levels and scales of the files, in products of few bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import zenith
from tests.generation.models import model_of
from tests.generation.packed import Packed, awq, edit_config, gptq, write_checkpoint, write_tensors
from tests.generation.test_quantized import IDS, SIZES, expected, logits, relative
from zenith.errors import ArgumentError, UnsupportedError, ZenithError
from zenith.torch.checkpoints import from_folder
from zenith.torch.grouped_linear import GroupedLinear, numbers

Tensors = dict[str, torch.Tensor]
KINDS: dict[str, tuple[dict[str, Any], Callable[..., Packed]]] = {
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False}, gptq),
    "gptq, zero in the middle": (
        {"quant_method": "gptq", "bits": 4, "group_size": 64, "checkpoint_format": "gptq"},
        partial(gptq, middle=True),
    ),
    "gptq, ordered": (
        {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True},
        partial(gptq, ordered=True),
    ),
    "gptq, version 2": (
        {"quant_method": "gptq", "bits": 4, "group_size": 64, "checkpoint_format": "gptq_v2"},
        partial(gptq, version=2),
    ),
    "gptq, 8 bits": ({"quant_method": "gptq", "bits": 8, "group_size": -1}, gptq),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True}, awq),
    "awq, all terms": ({"quant_method": "awq", "bits": 4, "group_size": -1, "version": "GEMM"}, awq),
}


def written(folder: Path, kind: str, model: Any = None, shards: int = 1) -> tuple[Any, Tensors]:
    """A folder of this kind; the model with the numbers of its levels, and the tensors in its files."""
    config, pack = KINDS[kind]
    model, rng = model or model_of(**SIZES), np.random.default_rng(1)
    bits, group = config["bits"], config["group_size"]
    own = lambda terms, columns: pack(rng, terms, columns, bits, group)  # noqa: E731
    return model, write_checkpoint(folder, model, config, own, shards)


@pytest.mark.parametrize("kind", KINDS)
def test_levels_are_those_of_the_file(tmp_path: Path, kind: str) -> None:
    """Numbers are equal to the last bit; logits, as PyTorch computes them, but for the order of sums."""
    model, _ = written(tmp_path / "folder", kind)
    found = from_folder(tmp_path / "folder")
    layers = {name: layer for name, layer in found.named_modules() if isinstance(layer, GroupedLinear)}
    assert len(layers) == 14
    for name, layer in layers.items():
        matrix, own = numbers(layer.levels, layer.scales, layer.shifts, layer.bits).T, model.get_submodule(name).weight
        assert torch.equal(matrix, own if layer.order is None else own[:, layer.order])
    with torch.no_grad():
        assert relative(found(torch.from_numpy(IDS)).logits[0, -4:].numpy(), expected(model)) < 1e-5


@pytest.mark.parametrize(
    "kind", [k if k in ("gptq, ordered", "awq") else pytest.param(k, marks=pytest.mark.thorough) for k in KINDS]
)
def test_logits_are_those_of_the_levels(tmp_path: Path, kind: str) -> None:
    """But for the rounding of activations."""
    model, _ = written(tmp_path / "folder", kind)
    generator = zenith.Generator(tmp_path / "folder")
    assert relative(logits(generator, IDS), expected(model)) < 0.02
    assert "scaled_matmul" in str(generator.step.show("optimized"))


def test_levels_are_released(tmp_path: Path) -> None:
    written(tmp_path / "folder", "gptq, 8 bits", shards=2)
    generator = zenith.Generator(tmp_path / "folder", release_weights=True)
    found = generator.generate([5, 6, 7], 6, stop=())
    assert generator._model.model.layers[0].mlp.up_proj.levels.is_meta
    assert generator.generate([5, 6, 7], 6, stop=()) == found


def test_a_folder_is_enough(tmp_path: Path) -> None:
    model, _ = written(tmp_path / "folder", "gptq, zero in the middle", model_of(**{**SIZES, "num_hidden_layers": 1}))
    found = zenith.Generator(str(tmp_path / "folder")).generate([5, 6, 7], 1, stop=())
    with torch.no_grad():
        assert found == [5, 6, 7, int(model(torch.tensor([[5, 6, 7]])).logits[0, -1].argmax())]


def test_zeros_in_the_middle_need_no_second_number(tmp_path: Path) -> None:
    written(tmp_path / "folder", "gptq, zero in the middle")
    assert from_folder(tmp_path / "folder").model.layers[0].mlp.up_proj.shifts is None


def test_biases_16_bits_and_tied_embeddings(tmp_path: Path) -> None:
    """What is no matrix of levels stays as it is, in the element type of the configuration."""
    own = model_of("qwen2", **SIZES, tie_word_embeddings=True).to(torch.bfloat16)
    for name, parameter in own.named_parameters():
        if name.endswith("bias"):
            parameter.data = torch.randn(parameter.shape, dtype=torch.bfloat16)
    own.config.dtype = torch.bfloat16
    model, _ = written(tmp_path / "folder", "awq", own)
    found = from_folder(tmp_path / "folder")
    assert found.lm_head.weight is found.model.embed_tokens.weight and found.lm_head.weight.dtype == torch.bfloat16
    assert torch.equal(found.model.layers[1].self_attn.q_proj.bias, own.model.layers[1].self_attn.q_proj.bias)
    with torch.no_grad():
        exact = model.to(torch.float32)(torch.from_numpy(IDS)).logits[0, -1].numpy()
    step, count = zenith.Generator(found)._step(), IDS.shape[1]
    assert relative(step.logits(step.cache(count, 1), IDS, np.ones((1, count), np.int64))[0], exact) < 0.05


def test_zeros_for_a_bias_that_there_is_not(tmp_path: Path) -> None:
    _, tensors = written(tmp_path / "folder", "gptq")
    name = "model.layers.0.mlp.up_proj.bias"
    write_tensors(tmp_path / "folder", {**tensors, name: torch.zeros(192)})
    assert from_folder(tmp_path / "folder").model.layers[0].mlp.up_proj.bias is None
    write_tensors(tmp_path / "folder", {**tensors, name: torch.ones(192)})
    with pytest.raises(ArgumentError, match=rf"a bias of the shape \(192,\): {name}"):
        from_folder(tmp_path / "folder")


def test_the_rest_can_be_quantised(tmp_path: Path) -> None:
    """Products of levels stay as they are, their shifts, too."""
    model, _ = written(tmp_path / "folder", "gptq")
    small = zenith.quantize(from_folder(tmp_path / "folder"), scheme="weight_only")
    assert [p.name for p in small.report.products] == ["lm_head.weight"]
    assert relative(logits(zenith.Generator(small), IDS), expected(model)) < 0.03


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({"quant_method": "fp8"}, "by the method 'fp8'"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "by the method 'bitsandbytes'"),
        ({"quant_method": "gptq", "bits": 3, "group_size": 32}, "with 3 bits and groups of 32"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "marlin"}, "the format 'marlin'"),
        ({"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemv"}, "the format 'gemv'"),
        ({"quant_method": "awq", "bits": 8, "group_size": 32}, "with 8 bits"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "groups of 0"),
    ],
)  # fmt: skip
def test_other_methods_are_refused(tmp_path: Path, config: dict[str, Any], what: str) -> None:
    written(tmp_path / "folder", "gptq")
    edit_config(tmp_path / "folder", quantization_config=config)
    with pytest.raises(UnsupportedError, match=what) as refused:
        zenith.Generator(tmp_path / "folder")
    assert "use a checkpoint by gptq" in str(refused.value)


def _without(*names: str) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {name: tensor for name, tensor in tensors.items() if name not in names}


UP = "model.layers.1.mlp.up_proj"


@pytest.mark.parametrize(
    ("kind", "change", "what"),
    [
        ("gptq", _without(f"{UP}.scales"), rf"no {UP}.scales"),
        ("gptq, ordered", _without(f"{UP}.g_idx"), rf"no {UP}.g_idx"),
        ("awq", _without(f"{UP}.qweight"), rf"no {UP}.qweight"),
        ("gptq", _without("model.norm.weight"), r"1 missing \(model.norm.weight\)"),
        ("gptq", _without(*(f"{UP}.{p}" for p in ("qweight", "qzeros", "scales", "g_idx"))),
         rf"1 missing \({UP}.weight\)"),
        ("gptq", lambda t: {**t, f"{UP}.weight": torch.ones(192, 128)}, rf"1 surplus \({UP}.weight\)"),
        ("awq", lambda t: {**t, "model.more.weight": torch.ones(2)}, r"1 surplus \(model.more.weight\)"),
        ("gptq", lambda t: {**t, "model.more.qweight": torch.ones(2, 2)}, "weights of model.more, which"),
        ("gptq", lambda t: {**t, f"{UP}.qweight": t[f"{UP}.qweight"][:-1]}, rf"{UP}.qweight in .* \(15, 192\), not"),
        ("gptq", lambda t: {**t, f"{UP}.qzeros": t[f"{UP}.qzeros"].float()}, rf"{UP}.qzeros in .* is torch.float32"),
        ("awq", lambda t: {**t, f"{UP}.scales": t[f"{UP}.scales"][:2]}, rf"{UP}.scales in .* \(2, 192\), not"),
        ("gptq", lambda t: {**t, "model.norm.weight": torch.ones(3)}, r"model.norm.weight in .* the shape \(3,\)"),
        ("gptq, ordered", lambda t: {**t, f"{UP}.g_idx": torch.zeros(128, dtype=torch.int32)},
         rf"{UP}.g_idx in .* does not have 32 terms for each of 4 groups"),
        ("gptq", lambda t: {**t, "model.embed_tokens.qweight": torch.ones(2)}, "is a Embedding, no linear layer"),
    ],
)  # fmt: skip
def test_other_tensors_are_errors(
    tmp_path: Path, kind: str, change: Callable[[Tensors], Tensors], what: str
) -> None:  # fmt: skip
    _, tensors = written(tmp_path / "folder", kind)
    write_tensors(tmp_path / "folder", change(tensors))
    with pytest.raises(ZenithError, match=what):
        from_folder(tmp_path / "folder")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    written(tmp_path / "folder", "awq", shards=2)
    (tmp_path / "folder" / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ArgumentError, match=r"has no model-00002-of-00002\.safetensors"):
        from_folder(tmp_path / "folder")
