"""Every rule of the ATen table against PyTorch: types, dimensions, edge values that libraries treat apart."""

import functools

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence

import zenith
from tests.torch.chapters import CHAPTERS
from tests.torch.compiled_samples import outcome, samples
from tests.torch.direct_cases import DIRECT
from tests.torch.function import Function
from tests.torch.image_cases import IMAGES
from tests.torch.quantized_cases import QUANTIZED
from tests.torch.test_samples import operators
from zenith.errors import ZenithError
from zenith.torch import aten

X = torch.tensor([[0.5, -1.5, 2.0, 0.0], [3.0, -0.25, 1.0, 7.5], [-2.0, 4.0, 0.125, 1.5]])
Y = torch.tensor([[1.5, 2.0, -1.0, 0.5]])
N = torch.tensor([[3, -7, 5, 2], [1, 0, -2, 9], [4, 4, 8, -6]], dtype=torch.int32)
J = torch.tensor([2, 3, -4, 5])
B = N > 2
E = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 1e30, -1e-30])
SQUARE = torch.arange(16.0).reshape(4, 4) / 10
BATCH = torch.arange(24.0).reshape(2, 3, 4) / 10


def _checked(x):
    torch._check(x.shape[0] * 2 < 50)
    return x + 1


def _replaced(x):
    shifted, rows, last = x.new_zeros(x.shape), x.clone(), x.clone()
    shifted[:, 1:] = x[:, :-1]
    shifted[:, 0] = 7
    rows[1:2] = x[:1].int()
    last[..., -1] = x[:, 0]
    return shifted, rows, last


