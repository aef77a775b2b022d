"""How a kernel computes a primitive: the few forms that code generation knows.

* :class:`Scalar`: one element from one element of each argument, by an expression.
* :class:`Elements`: one element of the result from elements of the arguments at computed indices (an index map).
* :class:`Interleave`: values of one shape side by side, along a new last axis.
* :class:`Fold`: a reduction of axes by an associative operation.
* :class:`Prefix`: along an axis, what all elements up to each one join to by an associative operation.
* :class:`View`: the same elements in the same order under another shape; nothing is computed.
* :class:`Tile`: a tile kernel of the backend, by name (products, later attention and convolution).
* :class:`Scatter`: writes of many elements to computed places.
* :class:`Overwrite`: a part of a copy is written over, at a computed place.
* :class:`HostCall`: a call back into Python between kernels.
* :class:`NativeCall`: a call of native code from outside, as if it were a kernel.
* :class:`Composite`: a few other primitives, written out before fusion.
* :class:`Region`: closed subgraphs: a fused group, loops, branches.
* :class:`Data`: the value is in the program already (inputs, constants and weights).

Expressions are Python text over the names ``x``, ``y``, ``z`` (the arguments in order) and scalar functions that
every printer provides; the result is cast to the result's element type.

No kernel computes with complex numbers: a pass writes them as pairs of real ones. What moves elements moves the real
and the imaginary parts alike; what computes with them says how in its :class:`ComplexRule`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from zenith.ir.dims import Dim


@dataclass(frozen=True, slots=True)
class ComplexRule:
    """How complex operands are computed with: ``write(b, *args, **params)`` does so by their parts, which are real.

    It may use the operation's complex form of other primitives. ``ulp`` is the error of a complex result: the magnitude
    of the difference, in units in the last place of the result's magnitude.
    """

    write: Callable[..., Any]
    ulp: float

    def __repr__(self) -> str:
        """The function by its name, as records are shown: not by an address."""
        return f"Parts({getattr(self.write, '__name__', self.write)}, ulp={self.ulp})"


@dataclass(frozen=True, slots=True)
class Scalar:
    """An elementwise expression such as ``"x + y"`` or ``"exp(x)"``; ``cost`` is about its number of operations.

    ``expression`` may depend on the element type: then it is a mapping from kind (``b i u f``) to text. With
    ``checks``, the name of a parameter, the program raises that text where the last argument is true.
    """

    expression: str | dict[str, str]
    cost: int
    complex_rule: ComplexRule | None = None
    checks: str = ""

    def text(self, kind: str) -> str:
        """The expression for arguments of an element-type kind."""
        return self.expression if isinstance(self.expression, str) else self.expression[kind]


@dataclass(frozen=True, slots=True)
class Elements:
    """``element(k, index, read, types, params)`` gives the result's element at ``index``.

    ``index`` is one size expression (:class:`~zenith.ir.dims.Dim`) an axis and ``read[i](*index)`` reads argument i.
    ``k`` offers what indices need: ``k.at_least(a, b)``, ``k.equal(a, b)``, ``k.all(conditions)``,
    ``k.where(c, x, y)``, ``k.clamp(index, size)``, ``k.cast(index, dtype)``, ``k.place(at, dtype)`` (the same for a
    row-major position, as which loops may be joined), ``k.checked(value, size)`` (a value as an index, in bounds) and
    ``k.between(value, last)`` (a value as an index, moved into ``[0, last]``), ``k.compare(text, x, y)`` (a comparison
    of two elements), ``k.search(size, condition)`` (how many indices in front fulfil ``condition(index)``) and
    ``k.wrapped(value, size)`` (an index that may count from the end, as an element that counts from the start).
    ``cheap`` says that the element costs about one read (a pure index map), so that it is always fused; ``strided``
    that it reads its one argument at constant strides, so that a tile kernel takes it as it is; ``computes`` that it
    computes with elements, and does not only move them.
    """

    element: Callable[..., Any]
    cheap: bool
    strided: bool = False
    computes: bool = False


@dataclass(frozen=True, slots=True)
class Interleave:
    """Operands of one shape side by side: the result has one more axis, the last, as long as there are operands."""


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction over ``params["axes"]``: ``combine`` joins accumulator ``x`` and element ``y``, from ``identity``.

    ``identity(dtype)`` is the neutral element as a Python number. The tree of combinations depends on shape and
    instruction set only. A reduction without ``parts`` reduces real and imaginary parts alike.
    """

    combine: str
    identity: Callable[[Any], Any]
    complex_rule: ComplexRule | None = None


