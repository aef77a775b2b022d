"""``from_torch``: a PyTorch module as a compiled program, tensors in and out without a copy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from zenith import tree
from zenith.api.abstract import with_stand_ins
from zenith.api.inspection import Inspectable
from zenith.api.leaves import dtype_text, input_names, input_spec, symbolic_sizes
from zenith.api.signature import Signature
from zenith.api.specialize import Finish, Program, Request, Specializer
from zenith.arrays import torch_adapter
from zenith.errors import TraceError, ZenithError
from zenith.ir.dims import dim
from zenith.ir.types import dtype_of
from zenith.torch.export import Exported, export
from zenith.torch.translate import check_supported, translate
from zenith.torch.weights import Weights
from zenith.trace import trace

_TENSORS: tuple[type, ...] = (torch.Tensor, torch.nn.Parameter)


class CompiledModule(Inspectable):
    """What :func:`from_torch` returns: call it like the module. Safe to use from several threads."""

    def __init__(
        self,
        module: torch.nn.Module,
        backend: str,
        dynamic_shapes: Any,
        max_compilations: int | None = None,
        release_weights: bool = False,
    ) -> None:
        self.module = module
        self.__name__ = tree.identifier(type(module).__name__)
        self._signature = Signature(module.forward)
        self._dynamic_shapes = dynamic_shapes
        self._specializer = Specializer(backend, self.__name__, max_compilations)
        self._keys: dict[type, Callable[[Any], Hashable]] = dict.fromkeys(_TENSORS, torch_adapter().signature)
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
        if self._weights.changed():
            self._follow(every=False)
        self._weights.check_gradients()

    def _captured(self) -> object:
        return self._weights

    def refresh(self) -> None:
        """Look at all weights again: by hand only after writes that torch does not count (through ``.data``)."""
        self._follow(every=True)

    def __repr__(self) -> str:
        return f"<zenith.from_torch of {self.__name__}>"

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
        call = _Call(self._signature, args, kwargs)
        for tensor, path in zip(call.tensors, call.paths, strict=True):
            torch_adapter().check(tensor, path)
        key = call.key()
        found = self._specializer.find(key, call.tensors)
        if found is self._specializer:
            found = self._specializer.make(key, self._request(call))
        if self._releases:
            self._release()
        return found

    def _request(self, call: _Call) -> Request:
        return Request(call.tensors, lambda: self._build(call), call.describe)

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Hashable, Request]:
        call = _Call(self._signature, *with_stand_ins(args, kwargs, _stand_in))
        for tensor, path in zip(call.tensors, call.paths, strict=True):
            torch_adapter().check(tensor, path)
        return call.key(), self._request(call)

    def prepare(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Export for arguments of this structure, of any size that the module allows."""
        self._export(_Call(self._signature, args, kwargs))

    def _export(self, call: _Call, keep_sizes: bool = False) -> Exported:
        dynamic_shapes = None if keep_sizes else self._dynamic_shapes
        with self._lock, self._weights.standing_in():
            exported = export(self.module, call.args, call.kwargs, call.size_names(), dynamic_shapes, keep_sizes)
            check_supported(exported.program, self.__name__)
            self._weights.forget_in(exported.program)
            self._exports.setdefault(call.structure, []).append(exported)
            return exported

    def _export_for(self, call: _Call) -> Exported:
        """An export that is valid for a call, made when there is none."""
        with self._lock:
            if call.structure not in self._exports:
                self._export(call)
            known = self._exports[call.structure]
            fitting = next((e for e in known if e.fits(call.tensors, call.size_names())), None)
            return fitting or self._export(call, keep_sizes=True)

    def _build(self, call: _Call) -> Program:
        with self._lock:
            exported, weights = self._export_for(call), self._weights
        specs = []
        for name, tensor, symbols, fixed in zip(call.names, call.tensors, call.sizes, exported.sizes, strict=True):
            sizes = [s if n is None else dim(n) for s, n in zip(symbols, fixed, strict=True)]
            specs.append(input_spec(name, tensor, sizes))
        flat = _Results(exported, translate(exported.program, weights))
        with torch.no_grad():
            traced = trace(flat, specs, self.__name__)
        return Program(traced, flat.finish(), exported.conditions)


