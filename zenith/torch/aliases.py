"""``weight.data`` and ``weight.numpy()`` of weights that programs compute with: writes that bypass version counters.

PyTorch gives ``.data`` a version counter of its own, which goes with the tensor. For memory that is watched
(:mod:`zenith.torch.unseen`) all of these aliases, and the views of them, share one counter, which is read before a
call: they differ in nothing else. A NumPy array keeps the tensor under it alive, so that its lifetime is known.
Tensors of other memory get what PyTorch gives them.
"""

from __future__ import annotations

from typing import Any

import torch

from zenith.torch.calls import TENSORS
from zenith.torch.unseen import WatchedMemory, memory_of, watched

_BASE = torch._C.TensorBase
_data: Any = vars(_BASE)["data"]
_numpy: Any = vars(_BASE)["numpy"]


def _get_data(tensor: torch.Tensor) -> object:
    """``tensor.data``, whose writes are counted if its memory is watched."""
    found, memory = _data.__get__(tensor), _memory(tensor)
    if memory is None:
        return found
    if torch._C._len_torch_dispatch_stack() or torch._C._functorch.peek_interpreter_stack() is not None:
        memory.own(found)  # what is done here is recorded or transformed
        return found
    return _counted(memory, found)


def _set_data(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """``tensor.data = value``: they share memory from now on, and no counter."""
    before = _memory(tensor)
    _data.__set__(tensor, value)
    if before is not None:
        before.write()  # the new memory may have the old address
        before.successor = memory_of(tensor)
        before.successor.count(value.detach())


def _to_numpy(tensor: torch.Tensor, *args: object, **kwargs: object) -> object:
    """``tensor.numpy()``, whose lifetime counts as one of writes if its memory is watched."""
    memory = _memory(tensor)
    if memory is None:
        return _numpy(tensor, *args, **kwargs)
    alias = tensor if tensor.requires_grad else tensor.detach()  # the array keeps it alive: no weight itself
    found = _numpy(alias, *args, **kwargs)
    if found.base is not None:
        memory.own(found.base)
    return found


def _memory(tensor: torch.Tensor) -> WatchedMemory | None:
    """The record of a tensor's memory, if it is watched and the tensor has memory."""
    if type(tensor) not in TENSORS or tensor.layout is not torch.strided:
        return None
    return None if torch._C._functorch.is_functorch_wrapped_tensor(tensor) else watched(tensor)


def _counted(memory: WatchedMemory, data: torch.Tensor) -> torch.Tensor:
    """An alias with the counter that all aliases of this memory and element type share."""
    with torch.inference_mode(False), torch.no_grad():
        root = memory.roots.get(data.dtype)
        if root is None:
            root = memory.roots[data.dtype] = _with_signs_of(data, data)
            memory.count(root)
        found = root.as_strided(data.shape, data.stride(), data.storage_offset())
        return _with_signs_of(data, found).detach()


def _with_signs_of(tensor: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
    """``view`` with its conjugate and negative bits flipped where ``tensor`` has them."""
    view = view.conj() if tensor.is_conj() else view
    return torch._neg_view(view) if tensor.is_neg() else view


torch.Tensor.data = property(_get_data, _set_data)  # type: ignore[assignment]
torch.Tensor.numpy = _to_numpy  # type: ignore[assignment, method-assign]
