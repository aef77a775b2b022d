"""A PyTorch module as a pure function, with the parameters that it has now; outputs of model classes become dicts."""

from __future__ import annotations

import warnings
from typing import Any

from zenith.api.forms import mapped
from zenith.batches import arguments_of, on_host
from zenith.errors import PerformanceWarning, ZenithError
from zenith.ir.graph import content_hash


class ModuleFunction:
    """A compiled module as a pure function of its inputs, with the parameters that it has now."""

    def __init__(self, module: Any, params: Any, name: str, doc: str | None) -> None:
        self._held: list[Any] = [module, params]  # where wrappers, which copy attributes, see that they are released
        self.__name__, self.__doc__ = name, doc

    @property
    def constants(self) -> dict[str, list[str]]:
        """The names of parameters by those of the constants that they become; equal ones are one constant."""
        found: dict[str, list[str]] = {}
        for name, param in self._held[1].items():
            found.setdefault(content_hash(param), []).append(name)
        return found

    @property
    def module(self) -> Any:
        """The PyTorch module; None once it was released."""
        return self._held[0].module if self._held else None

    def __call__(self, *args: object, **kwargs: object) -> object:
        if not self._held:
            raise ZenithError(f"the weights of {self.__name__} were released, and another kind of call needs them",
                              fix="make calls of all kinds first, or keep them: release_weights=False")  # fmt: skip
        module, params = self._held
        return mapped(module(params, *args, **kwargs), lambda leaf: leaf)

    def __reduce__(self) -> str:
        raise ZenithError(f"{self.__name__} is a quantised module, which cannot be copied or pickled",
                          fix="save() it, and load the file there")  # fmt: skip

    def release(self) -> None:
        """Drop the module and its parameters."""
        self._held.clear()


def of_module(module: Any, example: object) -> ModuleFunction:
    """A module, compiled or not, as a function; ``example`` is a batch of its arguments."""
    from zenith.torch import CompiledModule, from_torch

    doc = type(module).__doc__
    if not isinstance(module, CompiledModule):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PerformanceWarning)  # weights are taken once
            module = from_torch(module, *arguments_of(example))
    function, params = module.forward_only()
    return ModuleFunction(function, {name: on_host(param) for name, param in params.items()}, module.__name__, doc)
