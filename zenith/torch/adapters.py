"""LoRA by peft: what programs depend on is which adapters are active, and not what they are called.

A layer with adapters has tables by their names: modules and parameters, among them the two matrices of LoRA, and plain
values, such as the scaling. Programs of a module that is :class:`Adapted` know active adapters by number ("active0"),
and nothing of others. So one that takes the place of another, of the same sizes and values, is other weights for the
same programs. Adapters of other kinds are what they are for any module: submodules with names, and attributes.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import nn

T = TypeVar("T")


class Adapted(nn.Module):
    """A module whose programs know the active adapters below it by number."""


@dataclass(frozen=True, slots=True)
class Part:
    """A submodule, or the module itself: where it is, and its ``role``, which is the same path with numbers.

    ``numbers`` are the names of entries in a table of adapters: the active ones by number, no others.
    """

    path: str
    role: str
    module: nn.Module
    numbers: Mapping[str, str] | None = None

    def entries(self, table: Mapping[str, T | None]) -> Iterator[tuple[str, str, T]]:
        """Names, names in roles, and values of a table of this module: parameters, buffers or submodules."""
        for name, value in table.items():
            role = name if self.numbers is None else self.numbers.get(name)
            if role is not None and value is not None:
                yield name, role, value

    @property
    def identity(self) -> Hashable:
        """What programs depend on beyond attributes: the module itself, or what may take its place in an adapter."""
        m = self.module
        return id(m) if self.path == self.role else (type(m), id(vars(m).get("forward")))


def parts_of(module: nn.Module) -> list[Part]:
    """All submodules, each as often as it has names; below an adapted module those that programs depend on."""
    if not isinstance(module, Adapted):
        return [Part(path, path, m) for path, m in module.named_modules(remove_duplicate=False)]
    return list(_below(Part("", "", module)))


def _below(part: Part) -> Iterator[Part]:
    yield part
    numbers = active_adapters(part.module)
    for name, role, child in part.entries(part.module._modules):
        table = numbers if numbers is not None and isinstance(child, nn.ModuleDict | nn.ParameterDict) else None
        yield from _below(Part(joined(part.path, name), joined(part.role, role), child, table))


def joined(path: str, name: str) -> str:
    """The path of an entry."""
    return f"{path}.{name}" if path else name


def active_adapters(module: nn.Module) -> dict[str, str] | None:
    """The active adapters of a layer with LoRA by name, numbered; None for any other module."""
    layers = getattr(sys.modules.get("peft.tuners.lora.layer"), "LoraLayer", None)
    if layers is None or not isinstance(module, layers):
        return None
    adapted: Any = module
    return {name: f"active{number}" for number, name in enumerate(adapted.active_adapters)}


class Choice:
    """The active adapters of a layer with LoRA as its attribute has them at the moment, one after the other."""

    def __init__(self, layer: nn.Module) -> None:
        self._attributes = vars(layer)

    def __iter__(self) -> Iterator[object]:
        chosen = self._attributes.get("_active_adapter")
        return iter(chosen if isinstance(chosen, list) else (chosen,))


def by_number(module: nn.Module, value: object) -> object:
    """An attribute's value, in which a layer with LoRA has its active adapters by number, and others not as keys."""
    active = active_adapters(module)
    if active is None:
        return value
    if isinstance(value, str):
        return active.get(value, value)
    if isinstance(value, list | tuple):
        return [active.get(v, v) if isinstance(v, str) else v for v in value]
    if isinstance(value, dict):
        adapted: Any = module
        others = set(adapted._get_available_adapters()) - active.keys()
        return {active.get(key, key): found for key, found in value.items() if key not in others}
    return value
