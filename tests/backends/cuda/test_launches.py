"""The launches of models, as the recording driver counts them: none for views that kernels read without a copy."""

from itertools import pairwise

import pytest

import zenith
from tests.sampling import leave

torch = pytest.importorskip("torch")


def encoder(layers):
    """PyTorch's own encoder, whose attention splits one product into queries, keys and values."""
    layer = torch.nn.TransformerEncoderLayer(64, 4, 256, activation="gelu", batch_first=True)
    return torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), (torch.randn(2, 7, 64),)


def bert(layers):
    """BERT of Hugging Face, which has three products for them."""
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=100, hidden_size=64, num_hidden_layers=layers, num_attention_heads=4, intermediate_size=256
    )
    ids = torch.arange(14).reshape(2, 7)
    return transformers.BertModel(config, add_pooling_layer=False), (ids, torch.ones_like(ids))


def perceptron(layers):
    """A perceptron of W15's kind."""
    sizes = (512, 256, 128, 64)[: layers + 1]
    steps = [step for a, b in pairwise(sizes) for step in (torch.nn.Linear(a, b), torch.nn.ReLU())]
    return torch.nn.Sequential(*steps), (torch.randn(32, 512),)


def count(cuda_tensors, made):
    """The launches of a call."""
    torch.manual_seed(0)
    module, args = made
    fast = zenith.from_torch(module.eval(), args)
    with torch.no_grad():
        wanted, found = module(*args), fast(*args)
        before = len(cuda_tensors.launches)
        fast(*args)
    wanted, found = (r if isinstance(r, torch.Tensor) else r.last_hidden_state for r in (wanted, found))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    return len(cuda_tensors.launches) - before


@pytest.mark.parametrize(
    ("model", "each"), leave(lambda case: case[0] is bert, [(encoder, 7), (bert, 7), (perceptron, 1)])
)
def test_launches_of_a_layer(cuda_tensors, model, each):
    """A transformer's layer: queries, keys and values; attention; its output; a norm; two products; a norm."""
    assert count(cuda_tensors, model(2)) - count(cuda_tensors, model(1)) == each


def test_launches_of_whole_models(cuda_tensors):
    assert count(cuda_tensors, encoder(1)) == 7 and count(cuda_tensors, perceptron(3)) == 3
    assert count(cuda_tensors, bert(1)) <= 7 + 7, "embeddings and the mask"
