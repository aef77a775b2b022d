"""What a module's Python asks about gradients while it is exported.

Whether they are recorded is a state of each call, as ``train()`` and ``eval()`` are of the module: where its forward
asks for that, calls in other states have programs of their own. Whether a tensor requires one is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch

from zenith.errors import UnsupportedError
from zenith.torch.like_numbers import asks_a_library

_STATES: dict[str, Callable[[], bool]] = {
    "is_grad_enabled": torch.is_grad_enabled, "is_inference_mode_enabled": torch.is_inference_mode_enabled,
}  # fmt: skip


class States:
    """The states of the present call by name, as items."""

    def __getitem__(self, name: str) -> bool:
        return _STATES[name]()


@contextmanager
def noted_states(differentiable: bool) -> Iterator[set[str]]:
    """Within this block the states that this thread's code outside of libraries asks for are noted.

    Its answers are those of the call, and not of the export; gradients flow through what is ``differentiable``.
    """
    noted: set[str] = set()
    now = {name: state() for name, state in _STATES.items()}
    now["is_grad_enabled"] |= differentiable
    exported = {"is_grad_enabled": differentiable, "is_inference_mode_enabled": False}
    with ExitStack() as replaced:
        for name, state in _STATES.items():
            replaced.enter_context(patch.object(torch, name, _noting(name, state, (exported[name], now[name]), noted)))
        replaced.enter_context(patch.object(torch.Tensor, "requires_grad", _refused_flag(), create=True))
        yield noted


def _noting(name: str, state: Callable[[], bool], states: tuple[bool, bool], noted: set[str]) -> Callable[[], bool]:
    """What answers for a state, which is the first of ``states`` in the export and the second in the call."""
    thread = threading.get_ident()

    def asked() -> bool:
        if threading.get_ident() != thread or asks_a_library():
            return state()
        noted.add(name)
        found, (exported, now) = state(), states
        return now if found == exported else found  # the module itself has changed it

    return asked


def _refused_flag() -> property:
    """``requires_grad`` of tensors, for which a module must not ask; libraries may, and all may set it."""
    own: Any = torch._C.TensorBase.requires_grad
    thread = threading.get_ident()

    def get(tensor: torch.Tensor) -> Any:
        if threading.get_ident() == thread and not asks_a_library():
            raise UnsupportedError(
                "the module's forward asks whether a tensor requires a gradient, which a program does not know",
                fix='ask torch.is_grad_enabled(), or use torch.compile(module, backend="zenith"), which follows Python',
            )
        return own.__get__(tensor)

    return property(get, lambda tensor, value: own.__set__(tensor, value))