CASES = {
    "arithmetic": (lambda x, y: (x + y, x - y, x * y, x / y, -x, 3 - x, torch.rsub(x, 1.0),
                              torch.add(x, y, alpha=2), torch.sub(x, y, alpha=2), torch.sub(x, 1.0, alpha=2)), X, Y),
    "integer arithmetic": (lambda i, j: (i + j, i * 2, i - 0.5, i / j, i / 2, torch.div(i, j, rounding_mode="floor"),
                                         torch.div(i, j, rounding_mode="trunc"), i % j), N, J),
    "float rounding division": (lambda x, y: (torch.div(x, y, rounding_mode="floor"), x // y,
                                              torch.div(x, y, rounding_mode="trunc"), x % y, torch.fmod(x, y)), X, Y),
    "powers": (lambda x: (x.abs() ** 0.5, x**2, x**3, 2.0**x, x.abs() ** x, x.abs().sqrt(), (x * x + 1).rsqrt(),
                          1 / x, torch.exp2(x), x.square()), X),
    "logarithms": (lambda x: (x.abs().log(), x.abs().log2(), x.abs().log10()), X),
    "angles": (lambda x, y: (x.tan(), x.sinh(), x.cosh(), (x / 9).asin(), (x / 9).acos(), x.atan(),
                             x.asinh(), (x.abs() + 1).acosh(), (x / 9).atanh(), torch.atan2(x, y), torch.hypot(x, y),
                             torch.copysign(x, y)), X, Y),
    "functions": (lambda x: (x.exp(), x.tanh(), x.sigmoid(), x.erf(), x.sin(), x.cos(), x.abs().log1p(), x.expm1(),
                             F.relu(x), F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), x.floor(), x.round(),
                             x.ceil(), x.trunc(), x.sign(), F.elu(x), F.elu(x, alpha=0.5), F.celu(x, 2.0), F.selu(x),
                             F.leaky_relu(x), F.leaky_relu(x, 0.2), F.hardtanh(x), F.softplus(x), F.mish(x),
                             F.logsigmoid(x), F.relu6(x), F.hardswish(x), F.hardsigmoid(x), F.softplus(x, 2, 3),
                             F.glu(x),
                             F.threshold(x, 0.5, 2.0), F.softshrink(x), F.prelu(x, x[0, :1])), X),
    "dropout in evaluation": (lambda x: (F.dropout(x, 0.5, False), F.dropout2d(x[None, None], 0.5, False),
                                         F.dropout(x, 0.0),
                                         F.alpha_dropout(x, 0.5), F.feature_alpha_dropout(x[None, None], 0.5),
                                         torch.native_dropout(x, 0.5, False)), X),
    "one hot": (lambda i: (F.one_hot(i, 10), F.one_hot(i[0].long() % 3, 4)), (N % 10).long()),
    "small integers": (lambda x, y: (x + x, x + 300, x - 1000, x * -1, torch.add(x, 100, alpha=3), x.sum(), x.prod(1),
                                     x.sum(0, dtype=torch.uint8), x / 7, x // 3, x * 0.5, x.to(torch.int8) - y, x + y,
                                     x == 300, x > y, x & 300, ~x, x.cumsum(1), x.float().mean(), x.amax(1), x.argmax(),
                                     torch.full_like(x, -1), x.to(torch.uint16), y.to(torch.uint8), y.to(torch.uint64),
                                     (100 * x.float() - 500).to(torch.int8), x.sort(1)[0], y.clamp(-2, 4),
                                     y.argsort(dim=1, stable=True), torch.where(y > 0, x, x.new_zeros(())), x @ x.mT,
                                     x[x.long()[0, :1] % 3]), N.to(torch.uint8), N.to(torch.int8)),
    "functions of integers": (lambda i: (i.exp(), i.sigmoid(), i.abs(), i.abs().sqrt(), -i, F.relu(i)), N),
    "edge values": (lambda x: (x + 1, x.tanh(), x.sigmoid(), F.relu(x), x.clamp(-1, 1), torch.maximum(x, x.flip(0)),
                               x.exp(), x == x, x > 0, x.amax(), x.softmax(0), x.isnan(), x.isinf(),
                               x.nan_to_num()), E),
    "comparisons": (lambda x, i: (x == i, x != 2, x < i, x <= 0.5, x > 1, x >= i), X, N),
    "logic": (lambda b, i: (b & ~b, b | (i == 0), b ^ b, torch.logical_not(i), torch.logical_and(b, i), i & 3, i | 1,
                           torch.logical_or(b, i), torch.logical_xor(b, i), torch.bitwise_or(i, 4),
                           torch.bitwise_and(b, i), torch.bitwise_xor(i, i + 1)), B, N),
    "complex numbers": (lambda z, x: (z.real, z.imag, z.abs(), torch.angle(z), torch.angle(x),
                                      z.conj().resolve_conj() * 2, torch.conj_physical(z),
                                      torch.view_as_real(z) * 2, z.sgn(), z.resolve_neg() + 1,
                                      torch.view_as_complex(torch.view_as_real(z) + 1), torch.complex(x, x + 1),
                                      torch.polar(x.abs(), x), torch.view_as_real_copy(z), torch.view_as_complex_copy(
                                          torch.view_as_real(z)), torch._conj_copy(z), torch._conj_physical(z)),
                        torch.complex(X, X + 1), X),
    "Fourier transforms": (lambda x, z: (torch.fft.fft(x), torch.fft.ifft(x, norm="ortho"), torch.fft.rfft(x, dim=0),
                                         torch.fft.rfftn(x), torch.fft.irfft(z, n=5), torch.fft.fft2(z, norm="forward"),
                                         torch.fft.ifft(z), torch.fft.hfft(z), torch.fft.irfftn(z, norm="forward")),
                           X, torch.complex(X, X + 1)),
    "choices": (lambda b, x, i: (torch.where(b, x, 0.0), torch.where(b, x, i), x.masked_fill(b, -1.0),
                                 i.masked_fill(b, x[0, 0].int()), torch.maximum(x, i * 1.0),
                                 torch.minimum(x, i * 1.0), torch.max(x, i * 1.0), torch.min(i, i + 1)), B, X, N),
    "clamp": (lambda x, i: (x.clamp(min=0), x.clamp(max=1), x.clamp(-0.5, 0.5), i.clamp(0, 3), x.clamp_min(1),
                            x.clamp_max(1)), X, N),
    "casts": (lambda x, i, b: (x.double(), x.int(), x.long(), i.float(), b.float(), b.int(), x.bool(),
                               i.bool()), X, N, B),
    "sums": (lambda x, i, b: (x.sum(), x.sum(0), x.sum(-1, keepdim=True), x.sum((0, 1)), i.sum(), b.sum(1), x.mean(),
                              x.mean(0), x.prod(1), i.float().mean(1)), X, N, B),
    "extremes": (lambda x, i: (x.amax(1), x.amin(0, keepdim=True), x.max(), i.min(), x.max(1), x.min(0), x.argmax(),
                               x.argmax(1), x.argmin(0)), X, N),
    "order": (lambda x, i: (x.sort(), *x.sort(0, descending=True), i.sort(stable=True, dim=0, descending=True),
                            x.topk(2), x.topk(1, 0, largest=False), x.argsort(), i.argsort(0, descending=True),
                            x.kthvalue(2), i.kthvalue(1, 0, keepdim=True), x.median(), x.median(1),
                            i.median(0, keepdim=True), x.sum().sort()), X, N),
    "order with nan": (lambda x: (x.sort(), x.sort(descending=True), x.median(), x.median(0), x[1:5].median(0),
                                  x.topk(3)), E),
    "any and all": (lambda b, x: (b.any(), b.all(), b.any(1), b.all(0), (x > 0).any(0)), B, X),
    "variances": (lambda x: (x.var(1), x.var(0, correction=0), x.std(1), x.var(), torch.var_mean(x, 1)), X),
    "norms": (lambda x: (*(torch.linalg.vector_norm(x, p, 1) for p in (2, 1, 0, 3, float("inf"), -float("inf"))),
                         F.normalize(x, dim=-1), torch.linalg.vector_norm(x)), X),
    "softmax": (lambda x, i: (x.softmax(-1), x.softmax(0), x.log_softmax(1), F.softmax(x * 100, 1), x[:0].softmax(0),
                              i.softmax(1, dtype=torch.float32), torch.softmax(x, 1, torch.float64),
                              torch.ops.aten._softmax(x, 1, False), torch.ops.aten._log_softmax(x, 0, False)), X, N),
    "layer norm": (lambda x: (F.layer_norm(x, (4,)), F.layer_norm(x, (3, 4), eps=0.1),
                              F.layer_norm(x, (4,), x[0], x[1]), F.layer_norm(x, (4,), x[0]),
                              torch.native_layer_norm(x, (4,), x[0], x[1], 1e-5), F.rms_norm(x, (4,), x[0]),
                              F.rms_norm(x, (3, 4), eps=0.1)), X),
    "batch norm": (lambda t, w: (F.batch_norm(t, w[0], w[1].exp(), w[2], w[3]), F.batch_norm(t, w[0], w[1].exp()),
                                 F.batch_norm(t, None, None, w[2], w[3], training=True),
                                 torch.ops.aten._native_batch_norm_legit_no_training(
                                     t, w[2], w[3], w[0], w[1].exp(), 0.1, 1e-5),
                                 torch.ops.aten._native_batch_norm_legit.no_stats(t, w[2], w[3], True, 0.1, 1e-5),
                                 torch.ops.aten._native_batch_norm_legit_functional(
                                     t, w[2], w[3], w[0], w[1].exp(), True, 0.1, 1e-5)), BATCH, SQUARE[:, :3] - 0.5),
    "group norm": (lambda t, w: (F.group_norm(t.mT, 2, w[0], w[1]), F.group_norm(t.mT, 4), F.instance_norm(t),
                                 F.instance_norm(t.mT, weight=w[0], bias=w[1]),
                                 F.instance_norm(t.mT, w[0], w[1].exp(), use_input_stats=False),
                                 torch.native_group_norm(t.mT.contiguous(), w[0], w[1], 2, 4, 3, 2, 1e-5)),
                   BATCH, SQUARE - 0.5),
    "running sums": (lambda x, i, b: (x.cumsum(0), x.cumsum(-1), i.cumsum(1), b.cumsum(0),
                                      x.cumsum(1, dtype=torch.float64), x[:0].cumsum(0),
                                      x.repeat(50, 1).cumsum(0), x.cumprod(1), i.cumprod(0), *x.cummax(1),
                                      *i.cummin(0), x.logcumsumexp(0)), X, N, B),
    "products": (lambda x, s, t: (x @ s, t @ s, t @ t.transpose(1, 2), torch.addmm(x, x, s, beta=2, alpha=3), x @ s[0],
                                  torch.bmm(t, t.mT), s[0] @ s[1],
                                  torch.baddbmm(t[:, :, :3], t, t.mT), F.linear(x, s, s[0]), F.linear(x[0], s),
                                  F.linear(t, s), torch.mm(x, s), torch.einsum("bij,kj->bik", t, s),
                                  x[0] @ s[0]), X, SQUARE, BATCH),
    "views": (lambda t: (t.view(6, 4), t.view(-1), t.reshape(4, 6), t.permute(2, 0, 1), t.transpose(0, 2), t[0].t(),
                         t.unsqueeze(1), t.unsqueeze(-1), t[:1].squeeze(0), t[:1].squeeze(), t.flatten(1),
                         t.mT), BATCH),
    "expand and slices": (lambda x, t: (x[:1].expand(5, 4), x[None].expand(2, -1, -1), t[:, 1:, ::2], t[..., -1], t[1],
                                        t[:, 1], t[:, -2:], t[..., None], x.repeat(2, 1), x.repeat(2, 1, 3)), X, BATCH),
    "picks": (lambda x, t: (t[:, torch.tensor([0, 2, 2])], t[torch.tensor([[1], [0]]), torch.tensor([2, -1])],
                            t[torch.tensor([1]), :, torch.tensor([0])], t.index_select(2, torch.tensor([3, 0])),
                            x.gather(1, torch.tensor([[0, 3], [2, 2]])), x.gather(0, torch.tensor([[2, 0, 1, 1]])),
                            torch.take_along_dim(x, torch.tensor([[1], [0], [3]]), 1)), X, BATCH),
    "whole operators": (lambda x, i, t: (t.flatten(1), t.flatten(0, 1), t.flatten(), t[0, 0, 0].flatten(), t.unbind(1),
                                         x.unflatten(-1, (2, -1)), x.unflatten(0, (1, -1, 1)),
                                    t.transpose(0, 2).contiguous(), x.type_as(i), F.dropout(x, 0.5, False), x.to(i),
                                    x.detach() * 1, x.chunk(3, 1), (x > 0).chunk(2), x.split(3, 1), (x > 0) & (x < 1),
                                    torch.einsum("ij,kj->ik", x, x), (x > 0) | (x < 1), i ^ 1, 3 - x), X, N, BATCH),
    "slices replaced": (_replaced, X),
    "padding": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (0, 0, 1, 0), value=5.0), F.pad(x > 0, (1, 0), value=True)), X),
    "joins": (lambda x, i: (torch.cat([x, x], 0), torch.cat([x, x[:, :1]], 1), torch.stack([x, x], 1), x.chunk(2, 1),
                            x.split([1, 3], 1), torch.cat([x, i], 1), x.unbind(1)), X, N),
    "creation": (lambda x: (torch.zeros_like(x) + x, torch.ones_like(x), torch.zeros(x.shape), x.new_ones(3, 2),
                            x.new_full((2,), 3.0), torch.eye(3), torch.eye(2, 3), torch.ones(3, 1) * x,
                            torch.full((2,), 7), x.new_zeros(2), torch.full_like(x, 2)), X),
    "ranges": (lambda x: (torch.arange(x.shape[0]), torch.arange(3) + 1, torch.arange(2, 9), torch.arange(9.0, 1, -2),
                          torch.arange(x.shape[1] * 1.0, -3.0, -1.0), torch.arange(0, 1, 0.25)), X),
    "memory": (lambda x: (x.contiguous() + 0, x.clone(), x.T.contiguous(), x.detach() * 1, torch.ops.aten.alias(x),
                          torch.tensor(2.0) * x), X),
    "checks": (_checked, X),
    "attention": (lambda t: (F.scaled_dot_product_attention(t, t, t),
                             F.scaled_dot_product_attention(t, t, t, is_causal=True, scale=0.3)), BATCH[:, None]),
    "convolutions": (lambda t, w: (F.conv2d(t[:, None], w, t[0, 0, :2], (1, 2), 1), F.conv1d(t, w[0, :, 0].T[None]),
                                   F.conv1d(t, w[0, :, 0].T[None].expand(1, 3, 3), padding="same"),
                                   F.conv2d(t[:, None], w[:, :, :2], None, 1, "same", 2),
                                   F.conv3d(t[:, None, None], w[:1, :, None], padding="valid"),
                                   F.conv_transpose2d(t[:, None], w[:1], None, 2, 1, 1)),
                     BATCH, (torch.arange(18.0) * 0.7).sin().reshape(2, 1, 3, 3)),
    "scalars": (lambda x: (torch.scalar_tensor(3.0) + x, torch.where(x > 0, 1.0, 2.0)), X),
    "embedding": (lambda s: (F.embedding(torch.tensor([[0, 3], [1, 1]]), s),
                             F.embedding(torch.tensor([0, 1]), s, padding_idx=1)), SQUARE),
    "bags": (lambda s, i, o, w: (*(F.embedding_bag(i, s, o, mode=m) for m in ("sum", "mean", "max")),
                                 F.embedding_bag(i, s, o, mode="sum", per_sample_weights=w, include_last_offset=True),
                                 F.embedding_bag(i, s, o, padding_idx=3), F.embedding_bag(i.reshape(2, 3), s),
                                 torch.ops.aten._embedding_bag(s, i, o)[0],
                                 torch.ops.aten._embedding_bag_forward_only(s, i, o, mode=1)[0]),
             SQUARE - 1, torch.tensor([3, 0, 1, 1, 2, 3]), torch.tensor([0, 2, 2, 6]), torch.arange(6.0)),
    "recurrent": (lambda t, w: (*torch.lstm(t, (t[:1, :, :2], t[1:, :, :2]), [w[:8, :4], w[:8, :2]], False, 1, 0.5,
                                            True, False, False),
                                *torch.gru(t, t[..., :2], [w[:6, :4], w[:6, :2], w[:6, 0], w[:6, 1], w[2:8, :4],
                                           w[2:8, :2], w[2:8, 0], w[2:8, 1]], True, 1, 0.0, False, True, False),
                                *torch.rnn_tanh(t.mT, t.new_zeros(1, 2, 5), [w[:5, :3], w[:5, :5]], False, 1, 0.0,
                                                False, False, True),
                                *torch.rnn_relu(t, t.new_zeros(1, 3, 5), [w[:5, :4], w[3:8, :5]], False, 1, 0.0, False,
                                                False, False)),
                  BATCH, (torch.arange(40.0) * 0.7).sin().reshape(8, 5)),
    "losses": (lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y), F.huber_loss(x, y), F.smooth_l1_loss(x, y),
                             F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), y, reduction="none"),
                             F.binary_cross_entropy_with_logits(x, y, reduction="sum", pos_weight=y),
                             F.kl_div(x, y.exp(), reduction="batchmean"), F.soft_margin_loss(x, y.sign()),
                             F.poisson_nll_loss(x, y.exp()), F.hinge_embedding_loss(x, y.sign(), 0.5),
                             F.cosine_embedding_loss(x, y, y[:, 0].sign()), F.triplet_margin_loss(x, y, x * 2),
                             F.margin_ranking_loss(x, y, y.sign())), X, X.roll(1, 0) * 0.7 + 0.1),
    "losses of classes": (lambda x, i, t, j: (
        F.cross_entropy(x, i), F.cross_entropy(x, i, x[0].exp(), label_smoothing=0.1, ignore_index=3), F.nll_loss(x, i),
        F.cross_entropy(x, x.softmax(0)), F.cross_entropy(t, j, reduction="none"), F.nll_loss(t, j, reduction="sum"),
        torch.ops.aten.nll_loss_forward(x, i, x[0].exp(), 1, 3), torch.ops.aten.nll_loss_forward(x, i, None, 0, -100),
        torch.ops.aten.nll_loss2d_forward(t[..., None], j[..., None], None, 2, 1)),
        X, torch.tensor([3, 0, 2]), BATCH, torch.tensor([[0, 1, 2, 2], [1, 1, 0, 2]])),
    **IMAGES,
} | CHAPTERS | DIRECT | QUANTIZED  # fmt: skip

