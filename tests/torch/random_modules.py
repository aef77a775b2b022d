"""Random modules of PyTorch: layers of many kinds in any order, each on what the one before gives.

A module is drawn as a chain of layers over one of three kinds of tensors: rows (batch, features), sequences (batch,
length, features) and images (batch, channels, height, width). A layer says by its type what it takes; what it gives is
found out by running it.
"""

import copy
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

SIZES = {2: (3, 8), 3: (2, 5, 8), 4: (2, 4, 6, 6)}  # of the first tensor, by how many axes it has
LARGEST, MOST_ELEMENTS = 100, 4096  # results beyond which a layer is left out


class Apply(nn.Module):
    """A function as a layer, with a name for reports of failures."""

    def __init__(self, name, function):
        super().__init__()
        self.name, self.function = name, function

    def forward(self, x):
        return self.function(x)

    def extra_repr(self):
        return self.name


class Residual(nn.Module):
    """The sum of an argument and a chain's result for it; ``in_place``: written into the chain's result."""

    def __init__(self, inner, in_place):
        super().__init__()
        self.inner, self.in_place = inner, in_place

    def forward(self, x):
        found = self.inner(x)
        if found.shape != x.shape:
            return found
        return found.clone().add_(x) if self.in_place else x + found


class SelfAttention(nn.Module):
    """Sequences that attend to themselves, in heads of four features."""

    def __init__(self, features, causal, dropout):
        super().__init__()
        self.projected, self.causal, self.dropout = nn.Linear(features, 3 * features), causal, dropout

    def forward(self, x):
        batch, length, features = x.shape
        heads = (t.view(batch, length, -1, 4).transpose(1, 2) for t in self.projected(x).chunk(3, -1))
        dropped = self.dropout if self.training else 0.0
        found = F.scaled_dot_product_attention(*heads, is_causal=self.causal, dropout_p=dropped)
        return found.transpose(1, 2).reshape(batch, length, features)


class _Swap(nn.Module):
    """Features before positions, and back: swaps the last two axes."""

    def forward(self, x):
        return x.transpose(1, 2)


# --- functions -----------------------------------------------------------------------------------------------------


def _written(x):
    y = x * 1.5
    y[..., ::2] += 1
    y[0].mul_(0.5)
    return y


def _masked(x):
    y = x.clone()
    y[y < 0] = 0.25
    return y


def _filled(x):
    y = torch.zeros_like(x)
    y[..., 1:] = x[..., :-1]
    return y.relu_()


def _split(x):
    first, second = x.chunk(2, -1) if x.shape[-1] > 1 else (x, x)
    return torch.cat([second, first.tanh()], -1)


# Of tensors with any axes, of the same shape.
ANY = {
    "relu": F.relu, "gelu": F.gelu, "silu": F.silu, "elu": F.elu, "softplus": F.softplus, "tanh": torch.tanh,
    "hardswish": F.hardswish, "leaky_relu": lambda x: F.leaky_relu(x, 0.1), "mish": F.mish, "sigmoid": torch.sigmoid,
    "softmax": lambda x: F.softmax(x, -1), "log_softmax": lambda x: F.log_softmax(x, 1), "written": _written,
    "masked": _masked, "filled": _filled, "split": _split, "flipped": lambda x: x.flip(-1),
    "roll": lambda x: x.roll(1, -1), "clamped": lambda x: x.clamp(-1, 1),
    "where": lambda x: torch.where(x > 0, x, x * x), "cumsum": lambda x: x.cumsum(-1),
    "sorted": lambda x: x.sort(-1).values, "centred": lambda x: x - x.mean(0),
    "square_root": lambda x: x.abs().add(1).sqrt(), "normalized": lambda x: F.normalize(x, dim=-1),
    "expanded": lambda x: x * x.amax(-1, keepdim=True).expand_as(x), "in_place": lambda x: (x + 1).mul_(x).relu_(),
    "transposed": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
}  # fmt: skip
# Of those with so many axes alone, of another shape, too.
OWN = {
    2: {
        "as_sequences": lambda x: x.unsqueeze(1).repeat(1, 4, 1), "outer": lambda x: torch.einsum("ni,nj->nij", x, x),
        "folded": lambda x: x.view(x.shape[0], -1, 2).flatten(1),
    },
    3: {
        "mean": lambda x: x.mean(1), "last": lambda x: x[:, -1], "shifted": lambda x: F.pad(x, (0, 0, 1, 0))[:, :-1],
        "as_image": lambda x: x.unsqueeze(1), "largest": lambda x: x.amax(1), "product": lambda x: x @ x.mT @ x,
        "gathered": lambda x: x[:, [0, -1, 0]], "padded": lambda x: F.pad(x, (0, 0, 1, 1), value=0.5),
    },
    4: {
        "as_sequence": lambda x: x.flatten(2).transpose(1, 2), "avg_pool": lambda x: F.avg_pool2d(x, 3, 1, 1),
        "pooled": lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), "max_pool": lambda x: F.max_pool2d(x, 2, 1, 1),
        "nearest": lambda x: F.interpolate(x, size=(5, 7)), "adaptive": lambda x: F.adaptive_max_pool2d(x, (3, 2)),
        "bilinear": lambda x: F.interpolate(x, size=(4, 5), mode="bilinear"), "narrowed": lambda x: x[..., 1:, :-1],
        "replicated": lambda x: F.pad(x, (1, 0, 0, 1), mode="replicate"),
        "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    },
}  # fmt: skip


