"""Every rule of the ATen table beside PyTorch: types, dimensions, edge values that libraries treat apart."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import zenith
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
                             torch.atan2(x, y)), X, Y),
    "functions": (lambda x: (x.exp(), x.tanh(), x.sigmoid(), x.erf(), x.sin(), x.cos(), x.abs().log1p(), x.expm1(),
                             F.relu(x), F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), x.floor(), x.round(),
                             x.ceil(), x.trunc(), x.sign()), X),
    "functions of integers": (lambda i: (i.exp(), i.sigmoid(), i.abs(), i.abs().sqrt(), -i, F.relu(i)), N),
    "edge values": (lambda x: (x + 1, x.tanh(), x.sigmoid(), F.relu(x), x.clamp(-1, 1), torch.maximum(x, x.flip(0)),
                               x.exp(), x == x, x > 0, x.amax(), x.softmax(0)), E),
    "comparisons": (lambda x, i: (x == i, x != 2, x < i, x <= 0.5, x > 1, x >= i), X, N),
    "logic": (lambda b, i: (b & ~b, b | (i == 0), b ^ b, torch.logical_not(i), torch.logical_and(b, i), i & 3, i | 1,
                           torch.logical_or(b, i), torch.logical_xor(b, i)), B, N),
    "choices": (lambda b, x, i: (torch.where(b, x, 0.0), torch.where(b, x, i), x.masked_fill(b, -1.0),
                                 torch.maximum(x, i * 1.0), torch.minimum(x, i * 1.0)), B, X, N),
    "clamp": (lambda x, i: (x.clamp(min=0), x.clamp(max=1), x.clamp(-0.5, 0.5), i.clamp(0, 3), x.clamp_min(1),
                            x.clamp_max(1)), X, N),
    "casts": (lambda x, i, b: (x.double(), x.int(), x.long(), i.float(), b.float(), b.int(), x.bool(),
                               i.bool()), X, N, B),
    "sums": (lambda x, i, b: (x.sum(), x.sum(0), x.sum(-1, keepdim=True), x.sum((0, 1)), i.sum(), b.sum(1), x.mean(),
                              x.mean(0), x.prod(1), i.float().mean(1)), X, N, B),
    "extremes": (lambda x, i: (x.amax(1), x.amin(0, keepdim=True), x.max(), i.min(), x.max(1), x.min(0), x.argmax(),
                               x.argmax(1), x.argmin(0)), X, N),
    "any and all": (lambda b, x: (b.any(), b.all(), b.any(1), b.all(0), (x > 0).any(0)), B, X),
    "variances": (lambda x: (x.var(1), x.var(0, correction=0), x.std(1), x.var(), torch.var_mean(x, 1)), X),
    "softmax": (lambda x: (x.softmax(-1), x.softmax(0), x.log_softmax(1), F.softmax(x * 100, 1)), X),
    "layer norm": (lambda x: (F.layer_norm(x, (4,)), F.layer_norm(x, (3, 4), eps=0.1)), X),
    "products": (lambda x, s, t: (x @ s, t @ s, t @ t.transpose(1, 2), torch.addmm(x, x, s, beta=2, alpha=3), x @ s[0],
                                  torch.bmm(t, t.mT), s[0] @ s[1],
                                  torch.baddbmm(t[:, :, :3], t, t.mT), F.linear(x, s, s[0])), X, SQUARE, BATCH),
    "views": (lambda t: (t.view(6, 4), t.view(-1), t.reshape(4, 6), t.permute(2, 0, 1), t.transpose(0, 2), t[0].t(),
                         t.unsqueeze(1), t.unsqueeze(-1), t[:1].squeeze(0), t[:1].squeeze(), t.flatten(1),
                         t.mT), BATCH),
    "expand and slices": (lambda x, t: (x[:1].expand(5, 4), x[None].expand(2, -1, -1), t[:, 1:, ::2], t[..., -1], t[1],
                                        t[:, 1], t[:, -2:], t[..., None]), X, BATCH),
    "joins": (lambda x, i: (torch.cat([x, x], 0), torch.cat([x, x[:, :1]], 1), torch.stack([x, x], 1), x.chunk(2, 1),
                            x.split([1, 3], 1), torch.cat([x, i], 1), x.unbind(1)), X, N),
    "creation": (lambda x: (torch.zeros_like(x) + x, torch.ones(3, 1) * x, torch.full((2,), 7), torch.arange(3) + 1,
                            x.new_zeros(2), torch.arange(x.shape[0]), torch.full_like(x, 2)), X),
    "memory": (lambda x: (x.contiguous() + 0, x.clone(), x.T.contiguous(), x.detach() * 1), X),
    "checks": (_checked, X),
    "embedding": (lambda s: F.embedding(torch.tensor([[0, 3], [1, 1]]), s), SQUARE),
}  # fmt: skip


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


@pytest.mark.parametrize("name", CASES)
def test_rules_agree_with_torch(name):
    function, *args = CASES[name]
    fast = zenith.from_torch(Function(function), tuple(args), backend="reference")
    with torch.no_grad():
        found, expected = fast(*args), function(*args)
    torch.testing.assert_close(found, expected, equal_nan=True)


def test_every_rule_is_exercised():
    seen = set()
    for function, *args in CASES.values():
        program = zenith.from_torch(Function(function), tuple(args), backend="reference")
        for exports in program._exports.values():
            targets = {n.target for n in exports[0].program.graph.nodes if n.op == "call_function"}
            seen |= {aten.find(target) for target in targets}
    unused = [name for name, rule in aten.RULES.items() if rule not in seen]
    assert sorted(unused) == []
