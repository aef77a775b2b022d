"""Saved modules: weights as they were, torch's own structures, no module and no ``torch.export`` on the other side."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import zenith
from tests.torch.test_from_torch import Branching, Mlp, Structured
from zenith.errors import LoadError, ShapeError, TraceError, UnsupportedError, ZenithError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "module.zenith"


class Encoder(nn.Module):
    """A small sentence encoder: embedding, one layer of attention, mean over what the mask leaves."""

    def __init__(self):
        super().__init__()
        self.words, self.norm = nn.Embedding(50, 32), nn.LayerNorm(32)
        self.qkv, self.out, self.mlp = nn.Linear(32, 96), nn.Linear(32, 32), Mlp(32)

    def forward(self, tokens, mask):
        x = self.norm(self.words(tokens))
        q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        h = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :].bool())
        x = self.mlp(x + self.out(h.transpose(1, 2).flatten(2)))
        weights = mask.unsqueeze(-1).to(x.dtype)
        return F.normalize((x * weights).sum(1) / weights.sum(1), dim=-1)


def words(batch, length):
    tokens = (torch.arange(batch * length) * 7 % 50).view(batch, length)
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[0, length // 2 + 1 :] = 0
    return tokens, mask


@torch.no_grad()
def test_a_transformer_of_any_size(path):
    module = Encoder().eval()
    fast = zenith.from_torch(module, words(2, 6))
    fast(*words(2, 6))
    fast.save(path)
    loaded = zenith.load(path)
    for size in ((2, 6), (1, 9), (5, 3)):
        assert torch.equal(loaded(*words(*size)), fast(*words(*size)))
    with pytest.raises(TraceError, match="in this structure: by position or by name"):
        loaded(words(2, 6)[0], mask=words(2, 6)[1])


@torch.no_grad()
def test_weights_stay_as_they_were_saved(path):
    module = Mlp().eval()
    fast, x = zenith.from_torch(module, (torch.zeros(2, 16),)), torch.randn(3, 16)
    before = fast(x)
    module.up.weight.mul_(2)
    fast.save(path)  # follows the change first
    loaded = zenith.load(path)
    after = loaded(x)
    module.up.bias.add_(1)
    assert torch.equal(loaded(x), after) and not torch.equal(before, after)
    torch.testing.assert_close(fast(x), module(x))


@torch.no_grad()
def test_released_weights_can_be_saved(path):
    module = Mlp().eval()
    fast, x = zenith.from_torch(module, (torch.zeros(2, 16),), release_weights=True), torch.randn(3, 16)
    wanted = fast(x)
    fast.save(path)
    assert torch.equal(zenith.load(path)(x), wanted)


@torch.no_grad()
def test_structures_values_and_sizes(path):
    module = Structured().eval()
    fast = zenith.from_torch(module, (torch.zeros(3, 4), {"m": [torch.zeros(4)]}))
    calls = [({}, 3), ({"scale": 2.5}, 5), ({"flag": False}, 2)]
    given = [((torch.randn(n, 4), {"m": [torch.ones(4)]}), kwargs) for kwargs, n in calls]
    for args, kwargs in given:
        fast(*args, **kwargs)
    fast.save(path)
    loaded = zenith.load(path)
    for args, kwargs in given * 2:
        found, wanted = loaded(*args, **kwargs), fast(*args, **kwargs)
        assert found.keys() == wanted.keys() and torch.equal(found["h"], wanted["h"])
        assert found["rest"][:3] == wanted["rest"][:3] and torch.equal(found["rest"][3], wanted["rest"][3])
    with pytest.raises(TraceError, match=r"(?s)without a program for .*scale=3.5.*saved: .*scale=2.5"):
        loaded(*given[0][0], scale=3.5)
    with pytest.raises(TraceError, match="neither a tensor nor a plain value"):
        loaded(given[0][0][0].numpy(), given[0][0][1])


@torch.no_grad()
def test_a_size_without_a_program_says_which_conditions_fail(path):
    fast = zenith.from_torch(Branching().eval(), (torch.zeros(3, 4),))
    fast(torch.zeros(3, 4))
    fast.save(path)
    loaded = zenith.load(path)
    assert torch.equal(loaded(torch.zeros(5, 4)), torch.ones(5, 4))
    with pytest.raises(ShapeError, match=r"(?s)of these sizes: .*which is false here.*saved: \(x: torch f32"):
        loaded(torch.zeros(4, 4))


def test_gradients_are_not_lost_silently(path):
    module = Mlp().eval()
    fast = zenith.from_torch(module, (torch.zeros(2, 16),))
    with pytest.raises(ZenithError, match="no compiled program to save"):
        fast.save(path)
    with torch.no_grad():
        fast(torch.zeros(2, 16))
    fast.save(path)
    loaded = zenith.load(path)
    x = torch.randn(2, 16)
    assert torch.equal(loaded(x), loaded(x.clone()))
    with pytest.raises(UnsupportedError, match="requires a gradient"):
        loaded(x.requires_grad_())


def test_functions_of_tensors(path):
    function = zenith.jit(lambda x, k: {"y": x * k})
    x = torch.arange(6.0).view(2, 3)
    wanted = function(x, 2.5)
    function.save(path)
    found = zenith.load(path)(x, 2.5)
    assert isinstance(found["y"], torch.Tensor) and torch.equal(found["y"], wanted["y"])


@torch.no_grad()
def test_another_process_needs_neither_module_nor_export(tmp_path):
    module = Encoder().eval()
    fast = zenith.from_torch(module, words(2, 6))
    wanted = fast(*words(3, 8))
    fast.save(tmp_path / "m.zenith")
    torch.save((words(3, 8), wanted), tmp_path / "calls.pt")
    code = """
        import sys, json, torch
        sys.modules["numba"] = None  # importing it is an error
        import zenith
        args, wanted = torch.load("calls.pt")
        found = zenith.load("m.zenith")(*args)
        print(json.dumps([bool(torch.equal(found, wanted)), "zenith.torch.export" in sys.modules]))
        """
    assert _run(code, tmp_path) == [True, False]


@torch.no_grad()
def test_transformers_results_keep_their_class(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    config = transformers.BertConfig(
        hidden_size=32, num_attention_heads=4, intermediate_size=64, vocab_size=99, num_hidden_layers=2
    )
    model = transformers.BertModel(config).eval()
    call = dict(zip(("input_ids", "attention_mask"), words(2, 7), strict=True))
    fast = zenith.from_torch(model, (), call)
    fast(**call)
    fast.save(tmp_path / "m.zenith")
    loaded = zenith.load(tmp_path / "m.zenith")
    other = dict(zip(("input_ids", "attention_mask"), words(3, 5), strict=True))
    found, wanted = loaded(**other), fast(**other)
    assert type(found) is type(wanted) and found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    code = """
        import json, torch, zenith
        try:
            zenith.load("m.zenith")
        except zenith.errors.LoadError as error:
            print(json.dumps(str(error)))
        """
    assert "import the library that defines it" in _run(code, tmp_path)


def test_a_class_that_torch_cannot_name_is_refused(path):
    class Own:
        def __init__(self, y):
            self.y = y

    class Returning(nn.Module):
        def forward(self, x):
            return Own(x + 1)

    from torch.utils import _pytree as pytree

    pytree.register_pytree_node(Own, lambda o: ([o.y], None), lambda leaves, _: Own(*leaves))
    fast = zenith.from_torch(Returning().eval(), (torch.zeros(2),))
    fast(torch.zeros(2))
    with pytest.raises(UnsupportedError, match=r"(?s)a file cannot hold a structure.*serialized_type_name"):
        fast.save(path)


def test_files_of_modules_are_checked_too(path):
    fast = zenith.from_torch(nn.ReLU(), (torch.zeros(2),))
    fast(torch.zeros(2))
    fast.save(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(LoadError, match="cut off"):
        zenith.load(path)


def _run(code, folder):
    """What a new process with an empty cache prints, as JSON."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "ZENITH_CACHE_DIR": str(folder / "empty")}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Summed(nn.Module):
    """A result with a size and nothing, and arguments in a dict."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 3)

    def forward(self, pair, *, scale=1.0):
        return {"y": self.out(pair["b"] + pair["a"]) * scale, "rows": pair["a"].shape[0], "none": (None,)}


@torch.no_grad()
def test_numpy_arrays_in_a_process_without_torch(tmp_path):
    module, pair = Summed().eval(), {"b": torch.rand(5, 4), "a": torch.rand(5, 4)}
    fast = zenith.from_torch(module, (pair,), {"scale": 2.0})
    wanted = fast(pair, scale=2.0)
    simple = zenith.from_torch(module.out, (pair["a"],))
    line = simple(pair["a"])
    for function, name in ((fast, "folder"), (fast, "file.zenith"), (simple, "simple")):
        function.save(tmp_path / name)
    arrays = {"b": pair["b"].numpy(), "a": pair["a"].numpy()}
    np.savez(tmp_path / "given.npz", y=wanted["y"].numpy(), line=line.numpy(), **arrays)
    script = """
    import sys
    sys.modules["torch"] = None
    import numpy as np, zenith
    given = np.load("given.npz")
    pair = {name: given[name] for name in "ba"}
    for name in ("folder", "file.zenith"):
        loaded = zenith.load(name)
        found = loaded(pair, scale=2.0)
        assert found["y"].tobytes() == given["y"].tobytes() and (found["rows"], found["none"]) == (5, (None,))
        try:
            loaded(pair, scale=3.0)
        except TypeError as error:
            assert "was saved without a program for" in str(error)
        else:
            raise AssertionError("another value has no program")
    assert zenith.load("simple")(given["a"]).tobytes() == given["line"].tobytes()
    assert not {"numba", "torch.export"} & {*sys.modules}
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    loaded = zenith.load(tmp_path / "folder", arrays="numpy")
    assert loaded(arrays, scale=2.0)["y"].tobytes() == wanted["y"].numpy().tobytes()
    assert torch.equal(zenith.load(tmp_path / "folder")(pair, scale=2.0)["y"], wanted["y"])


class Weighed(torch.nn.Module):
    def forward(self, q, k, **more):
        return q - k + sum((i + 1) * x for i, x in enumerate(more.values()))


def test_names_of_arguments_may_come_in_any_order_without_torch_too(tmp_path):
    a, b = torch.full((2,), 5.0), torch.full((2,), 1.0)
    module = zenith.from_torch(Weighed().eval())
    with torch.no_grad():
        module(q=a, k=b), module(k=b, q=a), module(q=a, k=b, u=a, v=b)
    module.save(tmp_path / "m.zenith")
    loaded, x, y = zenith.load(tmp_path / "m.zenith", arrays="numpy"), a.numpy(), b.numpy()
    assert loaded(q=x, k=y).tolist() == loaded(k=y, q=x).tolist() == [4, 4]
    assert loaded(k=y, q=x, u=x, v=y).tolist() == [11, 11]
    with pytest.raises(TypeError, match="was saved without a program for"):
        loaded(q=x, k=y, v=y, u=x)  # what **more takes has an order
