"""Abstract evaluation: graphs and result types from shapes alone.

>>> import numpy as np
>>> eval_shape(lambda x, y: x @ y, ShapeDtypeStruct(("n", 3), "float32"), ShapeDtypeStruct((3, 5), "float32"))
ShapeDtypeStruct(shape=('n', 5), dtype=float32)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenith import tree
from zenith.api.devices import planned_gpu
from zenith.api.leaves import check_leaf, input_names, input_spec, rank_of, static_sizes, symbolic_sizes
from zenith.api.signature import Call, FlatFunction, Signature
from zenith.api.sizes import trace_as_asked
from zenith.arrays import cupy_adapter
from zenith.backends.table import backend_of
from zenith.convert import convert
from zenith.errors import DTypeError, ShapeError
from zenith.ir.dims import dim, symbol
from zenith.ir.graph import Graph
from zenith.ir.types import ArrayType, DType, NDArray, NumPyType, Type, dtype_of
from zenith.trace import InputSpec, TraceResult, trace
from zenith.trace.sizes import TracedSize

# The numbers of named sizes where the program asks for them: the first name is 16, the next 18 ... Different names are
# different sizes, and nothing is assumed of them that is true by chance.
EXAMPLE_SIZES = range(16, 2**20, 2)


@dataclass(frozen=True, init=False)
class ShapeDtypeStruct:
    """The shape and element type of an array without its values.

    Parameters
    ----------
    shape: an int for a fixed size, a name for a symbolic one. Equal names are equal sizes. A result that a traced
        function declares may have sizes of its arrays (``x.shape[0]``).
    dtype: anything that ``numpy.dtype`` takes.
    """

    shape: tuple[int | str, ...]
    dtype: NumPyType

    def __init__(self, shape: Sequence[int | str], dtype: Any) -> None:
        if dtype_of(dtype) is None:
            raise DTypeError(
                f"Zenith has no element type for {np.dtype(dtype)}",
                fix="say one that docs/dtypes.md lists, such as float32",
            )
        for size in shape:
            traced = isinstance(size, TracedSize)
            if not traced and not (size.isidentifier() if isinstance(size, str) else int(size) >= 0):
                raise ShapeError(f"{size!r} is no size", fix="give a number >= 0 or an identifier")
        object.__setattr__(self, "shape", tuple(shape))
        object.__setattr__(self, "dtype", dtype.numpy if isinstance(dtype, DType) else np.dtype(dtype))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype})"

    def spec(self, name: str, examples: Mapping[str, int]) -> InputSpec:
        """The graph input that this describes, with an example for every named size."""
        dtype = dtype_of(self.dtype)
        assert dtype is not None
        sizes = tuple(symbol(s) if isinstance(s, str) else dim(int(s)) for s in self.shape)
        hints = tuple(examples[s] if isinstance(s, str) else int(s) for s in self.shape)
        return InputSpec(name, dtype, sizes, hints)


def make_graph(function: Callable[..., object]) -> Callable[..., Graph]:
    """A function that takes ``function``'s arguments and returns its traced :class:`~zenith.ir.graph.Graph`.

    Arguments are arrays (their axes become symbols), numbers, or :class:`ShapeDtypeStruct`.

    >>> print(make_graph(lambda x: x * x)(np.ones(3, np.float32)))
    def lambda_(x: f32[x0]) -> (f32[x0]):
        v1 = mul(x, x)
        return (v1,)
    """

    @functools.wraps(function)
    def graph_of(*args: object, **kwargs: object) -> Graph:
        return _trace(function, args, kwargs, static=False)[0].graph

    return graph_of


def eval_shape(function: Callable[..., object], *args: object, **kwargs: object) -> Any:
    """The shapes and types of ``function``'s results, in its structure, without computing them.

    Arguments are arrays, numbers or :class:`ShapeDtypeStruct`. A size that depends on named sizes comes as its formula,
    a str.
    """
    traced, treedef = _trace(function, args, kwargs, static=True)
    numbers = {str(spec.size): spec.number for spec in traced.inputs if spec.size is not None}
    own = (value.type for value in traced.graph.outputs[: treedef.num_leaves])
    types = (t.with_shape(n.substitute(numbers) for n in t.shape) if isinstance(t, ArrayType) else t for t in own)
    return tree.unflatten(treedef, list(map(_struct, types)))


def _struct(type: Type) -> ShapeDtypeStruct:
    assert isinstance(type, ArrayType)
    made = object.__new__(ShapeDtypeStruct)  # formulas are no names, so the constructor would refuse them
    object.__setattr__(made, "shape", tuple(str(d) if d.static is None else d.static for d in type.shape))
    object.__setattr__(made, "dtype", type.dtype.numpy)
    return made


def example_sizes(leaves: Iterable[object]) -> dict[str, int]:
    """A number for every named size of the structs among ``leaves``."""
    structs = [leaf for leaf in leaves if isinstance(leaf, ShapeDtypeStruct)]
    named = dict.fromkeys(s for struct in structs for s in struct.shape if isinstance(s, str))
    return dict(zip(named, EXAMPLE_SIZES, strict=False))


StandIn = Callable[[tuple[int, ...], NumPyType], object]


def with_stand_ins(
    args: tuple[object, ...], kwargs: dict[str, object], make: StandIn
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Arguments with ``make(shape, dtype)`` in place of every struct: an array that takes no memory."""
    leaves, treedef = tree.flatten((args, kwargs))
    if not any(isinstance(leaf, ShapeDtypeStruct) for leaf in leaves):
        return args, kwargs
    examples = example_sizes(leaves)
    made = [
        make(tuple(examples[s] if isinstance(s, str) else int(s) for s in leaf.shape), leaf.dtype)
        if isinstance(leaf, ShapeDtypeStruct) else leaf
        for leaf in leaves
    ]  # fmt: skip
    replaced: tuple[tuple[object, ...], dict[str, object]] = tree.unflatten(treedef, made)
    return replaced


