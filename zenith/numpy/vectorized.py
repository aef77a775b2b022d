"""Functions of numbers on whole arrays, as ``numpy.vectorize`` makes them: each operation computes all elements.

NumPy calls the function once for each element. In a program that would be as many operations as there are elements, a
number that is not even known; so the function is traced once, for one element, and batched.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from zenith.errors import ArgumentError, ShapeError, user_line
from zenith.ir.dims import Dim, product
from zenith.ir.types import NumPyType
from zenith.numpy.broadcasting import broadcast_dims, spread
from zenith.numpy.linear import sizes_by_letter
from zenith.numpy.operands import as_array, compute_dtype, convert, dims_of, shape_text
from zenith.numpy.typing import Array
from zenith.trace.bind import b
from zenith.trace.recorder import current_recorder

__all__ = ["vectorize"]


def vectorize(
    pyfunc: Any = None, otypes: Any = None, doc: str | None = None, excluded: Any = None, cache: bool = False,
    signature: str | None = None,
) -> Any:  # fmt: skip
    """A function of arrays from a function of numbers, as ``numpy.vectorize``; without one, a decorator.

    In a traced function ``pyfunc`` is called once, with traced numbers, and ``zenith.vmap`` makes it one of arrays; on
    concrete arrays elsewhere NumPy calls it for every element.

    Parameters
    ----------
    pyfunc: a function of numbers, or, with a ``signature``, of small arrays.
    otypes: the element types of the results; they follow from the function otherwise.
    excluded: numbers and names of the arguments that are passed as they are.
    signature: the axes of each argument and result, such as ``"(n),(n)->()"``; axes in front are mapped.

    Raises ShapeError for arrays whose shapes do not fit, ArgumentError for a signature that cannot be read.

    >>> vectorize(lambda x, y: x if x > y else y)([1, 5], 3)
    array([3, 5])
    """
    if pyfunc is None:
        return functools.partial(vectorize, otypes=otypes, doc=doc, excluded=excluded, signature=signature)
    at_once: Any = np.vectorize(pyfunc, otypes, doc, excluded, cache, signature)
    types = [np.dtype(t) for t in otypes] if otypes is not None else None

    @functools.wraps(pyfunc)
    def function(*args: Any, **kwargs: Any) -> Any:
        if current_recorder() is None:
            return at_once(*args, **kwargs)
        return _mapped(pyfunc, dict(enumerate(args)) | kwargs, excluded or (), signature, types)

    function.__doc__ = doc or pyfunc.__doc__
    return function


def _mapped(function: Any, given: Mapping[int | str, Any], excluded: Collection[int | str], signature: str | None,
            types: Sequence[NumPyType] | None) -> Any:  # fmt: skip
    """The function over the leading axes of the arguments that are not ``excluded``."""
    from zenith.transforms import vmap

    names = [name for name in given if name not in excluded]
    arrays = [as_array(given[name]) for name in names]
    ranks = _ranks(signature, arrays)
    lead = broadcast_dims("vectorize", [dims_of(x)[: x.ndim - rank] for x, rank in zip(arrays, ranks, strict=True)])
    flat = [_flat(x, lead, rank) for x, rank in zip(arrays, ranks, strict=True)]

    def of_slices(*slices: Any) -> Any:
        return _called(function, {**given, **dict(zip(names, slices, strict=True))})

    found: Array | tuple[Array, ...] = vmap(of_slices)(*flat) if lead else of_slices(*arrays)
    results = found if isinstance(found, tuple) else (found,)
    if types is not None:
        if len(types) != len(results):
            raise ArgumentError(f"vectorize: {len(types)} element types (otypes) for {len(results)} results",
                                where=user_line(), fix="give an element type for each result")  # fmt: skip
        results = tuple(convert(r, compute_dtype("vectorize", t)) for r, t in zip(results, types, strict=True))
    shaped = tuple(b.reshape(r, shape=(*lead, *dims_of(r)[1:])) if lead else as_array(r) for r in results)
    return shaped if isinstance(found, tuple) else shaped[0]


def _called(function: Callable[..., Any], given: Mapping[int | str, Any]) -> Any:
    """A call with arguments by number and by name."""
    positional = [value for name, value in given.items() if isinstance(name, int)]
    return function(*positional, **{name: value for name, value in given.items() if isinstance(name, str)})


def _flat(x: Any, lead: Sequence[Dim], rank: int) -> Any:
    """The array with its leading axes repeated to ``lead`` and joined into one, before ``rank`` axes of its own."""
    own = dims_of(x)[x.ndim - rank :]
    return b.reshape(spread(x, (*lead, *own)), shape=(product(lead), *own))


def _ranks(signature: str | None, arrays: Sequence[Array]) -> list[int]:
    """How many axes of each argument belong to one call: none without a signature, whose names are sizes."""
    if signature is None:
        return [0] * len(arrays)
    texts = re.findall(r"\(([^()]*)\)", signature.partition("->")[0])
    terms = [[name.strip() for name in text.split(",") if name.strip()] for text in texts]
    if "->" not in signature or len(terms) != len(arrays):
        raise ArgumentError(f"vectorize: the signature {signature!r} is none of {len(arrays)} arguments",
                            where=user_line(), fix="write the axes of all, as in '(n),(n)->()'")  # fmt: skip
    for x, term in zip(arrays, terms, strict=True):
        if x.ndim < len(term):
            raise ShapeError(f"vectorize: an array {shape_text(dims_of(x))} has less axes than {signature!r} says",
                             where=user_line(), fix="give arrays with the axes that the signature names")  # fmt: skip
    sizes_by_letter("vectorize", terms, [dims_of(x)[x.ndim - len(t) :] for x, t in zip(arrays, terms, strict=True)])
    return [len(term) for term in terms]
