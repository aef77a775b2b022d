"""Whole Jacobians and Hessians: products with the columns or rows of the identity, all at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, overload

import numpy as np

import zenith.numpy as znp
from zenith import tree
from zenith.numpy.typing import Array
from zenith.trace.bind import array_type
from zenith.trace.conversion import callee
from zenith.transforms.calls import (
    Numbers,
    TreeArguments,
    argument_numbers,
    name_of,
    require_floats,
    require_result_kind,
)
from zenith.transforms.jacobian_products import linearize, vjp
from zenith.transforms.vectorize import vmap

P = ParamSpec("P")
Blocks = tuple[list[list[Array]], tree.TreeDef]  # of each result for each argument, and the structure of the results


@overload
def jacfwd(function: np.ufunc, argnums: Numbers = 0, holomorphic: bool = False) -> Callable[..., Any]: ...
@overload
def jacfwd(function: Callable[P, object], argnums: Numbers = 0, holomorphic: bool = False) -> Callable[P, Any]: ...
def jacfwd(function: Callable[..., object], argnums: Numbers = 0, holomorphic: bool = False) -> Callable[..., object]:
    """The Jacobian of ``function`` by forward mode, one product for each number of the input: for few inputs.

    Parameters
    ----------
    argnums: the positional arguments to differentiate, as for :func:`~zenith.grad`; real ones, or complex ones where
        ``holomorphic`` says that the function is differentiable as a complex function.

    Returns
    -------
    A function of the same arguments. Its result has the structure of ``function``'s, for each leaf that of the
    argument, with arrays of shape ``result.shape + argument.shape``.

    >>> import numpy as np
    >>> jacfwd(lambda x: x * x)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return _jacobian(function, argnums, _by_columns, holomorphic)


@overload
def jacrev(function: np.ufunc, argnums: Numbers = 0, holomorphic: bool = False) -> Callable[..., Any]: ...
@overload
def jacrev(function: Callable[P, object], argnums: Numbers = 0, holomorphic: bool = False) -> Callable[P, Any]: ...
def jacrev(function: Callable[..., object], argnums: Numbers = 0, holomorphic: bool = False) -> Callable[..., object]:
    """The Jacobian of ``function`` by reverse mode, one product for each number of the result: for few results.

    Parameters and result as for :func:`jacfwd`.

    >>> import numpy as np
    >>> jacrev(lambda x: np.sum(x * x))(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    return _jacobian(function, argnums, _by_rows, holomorphic)


@overload
def hessian(function: np.ufunc, argnums: Numbers = 0) -> Callable[..., Any]: ...
@overload
def hessian(function: Callable[P, object], argnums: Numbers = 0) -> Callable[P, Any]: ...
def hessian(function: Callable[..., object], argnums: Numbers = 0) -> Callable[..., object]:
    """The second derivatives of ``function``: forward mode over reverse mode.

    >>> import numpy as np
    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([3.0, 5.0]))
    array([[10.,  6.],
           [ 6.,  0.]])
    """
    return jacfwd(jacrev(function, argnums), argnums)


def _jacobian(
    function: Callable[..., object],
    argnums: Numbers,
    blocks: Callable[[Callable[..., object], TreeArguments, bool], Blocks],
    holomorphic: bool,
) -> Callable[..., object]:
    @functools.wraps(function)
    def wrapped(*args: object, **kwargs: object) -> object:
        which = argument_numbers(argnums, len(args))
        wanted = [which] if isinstance(which, int) else list(which)
        numbers = [*dict.fromkeys(wanted)]

        @functools.wraps(function)
        def of_chosen(*chosen: object) -> object:
            every = list(args)
            for number, value in zip(numbers, chosen, strict=True):
                every[number] = value
            return callee(function)(*every, **kwargs)

        arguments = TreeArguments((tuple(args[n] for n in numbers), {}), "argument")
        what = f"the Jacobian of {name_of(function)}"
        require_floats(arguments, [True] * len(arguments.leaves), what, "c" if holomorphic else "f")
        found, treedef = blocks(of_chosen, arguments, holomorphic)
        rows = [arguments.rebuild(arguments.given_back(row))[0] for row in found]
        every = [tuple(row[numbers.index(n)] for n in wanted) for row in rows]
        return tree.unflatten(treedef, [row[0] for row in every] if isinstance(which, int) else every)

    return wrapped


def _by_columns(function: Callable[..., object], arguments: TreeArguments, holomorphic: bool) -> Blocks:
    """For each leaf of the result its block for each leaf of the arguments."""
    value, push = linearize(function, *arguments.rebuild(arguments.arrays)[0])
    results, treedef = tree.flatten(value)
    columns = []
    for position, leaf in enumerate(arguments.arrays):

        def moved(direction: Array, position: int = position) -> list[Array]:
            tangents = [direction if i == position else znp.zeros_like(a) for i, a in enumerate(arguments.arrays)]
            return tree.flatten(push(*arguments.rebuild(tangents)[0]))[0]

        found = vmap(moved)(_basis(leaf))
        columns.append(
            [znp.reshape(znp.moveaxis(f, 0, -1), (*r.shape, *leaf.shape)) for f, r in zip(found, results, strict=True)]
        )
    return [list(row) for row in zip(*columns, strict=True)], treedef


def _by_rows(function: Callable[..., object], arguments: TreeArguments, holomorphic: bool) -> Blocks:
    """The blocks of each leaf of the result, by reverse mode; results are real, unless the function is holomorphic."""
    value, pull = vjp(function, *arguments.rebuild(arguments.arrays)[0])
    results, treedef = tree.flatten(value)
    require_result_kind([array_type(r) for r in results], f"a result of {name_of(function)}", holomorphic)
    rows = []
    for position, result in enumerate(results):

        def pulled(direction: Array, position: int = position) -> list[Array]:
            cotangents = [direction if i == position else znp.zeros_like(r) for i, r in enumerate(results)]
            return tree.flatten(pull(tree.unflatten(treedef, cotangents)))[0]

        found = vmap(pulled)(_basis(result))
        rows.append([znp.reshape(f, (*result.shape, *a.shape)) for f, a in zip(found, arguments.arrays, strict=True)])
    return rows, treedef


def _basis(array: Array) -> Array:
    """The identity matrix, each row in an array's shape."""
    rows = znp.eye(array.size, dtype=array.dtype)
    return znp.reshape(rows, (array.size, *array.shape))
