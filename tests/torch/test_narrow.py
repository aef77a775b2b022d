"""Modules in half precision and bfloat16: as near to float64 as PyTorch's own, operator by operator and as a whole."""

import copy
import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import zenith
from tests.sampling import leave
from tests.torch.function import Function
from tests.torch.test_models import EAGER, SDPA, SMALL, build, rmse, tensors, text, transformers  # noqa: F401

DTYPES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)


def check(module, *args, dtype, backend="cpu", **kwargs):
    """A module in 16 bits: element types as PyTorch's, and an error at most half as large again."""
    module = copy.deepcopy(module).to(dtype).eval()
    args = [a.to(dtype) if a.is_floating_point() else a for a in args]
    fast = zenith.from_torch(module, tuple(args), kwargs, backend=backend)
    doubled = [a.double() if a.is_floating_point() else a for a in args]
    with torch.no_grad():
        expected, found = module(*args, **kwargs), fast(*args, **kwargs)
        exact = copy.deepcopy(module).double()(*doubled, **kwargs)
    for f, e, x in zip(tensors(found), tensors(expected), tensors(exact), strict=True):
        assert (f.shape, f.dtype) == (e.shape, e.dtype)
        assert rmse(f, x) <= 1.5 * rmse(e, x) + torch.finfo(dtype).eps / 16 * x.abs().max().item()


OPERATIONS = {
    "gelu": F.gelu,
    "tanh gelu": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "softmax": lambda x: F.softmax(x, dim=-1),
    "log_softmax": lambda x: F.log_softmax(x * 3, dim=-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "numbers": lambda x: (x * 0.1 + 0.3) / 0.7 - 1.1,
    "elu": F.elu,
    "leaky relu": lambda x: F.leaky_relu(x, 0.3),
    "var": lambda x: torch.var(x, dim=1),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "mean": lambda x: x.mean(dim=0),
    "rsqrt": lambda x: torch.rsqrt(x * x + 0.1),
    "pow": lambda x: x.abs() ** 1.5,
    "chain": lambda x: torch.tanh(x * x + x) * torch.sigmoid(x),
    "matmul": lambda x: x @ x.transpose(0, 1),
    "order": lambda x: (x.argmax(-1), x.max(-1).values, x.cumsum(0), (x > 0.1).sum(-1)),
}


@DTYPES
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name, dtype):
    torch.manual_seed(0)
    check(Function(OPERATIONS[name]), torch.randn(37, 65), dtype=dtype)


@DTYPES
@pytest.mark.parametrize("batch", [1, 3, 40])
def test_linear_layers(batch, dtype):
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(70, 96), nn.GELU(), nn.LayerNorm(96), nn.Linear(96, 33))
    check(module, torch.randn(batch, 70), dtype=dtype)


@pytest.mark.parametrize(("causal", "dtype"), leave(
    ((False, torch.float16), (True, torch.bfloat16)), itertools.product((False, True), (torch.float16, torch.bfloat16))
), ids=str)  # fmt: skip
def test_attention(causal, dtype):
    torch.manual_seed(2)
    q, k, v = (torch.randn(2, 3, n, 16) for n in (19, 21, 21))
    function = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)  # noqa: E731
    check(Function(function), q, k, v, dtype=dtype)


MODELS = {
    "Bert": SMALL | SDPA,
    "Llama": SMALL | EAGER | {"num_key_value_heads": 2, "use_cache": False},
    "GPT2": {"n_embd": 32, "n_layer": 1, "n_head": 4, "vocab_size": 99, "use_cache": False} | SDPA,
}


@pytest.mark.parametrize(("name", "dtype"), leave(
    lambda case: case != ("Llama", torch.float16), itertools.product(MODELS, (torch.float16, torch.bfloat16))
), ids=str)  # fmt: skip
def test_architectures(transformers, name, dtype):  # noqa: F811
    check(build(transformers, name, **MODELS[name]), dtype=dtype, **text(2, 7))
