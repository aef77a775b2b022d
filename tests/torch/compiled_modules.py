"""One of PyTorch's own samples of a module, with and without ``torch.compile(backend="zenith")``, forward and backward.

As ``tests/torch/compiled_samples.py`` for operators: results, gradients of arguments and parameters, buffers
that the module writes, and the generator's state.
"""

import copy
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.torch.compiled_samples import Results, compared, cotangents, tracked


def modules():
    """Every module that PyTorch has samples of."""
    from torch.testing._internal.common_modules import module_db

    return list(module_db)


def samples(info, dtype, training):
    """All samples of a module that PyTorch has for its mode."""
    torch.manual_seed(0)
    return info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)


def outcome(info, sample, dtype, training, kind="reference", dynamic=False):
    """Compile a module with its sample and compare; None where eager PyTorch does not compute it itself."""
    module = _built(info, sample, dtype, training)
    call = sample.forward_input
    compiler = {"backend": "zenith", "dynamic": dynamic, "options": {"backend": kind}}

    def expected():
        return _results(copy.deepcopy(module), call)

    def given():
        return _results(copy.deepcopy(module), call, lambda own: torch.compile(own, **compiler))

    def exact():
        return _results(copy.deepcopy(module), call, wide=True)

    return compared(expected, given, exact, info.name, dtype)


def _built(info, sample, dtype, training):
    """The module in its mode, its parameters always the same; a lazy one has seen its first call."""
    torch.manual_seed(0)
    module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
    module = module.to(dtype).train(training)
    if info.is_lazy:
        with torch.no_grad():
            module(*sample.forward_input.args, **sample.forward_input.kwargs)
    return module


def _results(module: Any, call: Any, prepared: Any = lambda module: module, wide: bool = False) -> Results:
    """Call a module, and take gradients for a cotangent that depends on the results' shapes alone."""
    if wide:
        module = module.double()
    args, kwargs = tracked((call.args, call.kwargs), wide)
    asked = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor) and t.requires_grad]
    asked += [p for p in module.parameters() if p.requires_grad]
    torch.manual_seed(1)
    results = prepared(module)(*args, **kwargs)
    state = torch.get_rng_state()
    shown = pytree.tree_leaves(results)
    written = list(module.buffers())
    smooth = [t for t in shown if isinstance(t, torch.Tensor) and t.requires_grad]
    if not smooth:
        return Results(shown + written, None, state)
    rounded = next((t.dtype for t in pytree.tree_leaves(call.args) if isinstance(t, torch.Tensor)), None)
    gradients = torch.autograd.grad(smooth, asked, cotangents(smooth, rounded if wide else None), allow_unused=True)
    return Results(shown + written, gradients, state)
