"""Functions of ``scipy.special``: the gamma family, Bessel functions, error functions, entropies, sums of exponentials.

SciPy's own ufuncs on traced arrays come here, too. Operands are promoted to floating-point types as NumPy's ``exp``
promotes them (float16 stays float16), broadcast, and computed element by element; all have derivatives.

>>> from zenith.numpy import special
>>> special.gammaln([1.0, 2.0])
array([0., 0.])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from zenith.errors import ArgumentError, user_line
from zenith.numpy.absent import refuse_name
from zenith.numpy.elementwise import SPECIAL, cbrt, exp2, expm1, log1p
from zenith.numpy.exponentials import log_softmax, logsumexp, softmax
from zenith.numpy.operands import convert, result_dtype, static_int
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b

__all__ = [
    "beta", "betaln", "cbrt", "digamma", "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp2", "expit", "expm1",
    "gamma", "gammainc", "gammaincc", "gammaln", "i0", "i0e", "i1", "i1e", "log1p", "log_expit", "log_ndtr",
    "log_softmax", "loggamma", "logit", "logsumexp", "ndtr", "ndtri", "polygamma", "psi", "rel_entr", "softmax",
    "xlog1py", "xlogy",
]  # fmt: skip


def erf(x: ArrayLike) -> Array:
    """The error function.

    >>> erf(0.0)
    np.float64(0.0)
    """
    return SPECIAL["erf"](x)


def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), with all its digits where it is small.

    >>> erfc(0.0)
    np.float64(1.0)
    """
    return SPECIAL["erfc"](x)


def erfcx(x: ArrayLike) -> Array:
    """exp(x**2) :func:`erfc`, which neither vanishes where x is large nor is infinite before x is -26.6.

    >>> erfcx(100.0).round(6)
    np.float64(0.005642)
    """
    return SPECIAL["erfcx"](x)


def erfinv(x: ArrayLike) -> Array:
    """The inverse of :func:`erf`; infinite at -1 and 1, nan beyond.

    >>> erfinv(0.0)
    np.float64(0.0)
    """
    return SPECIAL["erfinv"](x)


def erfcinv(x: ArrayLike) -> Array:
    """The inverse of :func:`erfc`; infinite at 0, minus infinity at 2, nan beyond.

    >>> erfcinv(1e-300).round(4)
    np.float64(26.2095)
    """
    return SPECIAL["erfcinv"](x)


def expit(x: ArrayLike) -> Array:
    """The logistic function 1 / (1 + exp(-x)).

    >>> expit(0.0)
    np.float64(0.5)
    """
    return SPECIAL["expit"](x)


def log_expit(x: ArrayLike) -> Array:
    """The logarithm of :func:`expit`, without overflow.

    >>> log_expit(0.0).round(4)
    np.float64(-0.6931)
    """
    return SPECIAL["log_expit"](x)


def logit(x: ArrayLike) -> Array:
    """log(x / (1 - x)), the inverse of :func:`expit`.

    >>> logit(0.5)
    np.float64(0.0)
    """
    return SPECIAL["logit"](x)


def ndtr(x: ArrayLike) -> Array:
    """The share of a standard normal distribution up to x.

    >>> ndtr(0.0)
    np.float64(0.5)
    """
    return SPECIAL["ndtr"](x)


def log_ndtr(x: ArrayLike) -> Array:
    """The logarithm of :func:`ndtr`, also where that vanishes.

    >>> log_ndtr(-100.0).round(4)
    np.float64(-5005.5242)
    """
    return SPECIAL["log_ndtr"](x)


def ndtri(p: ArrayLike) -> Array:
    """The inverse of :func:`ndtr`: up to which x a standard normal distribution has the share p.

    >>> ndtri(0.975).round(4)
    np.float64(1.96)
    """
    return SPECIAL["ndtri"](p)


def gammaln(x: ArrayLike) -> Array:
    """The logarithm of the absolute value of the gamma function; infinite at 0 and negative integers.

    >>> gammaln(5.0).round(4)
    np.float64(3.1781)
    """
    return SPECIAL["gammaln"](x)