# torch.export writes the product of the sizes (test_operators.py); it has no types for numbers rounded to levels, which
# torch.compile alone brings (test_quantized_graphs.py).
ELSEWHERE = {
    "sym_numel", "fake_quantize_per_tensor_affine_cachemask", "fake_quantize_per_channel_affine_cachemask",
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
}  # fmt: skip


@functools.cache
def compiled(name, whole):
    """The case through its own operators where all have rules, or decomposed into those of core ATen."""
    function, *args = CASES[name]
    with pytest.MonkeyPatch.context() as patch:
        if not whole:
            patch.setattr("zenith.torch.export._is_whole", lambda program: False)
        return zenith.from_torch(Function(function), tuple(args), backend="reference")


def cases():
    """Every case whole; decomposed every third, but none of the chapters', whose operators are most often whole."""
    for number, name in enumerate(CASES):
        yield pytest.param(name, True, id=f"{name}-whole")
        marks = [pytest.mark.thorough] * (name in {**CHAPTERS, **DIRECT, **QUANTIZED} or number % 3 > 0)
        yield pytest.param(name, False, id=f"{name}-decomposed", marks=marks)


@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning")
@pytest.mark.parametrize(("name", "whole"), list(cases()))
def test_rules_agree_with_torch(name, whole):
    function, *args = CASES[name]
    with torch.no_grad():
        found, expected = compiled(name, whole)(*args), function(*args)
    torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.filterwarnings("ignore:.*deprecated:UserWarning", "ignore:Sparse CSR:UserWarning")
