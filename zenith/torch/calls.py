"""Calls of modules and what they return, flattened by torch's own pytrees, to which transformers' classes belong.

Here is what running a program of a module needs and compiling one needs too, and nothing of ``torch.export``, whose
import takes longer than the start of a saved program.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from zenith.api.forms import Form, Result, exactly
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
_SIZES = range(2, 2**31)  # torch.export treats smaller ones as special, and int64 holds products of two of these
_MOST_STRUCTURES = 256
Plain = Sequence[tuple[bool, Any]]


@dataclass(frozen=True, slots=True)
class ModuleForm(Form):
    """How the tensors of a call are nested, and the values that are no tensors: path and value, what equals them.

    ``indices`` are those of the values among all leaves. ``dynamic`` are the paths of Python numbers that are inputs.
    """

    spec: pytree.TreeSpec
    values: tuple[tuple[str, object], ...] = field(compare=False)
    equal: tuple[Hashable, ...]
    indices: tuple[int, ...]
    dynamic: tuple[str, ...] = ()

    def text(self) -> str:
        """Torch's own text of the structure, and the values."""
        return json.dumps([_dumps(self.spec), [[path, _plain(value)] for path, value in self.values], self.dynamic])

    def nested(self) -> tuple[Sequence[object], dict[str, object]]:
        """The structure, with the values in it; UnsupportedError where numbers are inputs."""
        if self.dynamic:
            raise UnsupportedError(
                f"a program that takes any number for {', '.join(self.dynamic)} is called by zenith alone",
                fix="compile one for this number: .lower(...).compile() with it",
            )
        values = {i: value for i, (_, value) in zip(self.indices, self.values, strict=True)}
        numbers = iter(range(self.spec.num_leaves))
        leaves = [values[i] if i in values else Leaf(next(numbers)) for i in range(self.spec.num_leaves)]
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return args, kwargs


class ModuleCall:
    """One call, flattened: its tensors with their paths. Raises TraceError for arguments of other kinds.

    Python numbers whose paths are ``dynamic`` are inputs of the program like tensors, and are among these: a float as
    one without axes, an int as the length of one without elements.

    Attributes
    ----------
    args, kwargs: as the module is given them.
    tensors, paths: what the program takes, in order.
    leaf_indices: of these among all leaves.
    numbers: the Python numbers among them, by their index in ``tensors``.
    """

    def __init__(
        self,
        given: tuple[tuple[object, ...], Mapping[str, object]],
        leaves: Sequence[Any],
        spec: pytree.TreeSpec,
        paths: Sequence[str],
        dynamic: Collection[str] = (),
    ) -> None:
        self.args, self.kwargs = given
        self._flat = leaves, spec, paths
        is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]
        device = leaves[is_tensor.index(True)].device if dynamic and any(is_tensor) else None
        self.tensors: list[torch.Tensor] = []
        self.leaf_indices: list[int] = []
        self.numbers: dict[int, int | float] = {}
        fixed: list[int] = []
        for index, leaf in enumerate(leaves):
            if is_tensor[index]:
                self.tensors.append(leaf)
            elif device is not None and paths[index] in dynamic and may_be_dynamic(leaf):
                self.numbers[len(self.tensors)] = leaf
                self.tensors.append(as_input(leaf, device))
            else:
                _check_value(paths[index], leaf)
                fixed.append(index)
                continue
            self.leaf_indices.append(index)
        self.paths = [paths[index] for index in self.leaf_indices]
        values = tuple([(paths[index], leaves[index]) for index in fixed])
        entered = tuple([self.paths[index] for index in self.numbers])
        self.form = ModuleForm(spec, values, tuple([exactly(v) for _, v in values]), tuple(fixed), entered)

    def with_dynamic(self, paths: Collection[str]) -> ModuleCall:
        """The same call, with the Python numbers at these paths as inputs and no others."""
        return ModuleCall((self.args, self.kwargs), *self._flat, paths)

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
        numbers = {index: f"a Python {type(number).__name__}" for index, number in self.numbers.items()}
        texts = [numbers.get(index) or dtype_text(tensor) for index, tensor in enumerate(self.tensors)]
        tensors = [f"{path}: {text}" for path, text in zip(self.paths, texts, strict=True)]
        return (*tensors, *(f"{path}={value!r}" for path, value in self.form.values))


