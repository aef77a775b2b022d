"""Stages: compiling ahead of time, one step after the other, as JAX names them.

``fn.lower(*args)`` traces, optimises and plans; ``.compile()`` makes machine code, which then runs without a look-up of
programs. Both report their texts and costs::

    Lowered  --compile()-->  Compiled  --(*args)-->  results

>>> import numpy as np, zenith
>>> @zenith.jit
... def layer(x, w):
...     return np.tanh(x @ w)
>>> lowered = layer.lower(zenith.ShapeDtypeStruct(("n", 64), "float32"), zenith.ShapeDtypeStruct((64, 8), "float32"))
>>> cost = lowered.cost_analysis()
>>> print(cost.operations)
2*w0*w1*x0 + 18*w1*x0
>>> cost.at(lowered.sizes).operations == (2 * 64 + 18) * 16 * 8
True
>>> compiled = lowered.compile()  # for every size: named ones, 16 here, stand for any
>>> compiled(np.ones((3, 64), np.float32), np.ones((64, 8), np.float32)).shape
(3, 8)
>>> layer(np.ones((5, 64), np.float32), np.ones((64, 8), np.float32)).shape, layer.cache_info().misses
((5, 8), 1)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, ParamSpec, Protocol, TypeVar

from zenith.api.binding import broken
from zenith.api.programs import LazyLowering, Specialization
from zenith.api.specialize import Request, Specializer
from zenith.backends.terms import with_named_terms
from zenith.errors import ShapeError, TraceError, UnsupportedError, ZenithError
from zenith.ir.graph import Graph
from zenith.ir.text import print_graph
from zenith.ir.types import ArrayType

if TYPE_CHECKING:
    from zenith.api.costs import CostAnalysis, MemoryAnalysis
    from zenith.backends.plan import Plan


P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Owner(Protocol):
    """The function or module that a stage was made from."""

    def _flatten(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[Hashable, Request]:
        """The key of a call and what is needed to compile for it."""
        ...

    def _begin(self) -> None:
        """What a call does before anything else."""
        ...

    def _captured(self) -> object:
        """The identity that programs are bound to: a new object when none of them may run any more."""
        ...

    def _eject(self, path: Path, key: Hashable, program: Specialization) -> None:
        """Write one of its programs as a Python file."""
        ...


_FIX = "call the function itself, which compiles for new {}, or lower it for these"


class _Stage:
    """The reports that both stages give on their program."""

    STAGES: tuple[str, ...]
    name: str
    _lowering: LazyLowering

    def cost_analysis(self) -> CostAnalysis:
        """Operations and bytes of a call, per kernel and in total, as formulas of sizes; ``.at(sizes)`` gives numbers.

        Raises UnsupportedError for the ``reference`` backend, which has no kernels.
        """
        from zenith.api.costs import cost_analysis

        return cost_analysis(self._plan())

    def memory_analysis(self) -> MemoryAnalysis:
        """Bytes of arguments, results, constants, packed copies and the arena, as formulas of the sizes.

        Raises UnsupportedError for the ``reference`` backend, which has no plan.
        """
        from zenith.api.costs import memory_analysis

        types = [value.type for value in self._lowering.graph.inputs]
        return memory_analysis(self._plan(), tuple(t for t in types if isinstance(t, ArrayType)))

    def _plan(self) -> Plan:
        if self._lowering.plan is None:
            raise UnsupportedError(f"{self.name} is interpreted: it has no plan", fix='use backend="cpu"')
        return self._lowering.plan

    def _check_stage(self, stage: str) -> None:
        if stage not in self.STAGES:
            raise ZenithError(f"there is no stage {stage!r}", fix="choose one of " + ", ".join(map(repr, self.STAGES)))


class Lowered(_Stage, Generic[P, R]):
    """A traced, optimised and planned program; made by ``fn.lower(*args)``.

    Attributes
    ----------
    sizes: the value of every size in the formulas, for the arguments that were given.
    """

    STAGES = ("graph", "optimized", "plan")

    def __init__(self, name: str, specializer: Specializer, owner: Owner, key: Hashable, request: Request) -> None:
        self.name, self._owner, self._captured = name, owner, owner._captured()
        self._specializer, self._key, self._request = specializer, key, request
        known = specializer.match(key, request.leaves)
        self._lowering = specializer.lower(request) if known is None else _lowering_of(known)
        self.sizes: dict[str, int] = self._lowering.binding.function(request.leaves) or {}

    @property
    def graph(self) -> Graph:
        """The graph as traced."""
        return self._lowering.graph

    def as_text(self, stage: str = "graph") -> str:
        """The program as text: ``graph`` (as traced), ``optimized`` (after all passes) or ``plan``."""
        self._check_stage(stage)
        if stage == "plan":
            return with_named_terms(str(self._plan()))
        return self._lowering.text if stage == "graph" else print_graph(self._lowering.lowered.graph, with_lines=True)

    def compile(self) -> Compiled[P, R]:
        """Make machine code, unless the function has it already; the function's later calls use it too.

        Raises RecompilationError inside ``zenith.forbid_recompile()`` or beyond ``max_compilations``.
        """
        program = self._specializer.obtain(self._key, self._request, self._lowering)
        return Compiled(self.name, program, self._owner, self._captured, self._key, self._request.describe())

    def __repr__(self) -> str:
        return f"<zenith Lowered {self.name}({', '.join(self._request.describe())})>"


class Compiled(_Stage, Generic[P, R]):
    """A compiled program; made by ``Lowered.compile()``. Call it like the function; it never compiles again."""

    STAGES = ("graph", "optimized", "plan", "kernels")

    def __init__(
        self,
        name: str,
        program: Specialization,
        owner: Owner,
        captured: object,
        key: Hashable,
        accepted: Sequence[str],
    ) -> None:
        self.name, self._owner, self._captured = name, owner, captured
        self._program, self._lowering = program, _lowering_of(program)
        self._key, self._accepted = key, accepted

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function's results, static arguments included in the call.

        Raises TraceError for arguments of another structure, type or static value, ShapeError for sizes outside the
        program's guards. A module's changed weights are followed; when their structure changed, TraceError.
        """
        self._owner._begin()
        if self._owner._captured() is not self._captured:
            raise TraceError(f"the weights of {self.name} have another structure now", fix="lower it again")
        key, request = self._owner._flatten(args, kwargs)
        if key != self._key:
            given, accepted = (", ".join(words) for words in (request.describe(), self._accepted))
            raise TraceError(
                f"{self.name} is compiled for ({accepted}) and was called with ({given})", fix=_FIX.format("arguments")
            )
        binding = self._program.binding
        sizes = binding.function(request.leaves)
        if sizes is None:
            false = binding.first_false(request.leaves)
            assert false is not None, "a binding that refuses has a condition that is false"
            error = broken(false, binding.sizes(request.leaves))
            what = f"{self.name} is compiled for other sizes: {error.what}"
            raise ShapeError(what, where=error.where, fix=_FIX.format("sizes"))
        result: R = self._program.run(request.leaves, sizes)
        return result

    def eject(self, path: str | Path) -> None:
        """Write this program as one readable Python file: see :meth:`zenith.api.compilable.Compilable.eject`."""
        self._owner._begin()
        self._owner._eject(Path(path), self._key, self._program)

    def as_text(self, stage: str = "kernels") -> str:
        """The program as text: ``graph``, ``optimized``, ``plan`` or ``kernels`` (the generated Python)."""
        self._check_stage(stage)
        if stage == "graph":
            return self._lowering.text
        text: str = self._program.executable.stages[stage]
        return text

    def __repr__(self) -> str:
        return f"<zenith Compiled {self.name}({', '.join(self._accepted)})>"


def _lowering_of(program: Specialization) -> LazyLowering:
    assert isinstance(program.origin, LazyLowering), "what can be lowered was made here"
    return program.origin
