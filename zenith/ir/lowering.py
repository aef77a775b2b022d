"""How a kernel computes a primitive: the few forms that code generation knows.

* :class:`Scalar`: one element from one element of each argument, by an expression.
* :class:`Elements`: one element of the result from elements of the arguments at computed indices (an index map).
* :class:`Interleave`: values of one shape stacked along a new last axis.
* :class:`Fold`: a reduction of axes by an associative operation.
* :class:`Prefix`: along an axis, what all elements up to each one join to by an associative operation.
* :class:`View`: the same elements, or the first of them, in the same order under another shape; nothing is computed.
* :class:`Tile`: a tile kernel of the backend, by name (products, later attention and convolution).
* :class:`Scatter`: writes of many elements to computed indices.
* :class:`Overwrite`: a slice of a copy is overwritten, at computed indices.
* :class:`HostCall`: a call back into Python between kernels, or of native loops of NumPy's in kernels.
* :class:`NativeCall`: a call of external native code, as if it were a kernel.
* :class:`Composite`: a few other primitives, expanded before fusion.
* :class:`Region`: closed subgraphs: a fused group, loops, branches.
* :class:`Data`: the value is in the program already (inputs, constants and weights).

Expressions are Python text over the names ``x``, ``y``, ``z`` (the arguments in order) and scalar functions that
every printer provides; the result is cast to the result's element type.

No kernel computes with complex numbers: a pass writes them as pairs of real ones. Primitives that move elements move
real and imaginary parts alike; those that compute with them have a :class:`ComplexRule`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from zenith.ir.dims import Dim, DimLike, dim
from zenith.ir.types import ArrayType, DType, NDArray

if TYPE_CHECKING:
    from zenith.ir.builder import Builder, Values
    from zenith.ir.graph import Value
    from zenith.ir.primitive import Params

_ZERO = dim(0)
E = TypeVar("E")  # what a backend has for an element of an array
Reads = Sequence[Callable[..., E]]  # for each argument: its element at an index, one size expression an axis
Index = Sequence[Dim]
ArrayTypes = Sequence[ArrayType]
Identity = Callable[[DType], Any]  # a number of the element type, bool or int or float


class Indexing(Protocol[E]):
    """What element rules compute indices with, see :class:`Elements`."""

    def at_least(self, a: DimLike, b: DimLike) -> E: ...
    def equal(self, a: DimLike, b: DimLike) -> E: ...
    def compare(self, text: str, x: E, y: E) -> E: ...
    def all(self, conditions: Sequence[E]) -> E: ...
    def where(self, condition: E, x: E, y: E) -> E: ...
    def choose(self, condition: E, x: Callable[[], E], y: Callable[[], E]) -> E: ...
    def clamp(self, index: DimLike, size: Dim) -> Dim: ...
    def cast(self, index: DimLike, dtype: DType) -> E: ...
    def position(self, at: Dim, dtype: DType) -> E: ...
    def checked(self, value: E, size: Dim) -> Dim: ...
    def between(self, value: E, last: Dim) -> Dim: ...
    def search(self, size: Dim, condition: Callable[[Dim], E]) -> Dim: ...
    def wrapped(self, value: E, size: Dim) -> E: ...


class ElementRule(Protocol):
    """The type of ``element`` of :class:`Elements`. A strided rule needs no ``k``; the types are those of arrays."""

    def __call__(self, k: Any, index: Index, read: Reads[E], types: Sequence[Any], params: Params, /) -> E: ...


class CoordinatesRule(Protocol):
    """The type of ``coordinates`` of :class:`Overwrite`."""

    def __call__(
        self, k: Indexing[E], index: Index, read: Reads[E], types: Sequence[Any], params: Params, /
    ) -> Sequence[DimLike]: ...


@dataclass(frozen=True, slots=True)
class ComplexRule:
    """Complex arithmetic: ``write(b, *args, **params)`` computes with the operands' real and imaginary parts.

    It may use other primitives on complex numbers. ``ulp`` is the error of a complex result: the magnitude
    of the difference, in units in the last place of the result's magnitude.
    """

    write: Callable[..., Value | Values]
    ulp: float

    def __repr__(self) -> str:
        """The function's name, where the default would show an address."""
        return f"ComplexRule({getattr(self.write, '__name__', self.write)}, ulp={self.ulp})"


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
    ``k.where(c, x, y)``, ``k.clamp(index, size)``, ``k.cast(index, dtype)``, ``k.position(at, dtype)`` (the same for a
    row-major position, where loops may be collapsed), ``k.checked(value, size)`` (a value as an index, in bounds) and
    ``k.between(value, last)`` (a value as an index, moved into ``[0, last]``), ``k.compare(text, x, y)`` (a comparison
    of two elements), ``k.search(size, condition)`` (how many first indices fulfil ``condition(index)``) and
    ``k.wrapped(value, size)`` (an index that may count from the end, as an element that counts from the start).
    ``cheap`` says that the element costs about one read (a pure index map), so that it is always fused; ``strided``
    that it reads its one argument at constant strides, so that a tile kernel takes it as it is; ``computes`` that it
    computes with elements, and does not only move them.
    """

    element: ElementRule
    cheap: bool
    strided: bool = False
    computes: bool = False


@dataclass(frozen=True, slots=True)
class Interleave:
    """Operands of one shape stacked along a new last axis, whose size is the number of operands."""


@dataclass(frozen=True, slots=True)
class Fold:
    """A reduction over ``params["axes"]``: ``combine`` joins accumulator ``x`` and element ``y``, from ``identity``.

    ``identity(dtype)`` is the neutral element as a Python number. The tree of combinations depends on shape and
    instruction set only. A reduction without ``complex_rule`` reduces real and imaginary parts alike.
    """

    combine: str
    identity: Identity
    complex_rule: ComplexRule | None = None


@dataclass(frozen=True, slots=True)
class Prefix:
    """Along ``params["axis"]``, from its end where ``params["reverse"]``: each element joined with all before it.

    ``combine`` joins the prefix so far, ``x``, and element ``y`` of the last argument, from ``identity(dtype)``. Where
    there are two arguments, the first one's is the element's factor ``z``, and the factor of neighbours that are joined
    is the product of theirs. The tree of combinations depends on shape and instruction set only. A prefix without
    ``complex_rule`` joins real and imaginary parts alike.
    """

    combine: str
    identity: Identity
    cost: int
    complex_rule: ComplexRule | None = None


@dataclass(frozen=True, slots=True)
class View:
    """The same elements, or the first of them, in the same row-major order under another shape."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A tile kernel of the backend; ``operations(types, results)`` is how many it takes from these types to those.

    So many of its first arguments are ``matrices``, which it strides over; it reads the others element by element.
    The argument ``summed``, if any, is computed with it where that is a sum along rows that nothing else reads.
    ``expand`` writes it with other primitives (as that of :class:`Composite`) where a tile's task would be a thread's.
    """

    kernel: str
    operations: Callable[[Sequence[Any], Sequence[Any]], Dim]
    matrices: int
    summed: int | None = None
    complex_rule: ComplexRule | None = None
    expand: Callable[[Builder, Values, Params], Values] | None = None


@dataclass(frozen=True, slots=True)
class Scatter:
    """Joins updates to a copy of the first argument at computed indices, in index order (repeatable).

    ``combine`` joins the element there, ``x``, and an update ``y``; it is ``"y"`` where updates overwrite it.
    ``complex_rule`` writes it for complex elements.
    """

    combine: str
    complex_rule: ComplexRule | None = None

    @property
    def overwrites(self) -> bool:
        """Whether updates overwrite elements without reading them."""
        return self.combine == "y"


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Writes the second argument over elements of a copy of the first.

    ``coordinates(k, index, read, types, params)`` is the index in the result of the second argument's element at
    ``index``, a different one for each; ``k`` and ``read`` as for :class:`Elements`. ``complex_rule`` writes it for
    complex elements.
    """

    coordinates: CoordinatesRule
    complex_rule: ComplexRule | None = None


