"""Operations of your own: ``custom_op`` makes one from a function in Python or native code, and its rules."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from zenith import tree
from zenith.api import ShapeDtypeStruct
from zenith.api.forms import differing, exactly
from zenith.backends.cpu.foreign import call_native
from zenith.control.trees import flatten, record
from zenith.errors import TraceError, user_line
from zenith.ir.external import External
from zenith.ir.primitive import get
from zenith.ir.types import NDArray
from zenith.numpy.typing import ArrayLike
from zenith.outside.callback import declared, flat_call, label_of
from zenith.outside.rules import OperationRules
from zenith.tree import Tree

Function = Callable[..., Tree]

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


@overload
def custom_op(
    function: Callable[P, R], *, result: Function, native: object = None, vectorized: bool = False,
    name: str | None = None,
) -> CustomOp[P, R]: ...  # fmt: skip
@overload
def custom_op(
    function: None = None, *, result: Function, native: None = None, vectorized: bool = False, name: str | None = None
) -> Callable[[Callable[P, R]], CustomOp[P, R]]: ...
@overload
def custom_op(
    function: None = None, *, result: Function, native: object, vectorized: bool = False, name: str | None = None
) -> CustomOp[..., Any]: ...
def custom_op(
    function: Function | None = None,
    *,
    result: Function,
    native: object = None,
    vectorized: bool = False,
    name: str | None = None,
) -> Any:
    """An operation of your own, which programs treat as one of Zenith's: a decorator for the function that computes it.

    A :func:`zenith.kernels.register`ed kernel computes an operation of Zenith's faster; this adds one that Zenith does
    not have. Without ``native`` the program calls Python between kernels, as :func:`pure_callback`, and not in loops.

    Parameters
    ----------
    function: takes NumPy arrays in the structure of the operation's arguments, and its keywords; returns arrays. It
        must be pure. With ``native`` it may be left out; if given, the ``reference`` backend calls it.
    result: the shape rule: takes a :class:`ShapeDtypeStruct` for each array, whose sizes may be symbols that can be
        computed with, and the keywords; returns the structs of the results.
    native: native code that computes it: an address, a ctypes function or a Numba ``cfunc``. Its C type is ``void``
        of a pointer for each array and each result, row-major and dense, then an ``int64_t`` for every size of every
        array and result, in order. It runs without Python and the GIL, in loops too, on any thread, and cannot fail.
    vectorized: whether one call of ``function`` can compute many examples, on a further leading axis of all arrays and
        results; otherwise, and for native code, ``vmap`` calls it for each, unless :meth:`CustomOp.defvmap` was called.
    name: its name in error texts, by default the function's name.

    Returns
    -------
    A :class:`CustomOp`. Call it on arrays, traced or not, in any structure; keywords are static: any hashable values.

    Raises
    ------
    TraceError: neither ``function`` nor ``native``.

    >>> import numpy as np, zenith
    >>> @zenith.custom_op(result=lambda x: zenith.ShapeDtypeStruct(x.shape, x.dtype))
    ... def softplus(x):
    ...     return np.logaddexp(x, 0)
    >>> @softplus.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (dx,) = primals, tangents
    ...     return softplus(x), dx / (1 + np.exp(-x))
    >>> zenith.jit(zenith.vmap(zenith.grad(softplus)))(np.zeros(2))
    array([0.5, 0.5])
    """
    if function is None and native is None:
        return lambda function: CustomOp(function, result, native, vectorized, name)
    return CustomOp(function, result, native, vectorized, name)


class CustomOp(Generic[P, R]):
    """An operation that :func:`custom_op` made; its rules are written with Zenith's functions, NumPy's, and itself.

    They are traced when a transform asks for them. Keywords of a call are passed to every rule.
    """

    def __init__(
        self, function: Function | None, result: Function, native: object, vectorized: bool, name: str | None
    ) -> None:
        if function is not None:
            functools.update_wrapper(self, function)
        self.__name__ = name or label_of(native if function is None else function)
        self._function, self._result, self._native, self._vectorized = function, result, native, vectorized
        self._address = None if native is None else _address_of(native)
        self._known: dict[Hashable, External] = {}
        self.jvp_rule: Function | None = None
        self.vjp_rules: tuple[Function, Function] | None = None
        self.vmap_rule: Function | None = None

    def defjvp(self, rule: Function) -> Function:
        """Give the derivative: ``rule(primals, tangents) -> (result, its tangent)``, linear in the tangents.

        Reverse mode uses its transpose. Returns the rule, so that this is a decorator.
        """
        self.jvp_rule = rule
        return rule

    def defvjp(self, forward: Function, backward: Function) -> None:
        """Give the derivative for reverse mode: ``forward(*args) -> (result, residuals)``, any tree of arrays, and
        ``backward(residuals, cotangent) -> (a cotangent for each argument)``, with None for zero.
        """
        self.vjp_rules = forward, backward

    def defvmap(self, rule: Function) -> Function:
        """Give the batch: ``rule(axis_size, in_batched, *args) -> results`` with the examples on a new axis 0.

        ``in_batched`` has a bool for each array, in the structure of ``args``: whether it has the examples on axis 0.
        """
        self.vmap_rule = rule
        return rule

    def __call__(self, *args: P.args, **static: P.kwargs) -> R:
        """The results, in the structure that the shape rule declares."""
        given = flatten(f"the arguments of {self.__name__}", args)
        structs = [ShapeDtypeStruct(a.shape, a.dtype) for a in given.arrays]
        found = self._result(*tree.unflatten(given.form.treedef, structs), **static)
        types, treedef = declared(found, f"the shape rule of {self.__name__}")
        external = self._external(given.form.treedef, treedef, static)
        kind = "call_python" if self._address is None else "call_native"
        results = record(get(kind), given.arrays, function=external, results=types, mapped=0)
        return tree.unflatten(treedef, results)

    def __repr__(self) -> str:
        return f"<operation {self.__name__}>"

    def _external(self, inputs: tree.TreeDef, outputs: tree.TreeDef, static: dict[str, Hashable]) -> External:
        """The operation as a parameter of nodes: one for each structure and each value of the keywords."""
        values = tuple((name, exactly(static[name])) for name in sorted(static))
        key = (inputs, outputs, differing(inputs, outputs), values)
        try:
            known = self._known.get(key)
        except TypeError:
            raise TraceError(f"{self.__name__}: keywords are static and must be hashable", where=user_line(),
                             fix="pass arrays as positional arguments") from None  # fmt: skip
        if known is None:
            rules = OperationRules(self, inputs, outputs, static)
            advice = f"give it a rule: @{self.__name__}.defjvp, or {self.__name__}.defvjp(forward, backward)"
            call = self._flat(inputs, outputs, static)
            vectorized = self._vectorized and self._address is None
            known = External(self.__name__, call, vectorized, self._address, rules, advice)
            self._known[key] = known
        return known

    def _flat(
        self, inputs: tree.TreeDef, outputs: tree.TreeDef, static: dict[str, Hashable]
    ) -> Callable[[list[NDArray], list[NDArray]], Sequence[ArrayLike]]:
        """The operation on flat NumPy arrays."""
        function, native, address = self._function, self._native, self._address
        if function is not None:
            return flat_call(lambda *args: function(*args, **static), inputs, outputs, self.__name__)

        def call(arrays: list[NDArray], results: list[NDArray]) -> list[NDArray]:
            made = [*(np.asarray(a, order="C") for a in arrays), *(np.empty(r.shape, r.dtype) for r in results)]
            assert native is not None and address is not None  # native is named here so that it stays alive
            pairs = [word for array in made for word in (array.reshape(-1), 0)]
            call_native(len(made), address, *pairs, *(n for array in made for n in array.shape))
            return made[len(arrays) :]

        return call


def _address_of(native: Any) -> int:
    """The address of native code; TraceError for an object without one."""
    found = getattr(native, "address", native)
    try:
        address = found if isinstance(found, int) else ctypes.cast(found, ctypes.c_void_p).value
    except ctypes.ArgumentError:
        address = None
    if not address or isinstance(found, bool):
        raise TraceError(f"a {type(native).__name__} is no native code", where=user_line(),
                         fix="give an address, a ctypes function, or a Numba cfunc")  # fmt: skip
    return address
