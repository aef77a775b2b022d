"""Real numbers that are formulas of uniform, normal and gamma numbers: the distributions of Laplace, Student and
Dirichlet, the beta distribution, and normal vectors.

Shares of gamma numbers are computed from their logarithms, since gamma numbers of a small parameter underflow to 0.
"""

from __future__ import annotations

import numpy as np

from zenith.errors import ShapeError, user_line
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.broadcasting import broadcast_dims
from zenith.numpy.factors import cholesky
from zenith.numpy.operands import convert, dims_of, require, shape_text
from zenith.numpy.typing import Array, ArrayLike, DTypeLike, Shape
from zenith.random.keys import checked_shape, subkey, word_of, words_of
from zenith.random.real import computed_in, fitted, float_dtype, normal_of, shape_or, symmetric_unit
from zenith.random.rejection import gamma_logarithms
from zenith.trace.bind import b


def laplace(key: Array, shape: Shape = (), dtype: DTypeLike = np.float32) -> Array:
    """Numbers of the Laplace distribution with mean 0 and scale 1, whose density is ``exp(-abs(x)) / 2``.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    shape: a size or a tuple of sizes, which may be traced.
    dtype: float16, bfloat16, float32 or float64; those of 16 bits are float32's, rounded.

    Returns
    -------
    Array of ``shape``, by the formula of ``jax.random``.

    >>> from zenith.random import key
    >>> laplace(key(0), (3,)).round(3)
    array([-2.257, -3.15 ,  0.409], dtype=float32)
    """
    target = float_dtype("laplace", dtype)
    words = words_of(word_of("laplace", key), checked_shape("laplace", shape))
    u = symmetric_unit(words, computed_in(target))
    return convert(ew.multiply(ew.sign(u), ew.log1p(ew.negative(ew.absolute(u)))), target)


def t(key: Array, df: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = np.float32) -> Array:
    """Numbers of Student's t distribution: a normal number over the root of a chi-squared one's mean.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    df: degrees of freedom, a positive number or an array of them; nan where it is not positive.
    shape: a size or a tuple of sizes, which may be traced; by default that of ``df``.
    dtype: float16, bfloat16, float32 or float64; those of 16 bits are float32's, rounded.

    Returns
    -------
    Array of ``shape``. Its derivative with respect to ``df`` is that of :func:`gamma`'s numbers.
    """
    target = float_dtype("t", dtype)
    wide = computed_in(target)
    degrees = convert(df, wide)
    sizes = shape_or("t", shape, (degrees,))
    word, half = word_of("t", key), ew.multiply(fitted("t", degrees, wide, sizes), 0.5)
    spread_of = ew.subtract(gamma_logarithms(subkey(word, 1), half, sizes), ew.log(half))
    normal = normal_of(words_of(subkey(word, 0), sizes), wide)
    return convert(ew.multiply(normal, ew.exp(ew.multiply(spread_of, -0.5))), target)


def beta(key: Array, a: ArrayLike, b: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = np.float32) -> Array:
    """Numbers of the beta distribution, with density in proportion to ``x**(a - 1) (1 - x)**(b - 1)``.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    a, b: positive numbers or arrays of them; nan where one is not positive.
    shape: a size or a tuple of sizes, which may be traced; by default that of the broadcast parameters.
    dtype: float16, bfloat16, float32 or float64; those of 16 bits are float32's, rounded.

    Returns
    -------
    Array of ``shape``: the share of a gamma number of ``a`` in its sum with one of ``b``. Derivatives are those of
    :func:`gamma`'s numbers.
    """
    target = float_dtype("beta", dtype)
    wide = computed_in(target)
    parameters = [convert(parameter, wide) for parameter in (a, b)]
    sizes, word = shape_or("beta", shape, tuple(parameters)), word_of("beta", key)
    first, second = (
        gamma_logarithms(subkey(word, i), fitted("beta", parameter, wide, sizes), sizes)
        for i, parameter in enumerate(parameters)
    )
    return convert(ew.exp(ew.subtract(first, ew.logaddexp(first, second))), target)


def dirichlet(key: Array, alpha: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = np.float32) -> Array:
    """Points of the Dirichlet distribution: shares of gamma numbers, whose sum is 1.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    alpha: positive numbers, those of a point along the last axis; nan where one is not positive.
    shape: how many points, as a size or a tuple of sizes, which may be traced; by default those of ``alpha``.
    dtype: float16, bfloat16, float32 or float64; those of 16 bits are float32's, rounded.

    Returns
    -------
    Array of ``(*shape, alpha.shape[-1])``. Derivatives are those of :func:`gamma`'s numbers.
    """
    target = float_dtype("dirichlet", dtype)
    wide = computed_in(target)
    parameters = _with_last_axis("dirichlet: alpha", convert(alpha, wide), 1)
    *points, count = dims_of(parameters)
    sizes = (*(points if shape is None else checked_shape("dirichlet", shape)), count)
    parameters = fitted("dirichlet", parameters, wide, sizes)
    logarithms = gamma_logarithms(word_of("dirichlet", key), parameters, sizes)
    largest = b.stop_gradient(reductions.max(logarithms, -1, keepdims=True, initial=float("-inf")))
    shares = ew.exp(ew.subtract(logarithms, largest))
    return convert(ew.divide(shares, reductions.sum(shares, -1, keepdims=True)), target)


def multivariate_normal(
    key: Array, mean: ArrayLike, cov: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = np.float32
) -> Array:
    """Vectors of a normal distribution: ``mean + L @ z`` for normal numbers z and the Cholesky factor L of ``cov``.

    Parameters
    ----------
    key: uint32 array of shape (2,).
    mean: vectors (..., n).
    cov: symmetric, positive definite matrices (..., n, n); vectors are nan where one is not positive definite.
    shape: how many vectors, as a size or a tuple of sizes, which may be traced; by default as many as
        ``mean`` and ``cov`` broadcast to.
    dtype: float16, bfloat16, float32 or float64; those of 16 bits are float32's, rounded.

    Returns
    -------
    Array of ``(*shape, n)``, by the formula of ``jax.random``. It has derivatives with respect to ``mean`` and ``cov``.
    """
    target, name = float_dtype("multivariate_normal", dtype), "multivariate_normal"
    wide = computed_in(target)
    center = _with_last_axis(f"{name}: mean", convert(mean, wide), 1)
    matrices = _with_last_axis(f"{name}: cov", convert(cov, wide), 2)
    (*centers, size), (*leads, rows, columns) = dims_of(center), dims_of(matrices)
    for n in (rows, columns):
        require(n, "==", size, f"{name}: cov has a row and a column for each element of mean")
    many = broadcast_dims(name, [tuple(centers), tuple(leads)]) if shape is None else checked_shape(name, shape)
    z = normal_of(words_of(word_of(name, key), (*many, size)), wide)
    moved = reductions.sum(ew.multiply(cholesky(matrices), b.reshape(z, shape=(*many, 1, size))), -1)
    return convert(ew.add(fitted(f"{name}: mean", center, wide, (*many, size)), moved), target)


def _with_last_axis(what: str, x: Array, least: int) -> Array:
    """The parameter, if it has ``least`` axes or more; ShapeError for fewer."""
    if x.ndim < least:
        words = "vectors" if least == 1 else "matrices"
        raise ShapeError(f"{what} must be {words}, not the shape {shape_text(dims_of(x))}", where=user_line(),
                         fix="give one number for each element" if least == 1 else "give a matrix")  # fmt: skip
    return x
