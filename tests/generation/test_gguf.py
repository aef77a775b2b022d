"""Files in GGUF: the numbers of every type of block, and models whose matrices stay in levels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import zenith
from tests.generation.gguf_files import BLOCKS, drawn, plain, write
from tests.generation.models import model_of
from tests.generation.test_quantized import logits, relative
from zenith.errors import ZenithError
from zenith.torch.checkpoints import from_path
from zenith.torch.gguf_blocks import floats, level_matrix
from zenith.torch.gguf_reader import StoredTensor
from zenith.torch.grouped_linear import GroupedLinear

IDS = np.random.default_rng(0).integers(0, 64, (1, 20))
SIZES = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 64}  # fmt: skip
Stored = dict[str, tuple[str, tuple[int, ...], bytes]]


@pytest.mark.parametrize("kind", BLOCKS)
def test_numbers_of_blocks(kind: str) -> None:
    """To the last bit where nothing shifts them; else to one rounding of the shift."""
    stored, numbers = drawn(kind, 3, 512, np.random.default_rng(3))
    tensor = StoredTensor(kind, (3, 512), np.frombuffer(stored, np.uint8))
    matrix = level_matrix("w", tensor)
    assert matrix.levels.shape == (512, 3) and len(matrix.scales) == 512 // (16 if kind == "Q6_K" else 32)
    if matrix.shifts is None:
        np.testing.assert_array_equal(matrix.numbers().T, numbers)
    np.testing.assert_allclose(floats("w", tensor), numbers, rtol=0, atol=3e-7 * np.abs(numbers).max())


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
def test_numbers_of_floats(kind: str) -> None:
    stored, numbers = plain(kind, np.random.default_rng(0).standard_normal((3, 5)))
    tensor = StoredTensor(kind, (3, 5), np.frombuffer(stored + b"more", np.uint8))
    np.testing.assert_array_equal(floats("w", tensor), numbers)


NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "mlp.up_proj": "ffn_up",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}  # fmt: skip
OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def short(name: str) -> str:
    """The name that a file has for a module."""
    if name in OUTSIDE:
        return OUTSIDE[name]
    number, _, own = name.removeprefix("model.layers.").partition(".")
    return f"blk.{number}.{NAMES[own]}"


def interleaved(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows of heads in two halves, as neighbours that a rotation turns: what a converter makes of them."""
    halves = rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def halved(rows: np.ndarray, heads: int) -> np.ndarray:
    pairs = rows.reshape(heads, rows.shape[0] // heads // 2, 2, *rows.shape[1:])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def written(
    path: Path, architecture: str = "llama", kinds: dict[str, str] | None = None,
    change: Callable[[Stored], Any] | None = None, more: dict[str, Any] | None = None, **sizes: Any,
) -> Any:  # fmt: skip
    """Write a model, whose matrices are of these types by the ends of their names; and give it their numbers."""
    model, rng, tensors = model_of(architecture, **{**SIZES, **sizes}), np.random.default_rng(5), dict[str, Any]()
    tied = model.config.tie_word_embeddings
    heads = {"attn_q": model.config.num_attention_heads, "attn_k": model.config.num_key_value_heads}
    for name, parameter in model.named_parameters():
        module, _, last = name.rpartition(".")
        own = short(module)
        turned = heads.get(own.rpartition(".")[2]) if architecture == "llama" else None
        kind = (kinds or {}).get(own.rpartition(".")[2], (kinds or {}).get("", "F32")) if parameter.ndim == 2 else "F32"
        numbers = parameter.detach().numpy() if parameter.ndim == 2 else rng.uniform(0.5, 1.5, parameter.shape)
        stored, numbers = (
            drawn(kind, *parameter.shape, rng) if kind in BLOCKS
            else plain(kind, interleaved(numbers, turned) if turned else numbers)
        )  # fmt: skip
        tensors[f"{own}.{last}"] = kind, numbers.shape, stored
        parameter.data = torch.from_numpy(np.ascontiguousarray(halved(numbers, turned) if turned else numbers))
    if tied:
        assert model.lm_head.weight is model.model.embed_tokens.weight
    about = {
        "context_length": 128, "block_count": 1, "embedding_length": 256, "feed_forward_length": 512,
        "attention.head_count": 4, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 10000.0,
    }  # fmt: skip
    tokenizer = {"tokens": ["a", "bc", ""], "scores": [1, -2], "eos_token_id": 7}
    metadata = {"general.architecture": architecture, **{f"{architecture}.{k}": v for k, v in about.items()},
                **{f"tokenizer.ggml.{k}": v for k, v in tokenizer.items()}, **(more or {})}  # fmt: skip
    model.config.rms_norm_eps = 1e-6
    if change:
        change(tensors)
    write(path, metadata, tensors)
    return model


def exact(model: Any) -> np.ndarray:
    with torch.no_grad():
        found: np.ndarray = model(torch.from_numpy(IDS)).logits[0, -4:].numpy()
    return found


MIXED = {"attn_q": "Q4_K", "attn_k": "Q5_K", "attn_v": "Q6_K", "attn_output": "Q4_0", "ffn_gate": "Q4_1",
         "ffn_up": "Q5_0", "ffn_down": "Q8_0", "output": "Q6_K", "token_embd": "Q4_K"}  # fmt: skip
