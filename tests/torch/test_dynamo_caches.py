"""Arguments that a compiled model changes: written in place, and right where that is not possible."""

import copy

import pytest
import torch
from torch import nn

import zenith

ROWS, WIDTH = 64, 8


def compiled(f, **options):
    return torch.compile(f, backend="zenith", options={"fallback": "error", **options})


def writes():
    """What the latest graph writes in place, and the pairs of result and argument that its program takes."""
    (graph,) = [g for g in zenith.torch.graphs() if g._written]
    executable = graph._specializer.latest.executable
    sizes = graph._specializer.latest.bind(graph_leaves(graph))
    return {(w.number, w.leaf) for w in graph._written}, set(executable.donation.pairs(sizes))


def graph_leaves(graph):
    """Stand-ins with the sizes of the latest program's inputs; none of the tests has others than fixed ones."""
    shapes = [t.shape for _, t in zip(graph._takes, graph._specializer.latest.origin.graph.inputs, strict=True)]
    return [torch.empty([n.static or ROWS for n in shape]) for shape in shapes]


pytestmark = pytest.mark.usefixtures("fresh_compiler")


def put_index(cache, x, at):
    cache.index_copy_(0, at, x)
    return cache.sum(0)


def put_slice(cache, x, at):
    cache[3:4] = x
    cache[7:8] = x * 2
    return x + 1


def put_indices(cache, x, at):
    cache[at] = x.tanh()
    return cache[at] * 2


def put_row(cache, x, at):
    cache[-2] = x[0]
    return x * cache[-2]


def put_transposed(cache, x, at):
    cache.t()[:, 5] = x[0]
    return x


def added(cache, x, at):
    cache.index_add_(0, at, x)
    return cache[:2].clone()


def read_before(cache, x, at):
    """The old contents are read after the write in the text of the program, and before it in the plan."""
    before = cache[at].clone()
    cache[at] = x
    return before * 2


def with_old_contents(cache, x, at):
    """The old contents are a result: the program cannot write over them."""
    old = cache.clone()
    cache[at] = x
    return old


def scaled(cache, x, at):
    cache.mul_(2)
    return x


FUNCTIONS = [put_index, put_slice, put_indices, put_row, put_transposed, added, read_before, with_old_contents, scaled]
IN_PLACE = (put_index, put_slice, put_indices, put_row, added)  # others need the old contents, or another order


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_values_are_eagers_and_memory_stays(function):
    fast = compiled(function)
    ours = torch.randn(ROWS, WIDTH)
    theirs, address = ours.clone(), ours.data_ptr()
    for position in range(3):
        x, at = torch.randn(1, WIDTH), torch.tensor([position])
        version = ours._version
        with torch.no_grad():
            found, wanted = fast(ours, x, at), function(theirs, x, at)
        torch.testing.assert_close(found, wanted)
        torch.testing.assert_close(ours, theirs)
        assert ours.data_ptr() == address and ours._version > version
    planned, taken = writes()
    assert len(planned) == 1 and (taken == planned or function not in IN_PLACE)


@pytest.mark.parametrize(
    "function",
    [put_index, *(pytest.param(f, marks=pytest.mark.thorough) for f in IN_PLACE if f is not put_index)],
    ids=lambda f: f.__name__,
)
def test_a_step_writes_what_is_new_and_nothing_else(function, monkeypatch):
    """Only the copy of the cache to the result is as long as the cache, and a call leaves that out."""
    fast, cache = compiled(function), torch.zeros(ROWS, WIDTH)
    x, at = torch.ones(1, WIDTH), torch.tensor([0])
    copied, own = [], torch.Tensor.copy_
    with torch.no_grad():
        fast(cache, x, at)
        monkeypatch.setattr(torch.Tensor, "copy_", lambda a, b, *more: copied.append(a is b) or own(a, b, *more))
        fast(cache, x, at)
    assert all(copied), "PyTorch copies the cache to itself, which is nothing"
    (graph,) = [g for g in zenith.torch.graphs() if g._written]
    executable = graph._specializer.latest.executable
    (lease,) = executable._leases
    ((_, _, word, tasks),) = lease.copies
    assert tasks == ROWS * WIDTH and lease.buffer[word] == 0
    assert all(s.work.written.evaluate({}) < 4 * ROWS * WIDTH for s in graph._specializer.latest.origin.plan.steps
               if not s.copies)  # fmt: skip