@dataclass(frozen=True, slots=True)
class Prefix:
    """Along ``params["axis"]``, from its end where ``params["reverse"]``: each element joined with all before it.

    ``combine`` joins what is so far, ``x``, and an element ``y`` of the last argument, from ``identity(dtype)``. Where
    there are two arguments, the first one's is the element's factor ``z``, and the factor of neighbours that are joined
    is the product of theirs. The tree of combinations depends on shape and instruction set only. A prefix without
    ``parts`` joins real and imaginary parts alike.
    """

    combine: str
    identity: Callable[[Any], Any]
    cost: int
    complex_rule: ComplexRule | None = None


@dataclass(frozen=True, slots=True)
class View:
    """The same elements in the same row-major order under another shape."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile kernel of the backend; ``operations(types, results)`` is how many it takes from these types to those.

    So many of its first arguments are ``matrices``, which it strides over; it reads the others element by element.
    The argument ``summed``, if any, is computed with it where that is a sum along rows that nothing else reads.
    """

    kernel: str
    operations: Callable[[Sequence[Any], Sequence[Any]], Dim]
    matrices: int
    summed: int | None = None
    complex_rule: ComplexRule | None = None


@dataclass(frozen=True, slots=True)
class Scatter:
    """Joins updates to a copy of the first argument at computed places, in index order (repeatable).

    ``combine`` joins what is there, ``x``, and an update ``y``; it is ``"y"`` where updates are written over.
    """

    combine: str

    @property
    def overwrites(self) -> bool:
        """Whether nothing is read of what an update is written over."""
        return self.combine == "y"


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Writes the second argument over a part of a copy of the first.

    ``place(k, index, read, types, params)`` is the index where the result has the element of the second argument at
    ``index``, for all of them another one; ``k`` and ``read`` as for :class:`Elements`.
    """

    place: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class HostCall:
    """``function(values, results, params)`` is called in Python between kernels, and fills the arrays ``results``.

    A token is None, among values and results. The arrays are the program's own memory, and gone when it returns. A
    function that needs nothing but a part of NumPy, ``linalg`` or ``fft``, says so in ``part``: then ``among(numpy,
    values, results, params)`` is the same on arrays of any library that has this part by NumPy's names.
    """

    function: Callable[..., None]
    part: str = ""
    among: Callable[..., None] | None = None


@dataclass(frozen=True, slots=True)
class NativeCall:
    """The function ``params["function"]`` is called at its address, once for each of the mapped examples."""


@dataclass(frozen=True, slots=True)
class Composite:
    """``expand(b, args, params)`` computes the same results with other primitives, complex ones by ``parts`` if any.

    ``sums`` says that results are sums of products of the arguments' elements, added in whatever order.
    """

    expand: Callable[..., Any]
    complex_rule: ComplexRule | None = None
    sums: bool = False


@dataclass(frozen=True, slots=True)
class Region:
    """Closed subgraphs among the parameters, run by whoever runs the graph around them."""


@dataclass(frozen=True, slots=True)
class Data:
    """The value stands in the program: an input, a literal, a constant or a weight."""


Lowering = (
    Scalar
    | Elements
    | Interleave
    | Fold
    | Prefix
    | View
    | Tile
    | Scatter
    | Overwrite
    | HostCall
    | NativeCall
    | Composite
    | Region
    | Data
)


def complex_error(lowering: Lowering, ulp: float) -> float:
    """The declared error of a complex result, for a primitive whose real results are off by ``ulp``: both its parts."""
    parts = getattr(lowering, "complex_rule", None)
    return ulp * math.sqrt(2.0) if parts is None else parts.ulp
