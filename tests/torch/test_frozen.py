"""Side effects of a module's Python are followed or refused by name: attributes, random numbers, hooks."""

import random
from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

import zenith
from tests.torch.test_from_torch import compare
from zenith.errors import UnsupportedError

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Reversed(nn.Linear):
    def forward(self, x):
        h = super().forward(x)
        h.register_hook(lambda g: -g)
        return h.square()


class Retaining(Reversed):
    def forward(self, x):
        h = nn.Linear.forward(self, x)
        h.retain_grad()
        return h


class Doing(nn.Module):
    """Does one thing in Python, and says which attributes it has for that."""

    def __init__(self, do, **attributes):
        super().__init__()
        vars(self).update(attributes)
        self.inner, self.do = nn.ReLU(), do

    def forward(self, x):
        return self.inner(x) * self.do(self, x)


def counting(m, x):
    m.count += 1
    return m.count


def looking(m, x):
    m.aux = x.mean()
    return 2.0


def remembering(m, x):
    m.inner.last = x
    return 2.0


def listing(m, x):
    m.seen.append(x.shape[0])
    return 2.0


def caching(m, x):
    m.values["x"] = 1.5
    return m.values["x"]


def cleaning(m, x):
    del m.once
    return 2.0


WRITES = {
    "count": Doing(counting, count=0),
    "aux": Doing(looking, aux=None),
    "aux ": Doing(looking),
    "inner.last": Doing(remembering),
    "seen": Doing(listing, seen=[1]),
    "values": Doing(caching, values={}),
    "values ": Doing(caching, values=OrderedDict(x=1)),
    "cache": Doing(lambda m, x: m.cache.update(x=x.shape[0]) or 2.0, cache={"x": None}),
    "once": Doing(cleaning, once=1),
    "random": Doing(lambda m, x: m.random.random(), random=random.Random(0)),
    "generator": Doing(lambda m, x: float(m.generator.normal()), generator=np.random.default_rng(0)),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_to_attributes_are_refused_and_undone(name):
    module = WRITES[name]
    before = {n: str(v) for n, v in vars(module).items()}
    state = repr(getattr(module, name, None) if name == "generator" else getattr(module, "seen", None))
    with pytest.raises(UnsupportedError, match=rf"writes to its attributes {name.strip()}, which(.|\n)*torch.compile"):
        zenith.from_torch(module, (X,), backend="reference")
    assert {n: str(v) for n, v in vars(module).items()} == before
    assert "last" not in vars(module.inner) and state is not None
    if name == "random":
        assert module.random.random() == random.Random(0).random()
    if name == "generator":
        assert module.generator.normal() == np.random.default_rng(0).normal()


def test_a_cache_that_grows_is_none_of_them():
    module = Doing(lambda m, x: m.cache.setdefault("x", 2.0), cache={"y": 1})
    fast = zenith.from_torch(module, (X,), backend="reference")
    assert module.cache == {"y": 1}
    compare(fast, module, X)


@pytest.mark.parametrize(
    ("source", "draw"),
    [
        ("Python's random", lambda m, x: random.random()),
        ("numpy.random", lambda m, x: float(np.random.beta(1.0, 1.0))),
        ("numpy.random", lambda m, x: float(np.random.permutation(3)[0])),
    ],
)
def test_random_numbers_of_others_are_refused(source, draw):
    states = random.getstate(), str(np.random.get_state())
    with pytest.raises(UnsupportedError, match=rf"draws random numbers from {source}(.|\n)*torch.rand"):
        zenith.from_torch(Doing(draw), (X,), backend="reference")
    assert states == (random.getstate(), str(np.random.get_state()))


@pytest.mark.parametrize("kind", [Reversed, Retaining])
def test_hooks_on_gradients_are_refused_for_training(kind):
    fast = zenith.from_torch(nn.Linear(4, 2), (X,), backend="reference")
    name = {Reversed: "register_hook", Retaining: "retain_grad"}[kind]
    with pytest.raises(UnsupportedError, match=rf"calls {name}\(\)(.|\n)*test_frozen.py(.|\n)*torch.compile"):
        zenith.from_torch(kind(4, 2), (X,), backend="reference")
    assert fast(X).requires_grad and torch.Tensor.register_hook.__module__ == "torch._tensor"


class Choosing(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.one(x), lambda x: self.other(x), (x,))


def test_operators_on_functions_are_refused():
    with pytest.raises(UnsupportedError, match=r"such as torch.cond(.|\n)*torch.compile"):
        zenith.from_torch(Choosing(), (X,), backend="reference")


class Options:
    def __init__(self):
        self.offset, self.names = 1.0, []


class Reading(nn.Module):
    """Reads attributes of many kinds; ``unread`` it does not."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)
        self.scale, self.mode, self.flags, self.options = 2.0, "add", [True], Options()
        self.table, self.plain, self.unread = {"shift": 1}, torch.ones(4), 0

    def forward(self, x):
        x = self.norm(self.linear(x)) * self.scale + self.plain + self.table["shift"] + self.options.offset
        return (x + 1 if self.mode == "add" else x * 2) * (3 if self.flags[0] else 1)


CHANGES = {
    "number": lambda m: setattr(m, "scale", 3.0),
    "text": lambda m: setattr(m, "mode", "multiply"),
    "list": lambda m: m.flags.__setitem__(0, False),
    "dictionary": lambda m: m.table.update(shift=5),
    "object": lambda m: setattr(m.options, "offset", 4.0),
    "another object": lambda m: setattr(m, "options", Options()),
    "of a submodule": lambda m: setattr(m.norm, "eps", 0.5),
    "tensor": lambda m: m.plain.add_(1),
    "another tensor": lambda m: setattr(m, "plain", torch.zeros(4)),
    "hook": lambda m: m.linear.register_forward_hook(lambda module, args, result: result * 2),
    "hook of the whole": lambda m: m.register_forward_hook(lambda module, args, result: result - 1),
    "hook ahead": lambda m: m.norm.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
}


def test_attributes_that_were_read_are_followed():
    torch.manual_seed(0)
    module = Reading().eval()
    fast = zenith.from_torch(module, (X,), backend="reference")
    compare(fast, module, X)
    for name, change in CHANGES.items():
        with torch.no_grad():
            before = module(X)
            change(module)
            assert not torch.equal(module(X), before), name
        compare(fast, module, X)
    module.unread += 1
    mode = fast._programs.mode
    compare(fast, module, X)
    assert fast._programs.mode is mode


def test_each_state_is_compiled_once():
    """A module that is switched to and fro, as adapters are, finds its programs; so do ``train`` and ``eval``."""
    module = Reading().eval()
    fast, misses = zenith.from_torch(module, (X,), backend="reference"), []
    for scale in (2.0, 3.0, 2.0, 3.0):
        module.scale = scale
        compare(fast, module, X)
        module.train()
        compare(fast, module, X)
        module.eval()
        misses.append(fast.cache_info().misses)
    assert misses == [2, 4, 4, 4] and len(fast._programs.modes) == 4
    for scale in range(50):
        module.scale = float(scale)
        fast._follow_changes()
    assert len(fast._programs.modes) <= 32


def test_hooks_that_give_nothing_are_refused():
    module, seen = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), []
    fast = zenith.from_torch(module, (X,), backend="reference")
    compare(fast, module, X)
    hook = module[0].register_forward_hook(lambda m, args, result: seen.append(result))
    with torch.no_grad(), pytest.raises(UnsupportedError, match=r"a hook in 0.forward_hooks returns nothing"):
        fast(X)
    with pytest.raises(UnsupportedError, match=r"a hook in 0.forward_hooks returns nothing"):
        zenith.from_torch(module, (X,), backend="reference")
    hook.remove()
    compare(fast, module, X)


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_what_torch_computes_of_weights_is_followed():
    module = nn.Sequential(nn.Linear(4, 8), parametrizations.weight_norm(nn.Linear(8, 4)), nn.Linear(4, 2)).eval()
    prune.l1_unstructured(module[0], "weight", 0.3)
    torch.nn.utils.weight_norm(module[2])
    fast = zenith.from_torch(module, (X,), backend="reference")
    compare(fast, module, X)
    prune.l1_unstructured(module[0], "weight", 0.5)
    compare(fast, module, X)
    prune.remove(module[0], "weight")
    compare(fast, module, X)
