"""PyTorch modules: ``torch.export``'s graphs translated to Zenith's, run on tensors without a copy."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zenith.torch.module import CompiledModule, from_torch

__all__ = ["CompiledModule", "from_torch"]


def __getattr__(name: str) -> Any:
    """Compiling needs ``torch.export``, which takes long to import; what was saved runs without it."""
    if name in __all__:
        from zenith.torch import module

        return getattr(module, name)
    raise AttributeError(f"module 'zenith.torch' has no attribute {name!r}")
