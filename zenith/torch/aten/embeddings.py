"""Rows of tables, and bags of them."""

from __future__ import annotations

from typing import Any

from zenith import nn
from zenith.nn.embeddings import MODES
from zenith.torch.aten.rules import Context, rule


@rule("embedding")
def _embedding(c: Context, weight: Any, indices: Any, padding_idx: int = -1, *_: Any) -> Any:
    return nn.embedding(weight, indices, padding_idx if padding_idx >= 0 else None)


@rule("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def _embedding_bag(
    c: Context, weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:  # fmt: skip
    """The result alone: what else PyTorch returns is what its own derivative keeps."""
    padding_idx = None if padding_idx is None or padding_idx < 0 else padding_idx
    bags = nn.embedding_bag(weight, indices, offsets, MODES[mode], per_sample_weights, include_last_offset, padding_idx)
    return bags, None, None, None
