"""``verify``: how far a compiled function's results are from the same program in double precision.

The reference is the program as it was traced, before any pass, and with its weights; it is interpreted by NumPy
(:mod:`zenith.ir.interpret`) with every float as float64. So it says what kernels, fusion, ``precision="bf16"``, an
``error_budget`` and quantisation cost, and what float32 itself does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zenith.api.compilable import Compilable
from zenith.api.methods import JittedMethod
from zenith.api.specialize import Request
from zenith.api.tables import Shown, table
from zenith.batches import arguments_of, batches_of, on_host
from zenith.errors import UnsupportedError, ValueTypeError, user_line
from zenith.ir.graph import Node
from zenith.ir.interpret import interpret
from zenith.ir.lowering import NativeCall
from zenith.ir.retype import array_in_double, in_double
from zenith.ir.types import ArrayType, NDArray

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class OutputError:
    """The error of one output, over all batches.

    Attributes
    ----------
    name: its number among the results, and its element type.
    maximum: the largest absolute error; inf where one is nan or infinite and the other is not, or is another one.
    rms: the root of the mean squared error.
    relative: that by the root mean square of the reference.
    cosine: between result and reference; 1 where both are zero.
    is_float: whether its elements are floats or complex numbers.
    """

    name: str
    maximum: float
    rms: float
    relative: float
    cosine: float
    is_float: bool = True


@dataclass(frozen=True, repr=False)
class AccuracyReport(Shown):
    """The errors of all outputs; ``str`` and notebooks show a table, ``json`` is plain data."""

    function: str
    outputs: tuple[OutputError, ...]
    batches: int

    @property
    def relative(self) -> float:
        """The largest relative error of all outputs that are floats or complex numbers."""
        return max((output.relative for output in self.outputs if output.is_float), default=0.0)

    def json(self) -> dict[str, Any]:
        """The report as dicts, lists, numbers and text."""
        return asdict(self)

    def __rich__(self) -> RenderableType:
        rows = [
            (o.name, f"{o.maximum:.2e}", f"{o.rms:.2e}", f"{o.relative:.2e}", f"{o.cosine:.7f}") for o in self.outputs
        ]
        columns = ("output", "largest error", "RMS error", "relative", "cosine")
        return table(f"{self.function} against float64, {self.batches} batches", columns, rows)


def verify(function: Callable[..., object], inputs: Iterable[object]) -> AccuracyReport:
    """The errors of a compiled function's results on some inputs, against the same program in float64.

    Parameters
    ----------
    function: what :func:`zenith.jit`, :func:`zenith.from_torch` or :func:`zenith.quantize` returned.
    inputs: batches, each a tuple of arguments, a dict of keywords, or a single argument.

    Raises
    ------
    ValueTypeError: ``function`` is not compiled by Zenith. UnsupportedError: it prints, calls back into Python, writes
    into its arguments, or returns arrays whose sizes depend on values.

    >>> import numpy as np, zenith
    >>> w = np.random.default_rng(0).normal(size=(64, 32)).astype(np.float32)
    >>> x = np.random.default_rng(1).normal(size=(8, 64)).astype(np.float32)
    >>> exact, short = (zenith.jit(lambda x: x @ w, precision=p) for p in ("exact", "bf16"))
    >>> zenith.verify(exact, [x]).relative < 1e-6 < 1e-3 < zenith.verify(short, [x]).relative < 1e-2
    True
    """
    compiled: object = function.jitted if isinstance(function, JittedMethod) else function
    if not isinstance(compiled, Compilable):
        raise ValueTypeError(f"verify takes a compiled function, not a {type(function).__name__}", where=user_line(),
                             fix="give what zenith.jit or from_torch returned: others have no trace")  # fmt: skip
    batches = batches_of("inputs", inputs)
    return measured(compiled, batches, references(compiled, batches))


def references(function: Compilable, batches: Iterable[object]) -> Iterator[list[NDArray]]:
    """The flat results of a function's program in float64, for each batch."""
    exact = function.reference
    for batch in batches:
        args, kwargs = arguments_of(batch)
        _, request = exact._flatten(args, kwargs)
        yield _in_double(exact, request, args, kwargs)