class Attention(nn.Module):
    """One step of decoding over a cache of keys and values, which are buffers of the module."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH)
        self.register_buffer("keys", torch.zeros(1, 2, ROWS, WIDTH // 2))
        self.register_buffer("values", torch.zeros(1, 2, ROWS, WIDTH // 2))

    def forward(self, x, at):
        q, k, v = (p.view(1, 1, 2, -1).transpose(1, 2) for p in self.project(x).chunk(3, -1))
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        seen = torch.arange(ROWS)[None] <= at[:, None]
        return nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)


def test_a_models_caches():
    torch.manual_seed(0)
    model = Attention().eval()
    other = copy.deepcopy(model)
    fast, addresses = compiled(other), (other.keys.data_ptr(), other.values.data_ptr())
    with torch.no_grad():
        for position in range(4):
            x, at = torch.randn(1, 1, WIDTH), torch.tensor([position])
            torch.testing.assert_close(fast(x, at), model(x, at))
            torch.testing.assert_close((other.keys, other.values), (model.keys, model.values))
        other.keys.zero_(), model.keys.zero_()
        torch.testing.assert_close(fast(x, at), model(x, at))
        (graph,) = [g for g in zenith.torch.graphs() if g._written]
        assert graph._specializer.compilations == 1 and graph._specializer.repacked == 0
    assert (other.keys.data_ptr(), other.values.data_ptr()) == addresses
    planned, taken = writes()
    assert len(planned) == 2 and taken == planned  # each to its own, though both have one size


def two(first, second, x):
    first[1] = x
    second[2] = x + first[0]
    return first[1] + second[1]


@pytest.mark.parametrize("kind", ["apart", "same", "overlapping", "transposed", "interleaved"])
def test_arguments_that_share_memory(kind):
    def arguments():
        memory = torch.arange(64.0).reshape(8, 8)
        pair = {
            "apart": (memory[:4], memory[4:]),
            "same": (memory, memory),
            "overlapping": (memory[:4], memory[2:6]),
            "transposed": (memory, memory.t()),
            "interleaved": (memory[::2], memory[1::2]),
        }[kind]
        return memory, *pair

    fast, x = compiled(two), torch.full((8,), -1.0)
    (ours, *given), (theirs, *plain) = arguments(), arguments()
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(fast(*given, x), two(*plain, x))
            torch.testing.assert_close(ours, theirs)


def test_arguments_that_are_conjugated_later_are_copied():
    def f(cache, x):
        cache[1] = x
        return x * 2

    fast, x = compiled(f), torch.tensor([1 + 2j, 3 - 1j])
    ours = torch.zeros(3, 2, dtype=torch.complex64).conj()
    theirs = torch.zeros(3, 2, dtype=torch.complex64).conj()
    with torch.no_grad():
        torch.testing.assert_close(fast(ours, x), f(theirs, x))
    torch.testing.assert_close(ours.resolve_conj(), theirs.resolve_conj())


def test_the_contents_as_a_result_too():
    def f(cache, x):
        cache[1] = x
        return cache, cache.t(), cache * 1

    fast, x, cache = compiled(f), torch.ones(WIDTH), torch.zeros(ROWS, WIDTH)
    with torch.no_grad():
        same, transposed, apart = fast(cache, x)
    assert same is cache or same.data_ptr() == cache.data_ptr()
    assert transposed.data_ptr() == cache.data_ptr() != apart.data_ptr()
    cache[2] = 5
    assert transposed[0, 2] == 5 and apart[2, 0] == 0 and apart[1, 0] == 1
