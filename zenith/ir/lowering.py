"""How a kernel computes a primitive: the few forms that code generation knows.

* :class:`Scalar`: one element from one element of each argument, by an expression.
* :class:`Elements`: one element of the result from elements of the arguments at computed indices (an index map).
* :class:`Fold`: a reduction of axes by an associative operation.
* :class:`View`: the same elements in the same order under another shape; nothing is computed.
* :class:`Tile`: a tile kernel of the backend, by name (products, later attention and convolution).
* :class:`Scatter`: writes of many elements to computed places.
* :class:`HostCall`: a call back into Python between kernels.
* :class:`Composite`: a few other primitives, written out before fusion.
* :class:`Region`: a closed subgraph.
* :class:`Data`: the value is in the program already (inputs and constants).

Expressions are Python text over the names ``x``, ``y``, ``z`` (the arguments in order) and scalar functions that
every printer provides; the result is cast to the result's element type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Union


@dataclass(frozen=True, slots=True)
class Scalar:
    """An elementwise expression such as ``"x + y"`` or ``"exp(x)"``; ``cost`` is about its number of operations.

    ``expression`` may depend on the element type: then it is a mapping from kind (``b i u f``) to text.
    """

    expression: str | dict[str, str]
    cost: int

    def text(self, kind: str) -> str:
        """The expression for arguments of an element-type kind."""
        return self.expression if isinstance(self.expression, str) else self.expression[kind]


@dataclass(frozen=True, slots=True)
class Elements:
    """``element(k, index, read, types, params)`` gives the result's element at ``index``.

    ``k`` builds kernel expressions, ``index`` is one expression an axis, ``read[i](*index)`` reads argument i.
    ``cheap`` says that the element costs one read of one argument (a pure index map), so that it is always fused.
    """

    element: Callable[..., Any]
    cheap: bool


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction over ``params["axes"]``: ``combine`` joins accumulator ``x`` and element ``y``, from ``identity``.

    ``identity(dtype)`` is the neutral element as a Python number. The tree of combinations depends on shape and
    instruction set only.
    """

    combine: str
    identity: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class View:
    """The same elements in the same row-major order under another shape."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile kernel of the backend."""

    kernel: str


@dataclass(frozen=True, slots=True)
class Scatter:
    """Adds updates to a copy of the first argument at computed places, in index order (repeatable)."""


@dataclass(frozen=True, slots=True)
class HostCall:
    """``function(arrays, params)`` is called in Python between kernels."""

    function: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Composite:
    """``expand(b, args, params)`` computes the same results with other primitives."""

    expand: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Region:
    """A closed subgraph under the parameter ``body``."""


@dataclass(frozen=True, slots=True)
class Data:
    """The value stands in the program: an input, a literal or a constant."""


Lowering = Union[Scalar, Elements, Fold, View, Tile, Scatter, HostCall, Composite, Region, Data]
