"""A compiled module as a function: of its parameters, for :func:`zenith.grad`, or with them captured by reference."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

import zenith.numpy as znp
from zenith.api.forms import exactly
from zenith.api.jit import jit
from zenith.arrays import adapter_for, torch_adapter
from zenith.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError, user_line
from zenith.torch.calls import ModuleCall, as_tensor
from zenith.torch.export import Exported
from zenith.torch.translate import translate
from zenith.trace import Recorder, Tracer, current_recorder
from zenith.trace.bind import graph_value
from zenith.trace.sizes import user_size

if TYPE_CHECKING:
    from zenith.torch.programs import Mode, ModulePrograms
    from zenith.torch.weights import Marks

Params = dict[str, torch.Tensor]


class Functional:
    """The function that :meth:`zenith.torch.CompiledModule.functional` gives.

    What is no parameter is a constant, or enters traces ``by_reference``; traces are ``differentiable``, or not.
    """

    _keeps_sizes = False

    def __init__(
        self, programs: ModulePrograms, names: Sequence[str], by_reference: bool = False, differentiable: bool = True
    ) -> None:
        self.__name__ = self.__qualname__ = programs.name
        self._programs, self._names, self._differentiable = programs, names, differentiable
        others = {} if by_reference else {n: t for n, t in programs.weights.tensors.items() if n not in names}
        self._constants = {n: torch_adapter().numpy(t.detach().cpu().clone()) for n, t in others.items()}
        self._jitted: dict[Hashable, Callable[..., object]] = {}

    @property
    def module(self) -> torch.nn.Module:
        """The module."""
        return self._programs.module

    def __call__(self, params: Mapping[str, object], *args: object, **kwargs: object) -> Any:
        """The module's result with these parameters, under a trace or at once."""
        check_names(self.__name__, self._names, params)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        arrays = [leaf for leaf in leaves if _is_array(leaf)]
        recorder = current_recorder()
        if recorder is not None:
            return self._under(recorder, params, arrays, leaves, spec)
        values = [None if _is_array(leaf) else leaf for leaf in leaves]
        key = spec, tuple(map(exactly, values)), tuple(map(_is_array, leaves))
        jitted = self._jitted.setdefault(key, jit(partial(self._at_once, values, spec)))
        return jitted(dict(params), arrays)

    def _at_once(
        self, values: Sequence[object], spec: pytree.TreeSpec, params: Mapping[str, object], arrays: Sequence[object]
    ) -> object:
        recorder, given = current_recorder(), iter(arrays)
        assert recorder is not None, "a jitted function is traced"
        leaves = [next(given) if value is None else value for value in values]
        return self._under(recorder, params, arrays, leaves, spec)

    def _under(
        self,
        recorder: Recorder,
        params: Mapping[str, object],
        arrays: Sequence[object],
        leaves: Sequence[object],
        spec: pytree.TreeSpec,
    ) -> object:
        """Record the module's graph in the trace in progress."""
        programs = self._programs
        programs.follow_changes()
        tensors = [_traced(recorder, array) for array in arrays]
        shapes = [tuple(map(recorder.hint, tensor.value.shape)) for tensor in tensors]
        stand_in = programs.weights.stand_in
        examples = iter([stand_in(shape, tensor.dtype) for shape, tensor in zip(shapes, tensors, strict=True)])
        args, kwargs = pytree.tree_unflatten([next(examples) if _is_array(v) else v for v in leaves], spec)
        call = programs.calls.flatten(args, kwargs)
        exported = programs.export_for(call, programs.mode, self._differentiable, self._keeps_sizes)
        if exported.writes:
            raise UnsupportedError(
                f"{self.__name__} writes to its buffers {', '.join(exported.writes)} when it runs, and a function of "
                "its parameters has none", where=user_line(),
                fix="call module.eval() before, or train it by PyTorch's own loop: loss.backward(); optimizer.step()",
            )  # fmt: skip
        _assume(recorder, exported, call, tensors)
        known = {name: _traced(recorder, params[name]) for name in self._names}
        known |= {name: _traced(recorder, array) for name, array in self._constants.items()}
        function = translate(exported.program, programs.weights, list(known))
        return pytree.tree_unflatten(function(*known.values(), *tensors), exported.program.call_spec.out_spec)


