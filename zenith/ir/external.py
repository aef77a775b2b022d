"""External functions: the parameter of a node that calls a function which Zenith does not trace.

Texts know such a function by a name that is unique in this process; a text is read back while the function lives.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from zenith.ir.primitive import Params
from zenith.ir.types import NDArray

if TYPE_CHECKING:
    from zenith.ir.builder import SubgraphBuilder, Tangents, Values
    from zenith.ir.dims import Dim

_numbers = itertools.count(1)


class Rules(Protocol):
    """Derivatives and batches of an external function, all written with a builder ``b``.

    ``jvp`` gives a tangent for each result that can move, ``forward`` the results and what ``backward`` needs for the
    operands' cotangents, and ``batch`` results with the examples on a new leading axis.
    """

    def jvp(
        self, b: SubgraphBuilder, primals: Values, tangents: Tangents, outputs: Values, params: Params
    ) -> Values: ...

    def forward(self, b: SubgraphBuilder, primals: Values, params: Params) -> tuple[Values, Any] | None: ...

    def backward(
        self, b: SubgraphBuilder, primals: Values, cotangents: Values, residuals: Any, params: Params
    ) -> Values: ...

    def batch(
        self, b: SubgraphBuilder, args: Values, batched: Sequence[bool], size: Dim, params: Params
    ) -> Values | None: ...


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class External:
    """An external function.

    Attributes
    ----------
    label: what messages call it.
    call: ``(NumPy arrays, arrays like the results) -> arrays``, one for each result.
    vectorized: whether one call may serve many examples, on leading axes of all operands and results.
    address: of its native code, ``void (pointers to operands and results ..., int64 sizes ...)``; None when it is
        Python.
    rules: derivatives and batches; None when nothing is known.
    advice: how the user gives it a derivative.
    on_gpu: ``(operands, results, device, stream)`` fills memory of a GPU, which has an ``address``, ``shape`` and
        ``dtype``, in the order of a stream; None where only the host can call it.
    """

    label: str
    call: Callable[[list[NDArray], list[NDArray]], Sequence[object]]
    vectorized: bool
    address: int | None
    rules: Rules | None
    advice: str
    on_gpu: Callable[[Sequence[Any], Sequence[Any], int, int], None] | None = None
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.label}#{next(_numbers)}")
        _KNOWN[self.name] = self

    def __str__(self) -> str:
        return repr(self.name)


_KNOWN: weakref.WeakValueDictionary[str, External] = weakref.WeakValueDictionary()


def known(name: str) -> External:
    """The living function of a name; ValueError when there is none in this process."""
    found = _KNOWN.get(name)
    if found is None:
        raise ValueError(f"no function {name!r} lives in this process")
    return found
