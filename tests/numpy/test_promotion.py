"""Promotion with 16-bit floats: float16 as NumPy has it, bfloat16 as float16, the two together as float32."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import zenith.numpy as znp
from tests.numpy.comparison import run_traced
from zenith.ir import types
from zenith.numpy.promotion import loop, promote

BRAIN, HALF, SINGLE, DOUBLE = (np.dtype(t) for t in (ml_dtypes.bfloat16, "float16", "float32", "float64"))
OTHERS = [t.numpy for t in types.DTYPES if not t.is_narrow]


@pytest.mark.parametrize("other", [*OTHERS, int, float], ids=str)
def test_float16_is_promoted_as_numpy_promotes_it(other):
    expected = (np.ones(2, HALF) + (other(2) if isinstance(other, type) else np.ones(2, other))).dtype
    assert promote((HALF, other)) == promote((other, HALF)) == expected
    assert loop(np.add, (HALF, other))[0] == expected


@pytest.mark.parametrize("other", [*OTHERS, int, float], ids=str)
def test_bfloat16_is_promoted_as_float16_is(other):
    like = promote((HALF, other))
    assert promote((BRAIN, other)) == promote((other, BRAIN)) == (BRAIN if like == HALF else like)


@pytest.mark.parametrize("other", [np.dtype(bool), SINGLE, DOUBLE], ids=str)
def test_bfloat16_is_promoted_as_ml_dtypes_promotes_it_where_it_does(other):
    assert promote((BRAIN, other)) == np.result_type(BRAIN, other)


def test_neither_16_bit_float_holds_the_other():
    assert promote((BRAIN, HALF)) == promote((HALF, BRAIN)) == promote((HALF, BRAIN, float)) == SINGLE
    assert promote((HALF, BRAIN, DOUBLE)) == DOUBLE
    assert loop(np.multiply, (HALF, BRAIN)) == (SINGLE, SINGLE)


@pytest.mark.parametrize(("dtype", "number"), list(itertools.product([HALF, BRAIN], [2, 0.1])))
def test_python_numbers_are_weak(dtype, number):
    x = np.array([1.5, -3.0], dtype)
    (traced,) = run_traced(lambda x: x * number, x)
    at_once = znp.multiply(x, number)
    assert traced.dtype == at_once.dtype == dtype
    expected = (x.astype(SINGLE) * dtype.type(number).astype(SINGLE)).astype(dtype)
    np.testing.assert_array_equal(traced, expected)
    np.testing.assert_array_equal(at_once, expected)


def test_functions_of_bool_and_float16():
    (traced,) = run_traced(np.exp, np.array([False, True]))
    assert traced.dtype == HALF and traced.tolist() == np.exp(np.array([False, True])).tolist()
    assert run_traced(np.sin, np.ones(2, BRAIN))[0].dtype == BRAIN
    assert run_traced(np.isnan, np.ones(2, BRAIN))[0].dtype == bool
    assert run_traced(lambda x: x > 0.1, np.ones(2, BRAIN))[0].all()


def test_questions_about_types():
    assert znp.result_type(BRAIN, 1.0) == BRAIN and znp.promote_types("float16", BRAIN) == SINGLE
    assert znp.issubdtype(BRAIN, znp.floating) and znp.issubdtype(BRAIN, BRAIN)
    assert not znp.issubdtype(BRAIN, HALF) and not znp.issubdtype(BRAIN, znp.integer)
    assert znp.isdtype(BRAIN, "real floating") and znp.isdtype(BRAIN, BRAIN) and not znp.isdtype(BRAIN, HALF)
    assert float(znp.finfo(BRAIN).eps) == 2.0**-7 and float(znp.finfo(HALF).max) == 65504.0
    largest = znp.nan_to_num(np.array([np.inf, np.nan], BRAIN))
    assert largest.dtype == BRAIN and largest[0] == ml_dtypes.finfo(BRAIN).max and largest[1] == 0


@pytest.mark.parametrize("kind", [np.floating, np.integer, np.number, np.float16, float, "i4"], ids=str)
def test_kinds_of_types(kind):
    for dtype in ("f2", np.dtype("i4"), np.floating, float, np.int8):
        assert znp.issubdtype(dtype, kind) == np.issubdtype(dtype, kind)


def test_types_under_all_their_names():
    for name in ("half", "single", "double", "csingle", "cdouble", "int_", "intp", "uint", "byte", "ushort", "generic"):
        assert getattr(znp, name) is getattr(np, name)
    assert znp.linalg.LinAlgError is np.linalg.LinAlgError and znp.errstate is np.errstate
