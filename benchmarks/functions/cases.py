"""NumPy's functions as they are raced: each a function of arrays of so many elements in all, or of as many in each.

Elementwise functions come from NumPy's own list. Others are listed here by what is a call of theirs in use: a reduction
of a vector and along both axes of a matrix, a factorisation of a matrix of a few hundred rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import zenith.numpy as znp

Array = Any
REAL, WITH_COMPLEX = ("float32", "float64"), ("float32", "float64", "complex128")
CUBIC = 300  # rows of matrices that are factored or multiplied, at most
LEFT_OUT = {"divmod", "frexp", "modf", "spacing", "nextafter", "ldexp", "float_power", "heaviside", "gcd", "lcm"}


@dataclass(frozen=True)
class Case:
    """A function of arrays that ``make(numbers, count, dtype)`` gives for a size and an element type."""

    name: str
    function: Callable[..., Any]
    make: Callable[[np.random.Generator, int, str], tuple[Array, ...]]
    dtypes: tuple[str, ...] = REAL
    largest: int = 1_000_000


def vector(rng: np.random.Generator, count: int, dtype: str) -> Array:
    """Numbers in (-1, 1); complex ones of magnitude 1, whose products stay in range."""
    x = rng.uniform(-1, 1, count)
    return (np.exp(3j * x) if dtype.startswith("complex") else x).astype(dtype)


def one(rng: np.random.Generator, count: int, dtype: str) -> tuple[Array, ...]:
    """A vector."""
    return (vector(rng, count, dtype),)


def two(rng: np.random.Generator, count: int, dtype: str) -> tuple[Array, ...]:
    """Two vectors."""
    return vector(rng, count, dtype), vector(rng, count, dtype)


def square(rng: np.random.Generator, count: int, dtype: str) -> tuple[Array, ...]:
    """A square matrix."""
    side = round(count**0.5)
    return (vector(rng, side * side, dtype).reshape(side, side),)


def factored(rng: np.random.Generator, count: int, dtype: str) -> tuple[Array, ...]:
    """A matrix that is positive definite, of some hundred rows at most."""
    side = min(round(count**0.5), CUBIC)
    x = vector(rng, side * side, dtype).reshape(side, side)
    return (x @ x.conj().T + np.eye(side, dtype=dtype) * side,)


def with_vector(rng: np.random.Generator, count: int, dtype: str) -> tuple[Array, ...]:
    """A square matrix, and a vector with an element for each column."""
    (matrix,) = square(rng, count, dtype)
    return matrix, vector(rng, len(matrix), dtype)


def with_short(rng: np.random.Generator, count: int, dtype: str) -> tuple[Array, ...]:
    """A vector, and a fiftieth of one."""
    return vector(rng, count, dtype), vector(rng, count // 50, dtype)


def indexed(rng: np.random.Generator, count: int, dtype: str) -> tuple[Array, ...]:
    """A vector, and indices into it."""
    return vector(rng, count, dtype), rng.integers(0, count, count)


def sorted_and_not(rng: np.random.Generator, count: int, dtype: str) -> tuple[Array, ...]:
    """A sorted vector, and another."""
    return np.sort(vector(rng, count, dtype)), vector(rng, count, dtype)


def nodes(rng: np.random.Generator, count: int, dtype: str) -> tuple[Array, ...]:
    """A vector, 100 sorted positions, and a value for each."""
    return vector(rng, count, dtype), np.sort(vector(rng, 100, dtype)), vector(rng, 100, dtype)


def elementwise() -> Iterator[Case]:
    """A case for each of NumPy's elementwise functions that take real numbers."""
    for name in sorted(set(dir(np)) & set(dir(znp)) - LEFT_OUT):
        ufunc = getattr(np, name)
        if isinstance(ufunc, np.ufunc) and ufunc.__name__ == name and _takes_real_numbers(ufunc):
            yield Case(name, ufunc, two if ufunc.nin == 2 else one)


def _takes_real_numbers(ufunc: np.ufunc) -> bool:
    return (
        ufunc.signature is None and ufunc.nout == 1 and any(types.startswith("d" * ufunc.nin) for types in ufunc.types)
    )


def _along(name: str, axis: int) -> Case:
    """A function along an axis of a matrix."""
    function = getattr(np, name)
    return Case(f"{name}, axis {axis}", lambda x: function(x, axis=axis), square)


def _case(
    name: str, function: Callable[..., Any], make: Any = one, dtypes: tuple[str, ...] = REAL, **more: Any
) -> Case:
    return Case(name, function, make, dtypes, **more)


