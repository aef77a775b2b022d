"""Recurrent layers in graphs of TorchDynamo, which records them where ``torch._dynamo.config.allow_rnn`` says so.

TorchDynamo runs ``torch.gru`` and its like on tensors without elements, step by step, to see what comes out, and so
fixes the sequences' length. For this backend it records :func:`in_layers` instead.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.variables import ConstantVariable
from torch._dynamo.variables.functions import UserFunctionVariable
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

from zenith.torch.recurrent import STATES, in_layers

_IN_LAYERS: Any = in_layers
_DEVICES = ("cpu", "cuda")


def record_as_operators(backend: object) -> None:
    """Have TorchDynamo record recurrent layers as operators where it compiles for ``backend``."""
    handlers = TorchInGraphFunctionVariable._get_handlers()
    for name in STATES:
        handlers.setdefault(getattr(torch, name), _Handler(name, backend))


class _Handler:
    """What TorchDynamo asks how it should record a function; None for as always."""

    def __init__(self, name: str, backend: object) -> None:
        self._name, self._backend = name, backend

    def __call__(self, function: object, tx: Any, *args: Any, **kwargs: Any) -> object:
        """The results of a padded sequence; a packed one has no number for ``biases``, and autocast's types differ."""
        compiler = tx.output.compiler_fn
        while compiler is not self._backend and hasattr(compiler, "compiler_fn"):
            compiler = compiler.compiler_fn
        padded = len(args) == 9 and not kwargs and args[3].is_python_constant()
        if compiler is not self._backend or not padded or any(map(torch.is_autocast_enabled, _DEVICES)):
            return None
        return UserFunctionVariable(_IN_LAYERS).call_function(tx, [ConstantVariable.create(self._name), *args], {})