def may_be_dynamic(value: object) -> bool:
    """Whether a Python number can be an input: a finite float, as torch.export has it, or an int like a size."""
    return (type(value) is float and math.isfinite(value)) or (type(value) is int and value in _SIZES)


def as_input(number: int | float, device: torch.device | None) -> torch.Tensor:
    """A Python number as a tensor that a program takes."""
    if isinstance(number, float):
        return torch.tensor(number, dtype=torch.float64, device=device)
    return torch.empty((number, 0), dtype=torch.uint8, device=device)


def module_kinds() -> dict[type, Callable[[Any], Hashable]]:
    """How an argument of each type is described in the key of a compilation: the fast path of every call."""
    return dict.fromkeys(TENSORS, torch_adapter().signature)


class SignatureCalls:
    """How calls of one signature are flattened, by torch's pytrees; what is known of a structure is found once."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._paths: dict[pytree.TreeSpec, list[str]] = {}

    def flatten(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> ModuleCall:
        """A call, whose Python numbers are values of its form."""
        leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
        paths = self._paths.get(spec)
        if paths is None:
            pairs, _ = pytree.tree_flatten_with_path((args, dict(kwargs)))
            if len(self._paths) >= _MOST_STRUCTURES:
                self._paths.clear()
            paths = self._paths[spec] = [path_of(self._signature, path) for path, _ in pairs]
        return ModuleCall((args, kwargs), leaves, spec, paths)


def path_of(signature: Signature, path: Sequence[Any]) -> str:
    """How the user would write a leaf of ``(args, kwargs)``: the argument's name and the path inside it."""
    positional, (first, *rest) = path[0].idx == 0, path[1:]
    return signature.argument(first.idx if positional else first.key) + pytree.keystr(tuple(rest))


def _check_value(path: str, value: object) -> None:
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


def result_of(spec: pytree.TreeSpec, plain: Plain, sizes: Sequence[bool]) -> Result:
    """Results in the structure ``spec``.

    ``plain`` says for each leaf whether the program computes it, or its constant value; ``sizes`` for each that is
    computed whether it is a size, which becomes an int.
    """

    def stored() -> tuple[str, Plain, tuple[bool, ...]]:
        return _dumps(spec), tuple((computed, _plain(value)) for computed, value in plain), tuple(sizes)

    def nested() -> object:
        numbers = iter(range(len(plain)))
        pairs = zip(plain, sizes, strict=True)
        leaves = [Leaf(next(numbers), size) if computed else value for (computed, value), size in pairs]
        return pytree.tree_unflatten(leaves, spec)

    if spec.is_leaf() and all(computed for computed, _ in plain) and not any(sizes):
        return Result(lambda results: as_tensor(results[0]), stored, nested, converts=True)

    def build(results: list[Any]) -> object:
        tensors = map(as_tensor, results)
        leaves = [next(tensors) if computed else value for computed, value in plain]
        leaves = [int(leaf) if size else leaf for leaf, size in zip(leaves, sizes, strict=True)]
        return pytree.tree_unflatten(leaves, spec)

    return Result(build, stored, nested, converts=True)


def as_tensor(result: object) -> torch.Tensor:
    """A result as a tensor; a program without tensors as arguments gives arrays of NumPy's or CuPy's."""
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


def read_result(stored: Any) -> Result:
    """The result that was stored; LoadError when this process does not know a class in it."""
    text, plain, sizes = stored
    try:
        spec = pytree.treespec_loads(text)
    except (NotImplementedError, KeyError) as error:
        raise LoadError(
            f"the program returns a class that torch's pytrees do not know here: {error}",
            fix="import the library that defines it, such as transformers, before zenith.load",
        ) from None
    return result_of(spec, plain, sizes)


def _dumps(spec: pytree.TreeSpec) -> str:
    try:
        return pytree.treespec_dumps(spec)
    except (NotImplementedError, TypeError) as error:
        raise UnsupportedError(
            f"a file cannot hold a structure: {error}",
            fix="take and return tensors in tuples, lists and dicts, or register the class with torch.utils._pytree "
            "under a serialized_type_name",
        ) from None


def _plain(value: object) -> object:
    if type(value) not in _VALUES:
        raise UnsupportedError(f"a file cannot hold the value {value!r}", fix="pass plain numbers, str or None")
    return value
