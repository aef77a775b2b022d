"""A module's weights: where they are, and whether they changed since programs took them.

A weight is changed when its module has another tensor, the tensor another memory, its version counter moved, or it
was written to past that: by an optimiser in one kernel, through ``.data``, by NumPy (:mod:`zenith.torch.unseen`).
What cannot be seen, such as a write of another process, needs ``refresh()``. Programs follow a change without being
compiled again as long as the *structure* stays: the submodules, and the names, ties, element types and sizes of the
weights.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import nn

from zenith.arrays import Adapter, adapter_for, device_name, has_tangent, requires_grad, torch_adapter
from zenith.backends.constant_memory import HOST, Residence
from zenith.backends.weights import WeightTable
from zenith.errors import DeviceError
from zenith.ir.types import dtype_of
from zenith.torch import aliases as aliases  # for what it does when it is imported
from zenith.torch.adapters import Choice, active_adapters, joined, parts_of
from zenith.torch.unseen import Watch, version

Marks = Mapping[str, object]  # what differs for each weight where it was replaced or written to
_END = object()  # after all contents: a table that grew has something else at its index


class Weights:
    """Every parameter and buffer of ``module``, for programs that follow its changes.

    Attributes
    ----------
    table: the arrays of all weights by name, which programs share; on a GPU they stay in the tensors' memory.
    adapter: what reads the weights, which says their device; None when there are none.
    names: the name in ``table`` for each of the module's own names; a tensor with several names is there once, and one
        of an adapter by the adapter's number (:mod:`zenith.torch.adapters`).
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self._known = _Snapshot(module)
        self.names = self._known.names
        self.adapter = _adapter_of(self._known.tensors)
        arrays = {name: array_of(name, t) for name, t in self._known.tensors.items()}
        self.table = WeightTable(arrays, _residence(self.adapter))

    def stand_in(self, shape: tuple[int, ...], dtype: object) -> torch.Tensor:
        """One element that looks like a tensor of any size, on the weights' device."""
        kind = dtype_of(dtype)
        assert kind is not None, "a struct has a known element type"
        one: torch.Tensor = (self.adapter or torch_adapter()).empty((), kind).zero_()
        return one.expand(shape)

    def changed(self) -> bool:
        """Whether the module's weights are not those that programs know."""
        return self._known.replaced() or self._known.written()

    def follow(self, every: bool) -> int | str:
        """Update the programs' weights that changed, or ``every`` one; return how many were updated.

        Where the programs are of no use any more, none is updated, and the result says why: the module has another
        structure now, or other numbers that are fixed in programs.
        """
        now = _Snapshot(self.module) if every or self._known.replaced() else self._known.remeasured()
        if now.structure != self._known.structure:
            return "the weights' structure changed"
        known = self._known.marks
        updated = [name for name, mark in now.marks.items() if every or mark != known[name]]
        arrays = {name: array_of(name, now.tensors[name]) for name in updated}
        if self.table.refutes(arrays):
            return "zero points changed"
        self.table.change(arrays)
        self.names = now.names
        self._known = now  # not before the programs know: another thread may be asking whether anything changed
        return len(updated)

    def release(self, table: WeightTable | None = None) -> None:
        """Replace the tensors that programs have prepared and do not read by tensors without memory.

        Programs read the own table, or another one, which has what they need of it.
        """
        table = self.table if table is None else table
        released = table.release() | {name for name in self._known.tensors if name not in table}
        self.table.drop(released & self.table.keys())
        self._replace({n: torch.empty_like(t, device="meta") for n, t in self._known.tensors.items() if n in released})

    @property
    def marks(self) -> Marks:
        """Those of the weights that programs know."""
        return self._known.marks

    def are_as(self, marks: Marks) -> bool:
        """Whether these weights are the ones of former marks; those that were released count as such."""
        now = self._known
        return now.marks is marks or all(
            now.marks.get(n) == mark or now.tensors[n].is_meta for n, mark in marks.items()
        )

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors of the names in ``table``, in its order."""
        return self._known.tensors

    @property
    def modules(self) -> list[nn.Module]:
        """The module and its submodules."""
        return self._known.modules

    def mode(self) -> tuple[bool, ...]:
        """Of each submodule whether it is in training mode."""
        return tuple([m.training for m in self._known.modules])

    def write(self, names: Sequence[str], contents: Sequence[torch.Tensor]) -> None:
        """Write to buffers."""
        for name, tensor in zip(names, contents, strict=True):
            self._known.tensors[self.names[name]].copy_(tensor)

    @contextmanager
    def standing_in(self) -> Iterator[None]:
        """Within this block tensors without memory are replaced by ones that torch.export takes for weights."""
        released = {name: t for name, t in self._known.tensors.items() if t.is_meta}
        device = None if self.adapter is None else self.adapter.device
        target = torch.device("cpu") if device is None else torch.device("cuda", device)
        self._replace({name: torch.empty_like(t, device=target) for name, t in released.items()})
        try:
            yield
        finally:
            self._replace(released)

    def own(self, program: torch.export.ExportedProgram) -> None:
        """Have an export call weights by their names in ``table``, and keep none alive: the module may get others."""
        for spec in program.graph_signature.input_specs:
            if spec.target is not None:
                spec.target = self.names.get(spec.target, spec.target)
        program.state_dict.clear()
        for name in self.names.keys() & program.constants.keys():
            del program.constants[name]

    def _replace(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Give the module other tensors. They are no change; others that changed stay known as changed."""
        if not tensors:
            return
        known = self._known
        with torch.inference_mode(False):
            known.put({
                name: nn.Parameter(t.detach(), known.tensors[name].requires_grad)
                if isinstance(known.tensors[name], nn.Parameter) else t
                for name, t in tensors.items()
            })  # fmt: skip
        now = _Snapshot(self.module)
        if all(now.marks.get(name) == mark for name, mark in known.marks.items() if name not in tensors):
            self._known = now

    def check_gradients(self) -> None:
        """Raise when gradients are recorded and a weight asks for one, which would be lost."""
        if torch.is_grad_enabled():
            name = self.that_wants_gradient()
            if name is not None:
                raise requires_grad(f"weight {name}")

    def that_wants_gradient(self) -> str | None:
        """The first weight that requires a gradient."""
        return next((n for n, t in self._known.tensors.items() if t.requires_grad), None)


