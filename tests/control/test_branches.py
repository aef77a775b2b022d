"""cond and switch: against Python, on every backend; numbers, captures, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zenith
from zenith.errors import DTypeError, ShapeError, TraceError

BACKENDS = ("reference", "lanes", "cpu")
X = np.arange(4, dtype=np.float32)


@pytest.fixture(params=BACKENDS)
def jit(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    return lambda function: zenith.jit(function, backend=request.param)


@pytest.mark.parametrize("chosen", [True, False])
def test_cond_runs_one_function(jit: Any, chosen: bool) -> None:
    function = jit(lambda p, x, y: zenith.cond(p, lambda a, b: (a + b, a), lambda a, b: (a * b, b), x, y))
    total, other = function(np.bool_(chosen), X, X + 1)
    assert np.array_equal(total, 2 * X + 1 if chosen else X * (X + 1)) and np.array_equal(other, X if chosen else X + 1)
    assert zenith.cond(chosen, lambda: 1, lambda: 2) == 2 - chosen


def test_a_predicate_may_be_a_number(jit: Any) -> None:
    function = jit(lambda p: zenith.cond(p, lambda: 1.5, lambda: -1.5))
    assert [float(function(np.int32(i))) for i in (-1, 0, 5)] == [1.5, -1.5, 1.5]


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 3, 2**40])
def test_switch_clamps(jit: Any, index: int) -> None:
    branches = [lambda x: x + 1, lambda x: x * 2, lambda x: x - 3]
    expected = branches[min(max(index, 0), 2)](X)
    function = jit(lambda i, x: zenith.switch(i, branches, x))
    assert np.array_equal(function(index, X), expected)
    assert np.array_equal(function(np.int64(index), X), expected)
    assert np.array_equal(zenith.switch(index, branches, X), expected)
    unsigned = jit(lambda i, x: zenith.switch(i, branches[:1], x))(np.uint32(2**32 - 1), X)
    assert np.array_equal(unsigned, X + 1)


def test_numbers_take_the_other_branches_types(jit: Any) -> None:
    function = jit(lambda i, x: zenith.switch(i, [lambda: (0, 1), lambda: (x.sum(), 2), lambda: (1.5, 3)]))
    for i, (a, b) in enumerate([(0, 1), (6, 2), (1.5, 3)]):
        first, second = function(i, X)
        assert first.dtype == np.float32 and type(second) is int and (first, second) == (a, b)


def test_branches_share_what_they_capture(jit: Any) -> None:
    table = np.arange(12, dtype=np.float32).reshape(3, 4)

    def f(i: Any, x: Any, y: Any) -> Any:
        return zenith.switch(i, [lambda: x @ table.T, lambda: y[:3] * 2, lambda: table[:, 0] + x[0]])

    expected = [X @ table.T, X[:3] * 4, table[:, 0] + X[0]]
    for i in range(3):
        np.testing.assert_allclose(jit(f)(i, X, 2 * X), expected[i])


def test_nothing_runs_in_a_branch_that_is_not_chosen(jit: Any) -> None:
    function = jit(lambda p, i, x: zenith.cond(p, lambda: x[i], lambda: x.sum()))
    assert function(True, 2, X) == 2 and function(False, 99, X) == 6
    with pytest.raises(IndexError):
        function(True, 99, X)


def test_nested_branches(jit: Any) -> None:
    def sign(x: Any) -> Any:
        return zenith.cond(x > 0, lambda: 1, lambda: zenith.cond(x < 0, lambda: -1, lambda: 0))

    assert [int(jit(sign)(v)) for v in (2.0, 0.0, -3.0)] == [1, 0, -1]


def test_results_may_be_arguments_or_one_value_twice(jit: Any) -> None:
    a, b = jit(lambda p, x: zenith.cond(p, lambda v: (v, v), lambda v: (x, v), x))(True, X)
    a += 1
    assert np.array_equal(b, X) and np.array_equal(a, X + 1)


@pytest.mark.parametrize("traced", [True, False])
def test_errors_name_the_line_and_both_types(traced: bool) -> None:
    def said(error: Any, function: Any) -> str:
        with pytest.raises(error) as found:
            zenith.jit(function, backend="reference")(X) if traced else function(X)
        assert "test_branches.py" in str(found.value)
        return str(found.value)

    size = "x0" if traced else "4"
    text = said(DTypeError, lambda x: zenith.cond(x[0] > 0, lambda: x, lambda: x.astype(np.float64)))
    assert f"the result of true_fun is f32[{size}], but the result of false_fun is f64[{size}]" in text
    text = said(ShapeError, lambda x: zenith.switch(0, [lambda: x, lambda: x[0]]))
    assert f"f32[{size}]" in text and "branch 1 is f32" in text
    text = said(TraceError, lambda x: zenith.cond(x[0] > 0, lambda: (x,), lambda: [x]))
    assert "another structure" in text
    assert "must be one bool" in said(DTypeError, lambda x: zenith.cond(x > 0, lambda: x, lambda: x))
    assert "one integer" in said(DTypeError, lambda x: zenith.switch(x[0], [lambda: x]))
    assert "needs a branch" in said(TraceError, lambda x: zenith.switch(0, []))
    assert "a list of functions" in said(TraceError, lambda x: zenith.switch(0, np.sin, x))
    assert "a list of functions" in said(TraceError, lambda x: zenith.switch(0, [np.sin, x], x))
