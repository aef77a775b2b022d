"""``jit``: a Python function whose calls run compiled programs.

The common call, positional arrays and numbers only, takes a short path: a tuple of per-argument keys, one dictionary
look-up, one generated binding, the executable. Everything else (keywords, trees, static arguments, a first call) is
flattened first and joins the same path.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypedDict, TypeVar, Unpack, overload

import numpy as np

from zenith import tree
from zenith.api import user_passes
from zenith.api.abstract import stand_in_for, with_stand_ins
from zenith.api.compilable import Compilable
from zenith.api.devices import Where, choose
from zenith.api.forms import Result
from zenith.api.leaves import KEYS, input_names, input_spec, rank_of, symbolic_sizes
from zenith.api.methods import JittedMethod, MethodOfStaticInstance
from zenith.api.pickling import Reduced, goes_by_name_to_workers, reduced
from zenith.api.programs import TracedProgram
from zenith.api.signature import Call, FlatFunction, Names, Numbers, Signature
from zenith.api.sizes import Declared, Dim, checked, declare, trace_as_asked
from zenith.api.specialize import Request, Specializer
from zenith.api.tolerance import within
from zenith.api.writes import Writes
from zenith.arrays import NUMPY, adapter_for, maker_of_results
from zenith.backends.backend import MISS
from zenith.backends.table import backend_of
from zenith.convert import convert
from zenith.convert.effects import ArraysStay
from zenith.errors import TraceError, ValueTypeError, user_line
from zenith.ir.numerics import EXACT, Numerics
from zenith.trace import InputSpec, TraceResult, current_recorder, trace
from zenith.trace.results import as_number
from zenith.trace.tensor_functions import refuse_module

if TYPE_CHECKING:
    from zenith.quantization.quantized import Quantized

P = ParamSpec("P")
Rest = ParamSpec("Rest")
R = TypeVar("R", covariant=True)
Owner = TypeVar("Owner", contravariant=True)
_disabled: ContextVar[bool] = ContextVar("zenith_jit_disabled", default=False)
_EVER_DISABLED: list[None] = []  # empty until there is a block without it: quicker to ask than the context


@contextmanager
def disable_jit() -> Iterator[None]:
    """Within this block jitted functions run as plain Python on NumPy arrays, for a debugger or for ``print``.

    >>> with disable_jit():
    ...     result = jit(lambda x: x + 1)(np.zeros(2))
    """
    token = _disabled.set(True)
    _EVER_DISABLED[:] = [None]
    try:
        yield
    finally:
        _disabled.reset(token)


class Jitted(Compilable[P, R]):
    """What :func:`jit` returns: call it like the function. All methods are safe to use from several threads."""

    __wrapped__: Callable[P, R]

    FRONT = "jit"
    # Not in __dict__, which functools.wraps copies to whatever wraps this: locks and programs stay here.
    __slots__ = ("_backend", "_converted", "_converts", "_dims", "_find_positional", "_has_static", "_inline_cache",
                 "_methods", "_passes", "_signature", "_specializer", "function")  # fmt: skip

    def __init__(
        self,
        function: Callable[P, R],
        signature: Signature,
        backend: str | None,
        dims: Declared,
        max_compilations: int | None,
        numerics: Numerics = EXACT,
        passes: Sequence[user_passes.Pass] = (),
        converts: bool = True,
    ) -> None:
        functools.update_wrapper(self, function)
        self.__name__ = getattr(function, "__name__", signature.name)
        self.function: Callable[..., object] = function
        self._signature, self._backend, self._dims, self._passes = signature, backend, dims, passes
        self._converts, self._converted = converts, None if converts else function
        self._has_static = bool(signature.static_names or signature.static_numbers)
        self._specializer = Specializer(self.__name__, max_compilations, numerics)
        self._find_positional, self._inline_cache = self._specializer.find_positional, self._specializer.inline_cache
        self._methods: dict[int, tuple[weakref.ref[object], Jitted[..., Any]]] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Compute the function; arrays in, the same kind of array out."""
        answer = self._inline_cache.function
        if answer is not None and not kwargs and not (_EVER_DISABLED and _disabled.get()):
            found: Any = answer(*args)
            if found is not MISS:
                return found
        if not (kwargs or self._has_static or _disabled.get()):
            found = self._find_positional(KEYS, args)
            if found is not self._specializer:
                return found
        return self._call_any(args, kwargs)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: Jitted[Concatenate[Owner, Rest], R], instance: Owner, owner: type | None = None
    ) -> JittedMethod[Rest, R]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Self: ...  # a field with a function of its own
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """A method: compiled for each instance, whose attributes are captured like a closure's variables.

        Where the instance is declared static, its own ``==`` and hash say which instances share a program.
        """
        if instance is None:
            return self
        if 0 in self._signature.static_numbers and type(instance).__hash__ is not None:
            return MethodOfStaticInstance(instance, self)
        return JittedMethod(instance, self._method_of(instance))

    def __repr__(self) -> str:
        return f"<zenith.jit of {self.__name__}>"

    def __reduce__(self) -> Reduced:
        return reduced(self, Jitted, self.made_with(self._passes))

    def made_with(self, passes: Sequence[user_passes.Pass], numerics: Numerics | None = None) -> tuple[Any, ...]:
        """The arguments that make another one of this function, with these passes, and its own numerics or others."""
        return self.function, self._signature, *self._options(passes, numerics or self.numerics)

    def _options(self, passes: Sequence[user_passes.Pass], numerics: Numerics) -> tuple[Any, ...]:
        return self._backend, self._dims, self._specializer.max_compilations, numerics, passes, self._converts

    # --- the long path ---

    def _call_any(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        call = self._signature.split(args, kwargs)
        if call.is_traced:
            return self._inline(args, kwargs)
        if _disabled.get():
            return self._run_plain(call)
        key = call.key(lambda: self._signature.paths(call))
        found = self._specializer.find(key, call.leaves)
        if found is not self._specializer:
            return found
        if current_recorder() is not None:
            return self._inline(args, kwargs)
        return self._specializer.make(key, self._request(call))

    def _inline(self, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """The function's operations as part of the trace in progress, whose values it may capture.

        What a converted one writes into is then the trace's: the arrays that a transform is called with stay.
        """
        recorder = current_recorder()
        if recorder is None or not self._converts:
            return self._traceable(*args, **kwargs)
        with recorder.writing_arguments():
            return self._traceable(*args, **kwargs)

    @property
    def _traceable(self) -> Callable[..., object]:
        """The function as it is traced: with its loops and branches converted, if it was asked for."""
        if self._converted is None:
            self._converted = convert(self.function)
        return self._converted

    def _request(self, call: Call, abstract: bool = False) -> Request:
        paths = self._signature.check(call)
        donated = call.donated(self._signature.donated_numbers)
        where = choose(self._backend, zip(paths, call.leaves, strict=True), abstract)
        describe = partial(self._signature.describe, call)
        return Request(call.leaves, lambda: self._build(call, paths, where, abstract), describe, where, donated)

    def _flatten(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[Hashable, Request]:
        made, kwargs = with_stand_ins(args, kwargs, stand_in_for(self._backend))
        call = self._signature.split(made, kwargs)
        return call.key(lambda: self._signature.paths(call)), self._request(call, abstract=made is not args)

    def _build(self, call: Call, paths: list[str], where: Where, abstract: bool) -> TracedProgram:
        names = input_names(paths)
        sizes = symbolic_sizes(names, [rank_of(leaf) for leaf in call.leaves])
        specs = [input_spec(n, leaf, s) for n, leaf, s in zip(names, call.leaves, sizes, strict=True)]
        specs, conditions = declare(specs, self._dims, abstract)
        flat = FlatFunction(self._traceable, call, self._converts)
        traced = user_passes.apply(self._passes, self._trace(flat, specs, call.leaves, where))
        writes = Writes(flat.written, flat.returned, paths, flat.in_rows) if flat.written else None
        numbers = [n for n in traced.numbers if n not in flat.written]
        of_python = [n for n in numbers if traced.outputs_weak[n]]
        result = Result.of(flat.treedef, [n for n in numbers if n not in of_python], of_python)
        return TracedProgram(traced, result, tuple(conditions), writes)

    def _trace(self, flat: FlatFunction, specs: list[InputSpec], leaves: Sequence[Any], where: Where) -> TraceResult:
        """The trace of a call."""

        def run(specs: Sequence[InputSpec], grows_lists: bool) -> TraceResult:
            captured = ArraysStay(self._traceable) if self._converts else None
            found = trace(flat, specs, self._signature.name, where.traffic, self._converts, where.sized_loops,
                          notes_widenings=True, grows_lists=grows_lists)  # fmt: skip
            if captured is not None:
                captured.check()
            return found

        return trace_as_asked(run, specs, leaves)

    def _run_plain(self, call: Call) -> object:
        """The function itself on NumPy arrays; results in the kind of the arguments."""
        adapters = [adapter_for(leaf) for leaf in call.leaves]
        plain = [x if a is None else a.numpy(x) for x, a in zip(call.leaves, adapters, strict=True)]
        args, kwargs = call.rebuild(plain)
        results, treedef = tree.flatten(self.function(*args, **kwargs))
        kind = maker_of_results([a for a in adapters if a is not None])
        made = [kind.from_numpy(np.asarray(r)) for r in results]
        if kind is NUMPY:
            made = [m if isinstance(r, np.ndarray) else as_number(m) for m, r in zip(made, results, strict=True)]
        return tree.unflatten(treedef, made)

    def _written(self) -> Callable[..., object]:
        return self.function

    def bound_to(self, instance: object) -> Jitted[..., Any]:
        """A compiled function of its own, of the arguments after an instance, which it keeps alive."""
        method = MethodType(self.function, instance)
        return Jitted(method, self._signature.of_method(), *self._options(self._passes, self.numerics))

    def _method_of(self, instance: object) -> Jitted[..., Any]:
        known = self._methods.get(id(instance))
        if known is not None:
            return known[1]
        number = id(instance)
        try:
            owner = weakref.ref(instance, lambda _: self._methods.pop(number, None))
        except TypeError:
            raise TraceError(f"a method of {type(instance).__name__} cannot be jitted: its instances have no weak "
                             "references", fix='add "__weakref__" to its __slots__') from None  # fmt: skip

        @functools.wraps(self.function)
        def method(*args: object, **kwargs: object) -> object:
            return self._traceable(owner(), *args, **kwargs)

        method.__wrapped__ = MethodType(self.function, weakref.proxy(instance))  # whose signature is without it
        bound = Jitted(method, self._signature.of_method(), *self._options(self._passes, self.numerics))
        return self._methods.setdefault(number, (owner, bound))[1]


goes_by_name_to_workers(Jitted)


class Options(TypedDict, total=False):
    """Those of :func:`jit` that do not change what it returns."""

    static_argnums: Numbers
    static_argnames: Names
    donate_argnums: Numbers
    backend: str | None
    dims: Mapping[str, Sequence[Dim | str | int | np.integer[Any] | None]] | None
    max_compilations: int | None
    repeatable: bool
    tf32: bool
    error_budget: float
    precision: str
    passes: Iterable[user_passes.Pass]
    convert: bool


@overload
def jit(function: np.ufunc, **options: Unpack[Options]) -> Jitted[..., Any]: ...
@overload
def jit(
    function: Callable[P, R], *, tolerance: None = None, calibration: None = None, **options: Unpack[Options]
) -> Jitted[P, R]: ...
@overload
def jit(
    function: Callable[P, R], *, tolerance: float, calibration: Iterable[object], **options: Unpack[Options]
) -> Quantized[P, R]: ...
@overload
def jit(
    function: None = None, *, tolerance: None = None, calibration: None = None, **options: Unpack[Options]
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
@overload
def jit(
    function: None = None, *, tolerance: float, calibration: Iterable[object], **options: Unpack[Options]
) -> Callable[[Callable[P, R]], Quantized[P, R]]: ...
def jit(
    function: Callable[..., object] | None = None,
    *,
    static_argnums: Numbers = (),
    static_argnames: Names = (),
    donate_argnums: Numbers = (),
    backend: str | None = None,
    dims: Mapping[str, Sequence[Dim | str | int | np.integer[Any] | None]] | None = None,
    max_compilations: int | None = None,
    repeatable: bool = True,
    tf32: bool = False,
    error_budget: float = 0.0,
    precision: str = "exact",
    passes: Iterable[user_passes.Pass] = (),
    convert: bool = True,
    tolerance: float | None = None,
    calibration: Iterable[object] | None = None,
) -> Any:
    """Compile a NumPy function: it is traced at its first call and then runs as generated kernels.

    Parameters
    ----------
    function: a function of arrays, numbers, and tuples, lists, dicts and objects of them (whose classes
        :func:`zenith.tree.register_dataclass` registers), written with ``numpy`` or ``zenith.numpy``; it may write into
        its arguments, and is pure otherwise. Arrays that it captures are snapshotted when it is traced.
    static_argnums, static_argnames: arguments that are Python values at tracing time; the program is compiled again
        for each value, which must be hashable.
    donate_argnums: positional arguments whose arrays the caller gives away: results may be written into their memory,
        so that a training step needs no second set of weights. They must not be used after the call, and share memory
        with nothing else. An array that is not all of its memory, or is passed twice, is left alone.
    backend: None for the device of the arguments; ``"cpu"`` and ``"cuda"`` insist on it, ``"lanes"`` runs the CPU's
        kernels as NumPy code, ``"reference"`` interprets.
    dims: declared sizes by argument name, one entry an axis: a :class:`~zenith.api.sizes.Dim`, a name, an int, or
        None, as in ``dims={"x": (Dim("batch", max=64), None)}``.
    max_compilations: how many programs may be compiled, None for any number; one more raises RecompilationError.
    repeatable: whether equal calls give equal bits. False allows a GPU to add what is scattered in any order, by
        atomics. On the CPU results repeat in any case.
    tf32: whether matrix products of float32 may round their operands to TF32 (10 bits of fraction, relative error
        2**-11) for a GPU's tensor cores, several times as fast; sums stay float32. The CPU ignores it.
    error_budget: the relative root mean square error that convolutions on the CPU may have where that makes them
        faster: 1e-5 allows larger tiles for 3x3 windows. By default they are as exact as by the definition.
    precision: ``"bf16"`` rounds the operands of float32 matrix products and convolutions to bfloat16 (relative error
        2**-9), for processors that multiply these twice as fast; ``"fp16"`` to float16 (2**-12), infinite beyond 65504,
        for memory. Sums, attention and all else stay float32 (docs/precision.md).
    passes: functions from :class:`~zenith.ir.graph.Graph` to Graph, which run on the traced graph before Zenith's own
        passes, in their order (docs/passes.md). They do not run where another trace or transform calls the function.
    convert: whether loops, branches, writes into arguments and integers as sizes are those of the program, where they
        depend on what it computes (docs/plain_numpy.md). If not, Python runs them while it traces.
    tolerance: the error that outputs may have against float64, relative by root mean squares: products by captured
        matrices then have the cheapest precision with which it holds, bytes, bfloat16, or their own; where that is too
        little, sums are in float64, or UnsupportedError says how large the error is (docs/precision.md).
    calibration: batches of arguments to measure it with, at once; what is returned has a ``report``.

    Returns
    -------
    A :class:`Jitted`. Results are dense arrays of the arguments' library (torch when any argument is a tensor, NumPy
    otherwise) that share memory with nothing but donated arguments; numbers are NumPy's (``x.sum()``) or Python's
    (``len(x)``). Calls with other sizes compile nothing unless the function branched on one. On a GPU kernels run
    later, on the current stream of the results' library: see :func:`zenith.synchronize`. Raises a ZenithError.

    >>> @jit
    ... def step(x, w):
    ...     return np.tanh(x @ w)
    >>> step(np.ones((2, 3), np.float32), np.zeros((3, 1), np.float32)).shape
    (2, 1)
    """
    if function is None:
        return functools.partial(
            jit, static_argnums=static_argnums, static_argnames=static_argnames, donate_argnums=donate_argnums,
            backend=backend, dims=dims, max_compilations=max_compilations, repeatable=repeatable, tf32=tf32,
            error_budget=error_budget, precision=precision, passes=passes, convert=convert, tolerance=tolerance,
            calibration=calibration,
        )  # fmt: skip
    if backend is not None:
        backend_of(backend)  # UnsupportedError where there is none
    signature = Signature.of(function := _plain(function), static_argnums, static_argnames, donate_argnums)
    numerics = Numerics(repeatable, tf32, error_budget, precision)
    own = user_passes.checked(passes)
    plain = Jitted(function, signature, backend, checked(dims), max_compilations, numerics, own, bool(convert))
    return within(plain, tolerance, calibration)


def _plain(function: object) -> Callable[..., object]:
    """The function to compile: what the user gave, without an earlier ``jit``."""
    if isinstance(function, Jitted):
        return function.function
    refuse_module(function)
    if not callable(function):
        raise ValueTypeError(f"jit takes a function, not a {type(function).__name__}", where=user_line(),
                         fix="write zenith.jit(f), or @zenith.jit above its definition")  # fmt: skip
    found: Callable[..., object] = function
    return found