@pytest.mark.thorough  # it exports every case again, and differentiates PyTorch's own samples
def test_every_rule_is_exercised():
    unused = set(aten.RULES) - ELSEWHERE
    for whole in (True, False):
        for name in CASES:
            if unused:
                unused -= rules_of(compiled(name, whole))
    for op in operators():
        if unused and torch.float32 in op.supported_dtypes("cpu"):
            for sample in samples(op, torch.float32, 2, True):
                result = outcome(op, sample, torch.float32)
                unused -= named({aten.find(target) for target in result.targets} if result else set())
    assert sorted(unused) == []


def rules_of(fast):
    """The names of all rules that a compiled module went through."""
    programs = [e.program for exports in fast._programs.mode.exports.values() for e in exports]
    used = {aten.find(n.target) for p in programs for n in p.graph.nodes if n.op == "call_function"}
    return named(used)


def named(rules):
    """The names of rules."""
    return {name for name, rule in aten.RULES.items() if rule in rules}


def test_other_libraries_and_writes_in_place_have_no_rule():
    assert aten.find(torch.ops.aten.add.Tensor) and not aten.find(torch.ops.aten.add.out)
    assert not aten.find(torch.ops.aten.add_.Tensor) and not aten.find(torch.ops.quantized.add.default)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: F.batch_norm(x, x[0], x[1], training=True), "writes to its arguments"),
        (lambda x: F.instance_norm(x[None], x[:, 0], x[:, 1]), "training mode writes its running statistics"),
        (lambda x: nn.LSTM(4, 2)(pack_padded_sequence(x[:, None], [3]))[1], "packed sequences(.|\n)*padded tensor"),
        (lambda x: x[x > 0], "the shape of its result depends on values"),
    ],
)
def test_refusals(function, message):
    with torch.no_grad(), pytest.raises(ZenithError, match=message):
        zenith.from_torch(Function(function), (X,), backend="reference")(X)


@pytest.mark.parametrize("index", [-1, 4])
def test_an_embedding_has_no_other_rows(index):
    fast = zenith.from_torch(nn.Embedding.from_pretrained(SQUARE), (torch.tensor([0, 1]),), backend="reference")
    with torch.no_grad(), pytest.raises(ZenithError, match="index is out of bounds for an axis of size 4"):
        fast(torch.tensor([0, index]))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_a_loss_of_integers_has_pytorchs_type(dtype):
    given = torch.arange(6, dtype=dtype).reshape(2, 3), torch.full((2, 3), 2, dtype=dtype), torch.tensor([1, -1])
    function = Function(F.cosine_embedding_loss)
    with torch.no_grad():
        found = zenith.from_torch(function, given, backend="reference")(*given)
    torch.testing.assert_close(found, function(*given))