def _eigh(a: Array) -> Array:
    """Both results, in a form that does not depend on the vectors' signs."""
    values, vectors = np.linalg.eigh(a)
    return values + np.abs(vectors).sum(axis=0)


OTHERS = (
    *(_case(n, getattr(np, n), one, WITH_COMPLEX) for n in ("sum", "prod", "mean", "cumsum", "cumprod", "std")),
    *(_case(n, getattr(np, n)) for n in ("max", "min", "argmax", "argmin", "ptp", "median", "nansum", "nanmean")),
    *(_case(n, getattr(np, n)) for n in ("sort", "unique", "diff", "gradient", "count_nonzero")),
    *(_along(n, axis) for axis in (0, 1)
      for n in ("sum", "mean", "std", "max", "argmax", "cumsum", "sort", "median", "diff")),
    _case("argsort", lambda x: np.argsort(x, kind="stable")),
    _case("norm", np.linalg.norm), _case("dot", np.dot, two), _case("vdot", np.vdot, two, WITH_COMPLEX),
    _case("matmul, vector", np.matmul, with_vector, WITH_COMPLEX),
    _case("vector, matmul", lambda a, x: x @ a, with_vector),
    _case("matmul", lambda a: a @ a, factored, WITH_COMPLEX),
    _case("outer", np.outer, lambda r, n, t: two(r, round(n**0.5), t)),
    _case("einsum", lambda a: np.einsum("ij,kj->ik", a, a), factored),
    *(_case(n, getattr(np.linalg, n), factored) for n in ("inv", "det", "cholesky", "eigvalsh", "slogdet")),
    _case("eigh", _eigh, factored),
    _case("svdvals", lambda a: np.linalg.svd(a, compute_uv=False), factored),
    _case("solve", np.linalg.solve, lambda r, n, t: (*factored(r, n, t), vector(r, min(round(n**0.5), CUBIC), t))),
    _case("partition", lambda x: np.partition(x, len(x) // 2)[len(x) // 2]),
    _case("percentile", lambda x: np.percentile(x, (5, 50, 95))), _case("histogram", lambda x: np.histogram(x, 50)[0]),
    _case("searchsorted", np.searchsorted, sorted_and_not), _case("interp", np.interp, nodes),
    _case("digitize", lambda x, p, v: np.digitize(x, p), nodes),
    _case("convolve", np.convolve, with_short, largest=10_000),
    _case("correlate", np.correlate, with_short, largest=10_000),
    _case("roll", lambda x: np.roll(x, 5)), _case("roll, axis 1", lambda x: np.roll(x, 1, axis=1), square),
    _case("concatenate", lambda x: np.concatenate([x, x])), _case("stack", lambda x: np.stack([x, x])),
    _case("stack, last axis", lambda x: np.stack([x, x], axis=-1)), _case("repeat", lambda x: np.repeat(x, 3)),
    _case("tile", lambda x: np.tile(x, 3)), _case("pad", lambda x: np.pad(x, 2)),
    _case("pad, edges of rows", lambda x: np.pad(x, 1, mode="edge"), square),
    _case("transposed sum", lambda x: x.T + x, square), _case("tril", np.tril, square),
    _case("trace", np.trace, square),
    _case("where", lambda x: np.where(x > 0, x, -x)), _case("clip", lambda x: np.clip(x, -0.5, 0.5)),
    _case("take", lambda x, i: x[i], indexed), _case("mask", lambda x: x[x > 0]),
    _case("nonzero", lambda x: np.nonzero(x > 0)[0]),
    _case("round to digits", lambda x: np.round(x, 2)),
    _case("cross", lambda x: np.cross(x.reshape(-1, 3), x.reshape(-1, 3)[::-1]), lambda r, n, t: one(r, n // 3 * 3, t)),
    _case("cov", np.cov, factored), _case("corrcoef", np.corrcoef, factored),
    _case("fft", np.fft.fft, one, WITH_COMPLEX), _case("rfft", np.fft.rfft),
    _case("fft, axis 1", np.fft.fft, square, WITH_COMPLEX),
    *(_case(f"complex {n}", getattr(np, n), one, ("complex128",)) for n in ("absolute", "exp", "sqrt", "log", "sin")),
    *(_case(f"complex {n}", getattr(np, n), two, ("complex128",)) for n in ("multiply", "divide")),
    _case("polyval", lambda x: np.polyval([1.0, 2.0, 3.0, 4.0], x)), _case("trapezoid", np.trapezoid),
)  # fmt: skip


def cases() -> list[Case]:
    """Every case."""
    return [*elementwise(), *OTHERS]
