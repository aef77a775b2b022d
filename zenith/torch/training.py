"""Training a module that :func:`zenith.from_torch` compiled: a forward and a backward pass, for PyTorch's autograd.

The module's export is traced with its weights as arguments, differentiated in reverse mode as one graph, and split
where the cotangents come in (:mod:`zenith.transforms.split`): the forward pass gives results, new contents of buffers,
and the residuals of the backward pass. Autograd itself saves these, and checks that nobody writes to those that are
arguments or results meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count
from operator import or_
from typing import Any

import torch

from zenith.api.devices import Where
from zenith.api.forms import Result
from zenith.api.inspection import Inspectable
from zenith.api.leaves import dtype_text
from zenith.api.programs import TracedProgram
from zenith.api.specialize import Request, Specializer
from zenith.cached import cached_property
from zenith.errors import UnsupportedError
from zenith.ir.dims import dim, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.guards import Guard
from zenith.ir.types import ArrayType, has_derivative, uint8
from zenith.torch.sizes import Size
from zenith.trace import InputSpec, Recorder, TraceResult
from zenith.trace.recorder import recording
from zenith.transforms.blocked_residuals import block_residuals
from zenith.transforms.reverse import vjp_graph
from zenith.transforms.split import Split, split_for_backward

_numbers = count(1)
Tensors = Sequence[torch.Tensor]
Blank = tuple[torch.Size, torch.dtype, torch.device]


@dataclass(frozen=True)
class Recorded:
    """A module's program with its weights among the arguments, before it is differentiated.

    ``written`` are the indices of the arguments, buffers, whose new contents are the last results.
    """

    program: TracedProgram
    written: Sequence[int]


class TrainingPass(Inspectable):
    """One of a step's two passes: ``show``, ``explain``, ``cache_info`` and ``graph`` describe its programs."""

    def __init__(self, name: str, like: Specializer) -> None:
        self.__name__ = name
        self._specializer = Specializer(name, like.max_compilations, like.numerics)

    def run(self, key: Hashable, leaves: Tensors, where: Where, build: Callable[[], TracedProgram]) -> Any:
        """The results of a call, compiled for when there is no program for it yet."""
        found = self._specializer.find(key, leaves)
        if found is not self._specializer:
            return found
        request = Request(leaves, build, lambda: tuple(map(dtype_text, leaves)), where)
        return self._specializer.make(key, request)


class Training:
    """The two passes of a module's steps.

    Attributes
    ----------
    forward: from weights and arguments to results and residuals.
    backward: from residuals and cotangents of the results to cotangents of weights and arguments.
    """

    def __init__(self, name: str, like: Specializer) -> None:
        self.forward, self.backward = TrainingPass(f"{name}_forward", like), TrainingPass(f"{name}_backward", like)

    def clear(self, why: str) -> None:
        """Forget all programs."""
        for one in (self.forward, self.backward):
            one._specializer.clear(why)

    def step(self, key: Hashable, tensors: Tensors, where: Where, build: Callable[[], Recorded]) -> object:
        """What the module returns for ``tensors``, some of which require gradients: autograd records the step.

        ``build`` traces a program of these tensors.
        """
        wanted = tuple(t.requires_grad for t in tensors)
        call = _Call(self.forward, (key, wanted), where, lambda: _forward_pass(build(), wanted, self.backward, where))
        results = _Step.apply(call, *tensors)
        with torch.no_grad():
            return call.backward_pass.finish(list(results))


@dataclass(eq=False)
class _Call:
    """One call of a forward pass; ``backward_pass`` is that of its program, once it ran."""

    training_pass: TrainingPass
    key: Hashable
    where: Where
    build: Callable[[], TracedProgram]

    def run(self, tensors: Tensors) -> list[torch.Tensor]:
        """All that the program gives."""
        self.backward_pass: _BackwardPass
        self.backward_pass, results = self.training_pass.run(self.key, tensors, self.where, self.build)
        return results


