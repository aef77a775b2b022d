"""The rules of a user's operation, traced when a transform needs them, and inlined into its graph."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import zenith.numpy as znp
from zenith import tree
from zenith.errors import ZenithError
from zenith.ir.builder import SubgraphBuilder, Tangents, Values
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph, Value
from zenith.ir.ops.common import floats
from zenith.ir.primitive import Params
from zenith.ir.types import ArrayType, has_derivative
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bodies import BodyRecorder
from zenith.trace.nested import record_function
from zenith.trace.recorder import current_recorder
from zenith.trace.sizes import user_size
from zenith.trace.tracing import recorded_graph
from zenith.transforms.calls import FlatResults
from zenith.transforms.custom import gradients_of, require_types, result_and_tangents
from zenith.tree import Tree


class WithRules(Protocol):
    """The attributes of :class:`~zenith.outside.operation.CustomOp` that its rules read."""

    __name__: str
    jvp_rule: Callable[..., Tree] | None
    vjp_rules: tuple[Callable[..., Tree], Callable[..., Tree]] | None
    vmap_rule: Callable[..., Tree] | None


@dataclass(frozen=True)
class _Saved:
    """A forward rule's residuals, and their structure."""

    residuals: list[Value]
    treedef: tree.TreeDef


@dataclass(frozen=True)
class OperationRules:
    """The rules of an operation for given structures of arguments and results, and keywords.

    Operations mapped over leading axes have rules for one example, which are batched.
    """

    operation: WithRules
    inputs: tree.TreeDef
    outputs: tree.TreeDef
    static: dict[str, Hashable]

    def jvp(self, b: SubgraphBuilder, primals: Values, tangents: Tangents, outputs: Values, params: Params) -> Values:
        """The tangents of the results that have a derivative."""
        if self.operation.jvp_rule is None:
            self._refuse("forward mode", "@{0}.defjvp", self.operation.vjp_rules is not None)
        given = [b.zeros_like(p) if t is None else t for p, t in zip(primals, tangents, strict=True) if floats([p])[0]]
        found: Values = b.inline(self._tangents(b, primals, params), [*primals, *given])
        return found

    def forward(self, b: SubgraphBuilder, primals: Values, params: Params) -> tuple[Values, _Saved] | None:
        """The results with residuals of the backward pass; None where that is the transpose of the jvp rule."""
        if self.operation.vjp_rules is None:
            if self.operation.jvp_rule is None:
                self._refuse("reverse mode", "{0}.defvjp(forward, backward) or @{0}.defjvp", False)
            return None
        rule = self.operation
        flat = FlatResults(self.operation.vjp_rules[0], forward_of=rule.__name__)
        types = _examples(primals, params)
        graph = _traced(
            f"{rule.__name__}_forward", lambda *v: flat(*tree.unflatten(self.inputs, v), **self.static), types
        )
        count = len(params["results"])
        require_types(graph.outputs[:count], _results(params), f"the result of {rule.__name__}'s forward rule")
        found = b.inline(_mapped(b, graph, params), primals)
        return found[:count], _Saved(list(found[count:]), flat.aux_treedef)

    def backward(self, b: SubgraphBuilder, primals: Values, cotangents: Values, saved: Any, params: Params) -> Values:
        """The cotangents of the operands that have a derivative."""
        moving = [v for v in primals if floats([v])[0]]
        if saved is None:
            graph = self._tangents(b, primals, params)
            wanted = [i >= len(primals) for i in range(len(graph.inputs))]
            joint = b.vjp_of(graph, wanted, [True] * len(graph.outputs))
            found: Values = b.inline(joint, [*primals, *map(b.zeros_like, moving), *cotangents])[len(graph.outputs) :]
            return found
        assert self.operation.vjp_rules is not None
        rule, name = self.operation.vjp_rules[1], self.operation.__name__
        types, results = _examples(primals, params), _results(params)

        def flat(*leaves: Array) -> list[Array]:
            given = iter(leaves[len(saved.residuals) :])
            cotangents = [next(given) if has_derivative(t) else znp.zeros(t.shape) for t in results]
            residuals = tree.unflatten(saved.treedef, leaves[: len(saved.residuals)])
            found = rule(residuals, tree.unflatten(self.outputs, cotangents), **self.static)
            return gradients_of(found, tree.unflatten(self.inputs, range(len(types))), types, name)

        graph = _traced(f"{name}_backward", flat, _examples([*saved.residuals, *cotangents], params))
        require_types(graph.outputs, _examples(moving, params), f"the cotangents of {name}'s backward rule")
        found = b.inline(_mapped(b, graph, params), [*saved.residuals, *cotangents])
        return found

    def batch(
        self, b: SubgraphBuilder, args: Sequence[Any], batched: Sequence[bool], size: Dim, params: Params
    ) -> Values | None:
        """All results with the examples on a new leading axis; None when there is no rule."""
        rule, name = self.operation.vmap_rule, self.operation.__name__
        if rule is None:
            return None

        def flat(*leaves: Array) -> list[Array]:
            given, flags = (tree.unflatten(self.inputs, v) for v in (leaves, batched))
            return results(user_size(size, current_recorder()), flags, *given, **self.static)

        results = FlatResults(rule)
        graph = _traced(f"{name}_vmap", flat, [v.type for v in args])
        wanted = [t.with_shape((size, *t.shape)) for t in params["results"]]
        require_types(graph.outputs, wanted, f"the result of {name}'s vmap rule")
        found: Values = b.inline(graph, args)
        return found

    def _tangents(self, b: SubgraphBuilder, primals: Values, params: Params) -> Graph:
        """The graph of the results' tangents, of operands and of the tangents of those that have a derivative."""
        rule, name, types = self.operation.jvp_rule, self.operation.__name__, _examples(primals, params)
        assert rule is not None
        moving, count = [has_derivative(t) for t in types], len(params["results"])

        def flat(*leaves: Array) -> list[Array]:
            own, given = leaves[: len(types)], iter(leaves[len(types) :])
            moved = [next(given) if m else znp.zeros_like(p) for m, p in zip(moving, own, strict=True)]
            found = rule(tree.unflatten(self.inputs, own), tree.unflatten(self.inputs, moved), **self.static)
            return result_and_tangents(found, name)[count:]

        graph = _traced(f"{name}_jvp", flat, [*types, *(t for t, m in zip(types, moving, strict=True) if m)])
        wanted = [t for t in _results(params) if has_derivative(t)]
        require_types(graph.outputs, wanted, f"the tangents of {name}'s rule")
        return _mapped(b, graph, params)

    def _refuse(self, mode: str, rule: str, other: bool) -> None:
        name = self.operation.__name__
        why = f"a rule for reverse mode only, and this is {mode}" if other else "no derivative"
        raise ZenithError(f"{name} has {why}", fix=f"give it a rule: {rule.format(name)}")


def _examples(values: Sequence[Any], params: Params) -> list[ArrayType]:
    """The types of one example's values."""
    return [v.type.with_shape(v.type.shape[params["mapped"] :]) for v in values]


def _results(params: Params) -> list[ArrayType]:
    return [t.with_shape(t.shape[params["mapped"] :]) for t in params["results"]]


def _mapped(b: SubgraphBuilder, graph: Graph, params: Params) -> Graph:
    """A graph of one example, batched over the mapped axes."""
    for size in reversed(params["results"][0].shape[: params["mapped"]]):
        graph = b.batched_of(graph, size)
    return graph


def _traced(name: str, function: Callable[..., Sequence[ArrayLike]], types: Sequence[ArrayType]) -> Graph:
    """The graph of a rule, which shares only knowledge of sizes with a trace around it."""
    around = current_recorder()
    recorder = BodyRecorder(name, None, runs_alone=False)
    if around is not None:
        recorder.share_sizes(around)
    _, outputs = record_function(recorder, function, types, [False] * len(types))
    recorder.graph.set_outputs(outputs)
    return recorded_graph(recorder)