class _Call:
    """One call, flattened by torch's own pytrees: tensors with names and sizes, and the values that are no tensors."""

    def __init__(self, signature: Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs
        leaves, self.spec = pytree.tree_flatten_with_path((args, dict(kwargs)))
        tensors = [(path, leaf) for path, leaf in leaves if isinstance(leaf, torch.Tensor)]
        self.tensors = [tensor for _, tensor in tensors]
        self.paths = [_path(signature, path) for path, _ in tensors]
        values = [(_path(signature, path), leaf) for path, leaf in leaves if not isinstance(leaf, torch.Tensor)]
        for path, value in values:
            _check_value(path, value)
        self.values = tuple((path, type(value), value) for path, value in values)
        kinds = tuple((t.dtype, t.ndim) for t in self.tensors)
        self.structure: Hashable = (self.spec, self.values, kinds)
        self.names = input_names(self.paths)
        self.sizes = symbolic_sizes(self.names, [t.ndim for t in self.tensors])

    def size_names(self) -> list[list[str]]:
        """A name for every axis of every tensor."""
        return [list(map(str, sizes)) for sizes in self.sizes]

    def key(self) -> Hashable:
        """What a compilation depends on; calls with positional tensors only have the short key of the fast path."""
        keys = tuple(map(torch_adapter().signature, self.tensors))
        flat = not self.kwargs and len(self.args) == len(self.tensors)
        return keys if flat and all(type(a) in _TENSORS for a in self.args) else (self.structure, keys)

    def describe(self) -> tuple[str, ...]:
        """Types and sizes of the tensors, and the other values, for messages."""
        tensors = [f"{path}: {dtype_text(t)}" for path, t in zip(self.paths, self.tensors, strict=True)]
        return (*tensors, *(f"{path}={value!r}" for path, _, value in self.values))


def _path(signature: Signature, path: Sequence[Any]) -> str:
    """How the user would write a leaf: the argument's name and the path inside it."""
    positional, (first, *rest) = path[0].idx == 0, path[1:]
    return signature.argument(first.idx if positional else first.key) + pytree.keystr(tuple(rest))


def _check_value(path: str, value: Any) -> None:
    if not isinstance(value, (bool, int, float, str, type(None))):
        raise TraceError(
            f"{path} is a {type(value).__name__}, neither a tensor nor a plain value",
            fix=f"pass torch.as_tensor({path})"
            if hasattr(value, "__array__")
            else "pass tensors, numbers, str or None",
        )


def _stand_in(shape: tuple[int, ...], dtype: Any) -> torch.Tensor:
    """One element that looks like a tensor of any size."""
    kind = dtype_of(dtype)
    assert kind is not None, "a struct has a known element type"
    return torch_adapter().empty((), kind).zero_().expand(shape)


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
        self._is_size = [c and not hasattr(r, "dtype") for c, r in zip(computed, results, strict=True)]
        return [r for c, r in zip(computed, results, strict=True) if c]

    def finish(self) -> Finish:
        """What puts tensors, sizes (as int) and constants in their places."""
        spec, places, sizes = self._out_spec, self._plain, self._is_size
        if spec.is_leaf() and all(c for c, _ in places) and not any(sizes):
            return lambda results: results[0]

        def build(results: list[Any]) -> Any:
            tensors = iter(results)
            leaves = [next(tensors) if computed else value for computed, value in places]
            leaves = [int(leaf) if size else leaf for leaf, size in zip(leaves, sizes, strict=True)]
            return pytree.tree_unflatten(leaves, spec)

        return build


def from_torch(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    backend: str = "cpu",
    max_compilations: int | None = None,
    release_weights: bool = False,
) -> CompiledModule:
    """Compile a PyTorch module for inference.

    Parameters
    ----------
    module: in evaluation mode; its Python code runs only here, under ``torch.export``. Its parameters and buffers may
        change later; tensors that are plain attributes, and hooks, are taken as they are now.
    args, kwargs: example arguments. Their values do not matter, their sizes hardly: every size is free that the module
        does not fix by itself. Sizes 0 and 1, which torch.export treats as special, are exported when they are met.
    dynamic_shapes: as for ``torch.export.export``, instead of leaving every size free.
    backend: ``"cpu"``; ``"lanes"`` to run the same kernels as NumPy code, ``"reference"`` to interpret the graph.
    max_compilations: how many programs may ever be compiled, as for :func:`zenith.jit`; None is no limit.
    release_weights: after the first call give up the memory of weights that the program has in another form, such as
        packed; in their place the module gets tensors on the device ``meta``. A call that finds the module's weights
        changed afterwards raises ZenithError, and so does a call of another kind whose program needs them otherwise.

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
    compiled = CompiledModule(module, backend, dynamic_shapes, max_compilations, release_weights)
    compiled.prepare(tuple(args), dict(kwargs or {}))
    return compiled