CASES: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "all types": ("llama", MIXED, {}),
    "floats": ("llama", {"": "F16", "token_embd": "BF16"}, {}),
    "qwen2": ("qwen2", {"": "Q8_0"}, {}),
    "tied in levels": ("llama", {"": "Q4_0", "token_embd": "Q6_K"}, {"tie_word_embeddings": True}),
    "tied in floats": ("qwen2", {"": "Q4_0", "token_embd": "F16"}, {"tie_word_embeddings": True}),
    "biases": ("llama", {"": "Q8_0"}, {"attention_bias": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_model_is_that_of_its_numbers(tmp_path: Path, case: str) -> None:
    """As PyTorch computes both: rows of heads, biases, ties, the names of tensors."""
    architecture, kinds, sizes = CASES[case]
    model = written(tmp_path / "model.gguf", architecture, kinds, **sizes)
    found = from_path(tmp_path / "model.gguf")
    assert relative(exact(found), exact(model)) < 1e-5
    assert found.generation_config.eos_token_id == 7 and not found.training
    assert isinstance(found.model.layers[0].mlp.up_proj, GroupedLinear) is (case != "floats")


def test_a_file_generates(tmp_path: Path) -> None:
    model = written(tmp_path / "model.gguf", "llama", MIXED)
    generator = zenith.Generator(tmp_path / "model.gguf")
    assert relative(logits(generator, IDS), exact(model)) < 0.03
    assert str(generator.step.show("optimized")).count("scaled_matmul") >= 8


def test_frequencies_of_rotations(tmp_path: Path) -> None:
    factors = np.linspace(1, 8, 32)
    add = lambda t: t.update({"rope_freqs.weight": ("F32", (32,), plain("F32", factors)[0])})  # noqa: E731
    linear = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 2.0}
    model = written(tmp_path / "model.gguf", kinds={"": "Q8_0"}, change=add, more=linear)
    model.model.rotary_emb.inv_freq /= torch.from_numpy(2 * factors).float()
    assert relative(exact(from_path(tmp_path / "model.gguf")), exact(model)) < 1e-5


@pytest.mark.parametrize(
    ("change", "more", "what"),
    [
        (lambda t: t.pop("blk.0.ffn_up.weight"), {}, r"1 tensors in .* are missing: blk\.0\.ffn_up\.weight"),
        (lambda t: t.pop("token_embd.weight"), {}, r"missing: token_embd\.weight"),
        (lambda t: t.update({"blk.0.ffn_gate_inp.weight": t["output_norm.weight"]}), {},
         r"of no layer that the architecture has: blk\.0\.ffn_gate_inp\.weight"),
        (lambda t: t.update({"blk.0.ffn_up.weight": ("Q2_K", (512, 256), b"")}), {},
         r"blk\.0\.ffn_up\.weight is of the type Q2_K[\s\S]*F32, F16, BF16, Q8_0"),
        (lambda t: t.update({"blk.0.ffn_up.weight": ("Q8_0", (256, 512), t["blk.0.ffn_up.weight"][2])}), {},
         r"up_proj in .* has the shape \(256, 512\) without a bias, unlike"),
        (lambda t: t.update({"output_norm.weight": ("F32", (128,), bytes(512))}), {},
         r"model\.norm\.weight in .* has the shape \(128,\)"),
        (lambda t: t.update({"blk.0.ffn_up.weight": ("Q8_0", (512, 250), b"")}), {}, "no whole blocks of 32"),
        (None, {"general.architecture": "gemma"}, "of the architecture 'gemma'"),
        (None, {"llama.attention.head_count_kv": [2, 2]}, r"a list for llama\.attention\.head_count_kv"),
        (None, {"llama.rope.scaling.type": "yarn"}, "rotations of the kind 'yarn'"),
        (None, {"llama.rope.dimension_count": 32}, "not 64 wide"),
    ],
)  # fmt: skip
def test_other_files_are_errors(tmp_path: Path, change: Any, more: dict[str, Any], what: str) -> None:
    written(tmp_path / "model.gguf", kinds={"": "Q8_0"}, change=change, more=more)
    with pytest.raises(ZenithError, match=what):
        from_path(tmp_path / "model.gguf")


def test_damaged_files(tmp_path: Path) -> None:
    written(tmp_path / "model.gguf", kinds={"": "Q8_0"})
    whole = (tmp_path / "model.gguf").read_bytes()
    for contents, what in (
        (b"", "no file in GGUF"), (b"PK\x03\x04" + whole[4:], "no file in GGUF"), (whole[:5], "ends too early"),
        (whole[:300], "ends too early"), (whole[: len(whole) // 2], "the file ends in the middle of"),
        (whole[:4] + b"\x01" + whole[5:], "in version 1 of GGUF"),
    ):  # fmt: skip
        (tmp_path / "model.gguf").write_bytes(contents)
        with pytest.raises(ZenithError, match=what):
            from_path(tmp_path / "model.gguf")


def test_numbers_are_those_of_the_format_s_own_package() -> None:
    gguf: Any = pytest.importorskip("gguf")
    for kind in BLOCKS:
        stored, numbers = drawn(kind, 2, 512, np.random.default_rng(4))
        rows = np.frombuffer(stored, np.uint8).reshape(2, -1)
        found = gguf.dequantize(rows, gguf.GGMLQuantizationType[kind])
        np.testing.assert_allclose(found, numbers, rtol=0, atol=3e-7 * np.abs(numbers).max())
