"""One call of a transformed function: its arguments flattened to arrays, with the names users would give them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from zenith import tree
from zenith.annotations import signature_of
from zenith.arrays import NUMPY, adapter_for
from zenith.arrays.labelled import refusal
from zenith.errors import ArgumentError, DTypeError, TraceError, ValueTypeError, integers, user_line
from zenith.ir.types import ArrayType, Type
from zenith.numpy.operands import as_array, snapshot
from zenith.numpy.typing import Array
from zenith.trace.bind import array_type
from zenith.trace.conversion import callee
from zenith.trace.nested import Inner, trace_inner
from zenith.trace.operators import is_weak
from zenith.trace.results import own_memory
from zenith.trace.sizes import TracedSize
from zenith.trace.tracer import Tracer

Numbers = int | Sequence[int]
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class TreeArguments:
    """The leaves of a tree of arrays: ``arrays`` (traced values and NumPy arrays), their types and paths.

    The paths of a pair ``(args, kwargs)`` are as the user of ``function`` would write them, others begin with ``name``.
    """

    def __init__(self, values: object, name: str = "", function: Callable[..., object] | None = None) -> None:
        self.leaves, self.treedef = tree.flatten(values)
        written = _written(function) if function is not None else name.__add__
        self.paths = [written(path) for path in tree.paths(self.treedef)]
        self.arrays = [array_of(leaf, path) for leaf, path in zip(self.leaves, self.paths, strict=True)]
        self.types: list[ArrayType] = [array_type(a) for a in self.arrays]
        self.weak = [is_weak(leaf) for leaf in self.leaves]

        self._tensor = next((a for a in map(adapter_for, self.leaves) if a not in (None, NUMPY)), None)

    def rebuild(self, leaves: Sequence[object]) -> Any:
        """The tree with other leaves."""
        return tree.unflatten(self.treedef, leaves)

    def given_back(self, results: Sequence[Array | None]) -> list[Any]:
        """Results in memory of their own and the library of the arguments: tensors when any of these is one, as under
        ``jit``. Those without axes are numbers where no library but NumPy takes part.
        """
        owned = [r.renewed() if isinstance(r, Tracer) and not r.ndim else r for r in own_memory(results)]
        if self._tensor is None:
            return owned
        make = self._tensor.from_numpy
        return [r if r is None or isinstance(r, Tracer) else make(np.asarray(r)) for r in owned]


def _written(function: Callable[..., object]) -> Callable[[str], str]:
    """How users write a path into ``(args, kwargs)``: ``[0][1]["w"]`` is ``params["w"]``."""
    try:
        names = [p.name for p in signature_of(function).parameters.values() if p.kind in _POSITIONAL]
    except (TypeError, ValueError):  # some builtins have no signature
        names = []

    def write(path: str) -> str:
        found = re.match(r"\[0\]\[(\d+)\]", path)
        if found:
            number = int(found[1])
            return (names[number] if number < len(names) else f"args[{number}]") + path[found.end() :]
        return re.sub(r'^\[1\]\["(\w+)"\]', r"\1", path)

    return write


def array_of(leaf: Any, name: str) -> Any:
    """A leaf as a traced value or NumPy array; TraceError when it is neither array nor number."""
    if isinstance(leaf, Tracer):
        return leaf
    adapter = adapter_for(leaf)
    if adapter is not None:
        adapter.check(leaf, name)
        return adapter.numpy(leaf) if adapter.device is None else snapshot(leaf)
    if not isinstance(leaf, (bool, int, float, complex, np.generic, TracedSize)):
        raise refusal(leaf, name) or ValueTypeError(
            f"{name} is a {type(leaf).__name__}, neither an array nor a number",
            where=user_line(),
            fix=tree.how_to_register(leaf)
            or "pass arrays and numbers, in tuples, lists and dictionaries; bind the rest with functools.partial",
        )
    return as_array(leaf)


class FlatResults:
    """``function`` with flat results; ``treedef`` is their structure, ``aux`` what it returned in addition.

    ``forward_of`` names the function whose forward rule ``function`` is: ``aux`` are then the rule's residuals.
    """

    def __init__(self, function: Callable[..., object], has_aux: bool = False, forward_of: str = "") -> None:
        self._function, self._has_aux, self._forward_of = function, has_aux or bool(forward_of), forward_of
        self.treedef: tree.TreeDef
        self.count = 0

    def __call__(self, *args: object, **kwargs: object) -> list[Array]:
        results = callee(self._function)(*args, **kwargs)
        aux: object = ()
        if self._has_aux:
            if not (isinstance(results, tuple) and len(results) == 2):
                raise self._no_pair()
            results, aux = results
        flat, self.treedef = tree.flatten(results)
        extra, self.aux_treedef = tree.flatten(aux)
        self.count = len(flat)
        return [array_of(leaf, "a result") for leaf in (*flat, *extra)]

    def _no_pair(self) -> TraceError:
        if not self._forward_of:
            return TraceError("with has_aux=True the function returns a pair: its result and what goes along",
                              where=user_line(), fix="return result, aux")  # fmt: skip
        return TraceError(
            f"the forward rule of {self._forward_of} returns a pair: the result and what the backward rule needs",
            where=user_line(), fix="return result, residuals, which may be ()",
        )  # fmt: skip


def positional(
    function: Callable[..., object], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> tuple[object, ...]:
    """The arguments of a call in the places of the parameters; ArgumentError for one that has a name alone."""
    if not kwargs:
        return args
    bound = signature_of(function).bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise ArgumentError(
            f"{name_of(function)} has rules for positional arguments, and {next(iter(bound.kwargs))} is none",
            where=user_line(), fix="let its parameters be positional ones",
        )  # fmt: skip
    return bound.args


def name_of(function: Callable[..., object]) -> str:
    """A function's name as an identifier."""
    return tree.identifier(getattr(function, "__name__", type(function).__name__))


