"""Normalisation: layer, batch, group, instance and root-mean-square norms, and what their native forms also return."""

from __future__ import annotations

from collections.abc import Sequence

import zenith.numpy as znp
from zenith import nn
from zenith.errors import UnsupportedError
from zenith.nn import normalization as forms
from zenith.numpy.typing import Array, Size
from zenith.torch.aten.rules import Context, rounded_once, rule
from zenith.trace.bind import b


def _trailing(x: Array, shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(range(x.ndim - len(shape), x.ndim))


@rule("layer_norm")
@rounded_once
def _layer_norm(c: Context, x: Array, shape: Sequence[int], weight: Array | None = None, bias: Array | None = None,
                eps: float = 1e-5, *_: object) -> Array:  # fmt: skip
    return nn.layer_norm(x, weight, bias, eps, _trailing(x, shape))


@rule("native_layer_norm")
@rounded_once
def _native_layer_norm(c: Context, x: Array, shape: Sequence[int], weight: Array | None, bias: Array | None,
                       eps: float) -> tuple[Array, ...]:  # fmt: skip
    return forms.layer_norm_with_statistics(x, weight, bias, eps, _trailing(x, shape))


@rule("rms_norm")
@rounded_once
def _rms_norm(c: Context, x: Array, shape: Sequence[int], weight: Array | None = None,
              eps: float | None = None) -> Array:  # fmt: skip
    return nn.rms_norm(x, weight, eps, _trailing(x, shape))


@rule("batch_norm")
@rounded_once
def _batch_norm(
    c: Context, x: Array, weight: Array | None, bias: Array | None, mean: Array | None, var: Array | None,
    training: bool, momentum: float, eps: float, *_: object,
) -> Array:  # fmt: skip
    if not training:
        return nn.batch_norm(x, mean, var, weight, bias, eps)
    _refuse_running("batch normalisation", mean)
    return forms.batch_norm_with_statistics(x, weight, bias, eps, 1)[0]


@rule("_native_batch_norm_legit_no_training")
@rounded_once
def _no_training(c: Context, x: Array, weight: Array | None, bias: Array | None, mean: Array, var: Array,
                 momentum: float, eps: float) -> tuple[Array, ...]:  # fmt: skip
    nothing = znp.zeros((0,), x.dtype)
    return nn.batch_norm(x, mean, var, weight, bias, eps), nothing, nothing


@rule("_native_batch_norm_legit.no_stats")
@rounded_once
def _no_stats(c: Context, x: Array, weight: Array | None, bias: Array | None, training: bool, momentum: float,
              eps: float) -> tuple[Array, ...]:  # fmt: skip
    y, mean, var = forms.batch_norm_with_statistics(x, weight, bias, eps, 1)
    return y, mean, 1.0 / znp.sqrt(var + eps)


@rule("_native_batch_norm_legit_functional")
@rounded_once
def _functional(c: Context, x: Array, weight: Array | None, bias: Array | None, mean: Array, var: Array, training: bool,
                momentum: float, eps: float) -> tuple[Array, ...]:  # fmt: skip
    if not training:
        return (*_no_training(c, x, weight, bias, mean, var, momentum, eps), mean, var)
    y, own, biased = forms.batch_norm_with_statistics(x, weight, bias, eps, 1)
    _, *running = nn.batch_norm_training(x, mean, var, weight, bias, momentum, eps)
    return (y, own, 1.0 / znp.sqrt(biased + eps), *running)


@rule("group_norm")
@rounded_once
def _group_norm(c: Context, x: Array, groups: int, weight: Array | None = None, bias: Array | None = None,
                eps: float = 1e-5, *_: object) -> Array:  # fmt: skip
    return nn.group_norm(x, groups, weight, bias, eps)


@rule("native_group_norm")
@rounded_once
def _native_group_norm(c: Context, x: Array, weight: Array | None, bias: Array | None, n: Size, channels: Size,
                       size: Size, groups: int, eps: float) -> tuple[Array, ...]:  # fmt: skip
    y, *statistics = forms.group_norm_with_statistics(x, groups, weight, bias, eps, 1)
    return (y, *map(b.stop_gradient, statistics))


@rule("instance_norm")
@rounded_once
def _instance_norm(
    c: Context, x: Array, weight: Array | None, bias: Array | None, mean: Array | None, var: Array | None,
    use_input_stats: bool, momentum: float, eps: float, *_: object,
) -> Array:  # fmt: skip
    if not use_input_stats:
        return nn.batch_norm(x, mean, var, weight, bias, eps)
    _refuse_running("instance normalisation", mean)
    return nn.instance_norm(x, weight, bias, eps)


def _refuse_running(what: str, mean: Array | None) -> None:
    if mean is not None:
        raise UnsupportedError(
            f"{what} in training mode writes its running statistics, which a compiled program does not",
            fix="call module.eval() before from_torch; zenith.nn.batch_norm_training returns the new statistics",
        )
