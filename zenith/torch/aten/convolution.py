"""Convolutions and their transposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zenith import nn
from zenith.torch.aten.rules import Context, of_one_dtype, rule


@rule("convolution")
@of_one_dtype
def _convolution(
    c: Context, x: Any, w: Any, bias: Any, stride: Sequence[int], padding: Sequence[Any], dilation: Sequence[int],
    transposed: bool, output_padding: Sequence[Any], groups: int,
) -> Any:  # fmt: skip
    steps: dict[str, Any] = {
        "stride": tuple(stride),
        "padding": tuple(padding),
        "dilation": tuple(dilation),
        "groups": groups,
    }
    if transposed:
        return nn.conv_transpose(x, w, bias, output_padding=tuple(output_padding), **steps)
    return nn.conv(x, w, bias, **steps)
