"""Training a module that :func:`zenith.from_torch` compiled: a way forward and a way back, for PyTorch's autograd.

The module's export is traced with its weights as arguments, differentiated in reverse mode as one graph, and split
where the cotangents come in (:mod:`zenith.transforms.split`): the way forward gives results, new contents of buffers,
and what the way back needs. What that has of arguments and results is kept by autograd itself, which also watches that
nobody writes to it meanwhile.
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
from zenith.api.specialize import Program, Request, Specializer
from zenith.cached import cached_property
from zenith.errors import UnsupportedError
from zenith.ir.dims import dim, symbol
from zenith.ir.graph import Graph, Guard, Value
from zenith.ir.types import ArrayType, has_derivative, uint8
from zenith.torch.sizes import Size
from zenith.trace import InputSpec, Recorder, Traced
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

    ``written`` are the places of the arguments, buffers, whose new contents are the last results.
    """

    program: Program
    written: Sequence[int]


class TrainingPass(Inspectable):
    """One of the two ways of a step: ``show``, ``explain``, ``cache_info`` and ``graph`` tell of its programs."""

    def __init__(self, name: str, like: Specializer) -> None:
        self.__name__ = name
        self._specializer = Specializer(like.backend, name, like.max_compilations, like.numerics)

    def run(self, key: Hashable, leaves: Tensors, where: Where, build: Callable[[], Program]) -> Any:
        """The results of a call, compiled for when there is no program for it yet."""
        found = self._specializer.find(key, leaves)
        if found is not self._specializer:
            return found
        request = Request(leaves, build, lambda: tuple(map(dtype_text, leaves)), where)
        return self._specializer.make(key, request)


class Training:
    """The two ways of a module's steps.

    Attributes
    ----------
    forward: from weights and arguments to results, and to what is kept for the way back.
    backward: from what was kept and cotangents of the results to those of weights and arguments.
    """

    def __init__(self, name: str, like: Specializer) -> None:
        self.forward, self.backward = TrainingPass(f"{name}_forward", like), TrainingPass(f"{name}_backward", like)

    def clear(self, why: str) -> None:
        """Forget all programs."""
        for way in (self.forward, self.backward):
            way._specializer.clear(why)

    def step(self, key: Hashable, tensors: Tensors, where: Where, build: Callable[[], Recorded]) -> Any:
        """What the module returns for ``tensors``, some of which require gradients: autograd finds the way back.

        ``build`` traces a program of these tensors.
        """
        wanted = tuple(t.requires_grad for t in tensors)
        call = _Call(self.forward, (key, wanted), where, lambda: _forward_pass(build(), wanted, self.backward, where))
        results = _Step.apply(call, *tensors)
        with torch.no_grad():
            return call.halves.finish(list(results))


@dataclass(eq=False)
class _Call:
    """One call of a way forward; ``halves`` are those of its program, once it ran."""

    way: TrainingPass
    key: Hashable
    where: Where
    build: Callable[[], Program]

    def run(self, tensors: Tensors) -> list[torch.Tensor]:
        """All that the program gives."""
        self.halves: _Halves
        self.halves, results = self.way.run(self.key, tensors, self.where, self.build)
        return results


