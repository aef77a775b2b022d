"""What a compiled module has of its module: PyTorch's loops, optimizers and checkpoints ask for nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import torch


class ModuleLike:
    """The parts of ``torch.nn.Module`` that a loop of training needs; each is the one of ``module``."""

    module: torch.nn.Module

    @property
    def training(self) -> bool:
        """Whether the module is in training mode."""
        return self.module.training

    def train(self, mode: bool = True) -> Self:
        """Put the module into training mode, in which it drops and keeps statistics, or out of it."""
        self.module.train(mode)
        return self

    def eval(self) -> Self:
        """Put the module into evaluation mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say whether gradients of the module's parameters are wanted."""
        self.module.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of the module's parameters."""
        self.module.zero_grad(set_to_none)

    def parameters(self, recurse: bool = True) -> Iterator[torch.nn.Parameter]:
        """The module's parameters."""
        return self.module.parameters(recurse)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """The module's parameters with their names."""
        return self.module.named_parameters(*args, **kwargs)

    def buffers(self, recurse: bool = True) -> Iterator[torch.Tensor]:
        """The module's buffers."""
        return self.module.buffers(recurse)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The module's state, under the module's own names."""
        found: dict[str, Any] = self.module.state_dict(*args, **kwargs)
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Give the module a state; the next call computes with it."""
        return self.module.load_state_dict(state_dict, strict, assign)
