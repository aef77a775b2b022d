"""``pure_callback``: a Python function on NumPy arrays, called while the program runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from zenith import tree
from zenith.api.forms import differing
from zenith.control.trees import flatten, record
from zenith.errors import DTypeError, ShapeError, TraceError, user_line
from zenith.ir.external import External
from zenith.ir.primitive import get
from zenith.ir.types import DTYPES, ArrayType, NDArray, dtype_of
from zenith.numpy.operands import sizes_of
from zenith.numpy.typing import ArrayLike
from zenith.tree import Tree

ADVICE = "wrap the function that calls it in zenith.custom_jvp or zenith.custom_vjp, and give that its rule"


def pure_callback(
    function: Callable[..., Tree], result_shape_dtypes: Tree, *args: Tree, vectorized: bool = False
) -> Any:  # a tree of the structure of `result_shape_dtypes`
    """What a Python function returns for NumPy arrays, called each time the program runs.

    The program waits for the call, and the function is opaque to Zenith: it must be pure, since it may be called more
    often than it is written, or not at all when nobody needs its result. Inside the body of a loop or
    branch, which runs without Python, it is refused.

    Parameters
    ----------
    function: takes NumPy arrays in the structure of ``args``, which it may retain, returns arrays. Its exceptions
        propagate through the call of the program.
    result_shape_dtypes: its result, as a tree of :class:`zenith.ShapeDtypeStruct`, or of arrays like the results. Sizes
        may be those of traced arrays (``x.shape[0]``).
    args: arrays and numbers, in any structure.
    vectorized: under ``vmap``, False calls the function for each example, True once with the examples on a new
        leading axis of all arguments and results.

    Returns
    -------
    Arrays in the structure of ``result_shape_dtypes``. They have no derivative of their own: give one with
    :func:`zenith.custom_jvp` or :func:`zenith.custom_vjp` around the call.

    Raises
    ------
    ShapeError, DTypeError, TraceError: in the call, when the function returned other arrays than were declared; they
        name the line of the callback in the program. UnsupportedError: the call is in a loop or branch.

    >>> import numpy as np, zenith
    >>> def zeta(x):
    ...     return np.vectorize(lambda s: sum(n**-s for n in range(1, 1000)), otypes=[float])(x)
    >>> @zenith.jit
    ... def f(x):
    ...     return 2 * zenith.pure_callback(zeta, zenith.ShapeDtypeStruct(x.shape, x.dtype), x)
    >>> f(np.array([2.0, 4.0])).round(2)
    array([3.29, 2.16])
    """
    given, (types, treedef) = flatten("args", args), declared(result_shape_dtypes, "result_shape_dtypes")
    inputs, options = given.form.treedef, (treedef, bool(vectorized))
    try:
        external = _external(function, inputs, differing(inputs, treedef), *options)
    except TypeError:  # a function without a hash is a new one each time
        external = _external.__wrapped__(function, inputs, (), *options)
    results = record(get("call_python"), given.arrays, function=external, results=types, mapped=0)
    return tree.unflatten(treedef, results)


def declared(structs: Tree, name: str) -> tuple[tuple[ArrayType, ...], tree.TreeDef]:
    """The types that a tree of structs or arrays declares, and its structure."""
    leaves, treedef = tree.flatten(structs)
    if not leaves:
        raise TraceError(f"{name} declares no array", where=user_line(), fix="give a zenith.ShapeDtypeStruct")
    return tuple(_declared_type(leaf, name) for leaf in leaves), treedef


def _declared_type(leaf: object, name: str) -> ArrayType:
    if isinstance(leaf, type) or not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        raise TraceError(f"{name} holds a {type(leaf).__name__}, which declares no array", where=user_line(),
                         fix="give zenith.ShapeDtypeStruct(shape, dtype)")  # fmt: skip
    if any(isinstance(size, str) for size in leaf.shape):
        raise ShapeError(f"{name} has a name for a size, {leaf}", where=user_line(),
                         fix="give the size of an array, x.shape[0]")  # fmt: skip
    dtype = dtype_of(leaf.dtype)
    if dtype not in DTYPES:
        raise DTypeError(f"{name}: programs have no arrays of {leaf.dtype}", where=user_line(),
                         fix="declare one of " + ", ".join(t.numpy_name for t in DTYPES))  # fmt: skip
    return ArrayType(dtype, sizes_of(tuple(leaf.shape)))


@lru_cache(maxsize=256)
def _external(
    function: Callable[..., Tree], inputs: tree.TreeDef, differences: Hashable, outputs: tree.TreeDef, vectorized: bool
) -> External:
    """The function as a parameter of nodes: the same for the same function, so that equal calls are merged.

    ``differences`` are those of both structures: without them the cache would return the first call's.
    """
    label = label_of(function)
    call = flat_call(function, inputs, outputs, label)
    return External(label, call, vectorized, None, None, ADVICE)


def flat_call(
    function: Callable[..., Tree], inputs: tree.TreeDef, outputs: tree.TreeDef, label: str
) -> Callable[[list[NDArray], list[NDArray]], Sequence[ArrayLike]]:
    """The function of flat arrays; TraceError when its result has another structure than was declared."""

    def call(arrays: list[NDArray], results: list[NDArray]) -> Sequence[ArrayLike]:
        found, treedef = tree.flatten(function(*tree.unflatten(inputs, arrays)))
        if treedef != outputs:
            raise TraceError(f"{label} returned another structure than was declared", types=(treedef, outputs),
                             fix="return arrays in the declared structure")  # fmt: skip
        if any(isinstance(leaf, np.ma.MaskedArray) for leaf in found):
            raise TraceError(f"{label} returned a masked array, whose mask would be lost",
                             fix="return result.filled(value)")  # fmt: skip
        return found

    return call


def label_of(function: object) -> str:
    """A function's name in error texts."""
    return tree.identifier(getattr(function, "__name__", type(function).__name__))
