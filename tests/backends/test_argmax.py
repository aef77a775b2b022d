"""The position of a maximum: one long row, of whose splits those without the maximum are not walked again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import zenith

SIZE = 3 * 16384 + 5


def _numbers(kind: str) -> np.ndarray:
    x = np.random.default_rng(0).standard_normal(SIZE)
    if kind.startswith("nan"):
        x[[SIZE - 2, 20000][: int(kind[3:])]] = np.nan
    elif kind == "ties":
        x[[40000, 20000, SIZE - 1]] = 9.0
    elif kind == "last":
        x[-1] = 9.0
    elif kind == "infinite":
        x[:] = -np.inf
    elif kind == "zeros":
        x = np.where(np.arange(SIZE) % 2, 0.0, -0.0)
    return x


@pytest.mark.parametrize("kind", ["normal", "nan1", "nan2", "ties", "last", "infinite", "zeros"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32", "int8", "uint64", "bool"])
def test_first_position_in_a_long_row(kind: str, dtype: str) -> None:
    with np.errstate(invalid="ignore"):
        x = (np.abs(_numbers(kind)) if dtype == "uint64" else _numbers(kind)).astype(dtype)

    @zenith.jit
    def positions(x: np.ndarray) -> tuple[np.ndarray, ...]:
        return np.argmax(x), np.argmin(x), np.argmax(x[:100])

    assert positions(x) == (np.argmax(x), np.argmin(x), np.argmax(x[:100]))


@pytest.mark.parametrize("function", [np.nanargmax, np.nanargmin])
def test_positions_among_nans(function: Callable[..., np.ndarray]) -> None:
    x = _numbers("nan2")
    assert zenith.jit(function)(x) == function(x)


def test_a_users_own_search() -> None:
    """No element is equal to nan: then the alternative counts. Elements that another condition finds count, too."""

    @zenith.jit
    def search(x: np.ndarray) -> tuple[np.ndarray, ...]:
        hit = x == np.max(x)
        return tuple(np.min(np.where(h, np.arange(x.shape[0]), x.shape[0])) for h in (hit, hit | (x < 0.0)))

    x = _numbers("last")
    assert search(x) == (SIZE - 1, np.argmax(x < 0))
    x = _numbers("nan1")
    assert search(x) == (SIZE, np.argmax(x < 0))


def test_splits_without_the_maximum_are_left_out() -> None:
    kernels = zenith.jit(np.argmax)
    kernels(_numbers("normal"))
    assert "range(first, stop" in kernels.show("kernels")
