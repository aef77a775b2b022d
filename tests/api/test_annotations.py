"""Annotations name what they like: what Python 3.14 evaluates late, or never, hinders no function."""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import zenith
from zenith.annotations import annotate_like, signature_of

ANNOTATED = """
    def clipped(x: Missing, most: Missing["float"] = 2.0) -> Missing[3]:
        x = x * 1
        for i in range(len(x)):
            if x[i] > most:
                x[i] = most
        return x

    def outer(x):
        return clipped(x).sum()
"""
X = np.arange(4.0)


@pytest.fixture
def annotated(tmp_path: Any) -> ModuleType:
    """A module whose annotations cannot be evaluated; before Python 3.14, they are strings."""
    late = sys.version_info >= (3, 14)
    path = tmp_path / "annotated.py"
    path.write_text(("" if late else "from __future__ import annotations\n") + textwrap.dedent(ANNOTATED))
    module = ModuleType("annotated")
    exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), vars(module))
    return module


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (lambda f: zenith.jit(f)(X), [0, 1, 2, 2]),
        (lambda f: zenith.jit(f, static_argnames="most")(X, most=1.0), [0, 1, 1, 1]),
        (lambda f: zenith.jit(zenith.vmap(f))(np.stack([X, 2 * X])), [[0, 1, 2, 2], [0, 2, 2, 2]]),
        (lambda f: zenith.jit(zenith.grad(lambda x: zenith.checkpoint(f)(x, most=1.5).sum()))(X), [1, 1, 0, 0]),
    ],
)
def test_annotations_are_not_evaluated(
    annotated: ModuleType, transform: Callable[[Any], Any], expected: list[Any]
) -> None:
    np.testing.assert_array_equal(transform(annotated.clipped), expected)


def test_those_of_a_callee_are_not_evaluated(annotated: ModuleType) -> None:
    assert zenith.jit(annotated.outer)(X) == 5


def test_a_call_that_does_not_fit_is_said(annotated: ModuleType) -> None:
    with pytest.raises(TypeError, match="most"):
        zenith.jit(annotated.clipped)(X, 1.0, most=2.0)


def test_signatures_and_copies(annotated: ModuleType) -> None:
    assert [p.default for p in signature_of(annotated.clipped).parameters.values()] == [inspect.Parameter.empty, 2.0]

    def made(x):
        return x

    annotate_like(made, annotated.clipped)
    assert str(signature_of(made)) == "(x: 'Missing') -> 'Missing[3]'"


def test_annotations_that_were_set_are_copied() -> None:
    def original(x):
        return x

    def made(x):
        return x

    original.__annotations__ = {"x": "float"}
    annotate_like(made, original)
    assert made.__annotations__ == {"x": "float"}
