"""The planner: from a fused graph to its plan, one node after the other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from zenith.backends.bias_gradient import arranged
from zenith.backends.control import PLANS
from zenith.backends.foreign_calls import plan_call
from zenith.backends.fused_groups import plan_group
from zenith.backends.group_order import scheduled
from zenith.backends.outputs import own_outputs
from zenith.backends.plan import Plan
from zenith.backends.plan_builder import PlanBuilder
from zenith.backends.sequential_loops import plan_sequential
from zenith.backends.steps import Allocation, LoopStep, Step, Weight, symbols_of_step, walk
from zenith.backends.target import Target
from zenith.errors import UnsupportedError
from zenith.ir.dims import dim
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import HostCall, NativeCall
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType


def plan(graph: Graph, target: Target, reusable: Collection[str] = ()) -> Plan:
    """The plan of a fused graph; the memory of inputs that are ``reusable`` is the program's once they are dead."""
    own = scheduled(own_outputs(graph))
    return Planner(arranged(own) if target.libraries else own, target).plan(reusable)


class Planner(PlanBuilder):
    """Plans a graph, or a body in a graph, whose inputs and outputs are allocated already."""

    def plan(self, reusable: Collection[str] = ()) -> Plan:
        """The plan of a whole graph."""
        inputs = []
        for value in self.graph.inputs:
            name = str(self.graph.node(value.node).params["name"])
            inputs.append(name)
            self.buffers.put(value.node, Allocation("input", name))
            if name in reusable and isinstance(value.type, ArrayType):
                self.arena.allow_reuse(name, value.type.size, value.type.dtype)
        self.buffers.put_outputs([Allocation("output", f"result{i}") for i in range(len(self.graph.outputs))])
        steps = self._all_steps()
        returned = enumerate(self.buffers.returned)
        outputs = tuple((f"result{i}", self._largest(v.type)) for i, v in returned if isinstance(v.type, ArrayType))
        found = {s for step in walk(steps) for s in symbols_of_step(step)} | self._outer_symbols()
        symbols = tuple(sorted(found - {step.index for step in walk(steps) if isinstance(step, LoopStep)}))
        shared, slots = self.shared, self.arena.slots()
        arena = slots[-1].offset + slots[-1].length if slots else dim(0)
        return Plan(
            self.graph.name, symbols, tuple(inputs), outputs, shared.constants, shared.weights, slots,
            arena, tuple(shared.prepared), steps, shared.counters, tuple(shared.groups),
        )  # fmt: skip

    def _all_steps(self) -> tuple[Step, ...]:
        self.shared.constants.update(self.graph.constants)
        for number, node in self.graph.nodes():
            self.first_step[number] = len(self.steps)
            self._visit(number, node)
            self.buffers.release(number)
        return tuple(self.steps)

    def body(
        self,
        graph: Graph,
        inputs: Sequence[Allocation],
        outputs: Sequence[Allocation],
        invariant: Iterable[Allocation] | None,
        between: Mapping[Value, Allocation],
        index: str = "",
    ) -> tuple[Step, ...]:
        planner = Planner(own_outputs(graph), self.target, self, invariant, index)
        planner.buffers.bind(inputs, outputs, between)
        return planner._all_steps()

    def _largest(self, type: ArrayType) -> ArrayType:
        """The type of a result with sizes that the program computes as large as they can be."""
        return type.with_shape(map(self.arena.largest, type.shape))

    def _outer_symbols(self) -> set[str]:
        """The symbols of the sizes of inputs and results."""
        found = set(self.graph.symbols())
        for value in self.graph.outputs:
            if isinstance(value.type, ArrayType):
                found |= {s for size in self._largest(value.type).shape for s in size.symbols()}
        return found

    def _visit(self, number: int, node: Node) -> None:
        if node.primitive is get("constant"):
            self.buffers.put(number, Allocation("constant", node.params["id"]))
        elif node.primitive is get("weight"):
            allocation = self.buffers.put(number, Allocation("weight", f"weight {node.params['name']}"))
            (type,) = node.types
            assert isinstance(type, ArrayType)
            self.shared.weights[allocation.name] = Weight(node.params["name"], type)
        elif node.primitive is get("empty"):
            self.buffers.put_results(number)
        elif node.primitive is get("fused"):
            plan_group(self, number, node)
        elif node.primitive.name in PLANS:
            self._control(number, node)
        elif isinstance(node.primitive.lowering, HostCall | NativeCall):
            plan_call(self, number, node)

    def _control(self, number: int, node: Node) -> None:
        """A loop or branch: kernels, where it is a loop over scalars, or steps with the steps of its bodies."""
        if node.params.get("index") and not self.target.sized_loops:
            what = f"sizes that differ from turn to turn of a {node.primitive.name} on {self.target.name}"
            raise UnsupportedError(what, where=node.line, fix="write it with sizes that are the same in all turns")
        if node.primitive is get("sized"):
            self.arena.note_index(node.params["index"], node.params["most"])
        self.buffers.reuse(number)
        args, results = [self.buffers.of(a) for a in self.graph.args(number)], self.buffers.put_results(number)
        if not plan_sequential(self, number, node, args, results):
            self.steps.append(PLANS[node.primitive.name](self, node, args, results))