def argument_numbers(argnums: Numbers, count: int) -> Numbers:
    """``argnums`` counted from 0; TraceError for a number that is none of ``count`` positional arguments."""
    numbers = integers(argnums, "argnums")
    wrong = sorted(n for n in numbers if not -count <= n < count)
    if wrong:
        raise TraceError(
            f"argnums names argument {wrong[0]}, and the call has {count} positional arguments",
            where=user_line(),
            fix="pass the arguments to differentiate by position",
        )
    found = tuple(n % count for n in numbers)
    return found if isinstance(argnums, Iterable) else found[0]


def trace_call(
    function: FlatResults, arguments: TreeArguments, name: str, types: Sequence[ArrayType] | None = None
) -> Inner:
    """The graph of ``function`` for a call, a pair of tuple and dict; ``types`` replace those of its leaves.

    Integers stay what they are, since the function may use them as sizes; their inputs are then not read.
    """

    def flat(*leaves: Array) -> list[Array]:
        pairs = zip(arguments.leaves, leaves, strict=True)
        args, kwargs = arguments.rebuild([own if _is_integer(own) else leaf for own, leaf in pairs])
        return function(*args, **kwargs)

    return trace_inner(flat, types or arguments.types, arguments.weak, name)


def _is_integer(leaf: Any) -> bool:
    """Whether an argument is a Python integer, known or traced."""
    weak = isinstance(leaf, Tracer) and leaf.weak and leaf.dtype.kind == "i"
    return weak or type(leaf) is int or (isinstance(leaf, TracedSize) and leaf.numpy_type is None)


def require_floats(arguments: TreeArguments, chosen: Sequence[bool], what: str, kinds: str = "f") -> None:
    """DTypeError when a chosen argument is of none of the kinds, ``f`` and ``c``, in ``kinds``."""
    words = " or ".join({"f": "floating-point", "c": "complex"}[kind] for kind in kinds)
    for type, path, wanted in zip(arguments.types, arguments.paths, chosen, strict=True):
        if wanted and type.dtype.kind not in kinds:
            known = {"f": "float32 or float64", "c": "complex64 or complex128"}[kinds[0]]
            raise DTypeError(
                f"{what}: {path} has no derivative, as it is no {words} array",
                where=user_line(),
                types=(type,),
                fix=f"pass {path} as {known}, or leave it out of argnums",
            )


def require_result_kind(types: Sequence[Type], what: str, holomorphic: bool) -> None:
    """DTypeError when a result is complex and nobody said that the function is holomorphic, or said so and it is not.

    The real and the imaginary part of a complex result each have derivatives; those of a holomorphic function are one
    complex number for both.
    """
    for type in types:
        if isinstance(type, ArrayType) and type.dtype.is_complex != holomorphic:
            fix = (
                "leave out holomorphic=True" if holomorphic
                else "differentiate its real and its imaginary part; a holomorphic function by holomorphic=True"
            )  # fmt: skip
            raise DTypeError(f"{what} is {'not ' * holomorphic}complex", where=user_line(), types=(type,), fix=fix)
