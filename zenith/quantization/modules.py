"""A PyTorch module as a pure function, with the parameters that it has now; outputs of model classes become dicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from zenith.api.forms import mapped
from zenith.errors import ArgumentError
from zenith.ir.graph import content_hash


@dataclass(slots=True)
class ModuleFunction:
    """A compiled module as a pure function of its inputs, with the parameters that it has now."""

    module: Any
    params: Any
    __name__: str
    _released: bool = field(default=False)

    @property
    def constants(self) -> dict[str, str]:
        """The names of parameters by those of the constants that they become."""
        return {content_hash(param.numpy()): name for name, param in self.params.items()}

    def __call__(self, *args: object, **kwargs: object) -> object:
        if self._released:
            raise ArgumentError(f"the weights of {self.__name__} were released, and another kind of call needs them",
                                fix="make calls of all kinds first, or keep them: release_weights=False")  # fmt: skip
        return mapped(self.module(self.params, *args, **kwargs), lambda leaf: leaf)

    def release(self) -> None:
        """Drop the module and its parameters."""
        self.module = self.params = None
        self._released = True


def of_module(module: Any, example: object) -> ModuleFunction:
    """A module, compiled or not, as a function; ``example`` is a batch of its arguments."""
    from zenith.torch import CompiledModule, from_torch

    if not isinstance(module, CompiledModule):
        args = example if isinstance(example, tuple) else () if isinstance(example, dict) else (example,)
        module = from_torch(module, args, example if isinstance(example, dict) else None)
    function, params = module.functional()
    return ModuleFunction(function, params, module.__name__)
