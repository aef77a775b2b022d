"""PyTorch's functions, methods and modules where a program is traced: refused, with what compiles them.

A tensor that a traced function is given is an array with NumPy's methods while it is traced. PyTorch asks an argument
that is no tensor of its own for ``__torch_function__``, and so its functions end here, whoever calls them.
"""

from __future__ import annotations

import sys

from zenith.errors import MissingAttributeError, TraceError, ValueTypeError, user_line

_INSTEAD = (
    'torch.compile(f, backend="zenith") compiles functions of tensors, zenith.from_torch(module) a module; in what '
    "Zenith traces, write NumPy's functions or zenith.nn's, and for a module fn, params = "
    "zenith.from_torch(module).functional()"
)
_OPERATORS = {
    "add", "sub", "mul", "div", "truediv", "floordiv", "floor_divide", "mod", "remainder", "pow", "matmul",
    "eq", "ne", "lt", "le", "gt", "ge",
    "and", "or", "xor", "lshift", "rshift",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
}  # fmt: skip


def torch_function(function: object) -> object:
    """What ``__torch_function__`` answers for a function of PyTorch's that is given a traced array.

    Of a tensor and a traced array an operator is the traced array's: NotImplemented. For all else TraceError, for
    operators that write into the tensor, too, as Python would give the name another array instead.
    """
    name = sys.modules["torch"].overrides.resolve_name(function) or getattr(function, "__name__", str(function))
    owner, _, last = name.rpartition(".")
    if owner == "torch.Tensor" and last.removeprefix("__").removesuffix("__") in _OPERATORS:
        return NotImplemented
    raise TraceError(f"{name} is PyTorch's, and was given a traced array", where=user_line(), fix=_INSTEAD)


def refuse_tensor_method(name: str, types: tuple[object, ...]) -> None:
    """MissingAttributeError for an attribute that PyTorch's tensors have; nothing for any other."""
    torch = sys.modules.get("torch")
    if torch is not None and not name.startswith("__") and hasattr(torch.Tensor, name):
        raise MissingAttributeError(f"Tensor.{name} is PyTorch's, and a traced array has NumPy's attributes",
                                    where=user_line(), types=types, fix=_INSTEAD)  # fmt: skip


def refuse_module(function: object) -> None:
    """ValueTypeError for a PyTorch module, which computes with tensors and has weights that change."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(function, torch.nn.Module):
        raise ValueTypeError(
            f"jit takes a function of arrays, and {type(function).__name__} is a torch.nn.Module", where=user_line(),
            fix='write zenith.from_torch(module), or torch.compile(module, backend="zenith"); what these give is '
            "called as it is",
        )  # fmt: skip
