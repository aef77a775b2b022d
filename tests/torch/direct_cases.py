"""Operators called by their own names, which PyTorch's functions rarely bring into a graph.

Derivatives are decomposed before they are there, recurrent layers are taken in whole, copies are left out. Each
function yields many results; tests/torch/test_aten.py runs them on their arguments.
"""

import math

import torch
from torch.nn import functional as F

import zenith.torch  # noqa: F401 (its operators)
from tests.torch.chapters import chapters

X = torch.tensor([[0.5, -1.5, 2.0, 0.0], [3.0, -0.25, 1.0, 7.5], [-2.0, 4.0, 0.125, 1.5]])
BATCH = torch.arange(24.0).reshape(2, 3, 4) / 10
WEIGHTS = (torch.arange(320.0) * 0.7).sin().reshape(8, 40)
aten = torch.ops.aten


def copies(x):
    yield (
        aten.lift(x),
        aten.lift_fresh_copy(x),
        torch._neg_view(x),
        torch.ops.prims.convert_element_type(x, torch.float64),
    )


def gradients_of_resizing(x):
    """On fixed sizes: PyTorch's own shape functions of these take no others."""
    for rank, linear in ((1, "linear1d"), (2, "bilinear2d"), (3, "trilinear3d")):
        sizes = [2, 3, 4][:rank]
        y = torch.arange(6.0 * math.prod(sizes)).reshape(2, 3, *sizes).sin() * x[0, 0]
        before, scales = [2, 3, *[5] * rank], [None] * rank
        for name in (f"upsample_nearest{rank}d", f"_upsample_nearest_exact{rank}d"):
            yield getattr(aten, f"{name}_backward")(y, sizes, before, *scales)
        for corners in (True, False):
            yield getattr(aten, f"upsample_{linear}_backward")(y, sizes, before, corners, *scales)
    y = torch.arange(72.0).reshape(2, 3, 3, 4).sin() * x[0, 0]
    for name in ("upsample_bicubic2d", "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa"):
        yield getattr(aten, f"{name}_backward")(y, [3, 4], [2, 3, 5, 2], False, None, None)


def smooth_resizing(t):
    y = t[:, :, None].expand(-1, -1, 3, -1)
    for name in ("_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa"):
        resize = getattr(aten, name)
        yield resize.default(y, (2, 6), False), resize.default(y, (5, 3), True, 2.0, 0.7)
        yield resize.vec(y, (2, 6), False, None), resize.vec(y, None, False, (2.0, 0.5))


def gradients_of_functions(x):
    """On fixed sizes, too."""
    x = torch.linspace(-2, 2, 12).reshape(3, 4) * x[0, 0]
    for name in ("hardshrink_backward", "softshrink_backward"):
        yield getattr(aten, name)(x + 1, x, 0.5), getattr(aten, name)(x + 1, x, 0.0)
    norm = x.norm(dim=1, keepdim=True)
    yield aten._weight_norm_interface_backward(x.cos(), x, norm + 1, norm, 0)


def recurrent_layers_whole(t, w):
    for name, states, gates in (("lstm", 2, 4), ("gru", 1, 3), ("rnn_tanh", 1, 1), ("rnn_relu", 1, 1)):
        params = [w[: 2 * gates, :4], w[: 2 * gates, 4:6], w[: 2 * gates, 7], w[: 2 * gates, 8]]
        state = [t[:1, :, :2], t[1:, :, :2]][:states]
        whole = state if states > 1 else state[0]
        yield getattr(aten, name).input(t, whole, params, True, 1, 0.0, False, False, False)
        gradients = [t[..., :2].cos(), *state]
        yield getattr(torch.ops.zenith, f"{name}_backward")(gradients, t, state, params, False)


def not_decomposed(x):
    """Operators that PyTorch would decompose into others, which have other derivatives."""
    classes, labels = torch.tensor([1, 0, 3]), torch.tensor([[3, 0, -1, 1], [-1, 2, 0, 0], [2, 2, 1, 0]])
    yield F.multi_margin_loss(x, classes), F.multi_margin_loss(x, classes, 2, 0.5, x[0].exp(), reduction="sum")
    yield F.multilabel_margin_loss(x, labels), aten.multilabel_margin_loss_forward(x, labels, 0)
    yield torch.cdist(x, x[:2] + 1, compute_mode="use_mm_for_euclid_dist"), torch.sinc(x), F.rrelu(x)
    yield x.std(1, False), torch.std_mean(x, False), torch.std_mean(x, 1, False, True)
    scores, lengths = x[:, None].log_softmax(2), torch.tensor([3])
    yield F.ctc_loss(scores, labels[2:, 1:3], lengths, lengths - 1), torch.cov(x)


def attention_layers_whole(t, w):
    """The layers of torch.nn that are one operator while nothing is trained."""
    mask = torch.tensor([[False, False, True], [False, True, False]])
    heads = (w[:4, :12].T.contiguous(), w[0, :12], w[:4, 12:16], w[1, 12:16])
    yield aten._native_multi_head_attention(t, t, t, 4, 2, *heads)[0]
    norms = (w[2, :4], w[3, :4], w[4, :4], w[5, :4])
    feed = (w[:8, 16:20], w[:8, 20], w[:4, 24:32], w[:4, 21])
    for first in (True, False):
        for masked in ((), (mask, 1)):
            yield aten._transformer_encoder_layer_fwd(
                t, 4, 2, *heads, True, first, 1e-5, *norms, *feed, *(masked or (None, None))
            )


DIRECT = chapters({
    copies: (X,), gradients_of_resizing: (X,), smooth_resizing: (BATCH,), gradients_of_functions: (X,),
    recurrent_layers_whole: (BATCH, WEIGHTS), not_decomposed: (X,),
    attention_layers_whole: (BATCH, WEIGHTS),
})  # fmt: skip
