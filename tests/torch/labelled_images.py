"""Images that a small network learns to tell apart in a few steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def labelled_images(count: int) -> Iterator[tuple[Any, Any]]:
    """Batches of 32 noisy images [32, 3, 12, 12] of ten patterns, and which these are; the same ones each time."""
    generator = torch.Generator().manual_seed(1)
    patterns = torch.randn(10, 3, 12, 12, generator=generator)
    for _ in range(count):
        labels = torch.randint(0, 10, (32,), generator=generator)
        yield patterns[labels] + 0.5 * torch.randn(32, 3, 12, 12, generator=generator), labels
