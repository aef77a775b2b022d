"""A module's weights: programs share them and follow changes without compiling; a call uses one set of weights."""

import gc
import threading
import weakref

import pytest
import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

import zenith
from tests.torch.test_from_torch import Mlp, compare
from zenith.backends.cpu.link import linked_count
from zenith.errors import ZenithError
from zenith.torch import unseen
from zenith.torch.weights import Weights

BACKENDS = ["reference", "lanes", "cpu"]


@pytest.fixture
def mlp():
    torch.manual_seed(0)
    return Mlp().eval()


def follows(fast, module, *args, repacked):
    """The next two calls are right, without a new program, after ``repacked`` weights were taken over."""
    before, linked = fast.cache_info(), linked_count()
    for _ in range(2):
        compare(fast, module, *args)
    after = fast.cache_info()
    assert (after.misses, linked_count()) == (before.misses, linked)
    assert after.repacked - before.repacked == repacked


def test_weights_are_shared_and_not_in_the_text(mlp):
    fast = zenith.from_torch(mlp, (torch.zeros(4, 16),), backend="reference")
    compare(fast, mlp, torch.randn(4, 16))
    assert fast.graph.weights.keys() == dict(mlp.named_parameters()).keys() and not fast.graph.constants
    for name, weight in mlp.named_parameters():
        assert fast.graph.weights[name].ctypes.data == weight.data_ptr()
    other = zenith.from_torch(Mlp().eval(), (torch.zeros(4, 16),), backend="reference")
    with torch.no_grad():
        other(torch.zeros(4, 16))
    assert other.graph == fast.graph


