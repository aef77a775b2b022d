"""Attributes of modules that programs depend on: plain values, which are constants of an export, and hooks.

A call compares all of them at once by identity, and their values only where one is another object. Where these
differ the module is in another state, as after ``train()`` and ``eval()``, and has programs of its own: one adapter
after the other, each compiled once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence, Sized
from itertools import chain
from operator import getitem, is_
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

from zenith.api.forms import exactly
from zenith.torch.adapters import Adapted, by_number, parts_of
from zenith.torch.frozen import Reads
from zenith.torch.gradient_states import States
from zenith.torch.unseen import version

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_OPAQUE = (nn.Module, torch.Tensor, type, FunctionType, MethodType, ModuleType)
_END = object()  # after all values: where there are more, something else has its index


class Attributes:
    """What exports have read of a module's attributes, and the hooks of its submodules, as of the last snapshot.

    ``outer`` containers are checked with them, in the same loop, and count as a change while one has something in it.
    """

    def __init__(self, module: nn.Module, outer: Sequence[Sized] = ()) -> None:
        self._module, self._outer = module, outer
        self._reads: dict[str, frozenset[str]] = {}  # by the role of a module
        self._asked: frozenset[str] = frozenset()
        self.snapshot()

    def add(self, reads: Reads, asked: frozenset[str] = frozenset()) -> None:
        """Watch these attributes and states of gradients, too, from the next snapshot on."""
        self._asked |= asked
        roles = {part.module: part.role for part in reversed(parts_of(self._module))}
        for m in [m for m in reads if m in roles]:
            self._reads[roles[m]] = reads[m] | self._reads.get(roles[m], frozenset())

    def changed(self, within: bool = False) -> bool:
        """Whether one is another object, or a tensor among them was written to; ``within`` leaves out ``outer``."""
        try:
            if any(self._empty_within if within else self._empty) or not all(
                map(is_, map(getitem, self._owners, self._names), self._values)
            ):
                return True
            return bool(self._contents) and self._differs_within()
        except (KeyError, RuntimeError):  # gone, or another thread changes a container
            return True

    def _differs_within(self) -> bool:
        now = chain(*self._contents, (_END,))
        return not all(map(is_, now, self._within)) or list(map(version, self._tensors)) != self._versions

    def snapshot(self) -> Hashable:
        """Take the present state as known; return a key that differs where values do.

        Objects without a value enter it by their identity; all of them live as long as the state is known.
        """
        modules = {part.role: part.module for part in parts_of(self._module)}
        read = [(modules[role], names) for role, names in self._reads.items() if role in modules]
        found = [(m, name) for m, names in read for name in sorted(names & vars(m).keys())]
        owners: list[Any] = [vars(m) for m, _ in found]
        asked = sorted(self._asked)
        self._owners, self._names = [*owners, *[States()] * len(asked)], [*(name for _, name in found), *asked]
        self._values = [owner[name] for owner, name in zip(self._owners, self._names, strict=True)]
        values = self._values
        if isinstance(self._module, Adapted):
            values = [by_number(m, value) for (m, _), value in zip(found, values[: len(found)], strict=True)]
            values += self._values[len(found) :]
        hooks = [vars(m)[kind] for m in dict.fromkeys(modules.values()) for kind in HOOKS if kind in vars(m)]
        self._empty_within = [table for table in hooks if not table]
        self._empty = [*self._empty_within, *self._outer]
        self._contents: list[Iterable[object]] = [table.values() for table in hooks if table]
        within = [*chain(*self._contents, *_all_contents(values))]
        self._contents += _all_contents(self._values)
        self._within = [*chain(*self._contents), _END]
        tensors = [v for v in (*self._values, *self._within) if isinstance(v, torch.Tensor) and not v.is_inference()]
        if tensors and not self._contents:
            self._contents.append(())
        self._tensors, self._versions = tensors, list(map(version, tensors))
        return tuple(self._names), tuple(map(_key, values)), tuple(map(_key, within)), tuple(self._versions)


def _all_contents(values: Sequence[object]) -> list[Iterable[object]]:
    return [contents for value in {id(value): value for value in values}.values() for contents in contents_of(value)]


def contents_of(value: object) -> Sequence[Iterable[object]]:
    """What is in a container, or in an object of a user's class such as a configuration; it follows changes."""
    if isinstance(value, dict):
        return value.keys(), value.values()
    if isinstance(value, (list, tuple, set)):
        return (value,)
    if isinstance(value, _OPAQUE) or callable(value) or not hasattr(value, "__dict__"):
        return ()
    return (vars(value).values(),)


def _key(value: object, depth: int = 4) -> Hashable:
    """A plain value, the contents of a container, or else the object's identity."""
    if isinstance(value, _PLAIN):
        return exactly(value)
    if isinstance(value, (list, tuple, set, dict)) and depth:
        return type(value), tuple(_key(v, depth - 1) for content in contents_of(value) for v in content)
    return id(value)