class _Step(torch.autograd.Function):
    """One step, as a node of PyTorch's autograd."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = call.run(tensors)
        halves = ctx.halves = call.halves
        ctx.set_materialize_grads(halves.alone)
        ctx.shapes = halves.shapes(tensors, results)
        ctx.sizes = [tensors[place].shape[axis] for place, axis in halves.sizes]
        ctx.save_for_backward(*halves.kept(tensors, results))
        outputs = results[: len(halves.moving)]
        ctx.mark_non_differentiable(*(t for t, moves in zip(outputs, halves.moving, strict=True) if not moves))
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise UnsupportedError(
                f"{ctx.halves.way.__name__} has no second derivative: its gradients are not recorded",
                fix="leave out create_graph=True, or differentiate functional() twice by zenith.grad",
            )
        return None, *ctx.halves.back(ctx.saved_tensors, cotangents, ctx.sizes, ctx.shapes)


@dataclass(frozen=True)
class _Halves:
    """What belongs to one program of the way forward: the way back, and what that takes of it.

    Attributes
    ----------
    graph: of the way back.
    finish: makes of the results what the module returns, and writes buffers.
    moving: of each result whether PyTorch would record a gradient for it.
    handed: for each residual whether it is an argument (or else a result) of the way forward, and which.
    sizes: where the sizes stand that no other argument of the way back tells: the argument's place, and the axis.
    reached: of each argument whether its gradient is computed, from cotangents.
    behind: of each argument that wants a gradient the numbers of the moving results that it moves, of others nothing.
    definitions: of the sizes that Python computes.
    """

    way: TrainingPass
    where: Where
    graph: Graph
    finish: Callable[[list[Any]], Any]
    moving: Sequence[bool]
    handed: Sequence[tuple[bool, int]]
    sizes: Sequence[tuple[int, int]]
    reached: Sequence[bool]
    behind: Sequence[set[int]]
    definitions: tuple[tuple[str, str], ...]
    number: int

    @cached_property
    def alone(self) -> bool:
        """Whether there is one cotangent only, which every way back is given."""
        return sum(self.moving) == 1

    @cached_property
    def still(self) -> Sequence[int]:
        """The arguments whose gradients are zeros whatever cotangents are, such as those of what is rounded."""
        return [n for n, (reached, behind) in enumerate(zip(self.reached, self.behind, strict=True))
                if behind and not reached]  # fmt: skip

    def shapes(self, tensors: Tensors, results: Tensors) -> list[Blank]:
        """What zeros are made of on the way back: those of still arguments, then those of cotangents not given."""
        blank = [_blank(tensors[n]) for n in self.still]
        if not self.alone:
            blank += [_blank(r) for r, moves in zip(results, self.moving, strict=False) if moves]
        return blank

    def kept(self, tensors: Tensors, results: Tensors) -> list[torch.Tensor]:
        """The residuals."""
        return [(tensors if is_argument else results)[place] for is_argument, place in self.handed]

    def back(
        self, kept: Tensors, cotangents: Sequence[torch.Tensor | None], sizes: Sequence[int], blank: Sequence[Blank]
    ) -> list[torch.Tensor | None]:
        """The gradients of all arguments; None for those that want none or play no part, as in PyTorch."""
        given = [c for c, moves in zip(cotangents, self.moving, strict=True) if moves]
        there = {number for number, c in enumerate(given) if c is not None}
        plays = [not there.isdisjoint(results) for results in self.behind]
        found: list[torch.Tensor | None] = [None] * len(self.reached)
        for number, of in zip(self.still, blank, strict=False):
            found[number] = _zeros(of) if plays[number] else None
        if there and any(self.reached):
            blanks: Sequence[Blank | None] = blank[len(self.still) :] or [None] * len(given)
            moved = [_adjoint(_zeros(of) if c is None else c) for c, of in zip(given, blanks, strict=True)]
            leaves = [*kept, *moved, *(Size(dim(n), moved[0].device).leaf(n) for n in sizes)]
            computed = iter(self.way.run(self.number, leaves, self.where, lambda: self._program(leaves)))
            for number, reached in enumerate(self.reached):
                gradient = next(computed) if reached else None
                if gradient is not None and plays[number]:
                    found[number] = _adjoint(gradient)
        return found

    def _program(self, leaves: Tensors) -> Program:
        specs = []
        for value, leaf in zip(self.graph.inputs, leaves, strict=True):
            assert isinstance(value.type, ArrayType), "a way back takes arrays"
            name = str(self.graph.node(value.node).params["name"])
            specs.append(InputSpec(name, value.type.dtype, value.type.shape, tuple(leaf.shape)))
        weak = (False,) * len(self.graph.outputs)
        traced = Traced(self.graph, tuple(specs), (), weak, (), (), False, (), self.definitions)
        return Program(traced, _flat(lambda results: results))


def _blank(tensor: torch.Tensor) -> Blank:
    return tensor.shape, tensor.dtype, tensor.device


def _zeros(blank: Blank | None) -> torch.Tensor:
    assert blank is not None, "a single cotangent is always given"
    shape, dtype, device = blank
    return torch.zeros(shape, dtype=dtype, device=device)


def _adjoint(tensor: torch.Tensor) -> torch.Tensor:
    """A cotangent in the other convention: PyTorch's gradient of a real number by z is the conjugate of Zenith's."""
    return tensor.conj().resolve_conj() if tensor.is_complex() else tensor.resolve_neg()


def _forward_pass(recorded: Recorded, wanted: Sequence[bool], way: TrainingPass, where: Where) -> Program:
    """The way forward of a program; its results are a pair of :class:`_Halves` and all tensors that it makes."""
    program, traced = recorded.program, recorded.program.traced
    graph, count_of_results = traced.graph, len(traced.outputs_weak)
    own = count_of_results - len(recorded.written)
    moved_by = _moved_by(graph, wanted)
    by = [moved_by[v.node, v.output] if place < own else 0 for place, v in enumerate(graph.outputs[:count_of_results])]
    moving = [inputs != 0 for inputs in by]
    seeded = [*moving, *[False] * (len(graph.outputs) - count_of_results)]
    joint = vjp_graph(graph, wanted, seeded)
    recorder = Recorder(graph.name, (), where.traffic)
    with recording(recorder):
        late = [False] * len(graph.inputs) + [True] * sum(seeded)
        parts = split_for_backward(joint, late, None, ())  # two programs: what is computed again cannot be merged
    parts = block_residuals(parts, channels_last=where.backend == "cuda")
    parts.known.name, parts.unknown.name = f"{graph.name}_forward", f"{graph.name}_backward"
    handed = _hand_over(parts, count_of_results, len(graph.outputs), set(recorded.written))
    sizes = _tell_sizes(parts.unknown, graph)
    _keep_guards(parts, graph.guards)
    waits = iter(parts.waits[len(graph.outputs) :])
    reached = [want and next(waits) for want in wanted]
    by = [inputs for inputs in by if inputs]
    behind = [{place for place, inputs in enumerate(by) if inputs >> n & 1} for n in range(len(graph.inputs))]
    halves = _Halves(
        way, where, parts.unknown, program.result.build, moving, handed, sizes, reached, behind, traced.definitions,
        next(_numbers),
    )  # fmt: skip
    weak = (False,) * (len(parts.known.outputs) - traced.has_effects)
    forward = replace(traced, graph=parts.known, outputs_weak=weak, residuals=tuple(recorder.residuals))
    return Program(forward, _flat(lambda results: (halves, results)), program.conditions)


def _moved_by(graph: Graph, wanted: Sequence[bool]) -> Mapping[tuple[int, int], int]:
    """Which wanted inputs move each value, one bit for each, as PyTorch records it: all but where gradients stop.

    What does not move because it is rounded, or multiplied by 0, has a gradient of zeros.
    """
    found = {(value.node, 0): int(flag) << n for n, (value, flag) in enumerate(zip(graph.inputs, wanted, strict=True))}
    for number, node in graph.nodes():
        if node.primitive.name != "input":
            stops = node.primitive.name == "stop_gradient"
            by = 0 if stops else reduce(or_, (found[a.node, a.output] for a in graph.args(number)), 0)
            found |= {(number, place): by if has_derivative(type) else 0 for place, type in enumerate(node.types)}
    return found


def _hand_over(parts: Split, results: int, originals: int, written: set[int]) -> list[tuple[bool, int]]:
    """Where the residuals are found, and the way forward made to give those that are neither argument nor result.

    An argument that is written to when all is done is no place to find anything.
    """
    known = parts.known
    arguments = {value: place for place, value in enumerate(known.inputs) if place not in written}
    found: dict[Value, tuple[bool, int]] = {value: (True, place) for value, place in arguments.items()}
    outputs = list(known.outputs[:results])
    for place, value in enumerate(outputs):
        found.setdefault(value, (False, place))
    for value in parts.kept:
        if value not in found:
            found[value] = (False, len(outputs))
            outputs.append(value)
    handed = [found[value] for value in parts.kept]
    known.set_outputs([*outputs, *known.outputs[results:originals]])  # a token of effects stays the last
    return handed


def _tell_sizes(back: Graph, graph: Graph) -> list[tuple[int, int]]:
    """Give the way back an argument for every size that is the length of no axis; return whose lengths these are."""
    told = {str(size) for value in back.inputs if isinstance(value.type, ArrayType) for size in value.type.shape}
    places: dict[str, tuple[int, int]] = {}
    for place, value in enumerate(graph.inputs):
        assert isinstance(value.type, ArrayType), "a module takes tensors"
        for axis, size in enumerate(value.type.shape):
            places.setdefault(str(size), (place, axis))
    missing = [name for name in graph.symbols() if name not in told]
    for name in missing:
        back.add_input(ArrayType(uint8, (symbol(name), dim(0))), f"length_{name}")
    return [places[name] for name in missing]


def _keep_guards(parts: Split, guards: Sequence[Guard]) -> None:
    """Both ways know what the whole program knows of their sizes."""
    for graph in (parts.known, parts.unknown):
        symbols = set(graph.symbols())
        graph.guards = tuple(g for g in guards if {*g.left.symbols(), *g.right.symbols()} <= symbols)


def _flat(build: Callable[[list[Any]], Any]) -> Result:
    return Result(build, _never, _never)


def _never() -> Any:
    raise AssertionError("programs of training are not saved")
