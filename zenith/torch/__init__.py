"""PyTorch modules: ``torch.export``'s graphs translated to Zenith's, run on tensors without a copy."""

from zenith.torch.module import CompiledModule, from_torch

__all__ = ["CompiledModule", "from_torch"]