class Captured(Functional):
    """A module as a part of traces, in which its weights are its own: programs share them, and follow their changes.

    Sizes of 1 have traces of their own.
    """

    _keeps_sizes = True

    def __init__(self, programs: ModulePrograms) -> None:
        super().__init__(programs, (), by_reference=True, differentiable=False)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """The module's result, under a trace; ZenithError once the module's weights were released."""
        self._programs.refuse_released("{} has released its weights, and another kind of call needs them")
        return super().__call__({}, *args, **kwargs)

    def follow(self) -> ModuleState:
        """Have programs follow the module's weights, and say what it is now."""
        programs = self._programs
        programs.follow_changes()
        return ModuleState(programs.mode, programs.weights.marks)

    def is_as(self, state: ModuleState) -> bool:
        """Whether the module, which programs then follow, still is what it was, or is that again."""
        now = self.follow()
        return now.mode is state.mode and self._programs.weights.are_as(state.marks)

    @property
    def has_changed(self) -> bool:
        """Whether the module's weights are not those that programs know."""
        return self._programs.weights.changed()


@dataclass(frozen=True, slots=True)
class ModuleState:
    """What a module is at one moment.

    ``mode`` is another object for one of another structure, in another mode, or with other hooks or values of
    attributes, and the same again for the same ones; ``marks`` are those of its weights.
    """

    mode: Mode
    marks: Marks


def parameters_of(module: torch.nn.Module) -> Params:
    """Copies of a module's parameters by their names."""
    return {name: tensor.detach().clone() for name, tensor in module.named_parameters()}


def load(name: str, module: torch.nn.Module, params: Mapping[str, object]) -> None:
    """Write parameters into a module, all or none; they are checked first."""
    own = dict(module.named_parameters())
    check_names(name, list(own), params)
    tensors = {n: _checked(n, value, own[n]) for n, value in params.items()}
    with torch.no_grad():
        for n, tensor in tensors.items():
            own[n].copy_(tensor)


def check_names(name: str, names: Sequence[str], params: Mapping[str, object]) -> None:
    """ArgumentError unless ``params`` has just these names."""
    if params.keys() == set(names):
        return
    missing, unknown = [n for n in names if n not in params], [n for n in params if n not in names]
    found = [f"{len(some)} {word} ({', '.join(map(str, some[:3]))}{', ...' * (len(some) > 3)})"
             for some, word in ((missing, "missing"), (unknown, "unknown")) if some]  # fmt: skip
    raise ArgumentError(f"these are not the parameters of {name}: {' and '.join(found)}", where=user_line(),
                        fix="begin with those that functional() gives, and keep their names")  # fmt: skip


def _checked(name: str, value: object, own: torch.Tensor) -> torch.Tensor:
    adapter = adapter_for(value)
    if adapter is None:
        raise DTypeError(f"{name} is a {type(value).__name__}, no array", where=user_line(), fix="give an array")
    tensor = value if isinstance(value, torch.Tensor) else as_tensor(value)
    if tensor.shape != own.shape:
        raise ShapeError(f"{name} has shape {tuple(tensor.shape)}, and the module's {tuple(own.shape)}",
                         where=user_line(), fix="give parameters of the module's shapes")  # fmt: skip
    if tensor.dtype != own.dtype:
        raise DTypeError(f"{name} is {tensor.dtype}, and the module's {own.dtype}", where=user_line(),
                         fix=f"convert it to {own.dtype}, or the module: module.to({tensor.dtype})")  # fmt: skip
    return tensor


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, Tracer) or adapter_for(leaf) is not None


def _traced(recorder: Recorder, array: object) -> Tracer:
    if not isinstance(array, Tracer):
        array = znp.asarray(array)
    return Tracer(recorder, graph_value(recorder, array))


def _assume(recorder: Recorder, exported: Exported, call: ModuleCall, tensors: Sequence[Tracer]) -> None:
    """Make the assumptions of the export guards of the trace."""
    sizes: dict[str, Any] = {}
    for names, fixed, tensor in zip(call.size_names(), exported.sizes, tensors, strict=True):
        for name, number, size in zip(names, fixed, tensor.value.shape, strict=True):
            sizes[name] = user_size(size, recorder)
            fits = number is None or recorder.holds(size, "==", number)
            assert fits, "the export was chosen for these sizes"
    for condition in exported.conditions:
        fits = condition.holds(sizes)  # the trace records the answer
        assert fits, "the export was chosen for these sizes"
