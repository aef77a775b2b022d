"""Random numbers from explicit keys: functions of a key and a shape that always give the same numbers.

A key is an array of two uint32 words. Nothing is drawn from a key twice: :func:`split` derives new keys from it,
:func:`fold_in` mixes a number into it. All bits come from Threefry-2x32, element by element, from the element's
position (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11, 2011): random numbers
are elementwise functions of a counter, so that they fuse into their readers and need no memory of their own.

``bits``, ``uniform``, ``split`` and ``fold_in`` give the bits that ``jax.random`` gives for the same key in its
partitionable mode; the other functions follow the same formulas, and say how far results may differ.

>>> first, second = split(key(0))
>>> uniform(first, (2,))
array([0.8423141 , 0.18237865], dtype=float32)
"""

import typing as _typing
from typing import NoReturn as _NoReturn

from zenith.numpy.absent import refuse_name as _refuse_name
from zenith.random.counts import binomial, multinomial, poisson
from zenith.random.derived import beta, dirichlet, laplace, multivariate_normal, t
from zenith.random.discrete import bernoulli, categorical, randint
from zenith.random.keys import bits, fold_in, key, split
from zenith.random.order import choice, permutation
from zenith.random.real import exponential, gumbel, normal, truncated_normal, uniform
from zenith.random.rejection import gamma

__all__ = [
    "bernoulli", "beta", "binomial", "bits", "categorical", "choice", "dirichlet", "exponential", "fold_in", "gamma",
    "gumbel", "key", "laplace", "multinomial", "multivariate_normal", "normal", "permutation", "poisson", "randint",
    "split", "t", "truncated_normal", "uniform",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


if not _typing.TYPE_CHECKING:  # type checkers know the names

    def __getattr__(name: str) -> _NoReturn:
        _refuse_name(__name__, name, globals())