class _Snapshot:
    """The tensors of a module at one moment. What shows changes is read before their memory, so none is missed."""

    def __init__(self, module: torch.nn.Module) -> None:
        parts = parts_of(module)
        found = [
            (joined(part.path, name), joined(part.role, role), table, value)
            for part in parts
            for table in (part.module._parameters, part.module._buffers)
            for name, role, value in part.entries(table)
        ]
        first: dict[int, str] = {}
        self.names = {full: first.setdefault(id(value), role) for full, role, _, value in found}
        self.tensors: dict[str, torch.Tensor] = {first[id(value)]: value for _, _, _, value in found}
        self._owners: list[Any] = [table for _, _, table, _ in found]
        self.modules = list({id(part.module): part.module for part in parts}.values())
        tables = [t for m in self.modules for t in (m._parameters, m._buffers, m._modules) if t]
        chosen = [Choice(m) for m in self.modules if active_adapters(m) is not None]
        self._contents = [*(table.values() for table in tables), *chosen, (_END,)]  # views: they follow the tables
        self._values = [*chain.from_iterable(self._contents)]
        self._plain = list(self.tensors.values())
        self._versioned = [t for t in self._plain if not t.is_inference()]
        self._ties = {role: first[id(value)] for _, role, _, value in found}
        self._modules = {part.role: part.identity for part in parts}
        self._measure()

    def _measure(self) -> None:
        self._watch = Watch(self._plain)
        self._unseen = self._watch.numbers()
        self._addresses = list(map(torch.Tensor.data_ptr, self._plain))
        self._versions = list(map(version, self._versioned))
        versions = dict(zip(map(id, self._versioned), self._versions, strict=True))
        self.marks = {
            name: (id(t), address, versions.get(id(t)), number, t.stride())
            for (name, t), address, number in zip(self.tensors.items(), self._addresses, self._unseen, strict=True)
        }
        kinds = [(t.dtype, t.shape, t.device, t.layout) for t in self._plain]
        self.structure = (self._ties, kinds, self._modules)

    def remeasured(self) -> _Snapshot:
        """A snapshot of the same tensors at this moment."""
        now = copy.copy(self)
        now._measure()
        return now

    def put(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Give the module other tensors, under all of their names."""
        for (full, name), table in zip(self.names.items(), self._owners, strict=True):
            if name in tensors:
                table[full.rpartition(".")[2]] = tensors[name]

    def replaced(self) -> bool:
        """Whether the module has other tensors or submodules now, or further ones."""
        return not all(map(operator.is_, chain.from_iterable(self._contents), self._values))

    def written(self) -> bool:
        """Whether a tensor has other memory now or was written to."""
        return bool(self._plain) and (
            list(map(torch.Tensor.data_ptr, self._plain)) != self._addresses
            or list(map(version, self._versioned)) != self._versions
            or self._watch.numbers() != self._unseen
        )


def _adapter_of(tensors: Mapping[str, torch.Tensor]) -> Adapter | None:
    """The adapter of all weights; DeviceError when they are on several devices."""
    found: dict[int | None, tuple[str, Adapter]] = {}
    for name, tensor in tensors.items():
        torch_adapter().check(tensor.detach(), f"weight {name}")
        adapter = adapter_for(tensor)
        assert adapter is not None, "a tensor that was checked has an adapter"
        found.setdefault(adapter.device, (name, adapter))
    if len(found) > 1:
        (one, first), (other, second) = list(found.values())[:2]
        raise DeviceError(
            f"weight {one} is on {device_name(first)} and weight {other} on {device_name(second)}: programs run on one "
            "device",
            fix='move the module as a whole: module.to("cuda")',
        )
    return next((adapter for _, adapter in found.values()), None)


def residence_of(tensors: Sequence[torch.Tensor]) -> Residence:
    """Where programs have what they prepare from these weights, which are on one device."""
    return _residence(adapter_for(tensors[0]) if tensors else None)


def _residence(adapter: Adapter | None) -> Residence:
    """Where programs have what they prepare from weights: on the weights' device."""
    if adapter is None or adapter.device is None:
        return HOST
    from zenith.backends.cuda.device_memory import DeviceMemory
    from zenith.backends.cuda.memory import pool

    return DeviceMemory(pool(), adapter.device)


def array_of(name: str, tensor: torch.Tensor) -> Any:
    """The array on a tensor's memory; raises when Zenith cannot compute with it."""
    torch_adapter().check(tensor.detach(), f"weight {name}")
    if torch_adapter().has_tangent(tensor):
        raise has_tangent(f"weight {name}")
    if not tensor.is_cuda:
        return torch_adapter().numpy(tensor)
    from zenith.backends.cuda.device_memory import DeviceArray

    dense = tensor.detach().contiguous()
    dtype = torch_adapter().dtype(dense)
    assert dtype is not None, "the tensor was checked"
    return DeviceArray(dense.data_ptr(), tuple(dense.shape), dtype.numpy, dense)
