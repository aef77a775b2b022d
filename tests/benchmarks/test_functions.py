"""The race of NumPy's functions: its cases run, wrong results are not timed, and the table has who is behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zenith
from benchmarks.functions.__main__ import measured, ratio, same
from benchmarks.functions.cases import Case, cases, one
from benchmarks.functions.table import sentence, table

BY_NAME = {case.name: case for case in cases()}


def test_each_name_is_one_case() -> None:
    assert len(BY_NAME) == len(cases()) > 150


@pytest.mark.parametrize("name", ["add", "sort, axis 1", "convolve", "svdvals", "cross"])
def test_a_case_is_measured(name: str) -> None:
    case = BY_NAME[name]
    small = Case(case.name, case.function, case.make, case.dtypes, largest=100)
    for sizes in measured(small).values():
        assert sizes["100"]["numpy_s"] > 0 and sizes["100"]["low"] <= sizes["100"]["high"]


@pytest.mark.thorough
@pytest.mark.parametrize("name", BY_NAME)
def test_every_case_gives_what_numpy_does(name: str) -> None:
    case = BY_NAME[name]
    compiled = zenith.jit(case.function)
    for dtype in case.dtypes:
        args = case.make(np.random.default_rng(0), 100, dtype)
        with np.errstate(all="ignore"):
            assert same(compiled(*args), case.function(*args), 2e-4 if dtype == "float32" else 1e-9)


def test_other_results_are_not_timed() -> None:
    wrong: Any = lambda x: x + 1  # noqa: E731
    with pytest.raises(ValueError, match="exp of 100 float32 is not NumPy's"):
        ratio(Case("exp", np.exp, one), wrong, 100, "float32")


def test_the_table_has_who_is_behind() -> None:
    races = {"100": {"median": 0.5}, "10000": {"median": 0.5}, "1000000": {"median": 2.0}}
    document = {
        "functions": {"sort": {"float64": races}}, "machine": {"cpu": "a CPU", "cores": 2}, "date": "2026-11-28T00",
    }  # fmt: skip
    assert "NumPy is ahead in 1 of 2 races" in sentence(document) and "1.00 times as fast" in sentence(document)
    assert table(document).splitlines()[2:] == ["| sort | 10000 | float64 | 0.50x |"]
    assert "make bench-numpy" in sentence(None)
