"""Gradients at corners are PyTorch's: every rule of the ATen table, and what PyTorch decomposes into them."""

import pytest
import torch
from torch.nn import functional as F

from tests.torch.corners import CORNERS, Derivatives, zeros
from tests.torch.test_aten import CASES

tensor, INF = torch.tensor, float("inf")
X = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [-1.0, 2.0, 2.0], [3.0, 6.0, -3.0]])
HOLES = tensor([0.0, float("nan"), 0.0])  # nan in each row
CLASSES, LABELS = tensor([0, 1, 2, 0]), tensor([[0, -1, 1], [1, 2, -1], [2, -1, -1], [-1, 0, 0]])

# Each of X, whose rows have zeros and ties, and pairs of rows that are equal.
OPERATORS = {
    "norm": lambda x: x.norm(), "norm of zeros": lambda x: (x - x.detach()).norm(),
    **{f"norm of order {p}": lambda x, p=p: x.norm(p, dim=1) for p in (0, 0.5, 1, 1.5, 2, 3, INF, -INF)},
    "matrix norm": lambda x: torch.linalg.matrix_norm(x * 0), "norm by linalg": lambda x: torch.linalg.norm(x, 2, 1),
    "matrix norm of rows": lambda x: torch.linalg.matrix_norm(x, INF), "renorm": lambda x: x.renorm(2, 0, 1.0),
    "normalize": lambda x: F.normalize(x, dim=1),
    "cosine similarity": lambda x: F.cosine_similarity(x, x.flip(0), dim=1),
    "pairwise distance": lambda x: F.pairwise_distance(x, x.detach()), "dist": lambda x: torch.dist(x, x.detach()),
    **{f"cdist of order {p}": lambda x, p=p: torch.cdist(x, x, p) for p in (0.5, 1.0, 2.0, 3.0, INF)},
    "cdist by products": lambda x: torch.cdist(x, x, compute_mode="use_mm_for_euclid_dist"),
    "pdist": lambda x: F.pdist(torch.cat([x, x])), "std": lambda x: x.std(1), "std of all": lambda x: x.std(),
    "std mean": lambda x: torch.std_mean(x, 1)[0], "biased std": lambda x: x.std(1, False), "var": lambda x: x.var(1),
    "amax": lambda x: x.amax(1), "amin": lambda x: x.amin(0), "max": lambda x: x.max(), "min": lambda x: x.min(),
    "max of nan": lambda x: (x + HOLES).max(), "min of nan": lambda x: (x + HOLES).min(),
    "aminmax": lambda x: torch.aminmax(x, dim=1)[0], "max of rows": lambda x: x.max(1).values,
    "min of columns": lambda x: x.min(0, keepdim=True).values, "median": lambda x: x.median(),
    "nanmedian": lambda x: x.nanmedian(), "median of rows": lambda x: x.median(1).values,
    "cummax": lambda x: x.cummax(1).values, "cummin": lambda x: x.cummin(0).values, "msort": lambda x: x.msort(),
    "maximum": lambda x: torch.maximum(x, x.flip(1)), "minimum": lambda x: torch.minimum(x, x.flip(0)),
    "fmax": lambda x: torch.fmax(x, x.flip(1)), "fmin": lambda x: torch.fmin(x, x.flip(1)),
    "clamp": lambda x: x.clamp(0, 2), "clamp by tensors": lambda x: x.clamp(tensor([0.0, 1, 2]), tensor([1.0, 1, 3])),
    **{f.__name__: f for f in (F.relu, F.relu6, F.hardtanh, F.hardswish, F.hardsigmoid, F.leaky_relu, F.elu, F.celu,
                               F.selu, F.logsigmoid, F.tanhshrink, F.rrelu, torch.abs, torch.frac, torch.sinc,
                               torch.erfinv, torch.special.entr, torch.i0, torch.asin, torch.acos, torch.atanh,
                               torch.log)},
    "hardshrink": lambda x: F.hardshrink(x, 1.0), "softshrink": lambda x: F.softshrink(x, 1.0),
    "threshold": lambda x: F.threshold(x, 1.0, 5.0), "prelu": lambda x: F.prelu(x, tensor([0.25])),
    "sqrt": lambda x: x.abs().sqrt(), "power": lambda x: x.abs() ** 0.5, "zeroth power": lambda x: x**0.0,
    "power of zero": lambda x: tensor(0.0) ** x.abs(), "powers": lambda x: x.abs() ** x.abs(),
    "xlogy": lambda x: torch.xlogy(x, x),
    "product": lambda x: x.prod(1), "product of all": lambda x: x.prod(), "cumprod": lambda x: x.cumprod(1),
    "atan2": lambda x: torch.atan2(x, x.flip(0) * 0), "atan2 of both": lambda x: torch.atan2(x, x.flip(1)),
    "fmod": lambda x: torch.fmod(x, tensor(2.0)), "remainder": lambda x: torch.remainder(x, tensor([2.0, -2.0, 1.0])),
    "logsumexp": lambda x: torch.logsumexp(torch.where(x > 0, x, -INF), 1),
    "logcumsumexp": lambda x: torch.logcumsumexp(torch.where(x > 0, x, -INF), 1),
    "where": lambda x: torch.where(x > 0, x.sqrt(), 0.0), "nansum": lambda x: torch.nansum(x / x, 1),
    "copysign": lambda x: torch.copysign(x, x.flip(0)), "signed complex": lambda x: torch.complex(x, x).sgn().real,
    "complex size": lambda x: torch.complex(x, x * 0).abs(), "complex angle": lambda x: torch.complex(x, x * 0).angle(),
    "smooth l1": lambda x: F.smooth_l1_loss(x, x.detach() * 0 + 1), "l1": lambda x: F.l1_loss(x, x.detach()),
    "huber": lambda x: F.huber_loss(x, x.detach() * 0 + 1),
    "hinge": lambda x: F.hinge_embedding_loss(x, -torch.ones_like(x)),
    "margin ranking": lambda x: F.margin_ranking_loss(x, x.flip(0), torch.ones_like(x)),
    "triplets": lambda x: F.triplet_margin_loss(x, x.detach(), x.flip(0)),
    "margins": lambda x: F.multi_margin_loss(x, CLASSES), "margin": lambda x: F.multi_margin_loss(x[1], CLASSES[1]),
    "squared margins": lambda x: F.multi_margin_loss(x, CLASSES, 2, weight=tensor([1.0, 2.0, 0.5]), reduction="none"),
    "labels": lambda x: F.multilabel_margin_loss(x, LABELS),
    "label": lambda x: F.multilabel_margin_loss(x[2], LABELS[1]),
    "cross entropy": lambda x: F.binary_cross_entropy(x.clamp(0, 1), (x > 0).float()),
    "divergence": lambda x: F.kl_div(x, x.detach().abs(), reduction="sum"),
    "max pool": lambda x: F.max_pool2d(x[None], 2, 1), "adaptive": lambda x: F.adaptive_max_pool2d(x[None], 2),
    **{f"scatter {how}": lambda x, how=how: x.scatter_reduce(1, tensor([[0, 0, 1]] * 4), x, how)
       for how in ("amax", "amin", "prod", "mean")},
    "index reduce": lambda x: x.index_reduce(1, tensor([0, 0, 1]), x, "amin"),
    "glu": lambda x: F.glu(torch.cat([x, x], 1)),
}  # fmt: skip


