"""A module's weights: where they stand, and whether they changed since a program captured them.

A weight is changed when its module holds another tensor, the tensor another memory, or its version counter moved. What
no counter sees (a write through ``.data``, which keeps the memory) needs ``refresh()``.
"""

from __future__ import annotations

import operator
from typing import Any

import torch

from zenith.arrays import requires_grad, torch_adapter


class Weights:
    """Every parameter, buffer and submodule of ``module``, as they are now."""

    def __init__(self, module: torch.nn.Module) -> None:
        tables = [(path, m, table) for path, m in module.named_modules() for table in (m._parameters, m._buffers)]
        places = [
            (path, table, name) for path, _, table in tables for name, value in table.items() if value is not None
        ]
        modules = [
            (m._modules, name) for m in module.modules() for name, child in m._modules.items() if child is not None
        ]
        self.tensors: dict[str, torch.Tensor] = {
            f"{path}.{name}" if path else name: table[name] for path, table, name in places
        }
        self._holders: list[Any] = [table for _, table, _ in places] + [table for table, _ in modules]
        self._names = [name for _, _, name in places] + [name for _, name in modules]
        self._held = [table[name] for table, name in zip(self._holders, self._names, strict=True)]
        self._plain = list(self.tensors.values())
        self._versioned = [t for t in self._plain if not t.is_inference()]
        self._addresses = list(map(torch.Tensor.data_ptr, self._plain))
        self._versions = list(map(_version, self._versioned))

    def check(self) -> None:
        """Refuse weights that Zenith cannot compute with."""
        for name, tensor in self.tensors.items():
            torch_adapter().check(tensor.detach(), f"weight {name}")

    def check_gradients(self) -> None:
        """Raise when gradients are recorded and a weight asks for one, which would be lost."""
        if torch.is_grad_enabled():
            name = next((n for n, t in self.tensors.items() if t.requires_grad), None)
            if name is not None:
                raise requires_grad(f"weight {name}")

    def replaced(self) -> bool:
        """Whether the module holds other tensors or submodules than before."""
        try:
            return not all(map(operator.is_, map(operator.getitem, self._holders, self._names), self._held))
        except KeyError:
            return True

    def written(self) -> bool:
        """Whether a tensor has other memory or was written to."""
        return (
            list(map(torch.Tensor.data_ptr, self._plain)) != self._addresses
            or list(map(_version, self._versioned)) != self._versions
        )


_version = torch.Tensor._version.__get__  # type: ignore[attr-defined]
