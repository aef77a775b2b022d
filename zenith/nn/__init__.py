"""Neural networks' functions of arrays, pure, in the style of ``jax.nn`` and ``torch.nn.functional``.

They are written with :mod:`zenith.numpy` and primitives, so every transform goes through them.

>>> from zenith import nn
>>> nn.relu([-1.0, 2.0])
array([0., 2.])
"""

from zenith.nn.activations import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_swish,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    logsumexp,
    mish,
    one_hot,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_sign,
    softmax,
    softplus,
    swish,
)
from zenith.nn.adaptive import adaptive_avg_pool, adaptive_max_pool
from zenith.nn.classes import cross_entropy, nll_loss
from zenith.nn.convolution import conv, conv_transpose
from zenith.nn.ctc import ctc_loss
from zenith.nn.dropout import alpha_dropout, dropout
from zenith.nn.embeddings import embedding, embedding_bag
from zenith.nn.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    triplet_margin_loss,
)
from zenith.nn.normalization import (
    batch_norm,
    batch_norm_training,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    rms_norm,
)
from zenith.nn.pixels import channel_shuffle, pixel_shuffle, pixel_unshuffle
from zenith.nn.pooling import avg_pool, lp_pool, max_pool
from zenith.nn.quantization import fake_quantize
from zenith.nn.recurrent import gru, lstm, rnn
from zenith.nn.resizing import interpolate
from zenith.nn.sampling import affine_grid, grid_sample
from zenith.nn.windows import fold, unfold

__all__ = [
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "affine_grid",
    "alpha_dropout",
    "avg_pool",
    "batch_norm",
    "batch_norm_training",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "channel_shuffle",
    "conv",
    "conv_transpose",
    "cosine_embedding_loss",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "elu",
    "embedding",
    "embedding_bag",
    "fake_quantize",
    "fold",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gru",
    "hard_sigmoid",
    "hard_swish",
    "hard_tanh",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "local_response_norm",
    "log_sigmoid",
    "log_softmax",
    "logsumexp",
    "lp_pool",
    "lstm",
    "max_pool",
    "mish",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "relu",
    "relu6",
    "rms_norm",
    "rnn",
    "selu",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_sign",
    "softmax",
    "softplus",
    "swish",
    "triplet_margin_loss",
    "unfold",
]


def __dir__() -> list[str]:
    return __all__
