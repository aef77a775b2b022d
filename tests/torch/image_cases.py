"""Functions of images, volumes and rows of numbers against PyTorch, for :mod:`tests.torch.test_aten`."""

import torch
from torch.nn import functional as F

aten = torch.ops.aten


def _numbers(*shape):
    """Numbers with many ties, so that it matters which of equal ones is the first."""
    count = torch.Size(shape).numel()
    return (torch.arange(count) * 37 % 19 - 9).reshape(shape) / 4


ROW, IMAGE, VOLUME = _numbers(2, 3, 11), _numbers(2, 4, 7, 6), _numbers(2, 3, 5, 6, 4)
HOLES = IMAGE.clone()
HOLES[0, 0, 2, 3] = HOLES[0, 0, 3, 3] = HOLES[1, 2, 0, 0] = float("nan")
HOLES[1, 3] = -float("inf")
COORDINATES = (_numbers(2, 4, 5, 2) * 0.6).contiguous()
COORDINATES_3D = (_numbers(2, 3, 2, 4, 3) * 0.6).contiguous()
MAPS, MAPS_3D = _numbers(2, 2, 3), _numbers(2, 3, 4)


IMAGES = {
    "largest of windows": (lambda r, x, v: (
        F.max_pool1d(r, 3, 2, 1), F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, (3, 2), dilation=(1, 2), ceil_mode=True),
        F.max_pool3d(v, 2, 2, 1, ceil_mode=True), F.max_pool2d(x[0], 2)), ROW, HOLES, VOLUME),
    "indices of the largest": (lambda r, x, v: (
        F.max_pool1d(r, 3, 2, 1, return_indices=True), F.max_pool2d(x, 3, 2, 1, return_indices=True),
        F.max_pool2d(x, (3, 2), dilation=(1, 2), ceil_mode=True, return_indices=True),
        F.max_pool3d(v, 2, 2, 1, ceil_mode=True, return_indices=True)), ROW, HOLES, VOLUME),
    "means of windows": (lambda r, x, v: (
        F.avg_pool1d(r, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1), F.avg_pool3d(v, 2, 2, 1), F.avg_pool2d(x[0], 2),
        F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), F.avg_pool2d(x, (3, 2), 2, 1, True, count_include_pad=False),
        F.avg_pool2d(x, 3, divisor_override=5), F.lp_pool2d(x.abs(), 2, 3, 2, ceil_mode=True)), ROW, IMAGE, VOLUME),
    "adaptive means": (lambda r, x, v: (
        F.adaptive_avg_pool1d(r, 4), F.adaptive_avg_pool2d(x, (3, None)), F.adaptive_avg_pool2d(x, 1),
        F.adaptive_avg_pool2d(x, (9, 4)), F.adaptive_avg_pool3d(v, (2, 3, 3)),
        F.adaptive_avg_pool2d(x[0], (7, 3))), ROW, IMAGE, VOLUME),
    "adaptive largest": (lambda r, x, v: (
        F.adaptive_max_pool1d(r, 4, True), F.adaptive_max_pool2d(x, (3, 4), True), F.adaptive_max_pool2d(x, 1),
        F.adaptive_max_pool3d(v, (2, 3, 3), True)), ROW, HOLES, VOLUME),
    "windows as columns": (lambda r, x: (
        F.unfold(x, 3, 1, 1, 2), F.unfold(x[0], (2, 3), (2, 1)), r.unfold(2, 3, 2), x.unfold(1, 2, 1).unfold(-2, 2, 3),
        F.fold(F.unfold(x, (3, 2), (1, 2), 1, 2), (7, 6), (3, 2), (1, 2), 1, 2), F.fold(r[:, :, :5].repeat(1, 4, 4),
                                                                                       (5, 6), 2)), ROW, IMAGE),
    "pixels and channels": (lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x[:, :, :6], 2),
                                       F.channel_shuffle(x, 2), aten.native_channel_shuffle(x, 2)), IMAGE),
    "elements around": (lambda r, x, v: (
        *(F.pad(a, [1, 2, 2, 1, 1, 0][: 2 * (a.ndim - 2)], m) for a in (r, x, v)
          for m in ("constant", "reflect", "replicate", "circular")),
        F.pad(x, (1, -2, -1, 0), value=7.5), F.pad(x, (2, -1, -1, 2), "replicate"), F.pad(x, (-1, 2, 1, -2), "reflect"),
        aten.constant_pad_nd(x, [1, 1]), aten.reflection_pad2d(x, [1, 2, 0, 1]), aten._pad_circular(r, [1, 2]),
        aten.replication_pad1d(r, [1, 2])), ROW, IMAGE, VOLUME),
    "resized": (lambda r, x, v: (
        *(F.interpolate(a, scale_factor=2, mode=m) for a in (r, x, v) for m in ("nearest", "nearest-exact")),
        F.interpolate(r, 7, mode="linear"), F.interpolate(x, (4, 9), mode="bicubic", align_corners=True),
        F.interpolate(x, scale_factor=1.5, mode="bilinear", recompute_scale_factor=True),
        F.interpolate(x, scale_factor=(2, 1.7), mode="bilinear"), F.interpolate(x, (4, 9), mode="area"),
        F.interpolate(v, scale_factor=0.5, mode="trilinear")), ROW, IMAGE, VOLUME),
    "resized by name": (lambda r, x, v: (
        aten.upsample_nearest1d(r, [7]), aten.upsample_nearest2d(x, [9, 4], 1.3), aten.upsample_nearest3d(v, [4, 9, 4]),
        aten._upsample_nearest_exact1d(r, [7]), aten._upsample_nearest_exact2d(x, [9, 4], None, 0.7),
        aten._upsample_nearest_exact3d(v, [4, 9, 4]), aten.upsample_linear1d(r, [7], False, 0.7),
        aten.upsample_bilinear2d(x, [9, 4], True), aten.upsample_trilinear3d(v, [4, 9, 4], False),
        aten.upsample_bicubic2d(x, [9, 4], False)), ROW, IMAGE, VOLUME),
    "images sampled": (lambda x, p, v, q: (
        F.grid_sample(x, p, align_corners=False), F.grid_sample(x, p, "nearest", "border", True),
        F.grid_sample(v, q, "bilinear", "reflection", False)), IMAGE, COORDINATES, VOLUME, COORDINATES_3D),
    "affine grids": (lambda t, u: (F.affine_grid(t, (2, 3, 4, 5), False), F.affine_grid(t, (2, 3, 4, 5), True),
                                   F.affine_grid(u, (2, 3, 4, 5, 2), False)), MAPS, MAPS_3D),
    "narrow images": (lambda x: (F.avg_pool2d(x, 3, 2, 1), F.max_pool2d(x, 3, 2), F.interpolate(x, (5, 9)),
                                 F.interpolate(x, (9, 4), mode="bilinear"), F.adaptive_avg_pool2d(x, 3)),
                      IMAGE.to(torch.bfloat16)),
}  # fmt: skip