@pytest.mark.parametrize("backend", BACKENDS)
def test_changed_weights_are_followed_without_compiling(mlp, backend):
    fast, x = zenith.from_torch(mlp, (torch.zeros(4, 16),), backend=backend), torch.randn(4, 16)
    compare(fast, mlp, x)
    with torch.no_grad():
        mlp.up.weight.add_(1)
    follows(fast, mlp, x, repacked=1)
    mlp.load_state_dict(Mlp().state_dict())
    follows(fast, mlp, x, repacked=6)
    mlp.down.bias.data = torch.ones(16)
    follows(fast, mlp, x, repacked=1)
    mlp.up.weight = nn.Parameter(torch.randn(48, 16))
    follows(fast, mlp, x, repacked=1)
    mlp.up.weight.data = torch.randn(16, 48).t()  # not dense
    follows(fast, mlp, x, repacked=1)
    assert fast.cache_info().misses == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_training_between_calls(mlp, backend):
    fast, x = zenith.from_torch(mlp, (torch.zeros(4, 16),), backend=backend), torch.randn(4, 16)
    for weight in mlp.norm.parameters():
        weight.requires_grad_(False)
    optimizer = torch.optim.SGD([p for p in mlp.parameters() if p.requires_grad], lr=0.1)
    compare(fast, mlp, x)
    for _ in range(3):
        mlp(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        follows(fast, mlp, x, repacked=4)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_steps_in_one_kernel_are_followed(mlp, kind):
    """PyTorch counts none of their writes."""
    fast, x = zenith.from_torch(mlp, (torch.zeros(4, 16),), backend="reference"), torch.randn(4, 16)
    optimizer = kind([mlp.up.weight, mlp.norm.bias], lr=0.1, fused=True)
    compare(fast, mlp, x)
    versions = [p._version for p in mlp.parameters()]
    for _ in range(2):
        mlp(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        follows(fast, mlp, x, repacked=2)
    assert versions == [p._version for p in mlp.parameters()]


def test_optimisers_of_others_are_followed(mlp):
    """Their kernels count as little as those of PyTorch's."""

    class Uncounted(torch.optim.SGD):
        def step(self, closure=None):
            for parameter in self.param_groups[0]["params"]:
                if parameter.grad is not None:
                    parameter.data.sub_(parameter.grad)
                    parameter.grad = None

    fast, x = zenith.from_torch(mlp, (torch.zeros(4, 16),), backend="reference"), torch.randn(4, 16)
    optimizer = Uncounted(mlp.parameters(), lr=0.1)
    compare(fast, mlp, x)
    mlp(x).square().mean().backward()
    optimizer.step()
    follows(fast, mlp, x, repacked=6)


def test_views_of_what_is_stepped_in_one_kernel_are_followed():
    flat, module = nn.Parameter(torch.ones(6)), nn.Linear(3, 2, bias=False)
    del module.weight
    module.register_buffer("weight", flat.detach().view(2, 3))
    fast, x = zenith.from_torch(module, (torch.ones(1, 3),), backend="reference"), torch.ones(1, 3)
    compare(fast, module, x)
    flat.grad = torch.ones(6)
    torch.optim.SGD([flat], lr=0.5, fused=True).step()
    follows(fast, module, x, repacked=1)


def test_watching_a_weight_does_not_keep_it_alive(mlp):
    fast = zenith.from_torch(mlp, (torch.zeros(4, 16),), backend="reference")
    mlp.up.weight.data.add_(1)
    compare(fast, mlp, torch.randn(4, 16))
    gc.collect()  # what other tests watched is gone now, not between two counts
    known, memory = len(unseen._watched), StorageWeakRef(mlp.up.weight.untyped_storage())
    del fast, mlp.up
    gc.collect()
    assert memory.expired() and len(unseen._watched) == known - 6


@pytest.mark.parametrize("backend", BACKENDS)
def test_writes_that_nobody_sees_need_refresh(mlp, backend):
    older = mlp.up.weight.data, mlp.down.weight.data
    fast, x = zenith.from_torch(mlp, (torch.zeros(4, 16),), backend=backend), torch.randn(4, 16)
    compare(fast, mlp, x)
    older[0].add_(1.0)
    fast.refresh()
    compare(fast, mlp, x)
    older[1].zero_()
    zenith.torch.refresh()
    compare(fast, mlp, x)
    info = fast.cache_info()
    assert (info.misses, info.repacked) == (1, 12) and "repacked=12" in str(info)


@pytest.mark.parametrize("backend", BACKENDS)
def test_another_structure_is_compiled_again(mlp, backend):
    fast, x = zenith.from_torch(mlp, (torch.zeros(4, 16),), backend=backend), torch.randn(4, 16)
    compare(fast, mlp, x)
    changes = [
        lambda: setattr(mlp, "norm", nn.LayerNorm(16, eps=0.1)),
        lambda: (setattr(mlp, "up", nn.Linear(16, 8)), setattr(mlp, "down", nn.Linear(8, 16))),
        lambda: setattr(mlp.up, "weight", nn.Parameter(mlp.down.weight.data.t().clone())),  # only the memory differs
        lambda: setattr(mlp.norm, "bias", mlp.norm.weight),  # tied
        lambda: mlp.to(torch.float64),
    ]
    misses = [2, 3, 3, 4, 5]
    for change, expected in zip(changes, misses, strict=True):
        change()
        x = x.to(mlp.up.weight.dtype)
        compare(fast, mlp, x)
        compare(fast, mlp, x)
        assert fast.cache_info().misses == expected
    assert [miss.reason for miss in fast.cache_info().reasons[1:4]] == ["the weights' structure changed"] * 3


def test_further_submodules_and_parameters_are_seen():
    module, x = nn.Sequential(nn.Linear(4, 4, bias=False)), torch.randn(2, 4)
    fast = zenith.from_torch(module, (x,))
    for change in (
        lambda: module.append(nn.ReLU()),
        lambda: module.append(nn.Linear(4, 3)),
        lambda: setattr(module[0], "bias", nn.Parameter(torch.ones(4))),
        lambda: delattr(module, "1"),
    ):
        compare(fast, module, x)
        change()
        compare(fast, module, x)
    assert fast.cache_info().misses == 5


@pytest.mark.parametrize("backend", BACKENDS)
def test_transposed_weights_and_writes_into_them_are_followed(backend):
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, 4))

        def forward(self, x):
            return x + self.w

    module, x = Sum(), torch.randn(4, 4)
    fast = zenith.from_torch(module, (x,), backend=backend)
    compare(fast, module, x)
    module.w = nn.Parameter(torch.randn(4, 4).t())
    compare(fast, module, x)
    with torch.no_grad():
        module.w.mul_(2)
        compare(fast, module, x)
        module.w.t_()
    compare(fast, module, x)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.once = nn.Linear(8, 8)
        self.twice = self.once

    def forward(self, tokens):
        return self.head(self.twice(self.once(self.embedding(tokens))))