# --- layers --------------------------------------------------------------------------------------------------------


def _groups(draw, channels):
    return draw(st.sampled_from([g for g in (1, 2, 4) if channels % g == 0]))


def _convolution(draw, channels):
    wide, groups = draw(st.sampled_from([4, 8])), _groups(draw, channels)
    kernel, dilation = draw(st.sampled_from([(1, 1), (3, 1), (2, 1), (3, 2)]))
    stride = draw(st.integers(1, 2))
    return nn.Conv2d(channels, wide, kernel, stride, padding=2, dilation=dilation, groups=groups)


def _transposed(draw, channels):
    return nn.ConvTranspose2d(channels, draw(st.sampled_from([2, 4])), 3, draw(st.integers(1, 2)), padding=1)


def _linear(draw, features):
    return nn.Linear(features, draw(st.sampled_from([4, 8])), bias=draw(st.booleans()))


def _normal(draw, features):
    return draw(st.sampled_from([nn.LayerNorm, nn.RMSNorm]))(features)


def _attention(draw, features):
    if features % 4:
        return nn.Linear(features, 8)
    return SelfAttention(features, draw(st.booleans()), draw(st.sampled_from([0.0, 0.3])))


def _dropout(draw, _):
    return nn.Dropout(draw(st.sampled_from([0.2, 0.5])))


LAYERS = {
    2: (_linear, _normal, lambda draw, n: nn.BatchNorm1d(n), _dropout),
    3: (_linear, _normal, _attention, _dropout, lambda draw, n: nn.Sequential(_Swap(), nn.BatchNorm1d(n), _Swap())),
    4: (_convolution, _transposed, _dropout, lambda draw, n: nn.BatchNorm2d(n), lambda draw, n: nn.Dropout2d(0.3),
        lambda draw, n: nn.GroupNorm(_groups(draw, n), n), lambda draw, n: nn.InstanceNorm2d(n, affine=True)),
}  # fmt: skip


# --- modules -------------------------------------------------------------------------------------------------------


@dataclass
class Sample:
    """A module in its mode, its argument, and whether it is compiled for any sizes."""

    module: nn.Module
    argument: torch.Tensor
    dynamic: bool


@st.composite
def samples(draw, most=6):
    """Modules of at most ``most`` layers, some of them chains of layers."""
    shape = SIZES[draw(st.sampled_from(sorted(SIZES)))]
    torch.manual_seed(draw(st.integers(0, 99)))
    argument, training = torch.randn(shape), draw(st.booleans())
    module, _ = _chain(draw, argument, training, most)
    return Sample(module.train(training), argument, draw(st.booleans()))


def _chain(draw, x, training, most):
    """Layers one after another, and their result for a tensor; a layer that cannot follow is left out."""
    layers = []
    for _ in range(draw(st.integers(1, most))):
        layer = layers[-1] if layers and draw(st.integers(0, 9)) == 9 else _layer(draw, x, training, most)
        found = _result(layer, x, training)
        if found is not None:
            x = found
            layers.append(layer)
    return nn.Sequential(*layers), x


def _layer(draw, x, training, most):
    kind = draw(st.sampled_from(["layer", "layer", "any", "own", "residual"]))
    if kind == "residual":
        if most > 2:
            return Residual(_chain(draw, x, training, 2)[0], draw(st.booleans()))
        kind = "layer"
    if kind == "layer":
        return draw(st.sampled_from(LAYERS[x.ndim]))(draw, x.shape[1 if x.ndim == 4 else -1])
    table = ANY if kind == "any" else OWN[x.ndim]
    name = draw(st.sampled_from(sorted(table)))
    return Apply(name, table[name])


def _result(layer, x, training):
    """A layer's result, or None where it does not take this tensor, or where its result is unfit for a test."""
    try:
        with torch.no_grad():
            found = copy.deepcopy(layer).train(training)(x)
    except (RuntimeError, ValueError, IndexError):
        return None
    fits = found.ndim in SIZES and 0 < found.numel() <= MOST_ELEMENTS
    return found if fits and found.abs().max() < LARGEST else None
