"""Calls of modules and what they return, flattened by torch's own pytrees, to which transformers' classes belong.

Here is what running a program of a module needs and compiling one needs too, and nothing of ``torch.export``, whose
import takes longer than the start of a saved program.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from zenith.api.forms import Form, Json, Result, exactly
from zenith.api.leaves import dtype_text, input_names, symbolic_sizes
from zenith.api.signature import Signature
from zenith.arrays import adapter_for, torch_adapter
from zenith.cached import cached_property
from zenith.errors import LoadError, TraceError, UnsupportedError, ValueTypeError, user_line
from zenith.ir.dims import Dim
from zenith.trace import Tracer
from zenith.tree import Leaf

TENSORS: tuple[type, ...] = (torch.Tensor, torch.nn.Parameter)
_VALUES = (bool, int, float, str, type(None))


@dataclass(frozen=True, slots=True)
class ModuleForm(Form):
    """How the tensors of a call are nested, and the values that are no tensors: path and value, what equals them.

    ``places`` are the values' numbers among all leaves.
    """

    spec: pytree.TreeSpec
    values: tuple[tuple[str, Any], ...] = field(compare=False)
    equal: tuple[Hashable, ...]
    places: tuple[int, ...]

    def spelled(self) -> Json:
        """Torch's own text of the structure, and the values."""
        return {"spec": _dumps(self.spec), "values": [[path, _plain(value)] for path, value in self.values]}

    def nested(self) -> tuple[Sequence[Any], dict[str, Any]]:
        """The structure, with the values in their places."""
        values = {place: value for place, (_, value) in zip(self.places, self.values, strict=True)}
        numbers = iter(range(self.spec.num_leaves))
        leaves = [values[i] if i in values else Leaf(next(numbers)) for i in range(self.spec.num_leaves)]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return args, kwargs


