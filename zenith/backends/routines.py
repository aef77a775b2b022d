"""Routines: functions that a plan calls besides Zenith's kernels, those of libraries and Python functions.

All of them are called by one kind of step, :class:`zenith.backends.steps.CallStep`; a routine is a record of how. One
on the host runs on NumPy arrays, which a program on a GPU copies there and back. One on the device is *readied* once
for each set of sizes and then called with addresses and a stream. Readying looks at everything that depends on sizes,
and may refuse; :class:`zenith.backends.steps.Either` has the alternative. What only needs one namespace of NumPy, such
as its linear algebra, runs on a GPU's arrays instead of the host's where CuPy has that namespace
(:mod:`zenith.backends.cuda.cupy_calls`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from zenith.backends.kernel import Buffer
from zenith.errors import ZenithError
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Node
from zenith.ir.lowering import HostCall, NativeCall
from zenith.ir.types import ArrayType, NDArray

Ready = Callable[[Sequence[int], int], None]  # addresses in the order of a step's allocations, and a stream


@dataclass(frozen=True, slots=True)
class Routine:
    """A function that steps call; it has either ``run`` or ``ready``.

    Attributes
    ----------
    library, name: its name in reports.
    form: its variant, in a few words.
    run: on the host: ``run(arrays)`` reads the first arrays and fills the last ones.
    ready: on the device: ``ready(sizes, alignments)`` returns its caller, or why it does not take these sizes;
        ``alignments`` are the bytes that the addresses are multiples of.
    on_gpu: ``on_gpu(operands, results, device, stream)`` does what ``run`` does on memory of a GPU.
    in_namespace: ``in_namespace(namespace, arrays)`` does what ``run`` does on arrays of ``library``, by NumPy's names.
    node: the node of a graph that it computes, by which another process finds it; None for the user's functions.
    """

    library: str
    name: str
    form: str = ""
    run: Callable[[Sequence[NDArray]], None] | None = None
    ready: Callable[[Mapping[str, int], Sequence[int]], Ready | str] | None = None
    on_gpu: Callable[[Sequence[object], Sequence[object], int, int], None] | None = None
    in_namespace: Callable[[object, Sequence[Any]], None] | None = None
    node: Node | None = None

    @property
    def from_python(self) -> bool:
        """Whether Python calls it with arrays: those of the host unless ``among`` others or ``on_gpu``."""
        return self.run is not None

    def __str__(self) -> str:
        form = f" [{self.form}]" if self.form else ""
        return f"{self.name if self.library == PYTHON else f'{self.library}.{self.name}'}{form}"


@dataclass(frozen=True, slots=True)
class RoutineUse:
    """A routine on a group's buffers, for an engine to answer with.

    ``operations`` is what it computes. It uses ``workspace`` bytes while it runs; their address comes last.
    """

    routine: Routine
    buffers: tuple[Buffer, ...]
    operations: Dim
    workspace: Dim

    @property
    def name(self) -> str:
        """The routine's."""
        return str(self.routine)


PYTHON = "python"  # the library of functions that are called back
CUPY = "cupy"  # the library of a GPU's arrays, whose namespaces have the names of NumPy's


def python_routine(node: Node, libraries: Collection[str] = ()) -> Routine:
    """The Python function that a node of a graph calls, on arrays of a library where that has the functions it needs.

    >>> from zenith.ir.text import parse
    >>> lines = ("def f(x: c64[8]) -> (c64[8]):", "y = fft(x, axes=(0,), inverse=False, norm='ortho')", "return (y,)")
    >>> graph = parse("\\n    ".join(lines))
    >>> print(python_routine(graph.node(graph.outputs[0].node), ("cupy.fft",)))
    cupy.fft.fft
    """
    lowering, function = node.primitive.lowering, node.params.get("function")
    assert isinstance(lowering, HostCall)
    name = node.primitive.name if function is None else function.label
    run, library = partial(_call_back, node, lowering.function), f"{CUPY}.{lowering.module}"
    own = None if is_outside(node) else node
    if lowering.in_namespace is None or library not in libraries:
        on_gpu = None if function is None or node.params["mapped"] else function.on_gpu
        return Routine(PYTHON, name, run=run, on_gpu=on_gpu, node=own)
    in_namespace = lowering.in_namespace

    def on_device(xp: object, arrays: Sequence[Any]) -> None:
        _call_back(node, partial(in_namespace, xp), arrays)

    return Routine(library, name, run=run, in_namespace=on_device, node=own)


def is_outside(node: Node) -> bool:
    """Whether a node calls a function of this process, the user's Python or native code, or prints."""
    return "function" in node.params or (node.primitive.effect and isinstance(node.primitive.lowering, HostCall))


def _call_back(node: Node, function: Callable[..., None], arrays: Sequence[Any]) -> None:
    """Call the function; Zenith's errors get the user's line, others pass unchanged."""
    token = [None] if node.primitive.effect else []
    first = len(arrays) - sum(isinstance(type, ArrayType) for type in node.types)
    try:
        function([*token, *arrays[:first]], [*token, *arrays[first:]], node.params)
    except ZenithError as error:
        raise error.at(node.line) from None


def calls(graph: Graph) -> list[Node]:
    """The nodes of a program that no kernel computes: Python and native functions, and routines of libraries."""
    return [node for node in graph.walk() if isinstance(node.primitive.lowering, HostCall | NativeCall)]


def calls_outside(graph: Graph) -> bool:
    """Whether a program calls functions of this process, the user's Python or native ones."""
    return any(map(is_outside, calls(graph)))
