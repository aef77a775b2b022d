"""Donated residuals: arguments of a backward graph whose memory its program may reuse.

AOTAutograd says which residuals it made for the backward pass alone (they share memory with no argument or result of
the forward pass), and lets go of them before it calls the backward graph, unless the caller retains the graph. Which of
them nobody else has then is seen in the first call, from the references to each tensor's Python object, to its
implementation, and to its storage. Where one has another owner in a later call, the program gets a copy.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

import torch

from zenith.arrays import torch_adapter


class Donated:
    """The leaves at ``positions`` of a graph's calls, which the caller gives away; ``reusable`` are known from then on.

    Attributes
    ----------
    positions: of the leaves that are donated.
    reusable: of those that nobody else had in the first call, whose memory the graph's programs reuse.
    """

    def __init__(self, positions: Sequence[int]) -> None:
        self.positions = tuple(positions)
        self.reusable: tuple[int, ...] = ()
        self._is_known = not self.positions
        self._lock = threading.Lock()  # the first calls may be in several threads, and programs are for one answer

    def take(self, leaves: list[object]) -> None:
        """Have the program alone own what it reuses: copies stand in for tensors that somebody else has, too."""
        if not self._is_known:
            with self._lock:
                if not self._is_known:
                    self.reusable = tuple(p for p in self.positions if is_unshared(leaves, p))
                    self._is_known = True
        for position in self.reusable:
            if not is_unshared(leaves, position):
                leaf = leaves[position]
                assert isinstance(leaf, torch.Tensor)
                leaves[position] = leaf.clone(memory_format=torch.contiguous_format)


def is_unshared(leaves: list[object], position: int) -> bool:
    """Whether nobody but the list has what is a tensor of the CPU, dense, and all of its memory."""
    found = _references(leaves, position)
    if found is None or found != _ALONE:
        return False
    leaf = leaves[position]
    assert isinstance(leaf, torch.Tensor)
    return leaf.is_cpu and torch_adapter().is_sole_owner(leaf)


def _references(leaves: list[object], position: int) -> tuple[int, int, int] | None:
    """How many references there are to a tensor's object, its implementation and its storage, those here included."""
    leaf = leaves[position]
    if not isinstance(leaf, torch.Tensor) or not hasattr(leaf, "_use_count"):
        return None
    return sys.getrefcount(leaf), leaf._use_count(), torch._C._storage_Use_Count(leaf.untyped_storage()._cdata)


_ALONE = _references([torch.empty(1)], 0)  # measured, since Python's versions count a function's own ones differently