@pytest.mark.parametrize("backend", BACKENDS)
def test_tied_weights_are_one_weight(backend):
    torch.manual_seed(0)
    module, tokens = Tied().eval(), torch.tensor([[1, 5, 10], [0, 0, 3]])
    fast = zenith.from_torch(module, (tokens,), backend=backend)
    compare(fast, module, tokens)
    assert sorted(fast.graph.weights) == ["embedding.weight", "once.bias", "once.weight"]
    assert sum(node.primitive.name == "weight" for _, node in fast.graph.nodes()) == 3
    with torch.no_grad():
        module.head.weight.mul_(2)
    follows(fast, module, tokens, repacked=1)


class Scaled(nn.Module):
    """Work on weights alone: a cast, a transform, a product of two, and a weight without axes."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(6, 5)), nn.Parameter(torch.randn(5, 7))
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.register_buffer("count", torch.arange(7))
        self.plain = torch.arange(7.0)

    def forward(self, x):
        return x @ (torch.tanh(self.a) @ self.b) * self.scale + torch.exp(self.count.to(torch.float32)) + self.plain


@pytest.mark.parametrize("backend", BACKENDS)
def test_work_on_weights_alone_is_done_once(backend):
    torch.manual_seed(0)
    module, x = Scaled().eval(), torch.randn(3, 6)
    fast = zenith.from_torch(module, (x,), backend=backend)
    compare(fast, module, x)
    if backend != "reference":
        steps = fast.show("plan").split("\n   0 launch")[1]
        assert "tanh" not in steps and "exp" not in steps
    for weight in (module.a, module.b, module.scale, module.count):
        with torch.no_grad():
            weight.add_(1)
        follows(fast, module, x, repacked=1)


def test_programs_share_what_they_pack(mlp):
    fast = zenith.from_torch(mlp, (torch.zeros(4, 16),))
    compare(fast, mlp, torch.randn(4, 16))
    table = fast.graph.weights
    packed = {key: array.ctypes.data for key, array in table.prepared.items()}
    assert len(packed) == 2
    compare(fast, mlp, x=torch.randn(5, 16))
    assert fast.cache_info().misses == 2
    assert {key: array.ctypes.data for key, array in table.prepared.items()} == packed
    with torch.no_grad():
        mlp.up.weight.add_(1)
    compare(fast, mlp, torch.randn(4, 16))
    repacked = {key: array.ctypes.data for key, array in table.prepared.items()}
    assert len(repacked) == 2 and len(repacked.items() & packed.items()) == 1, "the other one is not repacked"
    assert sorted(repacked.values()) == sorted(packed.values()), "into memory that is there already"


def test_what_was_packed_goes_with_its_programs(mlp):
    fast = zenith.from_torch(mlp, (torch.zeros(4, 16),))
    compare(fast, mlp, torch.randn(4, 16))
    table = weakref.ref(fast.graph.weights)
    assert len(table().prepared) == 2
    fast.cache_clear()
    fast._specializer.latest = None
    gc.collect()
    assert len(table().prepared) == 0
    del fast
    gc.collect()
    assert table() is None


def test_a_call_uses_the_weights_with_which_it_began():
    """Threads call while another writes and refreshes: each result is of one set of weights."""
    module = nn.Sequential(nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)).eval()
    versions = [torch.eye(64), 2 * torch.eye(64)]
    with torch.no_grad():
        for layer in module:
            layer.weight.copy_(versions[0])
        fast, x = zenith.from_torch(module, (torch.ones(8, 64),)), torch.ones(8, 64)
        fast(x)
    stop, found, failures = threading.Event(), set(), []

    def call():
        while not stop.is_set():
            with torch.no_grad():
                values = fast(x).unique()
            if values.numel() != 1:
                failures.append(values)
            found.add(float(values[0]))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for i in range(200):
        for layer in module:
            layer.weight.data = versions[i % 2].clone()
        fast.refresh()
        with torch.no_grad():
            assert float(fast(x)[0, 0]) == (1, 4)[i % 2]
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures and found <= {1.0, 2.0, 4.0} and fast.cache_info().misses == 1


def test_a_check_of_unchanged_weights_sees_every_counted_change():
    module = Tied()
    weights = Weights(module)
    assert not weights.changed() and weights.follow(every=False) == 0
    with torch.no_grad():
        module.once.bias.add_(1)
    assert weights.changed() and weights.follow(every=False) == 1 and not weights.changed()
    del module.once.bias
    module.once.bias = None
    assert weights.changed() and weights.follow(every=False) == "the weights' structure changed" and weights.changed()


# --- release_weights -----------------------------------------------------------------------------------------------


def test_released_weights_leave_memory_and_the_program_goes_on(mlp):
    x = torch.randn(4, 16)
    with torch.no_grad():
        expected = mlp(x), mlp(2 * x)
    memory = [StorageWeakRef(layer.weight.untyped_storage()) for layer in (mlp.up, mlp.down)]
    assert not any(storage.expired() for storage in memory)
    fast = zenith.from_torch(mlp, (torch.zeros(4, 16),), release_weights=True)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), expected[0])
        assert mlp.up.weight.is_meta and mlp.down.weight.is_meta and mlp.up.weight.shape == (48, 16)
        assert isinstance(mlp.up.weight, nn.Parameter) and mlp.up.weight.requires_grad
        assert not mlp.up.bias.is_meta, "the program reads it"
        gc.collect()
        assert all(storage.expired() for storage in memory)
        torch.testing.assert_close(fast(2 * x), expected[1])
        torch.testing.assert_close(fast(x=x), expected[0])  # another program, of what is packed already
    assert fast.cache_info().misses == 2 and fast.cache_info().repacked == 0


@pytest.mark.parametrize("change", ["write", "replace", "refresh"])
def test_a_change_of_released_weights_raises(mlp, change):
    fast, x = zenith.from_torch(mlp, (torch.zeros(4, 16),), release_weights=True), torch.randn(4, 16)
    with torch.no_grad():
        fast(x)
        if change == "write":
            mlp.up.bias.add_(1)
        elif change == "replace":
            mlp.up.weight = nn.Parameter(torch.ones(48, 16))
        with pytest.raises(ZenithError, match=r"weights of Mlp changed(.|\n)*from_torch again with the changed module"):
            fast.refresh() if change == "refresh" else fast(x)


def test_weights_released_for_one_program_are_missing_for_another_kind():
    class Optional(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8, bias=False)

        def forward(self, x, elementwise=False):
            return x * self.linear.weight if elementwise else self.linear(x)

    module, x = Optional().eval(), torch.randn(8, 8)
    fast = zenith.from_torch(module, (x,), release_weights=True)
    with torch.no_grad():
        fast(x)
        with pytest.raises(ZenithError, match=r"weight linear.weight was released(.|\n)*release_weights=False"):
            fast(x, elementwise=True)
        fast(x)


def test_what_reads_all_weights_releases_none(mlp):
    fast, x = (
        zenith.from_torch(mlp, (torch.zeros(4, 16),), backend="reference", release_weights=True),
        torch.ones(4, 16),
    )
    compare(fast, mlp, x)
    compare(fast, mlp, x)
    assert not any(p.is_meta for p in mlp.parameters())


def test_weights_under_several_names_are_released_under_all():
    module, tokens = Tied().eval(), torch.tensor([[1, 5, 10], [0, 0, 3]])
    with torch.no_grad():
        expected = module(tokens)
        fast = zenith.from_torch(module, (tokens,), release_weights=True)
        torch.testing.assert_close(fast(tokens), expected)
        torch.testing.assert_close(fast(tokens), expected)
    assert module.once.weight is module.twice.weight and module.once.weight.is_meta
    assert module.head.weight is module.embedding.weight and not module.head.weight.is_meta, "the embedding reads it"


def test_replaced_weights_do_not_stay_in_memory(mlp):
    fast, x = zenith.from_torch(mlp, (torch.zeros(4, 16),)), torch.randn(4, 16)
    compare(fast, mlp, x)
    old = StorageWeakRef(mlp.up.weight.untyped_storage())
    mlp.up.weight = nn.Parameter(torch.randn(48, 16))
    compare(fast, mlp, x)
    gc.collect()
    assert old.expired()


def test_weights_made_in_inference_mode_are_warned_of(mlp):
    x = torch.randn(4, 16)
    with torch.inference_mode():
        made = Mlp().eval()
        with pytest.warns(zenith.errors.PerformanceWarning, match="made in torch.inference_mode"):
            fast = zenith.from_torch(made, (x,))
        compare(fast, made, x)
        made.load_state_dict(mlp.state_dict())
        compare(fast, made, x)
    zenith.from_torch(mlp, (x,))  # where warnings are errors
