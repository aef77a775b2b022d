"""Common losses and their gradients agree with NumPy, and their kernels with the error bounds of the traced program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zenith
from tests.bounds import reference_bounds
from tests.rewrite import specialize
from tests.sampling import leave
from tests.transforms.losses import LOSSES
from tests.ways import disagreements, report
from zenith.ir.interpret import bind_sizes

SHAPES = ((5, 7), (3, 4), (2, 33), (6, 1))
PLAIN = ("entropy", "focal", "policy", "mixture", "ranking", "attended")  # whose kernels `make test` runs
COMPILED = ("entropy",)  # and those that it compiles


def some(names: tuple[str, ...]) -> pytest.MarkDecorator:
    """These losses in `make test`, the others in `make fuzz`."""
    cases = leave(lambda loss: loss.__name__ not in names, LOSSES)
    return pytest.mark.parametrize("loss", cases, ids=lambda loss: loss.__name__)


losses = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)


def _arguments(rows: int, columns: int) -> list[Any]:
    rng = np.random.default_rng(rows)
    z, y = (rng.standard_normal((rows, columns)).astype(np.float32) * 2 for _ in range(2))
    return [z, y, rng.integers(0, columns, rows)]


def _agrees(loss: Callable[..., Any], backend: str, shape: tuple[int, int]) -> None:
    """The traced loss with its gradients, with sizes that are symbols and with fixed ones."""
    args = _arguments(*shape)
    with_gradients = zenith.jit(zenith.value_and_grad(loss, argnums=(0, 1)))
    graph = with_gradients.lower(*args).graph
    with np.errstate(all="ignore"):
        bounds = reference_bounds(graph, args)
    for program in (graph, specialize(graph, bind_sizes(graph, args, {}))):
        assert not disagreements(backend, program, args, bounds), report(backend, program, args)


@losses
def test_values_are_numpys(loss: Callable[..., Any]) -> None:
    z, y, labels = _arguments(5, 7)
    wide = [z.astype(np.float64), y.astype(np.float64), labels]
    traced = zenith.jit(loss, backend="reference")
    np.testing.assert_allclose(traced(*wide), loss(*wide), rtol=1e-6)
    np.testing.assert_allclose(traced(z, y, labels), loss(*wide), rtol=1e-5, atol=1e-6)


@some(PLAIN)
def test_kernels_as_plain_python(loss: Callable[..., Any]) -> None:
    _agrees(loss, "scalar", SHAPES[0])


@pytest.mark.thorough
@pytest.mark.parametrize("shape", SHAPES[1:], ids=str)
@losses
def test_kernels_of_other_sizes(loss: Callable[..., Any], shape: tuple[int, int]) -> None:
    _agrees(loss, "scalar", shape)


@some(COMPILED)
def test_compiled_kernels(loss: Callable[..., Any]) -> None:
    _agrees(loss, "cpu", SHAPES[0])
