"""Functions from outside: what a node holds of a function that Zenith does not see into.

Texts know such a function by a name that is unique in this process; a text is read back while the function lives.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from zenith.ir.primitive import Params

_numbers = itertools.count(1)


class Rules(Protocol):
    """What is known of a function besides its values; all write with a builder ``b``.

    ``jvp`` gives a tangent for each result that can move, ``forward`` the results and what ``backward`` needs for the
    operands' cotangents, and ``batch`` results with the examples on a new leading axis.
    """

    def jvp(
        self, b: Any, primals: Sequence[Any], tangents: Sequence[Any], outputs: Sequence[Any], params: Params
    ) -> Sequence[Any]: ...

    def forward(self, b: Any, primals: Sequence[Any], params: Params) -> tuple[Sequence[Any], Any] | None: ...

    def backward(
        self, b: Any, primals: Sequence[Any], cotangents: Sequence[Any], kept: Any, params: Params
    ) -> Sequence[Any]: ...

    def batch(
        self, b: Any, args: Sequence[Any], batched: Sequence[bool], size: Any, params: Params
    ) -> Sequence[Any] | None: ...


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class External:
    """A function from outside.

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
    call: Callable[[list[Any], list[Any]], Sequence[Any]]
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
