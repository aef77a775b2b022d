"""Types print as they are written in texts, and know their NumPy counterparts; parameters print and parse by kind."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np
import pytest

from zenith.ir import params
from zenith.ir.dims import dim, symbol
from zenith.ir.types import (
    BY_NAME,
    DTYPES,
    TOKEN,
    ArrayType,
    DType,
    TokenType,
    bfloat16,
    bool_,
    dtype_of,
    float32,
    int64,
    kind_of,
    uint32,
)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_element_type_has_a_numpy_type(dtype: DType) -> None:
    assert dtype_of(dtype.numpy) is dtype and dtype_of(dtype) is dtype and BY_NAME[str(dtype)] is dtype
    assert dtype.itemsize == dtype.numpy.itemsize
    assert dtype.is_float == (dtype.kind == "f") and dtype.is_integer == (dtype.kind in "iu")


def test_what_zenith_does_not_have() -> None:
    assert dtype_of(np.clongdouble) is None and dtype_of("float128") is None and dtype_of("float32") is float32


def test_kinds_of_numpy_types() -> None:
    assert [kind_of(t) for t in (np.float16, bfloat16.numpy, "float32", np.bool_, np.int64, np.uint32)] == [*"fffbiu"]
    assert kind_of(np.complex64) == "c" and kind_of("M8[s]") == ""
    assert [t.name for t in DTYPES if t.is_narrow] == ["f16", "bf16"]


def test_array_types() -> None:
    type = ArrayType(float32, (symbol("n"), 3))
    assert str(type) == "f32[n, 3]" and str(ArrayType(bool_, ())) == "bool" and str(TOKEN) == "token"
    assert type == ArrayType(float32, [symbol("n"), dim(3)]) and hash(type) == hash(
        ArrayType(float32, (symbol("n"), 3))
    )
    assert type != ArrayType(float32, (symbol("m"), 3)) and type != type.with_dtype(int64)
    assert type.rank == 2 and type.size == 3 * symbol("n") and type.with_shape(()).size == 1
    assert TokenType() == TOKEN


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("sizes", (dim(2), symbol("n") + 1), "(2, n + 1)"), ("sizes", (symbol("n"),), "(n,)"), ("sizes", (), "()"),
        ("size", symbol("n") // 2, "(n//2)"), ("ints", (0, -2), "(0, -2)"), ("ints", (1,), "(1,)"), ("int", -3, "-3"),
        ("number", 0.1, "0.1"), ("number", -0.0, "-0.0"), ("number", True, "True"), ("number", 3, "3"),
        ("number", math.inf, "inf"), ("number", -math.inf, "-inf"), ("number", 1e-300, "1e-300"),
        ("number", complex(-0.0, math.inf), "complex(-0.0, inf)"), ("bool", False, "False"),
        ("text", "it's {}\n", repr("it's {}\n")), ("dtype", uint32, "u32"),
    ],
)  # fmt: skip
def test_parameters_print_and_parse(kind: str, value: Any, text: str) -> None:
    assert params.KINDS[kind].text(value) == text
    parsed = params.KINDS[kind].parse(ast.parse(text, mode="eval").body)
    assert parsed == value and str(parsed) == str(value) and type(parsed) is type(value)


def test_nan_prints_and_parses() -> None:
    assert params.KINDS["number"].text(math.nan) == "nan"
    assert math.isnan(params.KINDS["number"].parse(ast.parse("nan", mode="eval").body))


def test_parameters_normalise_evaluate_and_substitute() -> None:
    kinds = {"shape": "sizes", "axes": "ints"}
    normal = params.normalize(kinds, {"axes": (0,), "shape": (2, symbol("n"))})
    assert list(normal) == ["shape", "axes"] and normal["shape"] == (dim(2), symbol("n"))
    assert params.evaluate(kinds, normal, {"n": 5}) == {"shape": (2, 5), "axes": (0,)}
    assert params.substitute(kinds, normal, {"n": symbol("m") + 1})["shape"] == (dim(2), symbol("m") + 1)
    assert params.text(kinds, normal) == "shape=(2, n), axes=(0,)"
    with pytest.raises(TypeError, match=r"parameters are \['axes', 'shape'\], not \['axes'\]"):
        params.normalize(kinds, {"axes": ()})
    for kind, text in (("sizes", "3"), ("dtype", "f31"), ("size", "'a'")):
        with pytest.raises(ValueError, match="not a"):
            params.KINDS[kind].parse(ast.parse(text, mode="eval").body)
