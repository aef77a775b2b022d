"""Every kernel of whole models, compiled ahead of time: machine code without spills, float64 and calls."""

import re

import numpy as np
import pytest
import torch
import transformers

import zenith
from tests.backends.cuda.test_compile import EXPECTED, REGISTERS, SHARED, instructions
from tests.classifier import cross_entropy
from zenith.backends.cuda.compile import available

pytestmark = pytest.mark.skipif(
    not EXPECTED and not available(), reason="the CUDA compiler has wheels for Linux x86-64"
)


def bert(hidden, heads, middle):
    """A BERT of two layers, whose kernels are those of any number of layers, and what it is called with."""
    config = transformers.BertConfig(
        vocab_size=1000, hidden_size=hidden, num_hidden_layers=2, num_attention_heads=heads, intermediate_size=middle
    )
    ids = torch.arange(14).reshape(2, 7)
    return transformers.BertModel(config).eval(), (ids, torch.ones_like(ids))


def perceptron():
    """A classifier of digits as a module."""
    layers = torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.LayerNorm(256), torch.nn.Linear(256, 10)
    return torch.nn.Sequential(*layers), (torch.ones(32, 784),)


def training_step():
    """A step of AdamW for a classifier, as a function."""
    optimizer = zenith.optim.adamw(1e-3)

    def step(weights, state, x, labels):
        value, gradient = zenith.value_and_grad(cross_entropy)(weights, x, labels)
        updates, state = optimizer.update(gradient, state, weights)
        return value, zenith.optim.apply_updates(weights, updates), state

    weights = [np.zeros(shape, np.float32) for shape in ((784, 256), (256,), (256, 10), (10,))]
    return step, (weights, optimizer.init(weights), np.ones((32, 784), np.float32), np.zeros(32, np.int64))


MODELS = {
    "BERT-base": lambda: bert(768, 12, 3072),
    "MiniLM": lambda: bert(384, 12, 1536),
    "MLP": perceptron,
    "training": training_step,
}


# The programs of test_compile.py have every kind of kernel; `make fuzz` compiles those of larger models.
FIRST = [("MLP", "sm_90a")]
CASES = [
    pytest.param(model, arch, marks=[pytest.mark.thorough] * ((model, arch) not in FIRST))
    for model in MODELS for arch in ("sm_90a", "sm_75")
]  # fmt: skip


@pytest.mark.parametrize(("model", "arch"), CASES)
def test_every_kernel_of_a_model(model, arch):
    function, args = MODELS[model]()
    ready = zenith.aot(function, args, arch=arch)
    assert ready.sources.keys() == ready.ptx.keys() == ready.cubin.keys() == ready.resources.keys()
    for name, ptx in ready.ptx.items():
        found, (threads,) = ready.resources[name], re.findall(r"\.maxntid (\d+)", ptx)
        assert f".target {arch}" in ptx
        assert instructions(ptx, r"(ld|st)\.local") == [] and ".extern" not in ptx, ready.sources[name]
        if "f64(" not in ready.sources[name]:  # libdevice raises float64 to powers by a function of its own
            assert instructions(ptx, r"\bcall\b|\.f64\b") == [], ready.sources[name]
        assert found.stack == 0 and found.registers * int(threads) <= REGISTERS and found.shared <= SHARED
    assert any("_x4" in name for name in ready.ptx), "something is read 16 bytes at a time"