def numpy_stand_in(shape: tuple[int, ...], dtype: NumPyType) -> NDArray:
    """One element that looks like a NumPy array of any size.

    >>> numpy_stand_in((1 << 30, 1 << 20), np.dtype("float32")).shape
    (1073741824, 1048576)
    """
    return np.broadcast_to(np.zeros((), dtype), shape)


def stand_in_for(backend: str | None) -> StandIn:
    """The maker of stand-ins for a backend's arrays: CuPy's for a GPU, which need not be present."""
    is_gpu = backend is not None and backend_of(backend).is_gpu
    return cupy_adapter(planned_gpu()).stand_in if is_gpu else numpy_stand_in


def _trace(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object], static: bool
) -> tuple[TraceResult, tree.TreeDef]:
    function = getattr(function, "function", function)
    signature = Signature.of(function)
    call = signature.split(args, kwargs)
    flat, specs = FlatFunction(convert(function), call, converted=True), _specs(signature, call, static)

    def run(specs: Sequence[InputSpec], grows_lists: bool) -> TraceResult:
        return trace(flat, specs, signature.name, converted=True, sized_loops=True, grows_lists=grows_lists)

    return trace_as_asked(run, specs, call.leaves), flat.treedef


def _specs(signature: Signature, call: Call, static: bool) -> list[InputSpec]:
    paths = signature.paths(call)
    names = input_names(paths)
    for leaf, path in zip(call.leaves, paths, strict=True):
        if not isinstance(leaf, ShapeDtypeStruct):
            check_leaf(leaf, path)
    examples = example_sizes(call.leaves)
    ranks = [leaf.ndim if isinstance(leaf, ShapeDtypeStruct) else rank_of(leaf) for leaf in call.leaves]
    return [
        leaf.spec(name, examples) if isinstance(leaf, ShapeDtypeStruct)
        else input_spec(name, leaf, static_sizes(leaf) if static else sizes)
        for name, leaf, sizes in zip(names, call.leaves, symbolic_sizes(names, ranks), strict=True)
    ]  # fmt: skip