class ModuleCall:
    """One call, flattened: its tensors with their paths. Raises TraceError for arguments of other kinds."""

    def __init__(self, signature: Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs
        leaves, spec = pytree.tree_flatten_with_path((args, dict(kwargs)))
        tensors = [(path, leaf) for path, leaf in leaves if isinstance(leaf, torch.Tensor)]
        self.tensors = [tensor for _, tensor in tensors]
        self.paths = [path_of(signature, path) for path, _ in tensors]
        places = tuple(i for i, (_, leaf) in enumerate(leaves) if not isinstance(leaf, torch.Tensor))
        values = [(path_of(signature, leaves[i][0]), leaves[i][1]) for i in places]
        for path, value in values:
            _check_value(path, value)
        self.form = ModuleForm(spec, tuple(values), tuple(exactly(value) for _, value in values), places)

    @cached_property
    def names(self) -> list[str]:
        """What the tensors are called as inputs of a graph."""
        return input_names(self.paths)

    @cached_property
    def sizes(self) -> list[tuple[Dim, ...]]:
        """A symbol for every axis of every tensor."""
        return symbolic_sizes(self.names, [t.ndim for t in self.tensors])

    @property
    def structure(self) -> Hashable:
        """What an export depends on."""
        return self.form, tuple((t.dtype, t.ndim) for t in self.tensors)

    def check(self) -> None:
        """Refuse every tensor that Zenith cannot compute with."""
        for tensor, path in zip(self.tensors, self.paths, strict=True):
            torch_adapter().check(tensor, path)

    def size_names(self) -> list[list[str]]:
        """A name for every axis of every tensor."""
        return [list(map(str, sizes)) for sizes in self.sizes]

    def key(self) -> Hashable:
        """What a compilation depends on; calls with positional tensors only have the short key of the fast path."""
        keys = tuple(map(torch_adapter().signature, self.tensors))
        flat = not self.kwargs and len(self.args) == len(self.tensors)
        return keys if flat and all(type(a) in TENSORS for a in self.args) else (self.form, keys)

    def describe(self) -> tuple[str, ...]:
        """Types and sizes of the tensors, and the other values, for messages."""
        tensors = [f"{path}: {dtype_text(t)}" for path, t in zip(self.paths, self.tensors, strict=True)]
        return (*tensors, *(f"{path}={value!r}" for path, value in self.form.values))


def module_kinds() -> dict[type, Callable[[Any], Hashable]]:
    """How an argument of each type is described in the key of a compilation: the fast path of every call."""
    return dict.fromkeys(TENSORS, torch_adapter().signature)


def path_of(signature: Signature, path: Sequence[Any]) -> str:
    """How the user would write a leaf of ``(args, kwargs)``: the argument's name and the path inside it."""
    positional, (first, *rest) = path[0].idx == 0, path[1:]
    return signature.argument(first.idx if positional else first.key) + pytree.keystr(tuple(rest))


def _check_value(path: str, value: Any) -> None:
    if isinstance(value, Tracer):
        raise TraceError(
            f"{path} is traced, and a compiled module runs on tensors",
            where=user_line(), fix="take it as a function: fn, params = module.functional(), and fn(params, ...)",
        )  # fmt: skip
    if not isinstance(value, _VALUES):
        raise ValueTypeError(
            f"{path} is a {type(value).__name__}, neither a tensor nor a plain value",
            fix=f"pass torch.as_tensor({path})"
            if hasattr(value, "__array__")
            else "pass tensors, numbers, str or None",
        )


def result_of(spec: pytree.TreeSpec, plain: Sequence[tuple[bool, Any]], sizes: Sequence[bool]) -> Result:
    """Results in the structure ``spec``.

    ``plain`` says for each leaf whether the program computes it, or its constant value; ``sizes`` for each that is
    computed whether it is a size, which becomes an int.
    """

    def spelled() -> Json:
        return {"spec": _dumps(spec), "plain": [[c, _plain(value)] for c, value in plain], "sizes": list(sizes)}

    def nested() -> Any:
        numbers = iter(range(len(plain)))
        pairs = zip(plain, sizes, strict=True)
        leaves = [Leaf(next(numbers), size) if computed else value for (computed, value), size in pairs]
        return pytree.tree_unflatten(leaves, spec)

    if spec.is_leaf() and all(computed for computed, _ in plain) and not any(sizes):
        return Result(lambda results: as_tensor(results[0]), spelled, nested)

    def build(results: list[Any]) -> Any:
        tensors = map(as_tensor, results)
        leaves = [next(tensors) if computed else value for computed, value in plain]
        leaves = [int(leaf) if size else leaf for leaf, size in zip(leaves, sizes, strict=True)]
        return pytree.tree_unflatten(leaves, spec)

    return Result(build, spelled, nested)


def as_tensor(result: Any) -> torch.Tensor:
    """A result as a tensor; a program whose arguments are none has made an array of NumPy's or CuPy's."""
    if isinstance(result, torch.Tensor):
        return result
    adapter = adapter_for(result)
    kind = None if adapter is None else adapter.dtype(result)
    assert adapter is not None and kind is not None, "a program's results are arrays"
    if not adapter.on_host:
        return torch.from_dlpack(result)
    target = torch_adapter()
    tensor: torch.Tensor = target.empty(adapter.shape(result), kind)
    target.numpy(tensor)[...] = result
    return tensor


def read_result(spelled: Json) -> Result:
    """The result that was spelled; LoadError when this process does not know a class in it."""
    try:
        spec = pytree.treespec_loads(spelled["spec"])
    except (NotImplementedError, KeyError) as error:
        raise LoadError(
            f"the program returns a class that torch's pytrees do not know here: {error}",
            fix="import the library that defines it, such as transformers, before zenith.load",
        ) from None
    return result_of(spec, [(c, value) for c, value in spelled["plain"]], spelled["sizes"])


def _dumps(spec: pytree.TreeSpec) -> str:
    try:
        return pytree.treespec_dumps(spec)
    except (NotImplementedError, TypeError) as error:
        raise UnsupportedError(
            f"a file cannot hold a structure: {error}",
            fix="take and return tensors in tuples, lists and dicts, or register the class with torch.utils._pytree "
            "under a serialized_type_name",
        ) from None


def _plain(value: Any) -> Any:
    if type(value) not in _VALUES:
        raise UnsupportedError(f"a file cannot hold the value {value!r}", fix="pass plain numbers, str or None")
    return value
