"""Tables in bytes, of which rows are gathered: close, named, excludable, tied to products, saved and small."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zenith
from zenith import numpy as znp
from zenith.errors import ArgumentError, UnsupportedError
from zenith.quantization.embeddings import rows_in_bytes
from zenith.quantization.report import QuantizationReport

F = np.float32
RNG = np.random.default_rng(0)
TABLE = (RNG.standard_normal((60, 32)) * np.exp(RNG.uniform(-6, 6, (60, 1))) + 0.1).astype(F)
V = (RNG.standard_normal((32, 16)) / 6).astype(F)
IDS = RNG.integers(0, 60, (4, 7))
SCHEMES: list[Any] = ["static", "dynamic", "weight_only"]


def network(ids: Any) -> Any:
    return znp.take(znp.asarray(TABLE), ids, axis=0) / 8


def tied(ids: Any) -> Any:
    table = znp.asarray(TABLE)
    rows = np.tanh(znp.take(table, ids, axis=0))
    return rows @ znp.transpose(table)


def classify(ids: Any) -> Any:
    rows = np.tanh(znp.take(znp.asarray(TABLE), ids, axis=0))
    return rows @ V


def error(found: Any, wanted: Any) -> float:
    return float(np.linalg.norm(np.asarray(found) - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("symmetric", [False, True])
def test_rows_are_near(symmetric: bool) -> None:
    """Each row by itself, however large it is; a row of zeros is exact."""
    table = np.concatenate([TABLE, np.zeros((1, 32), F), np.full((1, 32), 3, F)])
    rows = rows_in_bytes(table, symmetric)
    assert rows.levels.dtype == np.int8 and (rows.zeros is None) == symmetric
    for numbers, row in zip(rows.numbers, table, strict=True):
        assert np.linalg.norm(numbers - row) <= 0.011 * np.linalg.norm(row)
    assert not rows.numbers[-2].any()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_any_scheme(scheme: Any, tmp_path: Path) -> None:
    """Alone and before a product; in memory there are bytes and no floats, and so there are in a file."""
    small = zenith.quantize(classify, [IDS], scheme=scheme)
    (table,) = small.report.embeddings
    assert (table.rows, table.columns, table.before, table.after) == (60, 32, TABLE.nbytes, 60 * (32 + 4 + 1))
    assert 0 < table.relative < 0.01 and table.mse == pytest.approx(
        table.relative**2 * float((TABLE.astype(float) ** 2).mean())
    )
    assert small.report.before == TABLE.nbytes + V.nbytes
    assert error(small(IDS), classify(IDS)) < 0.02
    assert error(small(IDS[0]), classify(IDS[0])) < 0.02, "of any number of axes"
    text = str(small.show("optimized"))
    assert "f32[60, 32]" not in text and "i8[60, 32]" in text
    small.save(tmp_path / "small.zenith")
    np.testing.assert_array_equal(zenith.load(tmp_path / "small.zenith")(IDS), small(IDS))
    assert "60 rows of 32" in str(small.report) and small.report.json()["embeddings"]


def test_a_function_that_only_gathers() -> None:
    small = zenith.quantize(network, [IDS])
    found = small(IDS)
    assert not small.report.products and error(found, network(IDS)) < 0.01
    np.testing.assert_allclose(found, rows_in_bytes(TABLE, False).numbers[IDS] / 8, rtol=1e-6)


def test_indices_out_of_range_and_from_the_end() -> None:
    """They are those of the table: rows from the end, and the same error beyond it."""
    small, plain = zenith.quantize(network, [IDS]), zenith.jit(network)
    ids = np.array([[-1, -60]])
    assert error(small(ids), plain(ids)) < 0.01
    for function in (plain, small):
        with pytest.raises(zenith.errors.ZenithError, match="out of bounds"):
            function(np.array([[60]]))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tied_to_a_product(scheme: Any) -> None:
    """The matrix is counted once; where the product stays, the table is in memory anyway, and stays, too."""

    def both(ids: Any) -> Any:
        return tied(ids), classify(ids)

    small = zenith.quantize(both, [IDS], scheme=scheme)
    products, (table,) = small.report.products, small.report.embeddings
    assert (table.before, small.report.before) == (0, TABLE.nbytes + V.nbytes)
    assert small.report.after == sum(product.after for product in products) + table.after
    assert error(small(IDS)[0], tied(IDS)) < 0.02 and error(small(IDS)[1], classify(IDS)) < 0.02
    name = next(product.name for product in products if product.columns == 60)
    small = zenith.quantize(both, [IDS], scheme=scheme, exclude=[name])
    assert not small.report.embeddings and len(small.report.products) == 1
    assert [k.why for k in small.report.kept] == ["it is excluded", "a product by it stays as it is, and needs it"]
    assert error(small(IDS)[0], tied(IDS)) < 1e-6


def test_excluded_by_name() -> None:
    (table,) = zenith.quantize(classify, [IDS]).report.embeddings
    small = zenith.quantize(classify, [IDS], exclude=[table.name])
    assert not small.report.embeddings and [k.why for k in small.report.kept] == ["it is excluded"]
    assert len(small.report.products) == 1
    with pytest.raises(ArgumentError, match="the name of no product"):
        zenith.quantize(classify, [IDS], exclude=["nothing"])


def test_what_stays() -> None:
    """Tables with nan, of integers, of other ranks, along other axes; indices that are fixed, tables that are not."""
    bad, ints, cube = TABLE.copy(), np.arange(60), np.ones((60, 2, 3), F)
    bad[3, 4] = np.nan

    def function(ids: Any, other: Any) -> Any:
        found = [znp.take(znp.asarray(t), ids, axis=0).sum() for t in (bad, ints, cube)]
        found += [znp.take(znp.asarray(TABLE), ids % 32, axis=1).sum(), znp.take(other, ids, axis=0).sum()]
        return sum(found) + (znp.take(znp.asarray(TABLE), znp.arange(3), axis=0)[:, 0]) @ V[:3]

    with pytest.raises(UnsupportedError, match="its table has nan or infinities"):
        zenith.quantize(function, [(IDS, TABLE)], exclude=[])


def test_within_a_tolerance() -> None:
    """Where all products can be in bytes beside the table, it is; else it stays before a product does."""
    batches = [RNG.integers(0, 60, (8, 7)) for _ in range(8)]
    reports: dict[str, QuantizationReport] = {}
    accuracy = zenith.quantize(classify, batches, scheme="weight_only", tolerance=1.0).report.accuracy
    assert accuracy is not None
    for name, share in (("loose", 1.01), ("tight", 0.9)):
        bound = accuracy.relative * share
        reports[name] = zenith.quantize(classify, batches, scheme="weight_only", tolerance=bound).report
    assert reports["loose"].embeddings and not reports["tight"].embeddings
    assert [k.why[:22] for k in reports["tight"].kept] == ["the error would exceed"]
    assert reports["tight"].products


def _models(torch: Any) -> dict[str, Any]:
    from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

    sizes = {"vocab_size": 90, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
             "intermediate_size": 48, "max_position_embeddings": 40}  # fmt: skip
    torch.manual_seed(0)
    return {
        "bert": BertModel(BertConfig(**sizes)).eval(),
        "llama": LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=False)).eval(),
        "tied": LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=True)).eval(),
    }


WORDS = {"bert": "embeddings.word_embeddings.weight", "llama": "model.embed_tokens.weight"}


@pytest.mark.parametrize("kind", ["bert", "llama", "tied"])
def test_models_of_hugging_face(kind: str) -> None:
    """Names are those of parameters; the largest table of a tied model is both, under one name."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    model = _models(torch)[kind]
    ids, flags = torch.randint(0, 90, (2, 6)), {} if kind == "bert" else {"use_cache": False}
    with torch.no_grad():
        small = zenith.quantize(model, [{"input_ids": ids, **flags}], scheme="dynamic", smooth=0)
        found, wanted = small(input_ids=ids, **flags), model(input_ids=ids, **flags)
    result = "last_hidden_state" if kind == "bert" else "logits"
    assert error(found[result], wanted[result].numpy()) < 0.03
    names = {name for name, _ in model.named_parameters()}
    embeddings = {e.name: e for e in small.report.embeddings}
    assert embeddings.keys() <= names and WORDS.get(kind, WORDS["llama"]) in embeddings
    assert len(embeddings) == (3 if kind == "bert" else 1)
    if kind == "tied":
        assert embeddings[WORDS["llama"]].before == 0
        assert WORDS["llama"] in {product.name for product in small.report.products}