@dataclass(frozen=True, slots=True)
class Composite:
    """``expand(b, args, params)`` computes the same with other primitives, complex results by ``complex_rule``, if any.

    ``sums`` says that results are sums of products of the arguments' elements, added in whatever order.
    """

    expand: Callable[[Builder, Values, Params], Values]
    complex_rule: ComplexRule | None = None
    sums: bool = False


@dataclass(frozen=True, slots=True)
class TwoSteps:
    """How long rows are transformed in two steps: by the ``ufunc`` for complex numbers, of its ``types``.

    The whole transform is an ``inverse`` one, or not, and ``real`` if the rows in its time domain are.
    """

    ufunc: str
    types: str
    inverse: bool
    real: bool


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """The inner loop of a generalized ufunc of NumPy's: native code for any number of examples.

    It is that of ``ufuncs[choice]``, such as ``("numpy.linalg._umath_linalg.solve",)``, for elements of the ``types``
    that are its key in ``ufunc.types``; elements of other types are converted. ``signature`` says, as the ufunc's does,
    which axes an example has: the last ones of each operand and result, or the one at ``axis``. With a ``factor`` the
    second operand is a number, which this formula of a size ``x`` gives, and that size. An example takes about ``cost``
    operations. One that ``overwrites`` takes the first result, a copy of the only operand, in place of that. A Fourier
    transform of the last axis may be computed in ``two_steps``.
    """

    ufuncs: tuple[str, ...]
    types: str
    signature: str
    cost: Dim
    choice: Dim = _ZERO
    axis: int | None = None
    factor: tuple[str, Dim] | None = None
    overwrites: bool = False
    two_steps: TwoSteps | None = None


InnerLoops = Callable[[Sequence[ArrayType], Sequence[ArrayType], "Params"], Sequence[InnerLoop]]


@dataclass(frozen=True, slots=True)
class HostCall:
    """``function(values, results, params)`` is called in Python between kernels, and fills the arrays ``results``.

    A token is None, among values and results. The arrays are the program's own memory, and gone when it returns. Where
    the function needs a module of NumPy only, ``module`` is its name, ``linalg`` or ``fft``: then ``in_namespace(numpy,
    values, results, params)`` is the same on arrays of any library that has this module by NumPy's names.

    ``inner_loops(operands, results, params)``, of their types, are native code that computes the same without Python:
    the first reads the operands, and each further one the first result, in place. Or they are other primitives', of
    which it is a composite.
    """

    function: Callable[[Sequence[NDArray], Sequence[NDArray], Params], None]
    module: str = ""
    in_namespace: Callable[[Any, Sequence[NDArray], Sequence[NDArray], Params], None] | None = None
    inner_loops: InnerLoops | Composite | None = None


@dataclass(frozen=True, slots=True)
class NativeCall:
    """The function ``params["function"]`` is called at its address, once for each of the mapped examples."""


@dataclass(frozen=True, slots=True)
class Region:
    """Closed subgraphs among the parameters, which the runner of the graph around them runs, too."""


@dataclass(frozen=True, slots=True)
class Data:
    """The program itself contains the value: an input, a literal, a constant or a weight."""


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
    rule = getattr(lowering, "complex_rule", None)
    return ulp * math.sqrt(2.0) if rule is None else rule.ulp
