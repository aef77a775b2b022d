"""The primitive: one complete record of an operation, and the registry that holds them all.

A record says everything about its operation: how it is typed, what it computes (NumPy), how a kernel computes it
(`lowering`), its derivative and batching rules, how exact it is, and samples from which every test is generated. No
field has a default, so that nothing can be forgotten; a rule that does not exist is a ``not_differentiable("why")``.

Rules receive a *builder* ``b`` and write ``b.mul(x, y)``; they import neither the tracer nor other operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from zenith.errors import ZenithError
from zenith.ir.lowering import Lowering
from zenith.ir.types import NDArray, NumPyType, Type

if TYPE_CHECKING:
    from zenith.ir.builder import Cotangents, SubgraphBuilder, Tangents, Values
    from zenith.ir.dims import Dim
    from zenith.ir.interpret import Caller

Params = Mapping[str, Any]
TypeRule = Callable[[Sequence[Type], Params], tuple[Type, ...]]
Evaluate = Callable[[Sequence[NDArray], Params], Sequence[NDArray | None]]  # None is a token


@dataclass(frozen=True, slots=True)
class Interpreted:
    """The reference of a primitive with subgraphs, whose sizes are those of the graph around them.

    ``run(call, args, params)`` gives the results; ``call(body, args)`` runs a subgraph and ``call.shape(type)`` is a
    shape as numbers (see :class:`zenith.ir.interpret.Caller`). Called with arrays alone, these fix all sizes.
    """

    run: Callable[[Caller, Sequence[NDArray], Params], Sequence[NDArray]]

    def __call__(self, values: Sequence[NDArray], params: Params) -> tuple[NDArray, ...]:
        from zenith.ir.interpret import Caller

        return tuple(self.run(Caller({}), values, params))


# A reverse rule of several results asks for Cotangents, some of which may be None; one of a single result for Values.
# Passes batch, too, primitives without subgraphs, for which any Builder will do.
JvpRule = Callable[["SubgraphBuilder", "Values", "Tangents", "Values", Params], "Tangents"]
VjpRule = Callable[["SubgraphBuilder", "Values", "Values", "Values", Params], "Cotangents"]
BatchRule = Callable[[Any, "Values", Sequence[bool], "Dim", Params], "Values"]
Residuals = TypeVar("Residuals")


@dataclass(frozen=True, slots=True)
class NoRule:
    """A rule that does not exist, and why. Calling it raises that reason."""

    kind: str
    reason: str

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise ZenithError(f"no {self.kind} rule: {self.reason}")


@dataclass(frozen=True, slots=True)
class WithResiduals(Generic[Residuals]):
    """A reverse rule in two passes, for primitives with subgraphs: ``forward`` saves residuals for ``backward``.

    ``forward(b, primals, params) -> (outputs, residuals)`` replaces the primitive itself, and ``backward(b, primals,
    outputs, cotangents, residuals, params)`` gives the arguments' cotangents.
    """

    forward: Callable[[SubgraphBuilder, Values, Params], tuple[Values, Residuals]]
    backward: Callable[[SubgraphBuilder, Values, Values, Values, Residuals, Params], Cotangents]


def not_differentiable(reason: str) -> NoRule:
    """The derivative rule of an operation without derivative; ``reason`` is in the error's text."""
    return NoRule("derivative", reason)


def not_batchable(reason: str) -> NoRule:
    """The batching rule of an operation that cannot be batched; ``reason`` is in the error's text."""
    return NoRule("batching", reason)


@dataclass(frozen=True, slots=True)
class Sample:
    """Arguments and parameters on which tests run a primitive; ``values`` are NumPy arrays."""

    values: tuple[NDArray, ...]
    params: Params


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    """One operation, complete.

    Attributes
    ----------
    name: the word in the text form and on the builder.
    doc: one sentence.
    params: parameter name -> kind, a key of :data:`zenith.ir.params.KINDS`; decides printing, parsing, sizes.
    typing: ``(argument types, params) -> result types``; raises ZenithError when they do not fit.
    evaluate: ``(NumPy arrays, params with sizes as ints) -> results``: the reference.
    lowering: how a kernel computes it, see :mod:`zenith.ir.lowering`.
    jvp: ``(b, primals, tangents, outputs, params) -> output tangents``; a None tangent is zero.
    vjp: ``(b, primals, outputs, cotangents, params) -> argument cotangents``, None where zero, on either side: some of
        several results may have none; or, for primitives that hold subgraphs, :class:`WithResiduals`.
    batch: ``(b, args, batched, size, params) -> outputs``, all with a new leading axis; ``batched[i]`` says whether
        argument i has one.
    ulp: error of a floating-point result in units of the last place, given exact arguments.
    effect: whether it must stay in order (its first argument and result are tokens).
    samples: makes samples for an element type; an empty list when the type is not supported.
    speculatable: whether it may run where its results are not used: it raises for no values, and ends.
    subgraphs: the parameters that hold subgraphs; follows from ``params``, and every pass asks.
    """

    name: str
    doc: str
    params: Mapping[str, str]
    typing: TypeRule
    evaluate: Evaluate
    lowering: Lowering
    jvp: JvpRule | NoRule
    vjp: VjpRule | NoRule | WithResiduals[Any]
    batch: BatchRule | NoRule
    ulp: float
    effect: bool
    samples: Callable[[NumPyType], Iterable[Sample]]
    speculatable: bool = True
    subgraphs: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        found = tuple(name for name, kind in self.params.items() if kind in ("graph", "graphs"))
        object.__setattr__(self, "subgraphs", found)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"


_REGISTRY: dict[str, Primitive] = {}


def register(primitive: Primitive) -> Primitive:
    """Add a record to the registry; a second one of the same name is refused."""
    if primitive.name in _REGISTRY:
        raise ValueError(f"primitive {primitive.name!r} is already registered")
    if not primitive.name.isidentifier():
        raise ValueError(f"a primitive is named by a Python identifier, not {primitive.name!r}")
    _REGISTRY[primitive.name] = primitive
    return primitive


def get(name: str) -> Primitive:
    """The record called ``name``; KeyError when there is none."""
    return _REGISTRY[name]


def all_primitives() -> tuple[Primitive, ...]:
    """Every registered record, in order of registration."""
    return tuple(_REGISTRY.values())
