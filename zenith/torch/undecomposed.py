"""Operators that an export does not decompose although PyTorch's dispatcher has a kernel that does.

Most decompositions are in a table that an export is given. A few are kernels for the dispatch key ``Autograd``, which
every trace runs; theirs lose the derivative that PyTorch has for the operator, and one gives other values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
import torch._decomp  # it registers them
from torch._C import DispatchKey

_NAMES = ("multi_margin_loss", "multilabel_margin_loss_forward")


@cache
def _kernels() -> Mapping[Any, object]:
    """PyTorch's decomposition of each of the operators."""
    operators = [getattr(torch.ops.aten, name).default for name in _NAMES]
    return {o: o.py_kernels[DispatchKey.Autograd] for o in operators if DispatchKey.Autograd in o.py_kernels}


@contextmanager
def without_early_decompositions() -> Iterator[None]:
    """Within this block no trace decomposes the operators."""
    kernels = _kernels()
    for operator in kernels:
        operator.py_kernels.pop(DispatchKey.Autograd, None)
        operator._dispatch_cache.clear()
    try:
        yield
    finally:
        for operator, kernel in kernels.items():
            operator.py_kernels[DispatchKey.Autograd] = kernel
            operator._dispatch_cache.clear()