class _Step(torch.autograd.Function):
    """One step, as a node of PyTorch's autograd."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = call.run(tensors)
        backward = ctx.backward_pass = call.backward_pass
        ctx.set_materialize_grads(backward.single_cotangent)
        ctx.shapes = backward.shapes(tensors, results)
        ctx.sizes = [tensors[index].shape[axis] for index, axis in backward.sizes]
        ctx.save_for_backward(*backward.residuals(tensors, results))
        outputs = results[: len(backward.differentiable)]
        ctx.mark_non_differentiable(*(t for t, flag in zip(outputs, backward.differentiable, strict=True) if not flag))
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise UnsupportedError(
                f"{ctx.backward_pass.training_pass.__name__} has no second derivative: its gradients are not recorded",
                fix="leave out create_graph=True, or differentiate functional() twice by zenith.grad",
            )
        return None, *ctx.backward_pass.gradients(ctx.saved_tensors, cotangents, ctx.sizes, ctx.shapes)


@dataclass(frozen=True)
class _BackwardPass:
    """The backward pass that belongs to one program of the forward pass, and what it takes from that.

    Attributes
    ----------
    graph: of the backward pass.
    finish: builds what the module returns from the results, and writes buffers.
    differentiable: of each result whether PyTorch would record a gradient for it.
    saved: for each residual whether it is an argument (or else a result) of the forward pass, and its index.
    sizes: for each size that no other argument of the backward pass binds, the argument that has it, and the axis.
    reached: of each argument whether its gradient is computed, from cotangents.
    dependents: of each argument that wants a gradient the differentiable results that depend on it, by their number.
    definitions: of the sizes that Python computes.
    """

    training_pass: TrainingPass
    where: Where
    graph: Graph
    finish: Callable[[list[object]], object]
    differentiable: Sequence[bool]
    saved: Sequence[tuple[bool, int]]
    sizes: Sequence[tuple[int, int]]
    reached: Sequence[bool]
    dependents: Sequence[set[int]]
    definitions: tuple[tuple[str, str], ...]
    number: int

    @cached_property
    def single_cotangent(self) -> bool:
        """Whether there is one cotangent only, which every backward pass is given."""
        return sum(self.differentiable) == 1

    @cached_property
    def zero_gradients(self) -> Sequence[int]:
        """The arguments whose gradients are zeros for any cotangents, such as those of a rounded value."""
        return [n for n, (reached, results) in enumerate(zip(self.reached, self.dependents, strict=True))
                if results and not reached]  # fmt: skip

    def shapes(self, tensors: Tensors, results: Tensors) -> list[Blank]:
        """The shapes of zeros in the backward pass: of gradients that are zero, then of cotangents not given."""
        blank = [_blank(tensors[n]) for n in self.zero_gradients]
        if not self.single_cotangent:
            blank += [_blank(r) for r, flag in zip(results, self.differentiable, strict=False) if flag]
        return blank

    def residuals(self, tensors: Tensors, results: Tensors) -> list[torch.Tensor]:
        """The arguments and results of the forward pass that autograd saves for the backward pass."""
        return [(tensors if is_argument else results)[index] for is_argument, index in self.saved]

    def gradients(
        self, saved: Tensors, cotangents: Sequence[torch.Tensor | None], sizes: Sequence[int], blank: Sequence[Blank]
    ) -> list[torch.Tensor | None]:
        """The gradients of all arguments; None for those that want none or do not matter, as in PyTorch."""
        given = [c for c, flag in zip(cotangents, self.differentiable, strict=True) if flag]
        there = {number for number, c in enumerate(given) if c is not None}
        matters = [not there.isdisjoint(results) for results in self.dependents]
        found: list[torch.Tensor | None] = [None] * len(self.reached)
        for number, of in zip(self.zero_gradients, blank, strict=False):
            found[number] = _zeros(of) if matters[number] else None
        if there and any(self.reached):
            blanks: Sequence[Blank | None] = blank[len(self.zero_gradients) :] or [None] * len(given)
            seeds = [_adjoint(_zeros(of) if c is None else c) for c, of in zip(given, blanks, strict=True)]
            leaves = [*saved, *seeds, *(Size(dim(n), seeds[0].device).leaf(n) for n in sizes)]
            computed = iter(self.training_pass.run(self.number, leaves, self.where, lambda: self._program(leaves)))
            for number, reached in enumerate(self.reached):
                gradient = next(computed) if reached else None
                if gradient is not None and matters[number]:
                    found[number] = _adjoint(gradient)
        return found

    def _program(self, leaves: Tensors) -> TracedProgram:
        specs = []
        for value, leaf in zip(self.graph.inputs, leaves, strict=True):
            assert isinstance(value.type, ArrayType), "a backward pass takes arrays"
            name = str(self.graph.node(value.node).params["name"])
            specs.append(InputSpec(name, value.type.dtype, value.type.shape, tuple(leaf.shape)))
        weak = (False,) * len(self.graph.outputs)
        traced = TraceResult(self.graph, tuple(specs), (), weak, (), (), False, (), self.definitions)
        return TracedProgram(traced, _flat(lambda results: results))


def _blank(tensor: torch.Tensor) -> Blank:
    return tensor.shape, tensor.dtype, tensor.device


def _zeros(blank: Blank | None) -> torch.Tensor:
    assert blank is not None, "a single cotangent is always given"
    shape, dtype, device = blank
    return torch.zeros(shape, dtype=dtype, device=device)


def _adjoint(tensor: torch.Tensor) -> torch.Tensor:
    """A cotangent in the other convention: PyTorch's gradient of a real number by z is the conjugate of Zenith's."""
    return tensor.conj().resolve_conj() if tensor.is_complex() else tensor.resolve_neg()


def _forward_pass(
    recorded: Recorded, wanted: Sequence[bool], training_pass: TrainingPass, where: Where
) -> TracedProgram:
    """The forward pass of a program; its results are a pair of a :class:`_BackwardPass` and all of its tensors."""
    program, traced = recorded.program, recorded.program.traced
    graph, count_of_results = traced.graph, len(traced.outputs_weak)
    own = count_of_results - len(recorded.written)
    bits = _dependences(graph, wanted)
    by = [bits[v.node, v.output] if index < own else 0 for index, v in enumerate(graph.outputs[:count_of_results])]
    differentiable = [inputs != 0 for inputs in by]
    seeded = [*differentiable, *[False] * (len(graph.outputs) - count_of_results)]
    joint = vjp_graph(graph, wanted, seeded)
    recorder = Recorder(graph.name, (), where.traffic)
    with recording(recorder):
        late = [False] * len(graph.inputs) + [True] * sum(seeded)
        passes = split_for_backward(joint, late, None, ())  # two programs: nothing that is recomputed can be merged
    passes = block_residuals(passes, channels_last=where.is_gpu)
    passes.known.name, passes.unknown.name = f"{graph.name}_forward", f"{graph.name}_backward"
    saved = _save_residuals(passes, count_of_results, len(graph.outputs), set(recorded.written))
    sizes = _bind_sizes(passes.unknown, graph)
    _copy_guards(passes, graph.guards)
    waits = iter(passes.waits[len(graph.outputs) :])
    reached = [want and next(waits) for want in wanted]
    by = [inputs for inputs in by if inputs]
    dependents = [{r for r, inputs in enumerate(by) if inputs >> n & 1} for n in range(len(graph.inputs))]
    backward_pass = _BackwardPass(
        training_pass, where, passes.unknown, program.result.build, differentiable, saved, sizes, reached, dependents,
        traced.definitions, next(_numbers),
    )  # fmt: skip
    weak = (False,) * (len(passes.known.outputs) - traced.has_effects)
    forward = replace(traced, graph=passes.known, outputs_weak=weak, residuals=tuple(recorder.residuals))
    return TracedProgram(forward, _flat(lambda results: (backward_pass, results)), program.conditions)


def _dependences(graph: Graph, wanted: Sequence[bool]) -> Mapping[tuple[int, int], int]:
    """Which wanted inputs each value depends on, one bit for each, as PyTorch records it: all but where gradients stop.

    A value that is constant because it is rounded, or multiplied by 0, has a gradient of zeros.
    """
    found = {(value.node, 0): int(flag) << n for n, (value, flag) in enumerate(zip(graph.inputs, wanted, strict=True))}
    for number, node in graph.nodes():
        if node.primitive.name != "input":
            stops = node.primitive.name == "stop_gradient"
            by = 0 if stops else reduce(or_, (found[a.node, a.output] for a in graph.args(number)), 0)
            found |= {(number, index): by if has_derivative(type) else 0 for index, type in enumerate(node.types)}
    return found


def _save_residuals(passes: Split, results: int, originals: int, written: set[int]) -> list[tuple[bool, int]]:
    """Where the residuals are; those that are neither argument nor result become results of the forward pass.

    The value of an argument that is written to at the end becomes a result, too.
    """
    known = passes.known
    arguments = {value: index for index, value in enumerate(known.inputs) if index not in written}
    found: dict[Value, tuple[bool, int]] = {value: (True, index) for value, index in arguments.items()}
    outputs = list(known.outputs[:results])
    for index, value in enumerate(outputs):
        found.setdefault(value, (False, index))
    for value in passes.residual_values:
        if value not in found:
            found[value] = (False, len(outputs))
            outputs.append(value)
    saved = [found[value] for value in passes.residual_values]
    known.set_outputs([*outputs, *known.outputs[results:originals]])  # a token of effects stays the last
    return saved


def _bind_sizes(backward: Graph, graph: Graph) -> list[tuple[int, int]]:
    """Give the backward pass an argument for each size that is the length of no axis; return whose lengths they are."""
    bound = {str(size) for value in backward.inputs if isinstance(value.type, ArrayType) for size in value.type.shape}
    sources: dict[str, tuple[int, int]] = {}
    for index, value in enumerate(graph.inputs):
        assert isinstance(value.type, ArrayType), "a module takes tensors"
        for axis, size in enumerate(value.type.shape):
            sources.setdefault(str(size), (index, axis))
    missing = [name for name in graph.symbols() if name not in bound]
    for name in missing:
        backward.add_input(ArrayType(uint8, (symbol(name), dim(0))), f"length_{name}")
    return [sources[name] for name in missing]


def _copy_guards(passes: Split, guards: Sequence[Guard]) -> None:
    """Give both passes the guards of the whole program on their sizes."""
    for graph in (passes.known, passes.unknown):
        symbols = set(graph.symbols())
        graph.guards = tuple(g for g in guards if {*g.left.symbols(), *g.right.symbols()} <= symbols)


def _flat(build: Callable[[list[object]], object]) -> Result:
    return Result(build, _never, _never)


def _never() -> object:
    raise AssertionError("programs of training are not saved")
