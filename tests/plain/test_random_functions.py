"""Random Python functions: compiled ones give what Python gives, change what it changes, or are refused.

ZENITH_FUZZ_PROGRAMS says how many under the mark ``fuzz``, and ZENITH_FUZZ_FIRST the number of the first.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zenith
from tests import fuzz
from tests.plain.random_functions import random_function

BLOCK = 10
PROGRAMS = 300
SAMPLE = 20
FUZZ = fuzz.programs(60)
FIRST = int(os.environ.get("ZENITH_FUZZ_FIRST", 1000))
SIZES = (4, 7)  # small, since a loop that is unrolled takes as long to compile as it has turns
DEEP = 2  # loops in each other that are left to the interpreter
MOST_REFUSED = 0.6  # share of the functions
RAISED = (RuntimeError, ArithmeticError, LookupError, AssertionError)  # by the functions themselves
EXACT = 2.0**40  # numbers that the functions add exactly: small multiples of powers of two


def function_of(seed: int, folder: Path) -> Callable[..., Any]:
    """The function, from a file, where its source is found."""
    path = folder / f"function_{seed}.py"
    path.write_text(random_function(seed), encoding="utf-8")
    scope: dict[str, Any] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), scope)
    return scope["f"]


def arguments(seed: int, n: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    u, v = rng.integers(-8, 9, (2, n)) * 0.25
    return u.copy(), v.copy(), float(rng.integers(-4, 5) * 0.5), int(rng.integers(0, 6)), n


def called(function: Callable[..., Any], args: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What a function returns, and what it raises of its own: the kind and the arguments of an exception."""
    try:
        return function(*args), ()
    except RAISED as error:
        if type(error) not in RAISED:
            raise
        return (), (type(error), error.args)


def nesting(text: str) -> int:
    """The most loops that are in each other."""
    around, most = [], 0
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        around = [outer for outer in around if outer < indent]
        if line.lstrip().startswith(("for ", "while ")):
            around.append(indent)
            most = max(most, len(around))
    return most


def run(seed: int, folder: Path) -> str:
    """How it ended: ``same``, ``refused``, ``no result`` where Python raises, or ``outgrown``."""
    function = function_of(seed, folder)
    backend = "cpu" if seed % 2 or nesting(random_function(seed)) > DEEP else "reference"
    compiled = zenith.jit(function, convert=True, backend=backend)
    for n in (SIZES[0], *[SIZES[1]] * 7):  # the last calls are answered by the inline cache
        own, plain = arguments(seed, n), arguments(seed, n)
        try:
            expected, raised = called(function, plain)
        except (UnboundLocalError, ValueError, OverflowError, IndexError):
            return "no result"
        if any(np.any(np.abs(x) > EXACT) for x in (*expected, *plain[:2])):
            return "outgrown"  # sums of such numbers are rounded, in whatever order
        try:
            found, told = called(compiled, own)
        except zenith.ZenithError as error:
            assert "of the trace of" not in error.what, "a value of conversion's own traces shows"
            for a, b in zip(own[:2], arguments(seed, n)[:2], strict=True):
                np.testing.assert_array_equal(a, b, "refused, and the arguments have changed")
            return "refused"
        assert told == raised
        for a, b in zip((*found, *own[:2]), (*expected, *plain[:2]), strict=True):
            np.testing.assert_allclose(a, b, 1e-12, 1e-12, err_msg=f"seed {seed}, n = {n}")
    return "same"


def check(first: int, folder: Path) -> Counter[str]:
    ends: Counter[str] = Counter()
    for seed in range(first, first + BLOCK):
        try:
            with np.errstate(all="ignore"):
                ends[run(seed, folder)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}:\n{random_function(seed)}") from error
    return ends


@pytest.mark.parametrize("first", range(0, PROGRAMS, BLOCK))
def test_compiled_functions_do_what_python_does(first, tmp_path):
    check(first, tmp_path)


def test_many_functions_are_compiled(tmp_path):
    """Clearly refused is no wrong result, but shows nothing."""
    refused = sum(is_refused(seed, tmp_path) for seed in range(SAMPLE))
    assert refused <= MOST_REFUSED * SAMPLE


def is_refused(seed: int, folder: Path) -> bool:
    try:
        zenith.jit(function_of(seed, folder), convert=True, backend="reference").lower(*arguments(seed, SIZES[0]))
    except zenith.ZenithError:
        return True
    except (*RAISED, UnboundLocalError, ValueError, OverflowError, IndexError):
        pass  # its own
    return False


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(FIRST, FIRST + FUZZ, BLOCK))
def test_more_compiled_functions_do_what_python_does(first, tmp_path):
    check(first, tmp_path)


def test_a_seed_is_one_function():
    assert random_function(7) == random_function(7) != random_function(8)