def gamma(x: ArrayLike) -> Array:
    """The gamma function, by its logarithm: a result errs by so many ulps as that is large; nan at negative integers.

    >>> gamma(5.0).round(4)
    np.float64(24.0)
    """
    return SPECIAL["gamma"](x)


def loggamma(x: ArrayLike) -> Array:
    """The logarithm of the gamma function of real numbers: :func:`gammaln` above 0, nan below, where it is complex.

    >>> loggamma(5.0).round(4)
    np.float64(3.1781)
    """
    return SPECIAL["loggamma"](x)


def psi(x: ArrayLike) -> Array:
    """The derivative of :func:`gammaln`, the digamma function; nan at negative integers.

    >>> psi(1.0).round(4)
    np.float64(-0.5772)
    """
    return SPECIAL["psi"](x)


def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of order 0.

    >>> i0(0.0)
    np.float64(1.0)
    """
    return SPECIAL["i0"](x)


def i0e(x: ArrayLike) -> Array:
    """exp(-abs(x)) times :func:`i0`.

    >>> i0e(0.0)
    np.float64(1.0)
    """
    return SPECIAL["i0e"](x)


def i1(x: ArrayLike) -> Array:
    """The modified Bessel function of order 1.

    >>> i1(0.0)
    np.float64(0.0)
    """
    return SPECIAL["i1"](x)


def i1e(x: ArrayLike) -> Array:
    """exp(-abs(x)) times :func:`i1`.

    >>> i1e(0.0)
    np.float64(0.0)
    """
    return SPECIAL["i1e"](x)


def entr(x: ArrayLike) -> Array:
    """-x log(x), an outcome's term of the entropy; 0 at 0, minus infinity below.

    >>> entr(1.0) + 0.0
    np.float64(0.0)
    """
    return SPECIAL["entr"](x)


def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """The beta function, by its logarithm: as exact as the largest :func:`gammaln` in that; nan where poles meet.

    >>> beta(2.0, 3.0).round(4)
    np.float64(0.0833)
    """
    return SPECIAL["beta"](a, b)


def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """The logarithm of the absolute value of the beta function, as exact as the largest :func:`gammaln` in it.

    >>> betaln(1.0, 1.0)
    np.float64(0.0)
    """
    return SPECIAL["betaln"](a, b)


def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """The regularized lower incomplete gamma function, the share of a gamma distribution of shape a up to x.

    SciPy computes it. It has derivatives of every order along both arguments; nan where one is
    negative.

    >>> gammainc(1.0, 2.0).round(4)
    np.float64(0.8647)
    """
    return SPECIAL["gammainc"](a, x)


def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """1 - :func:`gammainc`, with all its digits where it is small.

    >>> gammaincc(1.0, 2.0).round(4)
    np.float64(0.1353)
    """
    return SPECIAL["gammaincc"](a, x)


def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(y), 0 where x is 0, with derivatives 0 there.

    >>> xlogy(0.0, 0.0)
    np.float64(0.0)
    """
    return SPECIAL["xlogy"](x, y)


def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(1 + y), 0 where x is 0, with derivatives 0 there.

    >>> xlog1py(0.0, -1.0)
    np.float64(0.0)
    """
    return SPECIAL["xlog1py"](x, y)


def rel_entr(x: ArrayLike, y: ArrayLike) -> Array:
    """x log(x / y), an outcome's term of the relative entropy; 0 where x is 0, infinite outside of the domain.

    >>> rel_entr(1.0, 1.0)
    np.float64(0.0)
    """
    return SPECIAL["rel_entr"](x, y)


digamma = psi


def polygamma(n: int, x: ArrayLike) -> Array:
    """The ``n``-th derivative of :func:`psi`; ``n`` is a number. ArgumentError where it is negative.

    >>> polygamma(1, 1.0).round(4)
    np.float64(1.6449)
    """
    order = static_int(n, "polygamma: n")
    if order < 0:
        raise ArgumentError(f"polygamma: the order {order} is negative", where=user_line(), fix="use 0 or more")
    return psi(x) if order == 0 else b.polygamma(convert(x, result_dtype("polygamma", (x, 1.0))), order=order)


if not TYPE_CHECKING:  # which knows the names that there are

    def __getattr__(name: str) -> NoReturn:
        refuse_name(__name__, name, {n: globals()[n] for n in __all__})
