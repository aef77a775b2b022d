"""``from_torch``: a PyTorch module as a compiled program, tensors in and out without a copy."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import torch

from zenith import tree
from zenith.api.abstract import with_stand_ins
from zenith.api.compilable import Compilable
from zenith.api.devices import choose_for
from zenith.api.forms import Result
from zenith.api.leaves import adapter_of, input_spec
from zenith.api.signature import Signature
from zenith.api.specialize import Program, Request, Specializer
from zenith.errors import TraceError, ZenithError
from zenith.ir.dims import dim
from zenith.ir.target import EXACT, Numerics
from zenith.torch.calls import ModuleCall, module_kinds, result_of
from zenith.torch.export import Exported, export
from zenith.torch.translate import check_supported, translate
from zenith.torch.weights import Weights
from zenith.trace import trace


class CompiledModule(Compilable):
    """What :func:`from_torch` returns: call it like the module. Safe to use from several threads."""

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
        self._backend = backend
        self._specializer = Specializer(backend, self.__name__, max_compilations, numerics)
        self._keys = module_kinds()
        self._exports: dict[Hashable, list[Exported]] = {}
        self._lock = threading.RLock()
        self._weights = Weights(module)
        self._releases, self._released = release_weights, False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result for these arguments: the same structure, tensors that share memory with nothing."""
        self._begin()
        if not kwargs:
            try:
                key: Hashable = tuple([self._keys[type(a)](a) for a in args])
            except KeyError:
                return self._call_any(args, kwargs)
            found = self._specializer.find(key, args)
            if found is not self._specializer:
                if self._releases:
                    self._release()
                return found
        return self._call_any(args, kwargs)

    def _begin(self) -> None:
        self._follow_changes()
        self._weights.check_gradients()

    def _follow_changes(self) -> None:
        if self._weights.changed():
            self._follow(every=False)

    def _captured(self) -> object:
        return self._weights

    def _written(self) -> Any:
        return type(self.module)

    def refresh(self) -> None:
        """Look at all weights again: by hand only after writes that torch does not count (through ``.data``)."""
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
        with self._lock:
            if not (every or self._weights.changed()):
                return  # another thread was faster
            if self._released:
                raise ZenithError(
                    f"the weights of {self.__name__} changed, but its programs have released them",
                    fix="call from_torch again with the changed module, or keep them: release_weights=False",
                )
            told = self._weights.follow(every)
            if told is None:
                self._exports.clear()
                self._specializer.clear("the weights' structure changed")
                self._weights = Weights(self.module)
            else:
                self._specializer.repacked += told

    def _release(self) -> None:
        """Give the memory of weights back that the program now has in another form."""
        with self._lock:
            if self._releases:
                self._weights.release()
                self._releases, self._released = False, True

    def _call_any(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        call = ModuleCall(self._signature, args, kwargs)
        call.check()
        key = call.key()
        found = self._specializer.find(key, call.tensors)
        if found is self._specializer:
            found = self._specializer.make(key, self._request(call))
        if self._releases:
            self._release()
        return found

    def _request(self, call: ModuleCall) -> Request:
        arrays = [(path, adapter_of(tensor)) for path, tensor in zip(call.paths, call.tensors, strict=True)]
        if self._weights.adapter is not None:
            arrays.append(("the module", self._weights.adapter))
        return Request(call.tensors, lambda: self._build(call), call.describe, choose_for(self._backend, arrays))

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Hashable, Request]:
        call = ModuleCall(self._signature, *with_stand_ins(args, kwargs, self._weights.stand_in))
        call.check()
        return call.key(), self._request(call)

    def prepare(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Export for arguments of this structure, of any size that the module allows."""
        self._export(ModuleCall(self._signature, args, kwargs))

    def _export(self, call: ModuleCall, keep_sizes: bool = False) -> Exported:
        dynamic_shapes = None if keep_sizes else self._dynamic_shapes
        with self._lock, self._weights.standing_in():
            exported = export(self.module, call.args, call.kwargs, call.size_names(), dynamic_shapes, keep_sizes)
            check_supported(exported.program, self.__name__)
            self._weights.forget_in(exported.program)
            self._exports.setdefault(call.structure, []).append(exported)
            return exported

    def _export_for(self, call: ModuleCall) -> Exported:
        """An export that is valid for a call, made when there is none."""
        with self._lock:
            if call.structure not in self._exports:
                self._export(call)
            known = self._exports[call.structure]
            fitting = next((e for e in known if e.fits(call.tensors, call.size_names())), None)
            return fitting or self._export(call, keep_sizes=True)

    def _build(self, call: ModuleCall) -> Program:
        with self._lock:
            exported, weights = self._export_for(call), self._weights
        specs = []
        for name, tensor, symbols, fixed in zip(call.names, call.tensors, call.sizes, exported.sizes, strict=True):
            sizes = [s if n is None else dim(n) for s, n in zip(symbols, fixed, strict=True)]
            specs.append(input_spec(name, tensor, sizes))
        flat = _Results(exported, translate(exported.program, weights))
        with torch.no_grad():
            traced = trace(flat, specs, self.__name__)
        return Program(traced, flat.result(), exported.conditions)


class _Results:
    """The translated module as tracing wants it, and how its flat results become the module's own structure."""

    def __init__(self, exported: Exported, function: Any) -> None:
        self._function = function
        self._out_spec = exported.program.call_spec.out_spec
        self._plain: list[tuple[bool, Any]] = []

    def __call__(self, *tensors: Any) -> list[Any]:
        results = self._function(*tensors)
        computed = [not isinstance(r, (bool, int, float, str, type(None))) for r in results]
        self._plain = [(c, None if c else r) for c, r in zip(computed, results, strict=True)]
        self._sizes = [c and not hasattr(r, "dtype") for c, r in zip(computed, results, strict=True)]
        return [r for c, r in zip(computed, results, strict=True) if c]

    def result(self) -> Result:
        """Tensors, sizes (as int) and constants in their places."""
        return result_of(self._out_spec, self._plain, self._sizes)


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
    """Compile a PyTorch module for inference.

    Parameters
    ----------
    module: in evaluation mode; its Python code runs only here, under ``torch.export``. Its parameters and buffers may
        change later; tensors that are plain attributes, and hooks, are taken as they are now.
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
    while it runs, as in PyTorch.

    Raises
    ------
    UnsupportedError: the module uses operators that Zenith does not know (it lists them all), or a call would lose a
        gradient: call it inside ``torch.no_grad()``.

    >>> layer = torch.nn.Linear(3, 2)
    >>> fast = from_torch(layer, (torch.zeros(4, 3),))
    >>> with torch.no_grad():
    ...     fast(torch.zeros(7, 3)).shape
    torch.Size([7, 2])
    """
    if not isinstance(module, torch.nn.Module):
        raise TraceError(f"from_torch takes a torch.nn.Module, not a {type(module).__name__}",
                         fix="for a plain function write zenith.jit(f), with NumPy's functions in it")  # fmt: skip
    numerics = Numerics(repeatable, tf32, error_budget)
    compiled = CompiledModule(module, backend, dynamic_shapes, max_compilations, release_weights, numerics)
    compiled.prepare(tuple(args), dict(kwargs or {}))
    return compiled
