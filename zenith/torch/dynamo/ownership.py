"""Arguments whose memory a program may overwrite: residuals of a backward pass that nobody else has any more.

AOTAutograd gives the residuals to the backward graph and lets go of them first, unless the caller retains the graph.
Which arguments that holds for is seen in the first call. Where one of them has another owner in a later call, which
references to its tensor object, to its implementation, and to its storage tell, the program gets a copy.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import torch

_OBJECTS = 3  # references to its Python object: the list's, the asker's, and the counter's
_STORAGES = 2  # references to the storage of a tensor that nobody else has: its own, and the asker's


def owned(leaves: list[object], positions: Iterable[int]) -> list[int]:
    """The positions of tensors that nobody but the list has."""
    return [p for p in positions if _is_unshared(leaves, p)]


def own(leaves: list[object], positions: Iterable[int]) -> None:
    """Have copies in place of the tensors at these positions that somebody else has, too."""
    for position in positions:
        if not _is_unshared(leaves, position):
            leaf = leaves[position]
            assert isinstance(leaf, torch.Tensor)
            leaves[position] = leaf.clone(memory_format=torch.contiguous_format)


def _is_unshared(leaves: list[object], position: int) -> bool:
    leaf = leaves[position]
    if not isinstance(leaf, torch.Tensor) or sys.getrefcount(leaf) != _OBJECTS or not hasattr(leaf, "_use_count"):
        return False
    if leaf._use_count() != 1:
        return False
    storage = leaf.untyped_storage()
    whole = storage.nbytes() == leaf.numel() * leaf.element_size() and leaf.is_contiguous() and leaf.numel() > 0
    return whole and torch._C._storage_Use_Count(storage._cdata) == _STORAGES
