"""A compiled module is a ``torch.nn.Module`` with the submodules, state and names of the module that it compiles.

It has no parameters, buffers and children of its own: the dictionaries of both are the same objects, so a checkpoint of
one is a checkpoint of the other, and a name means the same in both, with no prefix. The wrapped module does what
PyTorch asks a module to do (``_apply``, ``train``, ``state_dict``, ``apply``), with the overrides of its class.
Hooks on calls are the compiled module's own, and run around its programs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Self
from weakref import WeakKeyDictionary

from torch import nn

from zenith.annotations import signature_of
from zenith.errors import UnsupportedError, ZenithError, user_line

# dictionaries of a module that are those of the wrapped one
_SHARED = (
    "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_state_dict_hooks", "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip
_CONTAINER = ("__len__", "__bool__", "__iter__", "__reversed__", "__contains__", "__getitem__", "__setitem__",
              "__delitem__", "__enter__", "__exit__")  # fmt: skip
_classes: WeakKeyDictionary[type, type] = WeakKeyDictionary()


class ModuleLike(nn.Module):
    """An ``nn.Module`` with the submodules of ``module``. Attributes that are not its own are read and set there.

    ``_patches`` has a ``forward`` that was assigned to it.
    """

    module: nn.Module

    def __new__(cls, module: nn.Module, *args: object, **kwargs: object) -> Self:
        """An object of a class of its own for each class of modules: its ``forward`` has that one's signature."""
        return object.__new__(_class_for(cls, type(module)))

    def __init__(self, module: nn.Module) -> None:
        own = vars(nn.Module())
        del own["training"]
        own |= {name: getattr(module, name) for name in _SHARED}
        vars(self).update(own, module=module, _patches={})

    def forward(self, *args: object, **kwargs: object) -> Any:
        """The result of a call, without the hooks."""
        raise NotImplementedError

    # --- attributes ---------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """An attribute of the module; methods are bound to it, and compute without programs."""
        if "module" not in vars(self):
            raise AttributeError(name)
        return getattr(self.module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of the module, or what replaces one of this class, such as ``forward``."""
        own = vars(self)
        if name == "module":
            raise ZenithError("a compiled module stays one of the module that it was compiled from", where=user_line(),
                              fix="call from_torch with the other module")  # fmt: skip
        if isinstance(own.get(name), (dict, set)) and name != "_patches":
            table, value = own[name], value.copy()  # the object stays: others refer to it
            table.clear()
            table.update(value)
        elif name in own or hasattr(type(self), name):
            object.__setattr__(self, name, value)
            if name == "forward":
                self._patches[name] = value
        else:
            setattr(self.module, name, value)

    def __delattr__(self, name: str) -> None:
        """Delete an attribute of the module, or what replaced one of this class."""
        if name in vars(self):
            object.__delattr__(self, name)
            self._patches.pop(name, None)
        else:
            delattr(self.module, name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self.module)})

    # --- submodules ---------------------------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """This one, and under the same name the module, and its submodules."""
        memo = set() if memo is None else memo
        if self not in memo:
            if remove_duplicate:
                memo.add(self)
            yield prefix, self
            yield from self.module.named_modules(memo, prefix, remove_duplicate)

    def apply(self, fn: Callable[[nn.Module], None]) -> Self:
        """Call a function with the module's submodules and the module, and not once more with this one."""
        self.module.apply(fn)
        return self

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Convert or move the weights: ``to()``, ``cuda()``, ``half()`` and their like."""
        self.module._apply(fn, recurse)
        return self

    def compile(self, *args: object, **kwargs: object) -> None:
        """Refuse: it is compiled."""
        raise UnsupportedError(f"{type(self.module).__name__} is compiled by from_torch already", where=user_line(),
                               fix="compile the module that it was compiled from: .module.compile(...)")  # fmt: skip

    def _replicate_for_data_parallel(self) -> Self:
        raise UnsupportedError(
            "a compiled module computes with the weights of one module, and nn.DataParallel makes replicas",
            where=user_line(), fix="use torch.nn.parallel.DistributedDataParallel",
        )  # fmt: skip

    # --- modes --------------------------------------------------------------------------------------------------------

    @property
    def training(self) -> bool:
        """Whether the module is in training mode."""
        return self.module.training

    @training.setter
    def training(self, mode: bool) -> None:
        self.module.training = mode

    def train(self, mode: bool = True) -> Self:
        """Put the module into training mode, with dropout and running statistics, or out of it."""
        self.module.train(mode)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say whether gradients of the module's parameters are wanted."""
        self.module.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of the module's parameters."""
        self.module.zero_grad(set_to_none)

    # --- state --------------------------------------------------------------------------------------------------------

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, object]:  # type: ignore[override]
        """The module's state, under the module's own names."""
        found: dict[str, Any] = self.module.state_dict(*args, **kwargs)
        return found

    def load_state_dict(self, state_dict: Mapping[str, object], strict: bool = True, assign: bool = False) -> object:
        """Give the module a state; the next call computes with it."""
        return self.module.load_state_dict(state_dict, strict, assign)

    def _load_from_state_dict(self, *args: object, **kwargs: object) -> None:
        """What loading an enclosing model calls for each submodule; the calls for the children come next."""
        self.module._load_from_state_dict(*args, **kwargs)

    def get_extra_state(self) -> object:
        """The module's extra state."""
        return self.module.get_extra_state()

    def set_extra_state(self, state: object) -> None:
        """Give the module the state that its ``get_extra_state`` gave."""
        self.module.set_extra_state(state)

    def _own_state(self) -> dict[str, object]:
        """Hooks and what else is this object's own, for a copy."""
        own = [n for n in vars(self) if "_hook" in n and n not in _SHARED]
        return {name: vars(self)[name] for name in (*own, *self._patches)}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        for name, value in state.items():
            setattr(self, name, value)


def _class_for(base: type[ModuleLike], of: type[nn.Module]) -> Any:
    """The class of compiled modules of a class.

    Libraries read which arguments a model has from its class, and Python looks for special methods there.
    """
    found = _classes.get(of)
    if found is None:
        members = {name: _delegating(name) for name in _CONTAINER if hasattr(of, name)}
        with suppress(TypeError, ValueError):  # it has no signature
            members["forward"] = _with_signature(base.forward, signature_of(of.forward))
        found = _classes[of] = type(base.__name__, (base,), {"__module__": base.__module__, **members})
    return found


def _delegating(name: str) -> Callable[..., object]:
    """A special method that calls the module's."""

    def method(self: ModuleLike, *args: object) -> object:
        return getattr(self.module, name)(*args)

    return method


def _with_signature(function: Callable[..., object], signature: inspect.Signature) -> Callable[..., object]:
    def forward(self: ModuleLike, *args: object, **kwargs: object) -> object:
        return function(self, *args, **kwargs)

    vars(forward)["__signature__"] = signature
    return forward
