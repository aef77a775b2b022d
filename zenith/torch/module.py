"""``from_torch``: a PyTorch module as a compiled program, tensors in and out without a copy."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch._guards import active_fake_mode
from torch.utils._pytree import arg_tree_leaves

from zenith import tree
from zenith.api.abstract import with_stand_ins
from zenith.api.compilable import Compilable
from zenith.api.devices import Where, choose_for
from zenith.api.leaves import adapter_of, input_spec
from zenith.api.signature import Signature
from zenith.api.specialize import Program, Request, Specializer
from zenith.errors import UnsupportedError, ValueTypeError, ZenithError, user_line
from zenith.ir.dims import dim
from zenith.ir.target import EXACT, Numerics
from zenith.torch.attributes import Attributes
from zenith.torch.calls import ModuleCall, module_kinds
from zenith.torch.export import Exported, exclusive, export
from zenith.torch.functional import Functional, Params, load, parameters_of
from zenith.torch.likeness import ModuleLike
from zenith.torch.results import Results
from zenith.torch.training import Recorded, Training
from zenith.torch.translate import check_dense, check_supported, translate
from zenith.torch.weights import Weights
from zenith.trace import InputSpec, trace

_in_any_autocast = torch._C._is_any_autocast_enabled
_MOST_MODES = 32


class _Mode:
    """The programs of one combination of ``train()`` and ``eval()`` of the module and its parts, and of attributes."""

    def __init__(self, flags: tuple[bool, ...], name: str, specializer: Specializer) -> None:
        self.flags, self.specializer = flags, specializer
        self.training = Training(name, specializer)
        self.exports: dict[Hashable, list[Exported]] = {}


class CompiledModule(Compilable, ModuleLike):
    """What :func:`from_torch` returns: call it like the module. Safe to use from several threads.

    ``cache_info()``, ``show()`` and their like tell of the programs without gradients, of the mode (``train()``,
    ``eval()``) in which the module is; those of ``autograd.forward`` and ``autograd.backward`` of steps of training.
    """

    FRONT = "torch"

    def __init__(
        self,
        module: torch.nn.Module,
        backend: str | None,
        dynamic_shapes: Any,
        max_compilations: int | None = None,
        release_weights: bool = False,
        numerics: Numerics = EXACT,
    ) -> None:
        self.module = module
        self.__name__ = tree.identifier(type(module).__name__)
        self._signature = replace(Signature.of(module.forward), name=self.__name__)
        self._dynamic_shapes = dynamic_shapes
        self._backend, self._options = backend, (backend, self.__name__, max_compilations, numerics)
        self._keys = module_kinds()
        self._lock = threading.RLock()
        with exclusive():
            self._weights, self._attributes = Weights(module), Attributes(module)
        self._releases, self._released = release_weights, False
        self._modes: dict[tuple[tuple[bool, ...], Hashable], _Mode] = {}
        self._enter_mode()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result for these arguments: the same structure, tensors that share memory with nothing.

        When gradients are recorded, and a weight or an argument requires one, the result leads back to them. A model
        around it that ``torch.compile`` compiles has the module itself.
        """
        if torch.compiler.is_compiling() and _in_recording():
            return self._inside(args, kwargs)
        self._follow_changes()
        if _in_any_autocast():
            self._refuse_autocast(args, kwargs)
        if torch.is_grad_enabled() and self._wants_gradient(args, kwargs):
            return self._train(args, kwargs)
        if not kwargs:
            try:
                key: Hashable = tuple([self._keys[type(a)](a) for a in args])
            except KeyError:
                return self._call_any(args, kwargs)
            specializer = self._specializer
            found = specializer.find(key, args)
            if found is not specializer:
                if self._releases:
                    self._release()
                return found
        return self._call_any(args, kwargs)

    def _inside(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The module's own result, as a part of what TorchDynamo records."""
        if torch.compiler.is_exporting():
            raise UnsupportedError(
                f"{self.__name__} is compiled already, and a module around it that is exported would take its weights "
                "for constants", where=user_line(), fix="build that module from the original one, `.module`",
            )  # fmt: skip
        return self.module(*args, **kwargs)

    @property
    def autograd(self) -> Training:
        """The programs of training, in the mode in which the module is."""
        self._follow_changes()
        return self._mode.training

    def functional(self) -> tuple[Functional, Params]:
        """The module as a function of its parameters, and copies of these by name.

        ``fn(params, *args, **kwargs)`` gives the module's result in its mode of that moment, with the buffers that it
        has now; arguments may be arrays of any kind, traced ones too. What it draws comes from PyTorch's generator.
        Raises UnsupportedError where the module would write to its buffers.

        >>> import zenith
        >>> fn, params = from_torch(torch.nn.Linear(3, 1), (torch.zeros(4, 3),)).functional()
        >>> gradient = zenith.grad(lambda params, x: fn(params, x).sum())(params, torch.ones(5, 3))
        >>> gradient["weight"], gradient["bias"]
        (tensor([[5., 5., 5.]]), tensor([5.]))
        """
        self._refuse_released("{} has no parameters to give: its programs have released the module's weights")
        params = parameters_of(self.module)
        return Functional(self, list(params)), params

    def load_params(self, params: Mapping[str, Any]) -> None:
        """Write parameters, of the names that :meth:`functional` gives, into the module.

        Raises ArgumentError for other names, ShapeError and DTypeError for arrays that are not as the module's; then
        nothing is written.
        """
        load(self.__name__, self.module, params)

    def _refuse_autocast(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise when autocast is on for the device of the weights or of an argument."""
        tensors = [t for t in arg_tree_leaves(*args, **kwargs) if isinstance(t, torch.Tensor)]
        devices = {t.device.type for t in tensors}
        if self._weights.adapter is not None:
            devices.add("cpu" if self._weights.adapter.device is None else "cuda")
        if any(map(torch.is_autocast_enabled, devices & {"cpu", "cuda"})):
            raise UnsupportedError(
                f"{self.__name__} is called under torch.autocast, which casts what an export does not tell",
                where=user_line(),
                fix='use torch.compile(module, backend="zenith"), cast the module itself, or call it in a block of '
                "torch.autocast(..., enabled=False)",
            )

    def _begin(self) -> None:
        self._follow_changes()
        self._weights.check_gradients()

    def _follow_changes(self) -> None:
        if self._weights.changed():
            self._follow(every=False)
        if self._weights.mode() != self._mode.flags or self._attributes.changed():
            self._enter_mode()

    def _enter_mode(self) -> None:
        """Use the programs of the mode in which the module is."""
        with self._lock, exclusive():
            flags, self._state = self._weights.mode(), self._attributes.look()
            mode = self._modes.pop((flags, self._state), None)
            self._enter(mode or _Mode(flags, self.__name__, Specializer(*self._options)))
            while len(self._modes) > _MOST_MODES:
                del self._modes[next(iter(self._modes))]  # that was not used for longest

    def _enter(self, mode: _Mode) -> None:
        self._modes[mode.flags, self._state] = self._mode = mode
        self._specializer = mode.specializer

    def _captured(self) -> object:
        return self._mode

    def _written(self) -> Any:
        return type(self.module)

    def refresh(self) -> None:
        """Look at all weights again: by hand only after writes that nobody can see, such as of another process."""
        self._follow(every=True)

    def __repr__(self) -> str:
        return f"<zenith.from_torch of {self.__name__}>"

    def __reduce__(self) -> Any:
        if self._released:
            raise ZenithError(
                f"{self.__name__} cannot be pickled: its programs have released the module's weights",
                fix="save() it and load the file there, or keep the weights: release_weights=False",
            )
        options = self._dynamic_shapes, self._specializer.max_compilations, self._releases, self.numerics
        return CompiledModule, (self.module, self._backend, *options)

    def _follow(self, every: bool) -> None:
        """Have the programs follow the module's weights; they are compiled again only for another structure."""
        with self._lock, exclusive():
            if not (every or self._weights.changed()):
                return  # another thread was faster, or exports a module that has the same weights
            self._refuse_released("the weights of {} changed, but its programs have released them")
            told = self._weights.follow(every)
            if told is None:
                self._forget("the weights' structure changed")
            else:
                self._specializer.repacked += told

    def _forget(self, why: str) -> None:
        """Begin anew with the module as it is now; the counters of its mode go on."""
        self._specializer.clear(why)
        self._weights, self._attributes = Weights(self.module), Attributes(self.module)
        self._modes, self._state = {}, self._attributes.look()
        self._enter(_Mode(self._weights.mode(), self.__name__, self._specializer))

    def _refuse_released(self, what: str) -> None:
        if self._released:
            raise ZenithError(
                what.format(self.__name__),
                fix="call from_torch again with the changed module, or keep them: release_weights=False",
            )

    def _release(self) -> None:
        """Give the memory of weights back that the program now has in another form."""
        with self._lock:
            if self._releases:
                self._weights.release()
                self._releases, self._released = False, True

    def _call_any(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        call, mode = ModuleCall(self._signature, args, kwargs), self._mode
        call.check()
        key = call.key()
        found = mode.specializer.find(key, call.tensors)
        if found is mode.specializer:
            found = mode.specializer.make(key, self._request(call))
        if self._releases:
            self._release()
        return found

    def _request(self, call: ModuleCall) -> Request:
        mode = self._mode
        return Request(call.tensors, lambda: self._build(call, mode), call.describe, self._where(call))

    def _where(self, call: ModuleCall) -> Where:
        arrays = [(path, adapter_of(tensor)) for path, tensor in zip(call.paths, call.tensors, strict=True)]
        if self._weights.adapter is not None:
            arrays.append(("the module", self._weights.adapter))
        return choose_for(self._backend, arrays)

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Hashable, Request]:
        self._follow_changes()
        call = ModuleCall(self._signature, *with_stand_ins(args, kwargs, self._weights.stand_in))
        call.check()
        return call.key(), self._request(call)

    def prepare(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Export for arguments of this structure, of any size that the module allows."""
        trains = self.module.training and self._weights.that_wants_gradient() is not None
        self._export(ModuleCall(self._signature, args, kwargs), self._mode, trains)

    def _export(self, call: ModuleCall, mode: _Mode, differentiable: bool, keep_sizes: bool = False) -> Exported:
        dynamic_shapes = None if keep_sizes else self._dynamic_shapes
        names = call.size_names()
        with self._lock, self._weights.standing_in():
            exported = export(self.module, call.args, call.kwargs, names, dynamic_shapes, keep_sizes, differentiable)
            check_supported(exported.program, self.__name__)
            self._weights.forget_in(exported.program)
            self._rest_on(exported)
            mode.exports.setdefault(call.structure, []).append(exported)
            return exported

    def _rest_on(self, exported: Exported) -> None:
        """Have calls ask for the attributes that an export read, too."""
        self._attributes.add(exported.reads)
        before, self._state = self._state, self._attributes.look()
        self._modes = {(m.flags, self._state if state == before else state): m for (_, state), m in self._modes.items()}

    def _export_for(self, call: ModuleCall, mode: _Mode, differentiable: bool) -> Exported:
        """An export that is valid for a call, made when there is none; one for gradients serves without them."""
        with self._lock:
            exports = mode.exports.get(call.structure, [])
            known = [e for e in exports if e.differentiable or not differentiable]
            if not known:
                known = [self._export(call, mode, differentiable)]
            fitting = next((e for e in known if e.fits(call.tensors, call.size_names())), None)
            return fitting or self._export(call, mode, differentiable, keep_sizes=True)

    def _build(self, call: ModuleCall, mode: _Mode) -> Program:
        with self._lock:
            exported, weights = self._export_for(call, mode, False), self._weights
        return self._traced(exported, weights, translate(exported.program, weights), _specs(call, exported))

    def _traced(self, exported: Exported, weights: Weights, function: Any, specs: list[InputSpec]) -> Program:
        flat = Results(exported, function, weights)
        with torch.no_grad():
            traced = trace(flat, specs, self.__name__)
        return Program(traced, flat.result(), exported.conditions)

    def _wants_gradient(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
        if self._weights.that_wants_gradient() is not None:
            return True
        return any(isinstance(t, torch.Tensor) and t.requires_grad for t in arg_tree_leaves(*args, **kwargs))

    def _train(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The result of a call, from which gradients find back."""
        self._refuse_released("{} cannot be trained: its programs have released the module's weights")
        call, mode, weights = ModuleCall(self._signature, args, kwargs), self._mode, self._weights
        with torch.no_grad():
            call.check()
            key, where = call.key(), self._where(call)

        def build() -> Recorded:
            return self._build_with_weights(call, mode, weights)

        return mode.training.step(key, [*weights.tensors.values(), *call.tensors], where, build)

    def _build_with_weights(self, call: ModuleCall, mode: _Mode, weights: Weights) -> Recorded:
        """The program of a call whose arguments are all weights, and behind them the call's own."""
        names = list(weights.tensors)
        with self._lock:
            exported = self._export_for(call, mode, True)
        check_dense(exported.program, weights)
        inputs = tree.unique(map(tree.identifier, names), {*call.names, *map(str, chain.from_iterable(call.sizes))})
        tensors = [t.detach() for t in weights.tensors.values()]
        specs = [input_spec(n, t, list(map(dim, t.shape))) for n, t in zip(inputs, tensors, strict=True)]
        specs += _specs(call, exported)
        function = translate(exported.program, weights, names)
        program = self._traced(exported, weights, function, specs)
        return Recorded(program, [names.index(weights.names[n]) for n in exported.writes])


def _specs(call: ModuleCall, exported: Exported) -> list[InputSpec]:
    """What the tensors of a call are as arguments of a trace."""
    return [
        input_spec(name, tensor, [s if n is None else dim(n) for s, n in zip(symbols, fixed, strict=True)])
        for name, tensor, symbols, fixed in zip(call.names, call.tensors, call.sizes, exported.sizes, strict=True)
    ]


def from_torch(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    backend: str | None = None,
    max_compilations: int | None = None,
    release_weights: bool = False,
    repeatable: bool = True,
    tf32: bool = False,
    error_budget: float = 0.0,
) -> CompiledModule:
    """Compile a PyTorch module, for inference and for training.

    Parameters
    ----------
    module: its Python code runs only under ``torch.export``, here and once for another mode. Its parameters and buffers
        may change later; tensors that are plain attributes, and hooks, are taken as they are then.
    args, kwargs: example arguments. Their values do not matter, their sizes hardly: every size is free that the module
        does not fix by itself. Sizes 0 and 1, which torch.export treats as special, are exported when they are met.
    dynamic_shapes: as for ``torch.export.export``, instead of leaving every size free.
    backend: where to compute. None takes the device of the module and the tensors; ``"cpu"`` and ``"cuda"`` insist on
        it, and nothing is moved silently; ``"lanes"`` runs the CPU's kernels as NumPy code, ``"reference"`` interprets
        the graph.
    max_compilations: how many programs may ever be compiled, as for :func:`zenith.jit`; None is no limit.
    release_weights: after the first call give up the memory of weights that the program has in another form, such as
        packed; in their place the module gets tensors on the device ``meta``. A call that finds the module's weights
        changed afterwards raises ZenithError, and so does a call of another kind whose program needs them otherwise.
    repeatable: whether equal calls give equal bits; False allows a GPU to add in any order, as for
        :func:`zenith.jit`.
    tf32: whether a GPU may round the operands of float32 matrix products to TF32, as for :func:`zenith.jit`.
    error_budget: the relative error that convolutions may have where that makes them faster, as for :func:`zenith.jit`.

    Returns
    -------
    A :class:`CompiledModule`, called like the module, with results of the same structure. It shares the module's
    weights; when some change (training, ``load_state_dict``), the next call packs these again. A call keeps the
    packed ones with which it began; what it reads from the module itself, such as biases, must not be written to
    while it runs, as in PyTorch. Where PyTorch records gradients, ``backward()`` leads them to the module's parameters
    and to arguments; the module's mode (``train()``, ``eval()``) is followed.

    Raises
    ------
    UnsupportedError: the module uses operators that Zenith does not know (it lists them all), is called under autocast
        for its device, or is to be trained and has a derivative of its own (``torch.autograd.Function``).

    >>> layer = torch.nn.Linear(3, 2)
    >>> fast = from_torch(layer, (torch.zeros(4, 3),))
    >>> with torch.no_grad():
    ...     fast(torch.zeros(7, 3)).shape
    torch.Size([7, 2])
    """
    _check_types(module, args, kwargs)
    numerics = Numerics(repeatable, tf32, error_budget)
    compiled = CompiledModule(module, backend, dynamic_shapes, max_compilations, release_weights, numerics)
    compiled.prepare(tuple(args), dict(kwargs or {}))
    return compiled


def _check_types(module: Any, args: Any, kwargs: Any) -> None:
    """ValueTypeError for what is no module, and for a lone tensor, whose rows would be taken for arguments."""
    if not isinstance(module, torch.nn.Module):
        raise ValueTypeError(f"from_torch takes a torch.nn.Module, not a {type(module).__name__}",
                             fix="for a plain function write zenith.jit(f), with NumPy's functions in it")  # fmt: skip
    if not isinstance(args, (tuple, list)) or not isinstance(kwargs, (Mapping, type(None))):
        raise ValueTypeError(
            "from_torch takes example arguments in a tuple and a dict, but "
            f"args is a {type(args).__name__} and kwargs a {type(kwargs).__name__}",
            where=user_line(), fix="write from_torch(module, (x,)), or from_torch(module, (), {'x': x}) for keywords",
        )  # fmt: skip


def _in_recording() -> bool:
    """Whether this thread, and not just another one, compiles or exports a model around."""
    return torch.compiler.is_dynamo_compiling() or active_fake_mode() is not None
