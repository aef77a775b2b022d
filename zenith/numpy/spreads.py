"""Covariances and correlations of variables."""

from __future__ import annotations

from typing import Any

import numpy as np

from zenith.errors import ArgumentError, DTypeError, ShapeError, user_line
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.casts import require_cast
from zenith.numpy.conditionals import clip
from zenith.numpy.joining import concatenate
from zenith.numpy.linear import diagonal, matmul
from zenith.numpy.operands import (
    FLOAT64,
    as_array,
    ask,
    compute_array,
    compute_dtype,
    convert,
    dims_of,
    require,
    result_dtype,
    static_int,
)
from zenith.numpy.shaping import atleast_2d, expand_dims, transpose
from zenith.numpy.typing import Array, ArrayLike, DTypeLike
from zenith.trace.dispatch import implements
from zenith.trace.sizes import user_size
from zenith.trace.tracer import Tracer

__all__ = ["corrcoef", "cov"]


@implements(np.cov, gives="boxed")
def cov(
    m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False, ddof: float | None = None,
    fweights: ArrayLike | None = None, aweights: ArrayLike | None = None, *, dtype: DTypeLike | None = None,
) -> Array:  # fmt: skip
    """The covariances of variables, as a matrix; one number for one variable.

    Parameters
    ----------
    m: observations: a variable in each row (in each column with ``rowvar`` false); one row is one variable.
    y: more variables of the same form.
    bias: divide by the number of observations, not by one less; ``ddof`` gives how many less, and overrides it.
    fweights: how often each observation was made; integers.
    aweights: the weight of each observation.

    Sums are computed in float64, or in ``dtype``. Raises ShapeError and DTypeError for weights that do not fit.

    >>> cov([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    x = _variables(m, y, rowvar, dtype)
    weights = _weights(x, fweights, aweights)
    if ddof is not None and static_int(ddof, "cov: ddof") != ddof:
        raise ArgumentError("cov: ddof must be an integer", where=user_line(), fix="use 0 or 1")
    less = (0 if bias else 1) if ddof is None else int(ddof)
    count = user_size(dims_of(x)[1])
    total = count if weights is None else reductions.sum(weights)
    mean = reductions.mean(x, 1) if weights is None else ew.divide(reductions.sum(ew.multiply(x, weights), 1), total)
    freedom = ew.subtract(total, less)
    if less and aweights is not None:
        square = reductions.sum(ew.multiply(weights, convert(aweights, x.dtype)))
        freedom = ew.subtract(total, ew.divide(ew.multiply(square, less), total))
    distance = ew.subtract(x, expand_dims(mean, 1))
    scaled = distance if weights is None else ew.multiply(distance, weights)
    found = ew.divide(matmul(distance, transpose(ew.conjugate(scaled))), convert(ew.maximum(freedom, 0), x.dtype))
    return found[0, 0] if ask(dims_of(x)[0], "==", 1) else found


def _variables(m: ArrayLike, y: ArrayLike | None, rowvar: bool, dtype: DTypeLike | None) -> Array:
    """A row for each variable, in the type in which sums are computed."""
    given = [compute_array("cov", a) for a in (m, y) if a is not None]
    if max(a.ndim for a in given) > 2:
        raise ShapeError(
            "cov needs at most two axes: variables and observations",
            where=user_line(),
            fix="reshape the observations into one axis",
        )
    target = result_dtype("cov", (*given, np.zeros(()))) if dtype is None else compute_dtype("cov", np.dtype(dtype))
    if target.kind in "biu":
        require_cast("cov", FLOAT64, target)
    rows = [transpose(atleast_2d(a)) if not rowvar and a.ndim == 2 else atleast_2d(a) for a in given]
    x = convert(rows[0], target)
    return x if y is None else concatenate([x, convert(rows[1], target)], 0)


def _weights(x: Array, fweights: ArrayLike | None, aweights: ArrayLike | None) -> Any:
    """The weight of each observation, None where all weigh the same."""
    product = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        row = as_array(given)
        if row.ndim != 1:
            raise ShapeError(f"cov: {name} must be a row", where=user_line(), fix="give one for each observation")
        if name == "fweights" and row.dtype.kind not in "iu":
            raise DTypeError("cov: fweights must be integers", where=user_line(), fix="use aweights")
        if not isinstance(row, Tracer) and bool((row < 0).any()):
            raise ArgumentError(f"cov: one of {name} is negative", where=user_line(), fix="give weights of 0 or more")
        require(dims_of(row)[0], "==", dims_of(x)[1], f"cov needs as many {name} as observations")
        product = convert(row, x.dtype) if product is None else ew.multiply(product, convert(row, x.dtype))
    return product


@implements(np.corrcoef)
def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *, dtype: DTypeLike | None = None) -> Array:
    """The correlation coefficients of variables, as a matrix: covariances over both standard deviations.

    Arguments as for :func:`cov`.

    >>> corrcoef([[0.0, 1.0, 2.0], [4.0, 2.0, 0.0]])
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return ew.divide(c, c)
    deviation = ew.sqrt(diagonal(c))
    return clip(ew.divide(ew.divide(c, expand_dims(deviation, 1)), expand_dims(deviation, 0)), -1, 1)