# Operators whose primitives have another convention than PyTorch, or none: these are in every run.
OWN = ("norm", "matrix norm", "normalize", "cosine", "pairwise", "dist", "cdist", "pdist", "std", "max of", "min of",
       "median", "nanmedian", "fmax", "fmin", "entr", "sinc", "special_entr", "atan2", "margin", "label", "rrelu",
       "complex angle")  # fmt: skip


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("own", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_operators_by_themselves(own):
    chosen = {name: f for name, f in OPERATORS.items() if name.startswith(OWN) == own}
    derivatives = Derivatives(lambda x: tuple(f(x) for f in chosen.values()), (X,))
    for corner in (lambda x: x, zeros):
        compared, found = derivatives.differences(corner)
        assert compared == len(chosen)
        assert [(list(chosen)[d.result], d) for d in found] == []


# Which of equal elements comes first is open in PyTorch, and so is which of them moves. What is overwritten, or left
# out, has gradients in PyTorch all the same.
OPEN = ("Topk", "Kthvalue", "CopySlices", "IndexPut", "IndexReduce", "Put", "AsStridedScatter")
# PyTorch does not know the derivative of Zenith's own backward passes of recurrent layers.
UNKNOWN = ("CppFunction",)
# Matrices of equal numbers are singular: where they have a derivative at all, it jumps.
OF_MATRICES = {"inverses", "equations", "factors", "ranks and norms"}


def compare(function, args):
    """How many derivatives are PyTorch's at all corners; each that is not is an error."""
    own, total = Derivatives(function, args), 0
    for corner in CORNERS:
        compared, found = own.differences(corner)
        assert [d for d in found if not d.operator.startswith((*OPEN, *UNKNOWN))] == [], corner.__name__
        total += compared
    return total


SMOOTH = [name for name, (_, *args) in CASES.items() if any(a.is_floating_point() or a.is_complex() for a in args)]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in SMOOTH if name not in OF_MATRICES])
def test_every_rule(name):
    function, *args = CASES[name]
    compare(function, args)
