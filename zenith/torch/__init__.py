"""PyTorch modules on tensors without a copy: :func:`from_torch`, and ``torch.compile(model, backend="zenith")``.

``from_torch`` translates ``torch.export``'s graph of a module; the backend those of TorchDynamo and AOTAutograd.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zenith.torch.dynamo.report import Report, explain, graphs
    from zenith.torch.module import CompiledModule, from_torch
    from zenith.torch.unseen import refresh

__all__ = ["CompiledModule", "Report", "explain", "from_torch", "graphs", "refresh"]

_MODULES = {"CompiledModule": "module", "from_torch": "module", "refresh": "unseen"}


# Compiling needs ``torch.export`` or TorchDynamo, which take long to import; what was saved runs without them.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in __all__:
            from importlib import import_module

            return getattr(import_module(f"zenith.torch.{_MODULES.get(name, 'dynamo.report')}"), name)
        raise AttributeError(f"module 'zenith.torch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