def measured(function: Compilable, batches: Iterable[object], wanted: Iterable[Sequence[NDArray]]) -> AccuracyReport:
    """The errors of a function's results against ``wanted`` ones, which are in the order of batches."""
    sums: list[_Sums] = []
    count = 0
    for batch, reference in zip(batches, wanted, strict=True):
        results = _results(function, batch)
        sums = sums or [_Sums(f"{i}: {r.dtype}[{', '.join(map(str, r.shape))}]") for i, r in enumerate(results)]
        if len(sums) != len(results):
            raise UnsupportedError(f"input {count} gives {len(results)} results, others {len(sums)}",
                                   fix="verify calls of one kind at a time")  # fmt: skip
        for each, result, right in zip(sums, results, reference, strict=True):
            each.add(result, right)
        count += 1
    return AccuracyReport(function.__name__, tuple(each.error() for each in sums), count)


def _results(function: Compilable, batch: object) -> list[NDArray]:
    """The flat results of a call."""
    key, request = function._flatten(*arguments_of(batch))
    program = function._specializer.obtain(key, request)
    if program.writes is not None or program.computed is not None or program.raised:
        raise UnsupportedError(f"{function.__name__} writes into its arguments, raises exceptions, or has results "
                               "whose sizes depend on values", fix="verify the part without that")  # fmt: skip
    sizes = program.binding.function(request.leaves)
    assert sizes is not None, "a program binds the call that it was found for"
    return [on_host(result) for result in program.flat(request.leaves, sizes)]


def _in_double(
    function: Compilable, request: Request, args: tuple[object, ...], kwargs: dict[str, object]
) -> list[NDArray]:
    lowered = function.lower(*args, **kwargs)
    graph = lowered.graph
    for node in graph.walk():
        if why := _not_in_double(node):
            raise UnsupportedError(f"{function.__name__} {why}", where=node.line, fix="verify the part without that")
    types, leaves = [value.type for value in graph.inputs], map(on_host, request.leaves)
    given = [a.astype(t.dtype.numpy) for a, t in zip(leaves, types, strict=True) if isinstance(t, ArrayType)]
    with np.errstate(all="ignore"):
        return interpret(in_double(graph), *map(array_in_double, given), sizes=lowered.sizes)


def _not_in_double(node: Node) -> str:
    """Why an operation has no counterpart in float64; empty where it has one."""
    if node.primitive.effect or not all(isinstance(t, ArrayType) for t in node.types):
        return "prints, calls back into Python, or draws from PyTorch's random numbers"
    if isinstance(node.primitive.lowering, NativeCall) or "external" in node.primitive.params.values():
        return "calls a function of Python's or of native code"
    return "looks at the bits of numbers" if node.primitive.name in ("float_bits", "bits_float") else ""


class _Sums:
    """Sums over batches, from which the errors of an output follow."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_float, self.maximum = True, 0.0
        self.count, self.squares, self.power, self.own, self.product = 0, 0.0, 0.0, 0.0, 0.0

    def add(self, result: NDArray, reference: NDArray) -> None:
        """Add a batch. What is not finite in both, and the same, counts for nothing."""
        self.is_float = reference.dtype.kind in "fc"
        found, wanted = (np.asarray(v, np.complex128 if reference.dtype.kind == "c" else np.float64).reshape(-1)
                         for v in (result, reference))  # fmt: skip
        finite = np.isfinite(found) & np.isfinite(wanted)
        same = finite | (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        found, wanted = found[finite], wanted[finite]
        lost = np.abs(found - wanted)
        self.maximum = max(self.maximum, float(lost.max(initial=0.0)), 0.0 if same.all() else float("inf"))
        self.count += found.size
        self.squares += float(np.sum(lost**2)) if same.all() else float("inf")
        self.power += float(np.sum(np.abs(wanted) ** 2))
        self.own += float(np.sum(np.abs(found) ** 2))
        self.product += float(np.sum((np.conj(found) * wanted).real))

    def error(self) -> OutputError:
        """The errors over all that was added."""
        rms, power = ((value / max(1, self.count)) ** 0.5 for value in (self.squares, self.power))
        relative = rms / power if power else rms and float("inf")
        norms = (self.power * self.own) ** 0.5
        return OutputError(self.name, self.maximum, rms, relative, self.product / norms if norms else float(not rms),
                           self.is_float)  # fmt: skip
