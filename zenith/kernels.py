"""The kernel registry: which engines compute what, kernels of your own, and named kernels to call on arrays.

>>> import numpy as np
>>> x = np.array([[-1.0, 0.0, 2.0]], np.float32)
>>> relu(x)
array([[0., 0., 2.]], dtype=float32)
>>> [engine.name for engine in table().engines][:3]
['loops', 'overwrite', 'rows']

A kernel computes what Zenith has operations for; :func:`zenith.custom_op` adds an operation that it does not have.

A kernel of your own is a Python function on flat buffers, with a NumPy function that says what it computes. Zenith uses
it for every group of operations that is the same computation::

    @zenith.kernels.register(computes=lambda x: np.maximum(x, 0), like=(zenith.ShapeDtypeStruct(("n",), "float32"),))
    def my_relu(begin, end, x, out):
        for i in range(begin, end):
            out[i] = x[i] if x[i] > 0 else f32(0)
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zenith.api import ShapeDtypeStruct, jit, make_graph
from zenith.api.tables import Shown
from zenith.api.tables import table as as_table
from zenith.backends.engines import Engine
from zenith.backends.lower.engine_table import add_engine, engines, remove_engine
from zenith.backends.lower.user_kernel import KernelDefinition, engine_of, written_kernel
from zenith.errors import UnsupportedError, ZenithError
from zenith.ir.dims import Dim, parse
from zenith.ir.graph import Graph
from zenith.ir.types import NDArray, NumPyType, kind_of
from zenith.passes.pipeline import run
from zenith.tree import flatten

if TYPE_CHECKING:
    from rich.console import RenderableType

    from zenith.api.inspection import Explanation
    from zenith.numpy.typing import Array, ArrayLike, DTypeLike

__all__ = [
    "Table", "UserKernel", "attention", "gelu", "layernorm", "matmul", "register", "relu", "softmax", "table",
    "unregister",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


# --- the registry ---


@dataclass(frozen=True, repr=False)
class Table(Shown):
    """All engines; ``str`` and rich show them as a table."""

    engines: tuple[Engine, ...]

    def __rich__(self) -> RenderableType:
        rows = [(e.name, ", ".join(e.kinds), e.priority, e.doc) for e in self.engines]
        return as_table("engines", ("engine", "groups", "priority", "accepts"), rows)


def table() -> Table:
    """Every engine with the kinds of groups that it is asked about, its priority, and what it accepts."""
    return Table(engines())


class UserKernel:
    """A kernel that was registered: a function as written, and a compiled program when called on arrays."""

    def __init__(
        self,
        function: Callable[..., object],
        computes: Callable[..., object],
        like: Sequence[ShapeDtypeStruct],
        written: KernelDefinition,
    ) -> None:
        self.function, self.computes, self.like = function, computes, tuple(like)
        self.written = written
        self.name, self.__doc__ = written.name, function.__doc__
        self._jitted = jit(computes)

    def __call__(self, *arrays: ArrayLike) -> Any:
        """The pattern on arrays, computed by whatever engine it gets: see ``explain()``."""
        return self._jitted(*arrays)

    def explain(self) -> Explanation:
        """Which engine computes the pattern, and why not another."""
        return self._jitted.explain()

    def check(self, sizes: Sequence[Mapping[str, int]] | None = None, rtol: float = 1e-5, atol: float = 1e-6) -> None:
        """Compare the kernel with its pattern on random arrays, in NumPy on both sides; AssertionError with where.

        ``sizes`` gives values to the pattern's sizes; without it, sizes from 0 to 1000 are tried.
        """
        names = sorted({s for struct in self.like for s in struct.shape if isinstance(s, str)})
        tried = sizes if sizes is not None else [dict.fromkeys(names, n) for n in (1, 0, 2, 7, 33, 1000)]
        generator = np.random.default_rng(0)
        for values in tried:
            shapes = [tuple(values[s] if isinstance(s, str) else s for s in struct.shape) for struct in self.like]
            arrays = [_random(generator, shape, struct.dtype) for shape, struct in zip(shapes, self.like, strict=True)]
            expected, found = flatten(self.computes(*arrays))[0], flatten(self(*arrays))[0]
            for want, got in zip(expected, found, strict=True):
                np.testing.assert_allclose(got, want, rtol, atol, err_msg=f"{self.name} at sizes {dict(values)}")


def _random(generator: np.random.Generator, shape: tuple[int, ...], dtype: NumPyType) -> NDArray:
    values = generator.standard_normal(shape) * (1 if kind_of(dtype) == "f" else 20)
    if dtype.kind == "c":
        values = values + 1j * generator.standard_normal(shape)
    return (values > 0) if dtype.kind == "b" else values.astype(dtype)


def register(
    *,
    computes: Callable[..., object],
    like: Sequence[ShapeDtypeStruct],
    tasks: str | None = None,
    accepts: Callable[..., bool] | None = None,
    priority: int = 10,
    cost: float = 1.0,
) -> Callable[[Callable[..., object]], UserKernel]:
    """Register a kernel of your own: a decorator for ``kernel(begin, end, inputs..., outputs..., sizes...)``.

    Parameters
    ----------
    computes: what the kernel computes, in NumPy. The kernel is used for groups of operations that Zenith's passes make
        of the same expression; more or fewer operations are another group (``explain()`` says so).
    like: shape and element type of each argument, with names for sizes. The kernel gets flat buffers, row-major.
    tasks: how many independent tasks there are, as an expression of the sizes: ``"n"`` for the rows of ``(n, m)``. The
        elements of the first result by default. A call does the tasks ``[begin, end)``; threads share them.
    accepts: ``accepts(*types)``, asked with the types of the arguments at each use; False refuses.
    priority, cost: which engine is taken: the lowest cost (1.0 is Zenith's own), then the highest priority.

    Returns
    -------
    A decorator that gives a :class:`UserKernel`. Programs that are compiled from then on may use the kernel.

    Raises
    ------
    UnsupportedError: the kernel uses what the language of kernels lacks, or ``computes`` is not one group.

    >>> @register(computes=lambda x: x * x, like=(ShapeDtypeStruct(("n",), "float32"),))
    ... def squared(begin, end, x, out):
    ...     for i in range(begin, end):
    ...         out[i] = x[i] * x[i]
    >>> squared.check()
    >>> squared(np.arange(3, dtype=np.float32))
    array([0., 1., 4.], dtype=float32)
    >>> unregister("squared")
    """

    def decorate(function: Callable[..., object]) -> UserKernel:
        pattern, kind = _pattern(computes, like)
        written = written_kernel(function, pattern, None if tasks is None else _size(tasks))
        doc = f"your kernel: {function.__doc__ or 'what ' + pattern.name + ' computes'}"
        add_engine(engine_of(written, kind, accepts, priority, cost, " ".join(doc.split())))
        return UserKernel(function, computes, like, written)

    return decorate


def unregister(name: str) -> None:
    """Use a registered kernel no longer, in programs that are compiled from now on; ZenithError when there is none."""
    remove_engine(name)


def _size(text: str) -> Dim:
    return parse(ast.parse(text, mode="eval").body)


def _pattern(computes: Callable[..., object], like: Sequence[ShapeDtypeStruct]) -> tuple[Graph, str]:
    """The body of the one group that a function becomes, its inputs in the function's order, and the group's kind."""
    fused, _ = run(make_graph(computes)(*like))
    groups = [(n, node) for n, node in fused.nodes() if node.primitive.name == "fused"]
    others = {node.primitive.name for _, node in fused.nodes()} - {"fused", "input"}
    if len(groups) != 1 or others or fused.constants:
        raise UnsupportedError(
            f"the pattern becomes {len(groups)} groups of operations"
            + (f" and needs {', '.join(sorted(others))}" if others else ""),
            fix="a kernel computes one group: let computes be operations that fuse, without captured arrays",
        )
    ((number, node),) = groups
    body: Graph = node.params["body"]
    order = {a.node: i for i, a in enumerate(fused.args(number))}
    if len(order) != len(like) or [v.node for v in fused.outputs] != [number] * len(body.outputs):
        raise ZenithError(
            "the pattern must use every argument, and return what its group computes",
            fix="leave out arguments that it does not use, and return its result",
        )
    inputs = [body.inputs[order[v.node]] for v in fused.inputs]
    body.inputs[:] = inputs
    return body, node.params["anchor"]


# --- named kernels ---


@jit
def relu(x: ArrayLike) -> Array:
    """The larger of x and 0, elementwise; same shape and type.

    >>> relu(np.array([-2.0, 3.0]))
    array([0., 3.])
    """
    from zenith import nn

    return nn.relu(x)


@jit(static_argnames="approximate")
def gelu(x: ArrayLike, approximate: str = "none") -> Array:
    """``x * Phi(x)`` elementwise; with ``approximate="tanh"`` the tanh form (Hendrycks and Gimpel, arXiv:1606.08415).

    >>> gelu(np.array([0.0, 1.0], np.float32)).round(4)
    array([0.    , 0.8413], dtype=float32)
    """
    from zenith import nn

    return nn.gelu(x, approximate == "tanh")


@jit
def layernorm(x: Array, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5) -> Array:
    """Rows of ``x`` (..., d) with mean 0 and variance 1, times ``weight`` (d,) plus ``bias`` (d,) where given.

    Ba, Kiros and Hinton, arXiv:1607.06450.

    >>> layernorm(np.array([[1.0, 3.0]]), eps=0.0)
    array([[-1.,  1.]])
    """
    centered = x - np.mean(x, axis=-1, keepdims=True)
    scaled = centered / np.sqrt(np.mean(centered * centered, axis=-1, keepdims=True) + eps)
    scaled = scaled if weight is None else scaled * weight
    return scaled if bias is None else scaled + bias


@jit
def softmax(x: ArrayLike) -> Array:
    """Exponentials of ``x`` divided by their sum, along the last axis; safe for large values.

    >>> softmax(np.array([[1000.0, 1000.0]]))
    array([[0.5, 0.5]])
    """
    from zenith import nn

    return nn.softmax(x)


@jit(static_argnames=("preferred_element_type",))
def matmul(x: ArrayLike, y: ArrayLike, *, preferred_element_type: DTypeLike | None = None) -> Array:
    """The matrix product (..., m, k) @ (..., k, n), leading axes broadcast as NumPy does.

    ``preferred_element_type`` is the type of the result: float32 for the exact products of float16 or bfloat16, which a
    GPU's tensor cores give.

    >>> matmul(np.ones((2, 3)), np.ones((3, 1)))
    array([[3.],
           [3.]])
    """
    from zenith import numpy as znp

    return znp.matmul(x, y, preferred_element_type=preferred_element_type)


@jit(static_argnames=("causal", "scale"))
def attention(
    query: ArrayLike, key: ArrayLike, value: ArrayLike, mask: ArrayLike | None = None, *, causal: bool = False,
    scale: float | None = None,
) -> Array:  # fmt: skip
    """``softmax(query @ key^T * scale) @ value`` as :func:`zenith.numpy.attention` does, without storing scores.

    >>> q = k = v = np.ones((1, 2, 4), np.float32)
    >>> attention(q, k, v).shape
    (1, 2, 4)
    """
    from zenith import numpy as znp

    return znp.attention(query, key, value, mask, causal=causal, scale=scale)
