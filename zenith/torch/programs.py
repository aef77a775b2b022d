"""The programs of one module: found for a call, made where none fits, following its weights, modes and attributes.

This is a plain object, whose attributes a call reads in nanoseconds; those of a ``torch.nn.Module``, which
:class:`~zenith.torch.module.CompiledModule` is, take ten times as long, because it defines ``__getattr__``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sized
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch.utils._pytree import arg_tree_leaves

from zenith import tree
from zenith.api.abstract import with_stand_ins
from zenith.api.devices import Where, choose_for
from zenith.api.leaves import adapter_of, input_spec
from zenith.api.programs import TracedProgram
from zenith.api.signature import Signature
from zenith.api.specialize import Request, Specializer
from zenith.backends.backend import MISS
from zenith.backends.cpu.heap import trim
from zenith.backends.weights import WeightTable
from zenith.errors import UnsupportedError, ZenithError, user_line
from zenith.ir.dims import dim
from zenith.ir.numerics import Numerics
from zenith.torch.agreement import check_agreement
from zenith.torch.attributes import Attributes
from zenith.torch.caches import refuse_caches
from zenith.torch.calls import ModuleCall, SignatureCalls, module_kinds
from zenith.torch.dynamic_numbers import DynamicNumbers, numbers_fixed
from zenith.torch.export import Exported, exclusive, export
from zenith.torch.results import Results
from zenith.torch.training import Recorded, Training
from zenith.torch.translate import check_dense, check_supported, translate
from zenith.torch.weights import Weights
from zenith.trace import InputSpec, trace

_in_any_autocast = torch._C._is_any_autocast_enabled
_records_gradients = torch.is_grad_enabled
_MOST_MODES = 32


class Mode:
    """The programs of one state of ``train()`` and ``eval()`` of the module and its submodules, and of attributes."""

    def __init__(self, flags: tuple[bool, ...], name: str, specializer: Specializer) -> None:
        self.flags, self.specializer = flags, specializer
        self.training = Training(name, specializer)
        self.exports: dict[Hashable, list[Exported]] = {}


class ModulePrograms:
    """All programs of ``module``, whose results are tensors. Safe to use from several threads.

    ``outer`` are containers that are empty as long as a call of the compiled module is nothing but one of a program.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        backend: str | None,
        dynamic_shapes: object,
        max_compilations: int | None,
        release_weights: bool,
        numerics: Numerics,
        outer: Iterable[Sized],
    ) -> None:
        self.module = module
        self.name = tree.identifier(type(module).__name__)
        self.signature = replace(Signature.of(module.forward), name=self.name)
        self.calls = SignatureCalls(self.signature)
        self._dynamic_shapes, self._backend, self._outer = dynamic_shapes, backend, list(outer)
        self._options = self.name, max_compilations, numerics
        self._keys, self._numbers = module_kinds(), DynamicNumbers(module, dynamic_shapes)
        self._lock = threading.RLock()
        with exclusive():
            self.weights, self._attributes = Weights(module), self._attributes_now()
        self._releases, self.released = release_weights, False
        self.modes: dict[tuple[tuple[bool, ...], Hashable], Mode] = {}
        self._enter_mode()

    @property
    def options(self) -> tuple[object, ...]:
        """What another object of the same module is constructed with, after the module."""
        specializer = self.specializer
        limits = specializer.max_compilations, self._releases, specializer.numerics
        return self._backend, self._dynamic_shapes, *limits

    def specializers(self) -> list[Specializer]:
        """Those of all modes, that of the mode that was entered last at the end."""
        return [mode.specializer for mode in self.modes.values()]

    def call(
        self, args: tuple[object, ...], kwargs: Mapping[str, object], around: torch.nn.Module | None = None
    ) -> Any:
        """The module's result for these arguments; of ``around`` with its hooks, where there are some."""
        if self.weights.changed():
            self._follow(every=False)
        if self.weights.mode() != self.mode.flags or self._attributes.changed():
            if around is not None and any(self._outer):
                return around._call_impl(*args, **kwargs)
            self._follow_mode()
        if _in_any_autocast():
            self._refuse_autocast(args, kwargs)
        records = _records_gradients()
        if records and self.weights.that_wants_gradient() is not None:
            return self._train(args, kwargs)
        answer = self.specializer.inline_cache.function  # for tensors without gradients
        if answer is not None and not kwargs and (found := answer(*args)) is not MISS:
            return found
        if records and _wants_gradient(args, kwargs):
            return self._train(args, kwargs)
        return self._compute(args, kwargs)

    def _compute(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """The result of a call without gradients."""
        if not kwargs:
            specializer = self.specializer
            found = specializer.find_positional(self._keys, args)
            if found is not specializer:
                if self._releases:
                    self.release()
                return found
        return self._call_any(args, kwargs)

    def _refuse_autocast(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        """Raise when autocast is on for the device of the weights or of an argument."""
        tensors = [t for t in arg_tree_leaves(*args, **kwargs) if isinstance(t, torch.Tensor)]
        devices = {t.device.type for t in tensors}
        if self.weights.adapter is not None:
            devices.add("cpu" if self.weights.adapter.device is None else "cuda")
        if any(map(torch.is_autocast_enabled, devices & {"cpu", "cuda"})):
            raise UnsupportedError(
                f"{self.name} is called under torch.autocast, which casts what an export does not record",
                where=user_line(),
                fix='use torch.compile(module, backend="zenith"), cast the module itself, or call it in a block of '
                "torch.autocast(..., enabled=False)",
            )

    # --- changes of the module ----------------------------------------------------------------------------------------

    def follow_changes(self) -> None:
        """Update the programs to the present state of the module."""
        if self.weights.changed():
            self._follow(every=False)
        self._follow_mode()

    def refresh(self) -> None:
        """Look at all weights again."""
        self._follow(every=True)

    def refuse_released(self, what: str) -> None:
        """ZenithError, ``what`` of the module, once its weights were released."""
        if self.released:
            raise ZenithError(
                what.format(self.name),
                fix="call from_torch again with the changed module, or keep them: release_weights=False",
            )

    def _attributes_now(self) -> Attributes:
        return Attributes(self.module, self._outer)

    def _follow_mode(self) -> None:
        if self.weights.mode() != self.mode.flags or self._attributes.changed(within=True):
            self._enter_mode()

    def _enter_mode(self) -> None:
        """Use the programs of the mode in which the module is."""
        with self._lock, exclusive():
            flags, self._state = self.weights.mode(), self._attributes.snapshot()
            mode = self.modes.pop((flags, self._state), None)
            self._enter(mode or Mode(flags, self.name, Specializer(*self._options)))
            while len(self.modes) > _MOST_MODES:
                del self.modes[next(iter(self.modes))]  # the least recently used

    def _enter(self, mode: Mode) -> None:
        self.modes[mode.flags, self._state] = self.mode = mode
        self.specializer = mode.specializer

    def _follow(self, every: bool) -> None:
        """Have the programs follow the module's weights; they are compiled again only for another structure."""
        with self._lock, exclusive():
            if not (every or self.weights.changed()):
                return  # another thread was faster, or exports a module that has the same weights
            self.refuse_released("the weights of {} changed, but its programs have released them")
            modules, changed = self.weights.modules, self.weights.follow(every)
            if isinstance(changed, str):
                self._forget(changed)
            else:
                self.specializer.repacked += changed
                if self.weights.modules != modules:  # of other adapters, whose attributes count now
                    self._enter_mode()

    def _forget(self, why: str) -> None:
        """Begin anew with the module as it is now; the counters of its mode go on."""
        self.specializer.clear(why)
        self.weights, self._attributes = Weights(self.module), self._attributes_now()
        self.modes, self._state = {}, self._attributes.snapshot()
        self._enter(Mode(self.weights.mode(), self.name, self.specializer))

    def release(self, table: WeightTable | None = None) -> None:
        """Give the memory of weights back that programs now have in another form; they read ``table``, or the own."""
        with self._lock:
            if not self.released:
                self.weights.release(table)
                self._releases, self.released = False, True
        trim()

    # --- programs -----------------------------------------------------------------------------------------------------

    def _call_any(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        call, specializer = self.calls.flatten(args, kwargs), self.mode.specializer
        call.check()
        found = specializer.find(call.key(), call.tensors)
        if found is specializer:
            found = self._numbers.run(call, self._find_or_make)
        if self._releases:
            self.release()
        return found

    def _find_or_make(self, call: ModuleCall) -> object:
        specializer, key = self.mode.specializer, call.key()
        found = specializer.find(key, call.tensors)
        return specializer.make(key, self._request(call)) if found is specializer else found

    def _request(self, call: ModuleCall) -> Request:
        mode = self.mode
        return Request(call.tensors, lambda: self._build(call, mode), call.describe, self._where(call))

    def _where(self, call: ModuleCall) -> Where:
        arrays = [(path, adapter_of(tensor)) for path, tensor in zip(call.paths, call.tensors, strict=True)]
        if self.weights.adapter is not None:
            arrays.append(("the module", self.weights.adapter))
        return choose_for(self._backend, arrays)

    def flatten(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[Hashable, Request]:
        """The key of a call and what is needed to compile for it; structs may stand for tensors."""
        self.follow_changes()
        call = self.calls.flatten(*with_stand_ins(args, kwargs, self.weights.stand_in))
        call.check()
        return call.key(), self._request(call)

    def prepare(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        """Export for arguments of this structure, of any size that the module allows."""
        trains = self.module.training and self.weights.that_wants_gradient() is not None
        self._export(self.calls.flatten(args, kwargs), self.mode, trains)

    def _export(self, call: ModuleCall, mode: Mode, differentiable: bool, keep_sizes: bool = False) -> Exported:
        """An export for calls of this structure, from now on known to the mode.

        One in which numbers are inputs must agree with one in which they are constants; else NumbersAreFixed.
        """
        refuse_caches(self.signature, call.args, call.kwargs)
        dynamic_shapes = None if keep_sizes else self._dynamic_shapes
        with self._lock, self.weights.standing_in():
            constant = self._export(call.with_dynamic(()), mode, differentiable, keep_sizes) if call.numbers else None
            with numbers_fixed(call):
                exported = export(self.module, call, dynamic_shapes, keep_sizes, differentiable)
                check_supported(exported.program, self.name)
            self.weights.own(exported.program)
            if constant is not None:
                check_agreement(call, exported, constant)
            self._watch_reads(exported)
            mode.exports.setdefault(call.structure, []).append(exported)
            return exported

    def _watch_reads(self, exported: Exported) -> None:
        """Have calls check the attributes that an export read, too."""
        self._attributes.add(exported.reads, exported.asked)
        with torch.set_grad_enabled(exported.differentiable or torch.is_grad_enabled()):  # as the call has it
            before, self._state = self._state, self._attributes.snapshot()
        self.modes = {(m.flags, self._state if state == before else state): m for (_, state), m in self.modes.items()}

    def export_for(self, call: ModuleCall, mode: Mode, differentiable: bool, keep_sizes: bool = False) -> Exported:
        """An export that is valid for a call, made when there is none; one for gradients serves without them.

        One is made for any sizes first, unless those that are 1 are to be kept.
        """
        with self._lock:
            exports = mode.exports.get(call.structure, [])
            known = [e for e in exports if e.differentiable or not differentiable]
            if not (known or keep_sizes):
                known = [self._export(call, mode, differentiable)]
            fitting = next((e for e in known if e.fits(call.tensors, call.size_names())), None)
            return fitting or self._export(call, mode, differentiable, keep_sizes=True)

    def _build(self, call: ModuleCall, mode: Mode) -> TracedProgram:
        with self._lock:
            exported, weights = self.export_for(call, mode, False), self.weights
        with numbers_fixed(call):
            return self._traced(exported, weights, translate(exported.program, weights), _specs(call, exported))

    def _traced(
        self, exported: Exported, weights: Weights, function: Callable[..., list[Any]], specs: list[InputSpec]
    ) -> TracedProgram:
        flat = Results(exported, function, weights)
        with torch.no_grad():
            traced = trace(flat, specs, self.name)
        return TracedProgram(traced, flat.result(), exported.conditions)

    # --- training -----------------------------------------------------------------------------------------------------

    def _train(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """The result of a call, through which gradients flow back."""
        self.refuse_released("{} cannot be trained: its programs have released the module's weights")
        call = self.calls.flatten(args, kwargs)
        with torch.no_grad():
            call.check()
        return self._numbers.run(call, self._step)

    def _step(self, call: ModuleCall) -> object:
        mode, weights = self.mode, self.weights
        with torch.no_grad():
            key, where = call.key(), self._where(call)

        def build() -> Recorded:
            return self._build_with_weights(call, mode, weights)

        return mode.training.step(key, [*weights.tensors.values(), *call.tensors], where, build)

    def _build_with_weights(self, call: ModuleCall, mode: Mode, weights: Weights) -> Recorded:
        """The program of a call whose arguments are all weights, followed by the call's own."""
        names = list(weights.tensors)
        with self._lock:
            exported = self.export_for(call, mode, True)
        check_dense(exported.program, weights)
        inputs = tree.unique(map(tree.identifier, names), {*call.names, *map(str, chain.from_iterable(call.sizes))})
        tensors = [t.detach() for t in weights.tensors.values()]
        specs = [input_spec(n, t, list(map(dim, t.shape))) for n, t in zip(inputs, tensors, strict=True)]
        specs += _specs(call, exported)
        function = translate(exported.program, weights, names)
        with numbers_fixed(call):
            program = self._traced(exported, weights, function, specs)
        return Recorded(program, [names.index(weights.names[n]) for n in exported.writes])


def _wants_gradient(args: tuple[object, ...], kwargs: Mapping[str, object]) -> bool:
    """Whether an argument requires one."""
    return any(isinstance(t, torch.Tensor) and t.requires_grad for t in arg_tree_leaves(*args, **kwargs))


def _specs(call: ModuleCall, exported: Exported) -> list[InputSpec]:
    """What the tensors of a call are as arguments of a trace."""
    given = zip(call.names, call.tensors, call.sizes, exported.sizes, strict=True)
    return [
        replace(input_spec(name, tensor, [s if n is None else dim(n) for s, n in zip(symbols, fixed, strict=True)]),
                weak=isinstance(call.numbers.get(index), float))
        for index, (name, tensor, symbols, fixed) in enumerate(given)
    ]  # fmt: skip
