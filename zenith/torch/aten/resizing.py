"""Resizing and sampling of images: PyTorch's names for :mod:`zenith.nn`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zenith import nn
from zenith.nn.resizing import resized
from zenith.nn.sampling import MODES, PADDINGS
from zenith.nn.windows import per_axis
from zenith.numpy.typing import Array, Size
from zenith.torch.aten.rules import RULES, Context, Rule, rounded_once, rule

Numbers = Sequence[Size]


def _resize(mode: str, axes: int, aligned: bool, antialias: bool) -> tuple[Rule, Rule]:
    """The rules of an operator and its overload ``vec``, whose options are all factors or none."""

    @rounded_once
    def resize(c: Context, x: Array, size: Numbers, *options: Any) -> Array:
        align, factors = (options[0], options[1:]) if aligned else (False, options)
        given = (*factors, *(None,) * (axes - len(factors)))
        return resized(x, per_axis(mode, "size", size, axes, 1), given, mode, align, antialias)

    @rounded_once
    def by_factors(c: Context, x: Array, size: Numbers | None, *options: Any) -> Array:
        align, factors = (options[0], options[1]) if aligned else (False, options[0])
        wanted = None if size is None else tuple(size)
        scale = tuple(factors) if wanted is None else None
        return nn.interpolate(x, wanted, scale, mode, align_corners=align, antialias=antialias)

    return resize, by_factors


# The mode of each operator, and how many axes it resizes.
RESIZINGS = {
    **{f"upsample_nearest{n}d": ("nearest", n) for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": ("nearest-exact", n) for n in (1, 2, 3)},
    "upsample_linear1d": ("linear", 1), "upsample_bilinear2d": ("bilinear", 2),
    "upsample_trilinear3d": ("trilinear", 3), "upsample_bicubic2d": ("bicubic", 2),
    "_upsample_bilinear2d_aa": ("bilinear", 2), "_upsample_bicubic2d_aa": ("bicubic", 2),
}  # fmt: skip

for _name, (_mode, _axes) in RESIZINGS.items():
    _rules = _resize(_mode, _axes, "nearest" not in _mode, _name.endswith("_aa"))
    RULES[f"{_name}.default"], RULES[f"{_name}.vec"] = _rules


@rule("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
@rounded_once
def _grid_sampler(c: Context, x: Array, grid: Array, mode: int, padding: int, align_corners: bool) -> Array:
    return nn.grid_sample(x, grid, MODES[mode], PADDINGS[padding], align_corners=align_corners)


@rule("affine_grid_generator")
@rounded_once
def _affine_grid(c: Context, theta: Array, size: Numbers, align_corners: bool) -> Array:
    return nn.affine_grid(theta, tuple(size), align_corners=align_corners)
