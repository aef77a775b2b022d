"""Inline caches of calls with tensors: answered as other calls are, as long as nothing that matters has changed."""

import gc
import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

import zenith
from tests.threads import in_threads
from zenith.api import specialize
from zenith.backends.cpu.inline_cache import is_supported
from zenith.errors import ArgumentError, UnsupportedError

pytestmark = pytest.mark.skipif(not is_supported(), reason="native code reads no objects of this interpreter")

TIMES = 40  # calls, of which the inline cache answers the last ones


def repeated(function, *args):
    """The result of the last of many calls, which the inline cache has answered."""
    for _ in range(TIMES):
        before, found = function.cache_info().inline, function(*args)
    assert function.cache_info().inline == before + 1, "not from the inline cache"
    return found


def answers(function, *args):
    """Whether the inline cache answers a call, and the result."""
    before, found = function.cache_info().inline, function(*args)
    return function.cache_info().inline == before + 1, found


def jitted():
    return zenith.jit(lambda x: x * 2 + 1)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(7), requires_grad=False)

    def forward(self, x):
        return x * self.weight


FUNCTIONS = {
    "a tensor": (lambda x: x * 2 + 1, lambda x: x * 2 + 1),
    "a tuple": (lambda x: (x + 1, x * x), lambda x: (x + 1, x * x)),
    "no axes": (lambda x: x.sum(), lambda x: x.sum()),
    "narrow": (lambda x: x.astype(np.float16), lambda x: x.half()),
    "bool": (lambda x: x > 0, lambda x: x > 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_answers_are_those_of_torch(name):
    function, expected = FUNCTIONS[name]
    compiled = zenith.jit(function)
    repeated(compiled, torch.randn(7))
    for _ in range(3):
        x = torch.randn(7)
        hit, found = answers(compiled, x)
        assert hit and type(found) is type(expected(x))
        torch.testing.assert_close(found, expected(x))
    assert compiled.cache_info().misses == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.int32, torch.uint8, torch.complex64], ids=str)
def test_element_types(dtype):
    x = torch.arange(6).reshape(2, 3).to(dtype)
    double = zenith.jit(lambda x: x + x)
    torch.testing.assert_close(repeated(double, x), x + x)
    hit, found = answers(double, torch.zeros(2, 3, dtype=torch.float16))
    assert not hit and found.dtype == torch.float16


def test_results_are_tensors_as_others():
    f = jitted()
    found = repeated(f, torch.randn(7))
    assert type(found) is torch.Tensor and not found.requires_grad and found.is_contiguous()
    found.resize_(100)  # which only memory of torch's own allows
    with torch.inference_mode():
        hit, found = answers(f, torch.randn(7))
    assert hit and found.is_inference()


def test_arrays_of_both_kinds():
    both = zenith.jit(lambda x, y, k: x * k + y)
    x, y = torch.randn(7), np.ones(7, np.float32)
    torch.testing.assert_close(repeated(both, x, y, 2.0), x * 2 + 1)
    hit, found = answers(both, x, y + 1, 3.0)
    assert hit
    torch.testing.assert_close(found, x * 3 + 2)


def negated():
    return torch.randn(7, dtype=torch.complex64).conj().imag


OTHERS = {
    "longer": lambda: torch.randn(9),
    "strided": lambda: torch.randn(14)[::2],
    "one more axis": lambda: torch.randn(7, 1),
    "no elements": lambda: torch.randn(0),
    "another type": lambda: torch.arange(7),
    "negated lazily": lambda: negated().resolve_neg(),
    "a parameter": lambda: nn.Parameter(torch.randn(7), requires_grad=False),
    "an array": lambda: np.ones(7, np.float32),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_tensors_are_computed_as_ever(name):
    f = jitted()
    repeated(f, torch.randn(7))
    x = OTHERS[name]()
    np.testing.assert_allclose(np.asarray(f(x).detach() if name != "an array" else f(x)), np.asarray(x) * 2 + 1, 1e-6)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_what_is_refused_stays_refused():
    f, c = jitted(), jitted()
    repeated(f, torch.randn(7)), repeated(c, torch.randn(7, dtype=torch.complex64))
    with pytest.raises(UnsupportedError, match="requires a gradient"):
        f(torch.randn(7, requires_grad=True))
    with pytest.raises(UnsupportedError, match="negates lazily"):
        f(negated())
    with pytest.raises(UnsupportedError, match="conjugates lazily"):
        c(torch.randn(7, dtype=torch.complex64).conj())
    with forward_ad.dual_level(), pytest.raises(UnsupportedError, match="has a tangent"):
        f(forward_ad.make_dual(torch.randn(7), torch.randn(7)))
    with pytest.raises(UnsupportedError, match="has no memory"):
        torch.vmap(f)(torch.randn(3, 7))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_other_tensors_share_the_record_with_no_harm():
    f = jitted()
    repeated(f, torch.randn(7))
    with torch.no_grad():
        x = torch.randn(7, requires_grad=True)
        torch.testing.assert_close(f(x), x * 2 + 1)
    with forward_ad.dual_level():
        torch.testing.assert_close(f(torch.ones(7)), torch.full((7,), 3.0))


def test_a_module_follows_its_weights():
    module = Scaled()
    f, x = zenith.from_torch(module, (torch.randn(7),)), torch.randn(7)
    torch.testing.assert_close(repeated(f, x), x)
    module.weight.mul_(3)
    torch.testing.assert_close(f(x), x * 3)
    torch.testing.assert_close(repeated(f, x), x * 3)
    module.weight.data = torch.full((7,), 5.0)
    torch.testing.assert_close(f(x), x * 5)
    module.weight = nn.Parameter(torch.full((7,), 6.0), requires_grad=False)
    torch.testing.assert_close(repeated(f, x), x * 6)
    assert f.cache_info().misses == 1


def test_packed_weights_that_changed_are_not_kept():
    module = nn.Linear(64, 64).requires_grad_(False)
    f, x = zenith.from_torch(module, (torch.randn(3, 64),)), torch.randn(3, 64)
    repeated(f, x)
    (program,) = f._specializer.specializations()
    packed = [weakref.ref(array) for array in program.executable._fixed.state.arrays]
    module.weight.mul_(2)
    torch.testing.assert_close(f(x), module(x))
    gc.collect()
    assert sum(a() is not None for a in packed) < len(packed)


def test_gradients_flow_after_cached_calls():
    module = nn.Linear(7, 3)
    f, x = zenith.from_torch(module, (torch.randn(2, 7),)), torch.randn(2, 7)
    with torch.no_grad():
        torch.testing.assert_close(repeated(f, x), module(x))
    f(x).sum().backward()
    assert module.weight.grad is not None
    frozen = Scaled()
    g, y = zenith.from_torch(frozen, (torch.randn(7),)), torch.randn(7)
    repeated(g, y)
    leaf = torch.randn(7, requires_grad=True)
    g(leaf).sum().backward()
    torch.testing.assert_close(leaf.grad, frozen.weight.detach())


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls += 1
        return x + self.calls


def test_buffers_are_written_in_every_call():
    module = Counting()
    f = zenith.from_torch(module, (torch.randn(7),))
    for number in range(1, TIMES + 1):
        torch.testing.assert_close(f(torch.zeros(7)), torch.full((7,), float(number)))
    assert module.calls.item() == TIMES


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("numbers", torch.arange(4, dtype=torch.bfloat16))

    def forward(self):
        return self.numbers * 2, torch.arange(3.0) + 1


def test_results_of_modules_without_arguments_are_tensors(tmp_path):
    f = zenith.from_torch(Table(), ())
    f()
    f.save(tmp_path / "table.zenith")
    for function in (f, zenith.load(tmp_path / "table.zenith")):
        for _ in range(TIMES):
            assert [type(found) for found in function()] == [torch.Tensor, torch.Tensor]
            assert function()[0].dtype == torch.bfloat16


class Sizes(nn.Module):
    def forward(self, x):
        return x + 1, x.shape[0]


def test_sizes_stay_integers():
    f = zenith.from_torch(Sizes(), (torch.randn(7),))
    for _ in range(TIMES):
        _, size = f(torch.zeros(7))
        assert type(size) is int and size == 7


def test_a_tensor_on_the_memory_of_a_written_array():
    def write(x, y):
        x[:] = y[::-1] + x

    compiled = zenith.jit(write)
    for _ in range(TIMES):
        compiled(np.ones(7, np.float32), torch.ones(7))
    x = np.arange(7, dtype=np.float32)
    with pytest.raises(ArgumentError, match="whose memory is also that of"):
        compiled(x, torch.from_numpy(x))
    np.testing.assert_array_equal(x, np.arange(7))


class Interrupting(TorchFunctionMode):
    """Raises once, in whichever function comes first."""

    calls = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        if self.calls == 1:
            raise KeyboardInterrupt
        return func(*args, **(kwargs or {}))


def test_an_interrupt_in_a_mode_is_not_lost():
    f = jitted()
    repeated(f, torch.randn(7))
    with Interrupting(), pytest.raises(KeyboardInterrupt):
        f(torch.randn(7))
    torch.testing.assert_close(repeated(f, torch.ones(7)), torch.full((7,), 3.0))


@pytest.mark.filterwarnings("ignore:Accessing the data pointer")
@pytest.mark.parametrize("times", [1, TIMES], ids=["first", "cached"])
def test_results_without_memory_are_refused(times):
    f = jitted()
    for _ in range(times):
        f(torch.randn(7))
    x = torch.randn(7)
    with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(UnsupportedError, match="without memory"):
        f(x)
    torch.testing.assert_close(f(torch.ones(7)), torch.full((7,), 3.0))


@pytest.mark.filterwarnings("ignore:`torch.jit.trace` is deprecated")
@pytest.mark.parametrize("times", [0, TIMES], ids=["first", "cached"])
@pytest.mark.parametrize(
    "made", [jitted, lambda: zenith.from_torch(Scaled(), (torch.randn(7),))], ids=["jit", "module"]
)
def test_recorded_calls_are_refused(made, times):
    """What PyTorch records of them would be memory that nobody writes."""
    f, x = made(), torch.ones(7)
    for _ in range(times):
        f(x)
    with pytest.raises(UnsupportedError, match=r"torch\.jit\.trace or make_fx"):
        torch.jit.trace(lambda x: f(x), (x,))
    with pytest.raises(UnsupportedError, match=r"torch\.jit\.trace or make_fx"):
        make_fx(lambda x: f(x))(x)
    torch.testing.assert_close(f(torch.zeros(7)), f(x) - f(x) + f(torch.zeros(7)))


def test_weights_that_change_while_a_call_is_cached(monkeypatch):
    """Between the making of a record and its use: it answers nothing, and nothing keeps it."""
    module = Scaled()
    f, x = zenith.from_torch(module, (torch.randn(7),)), torch.ones(7)
    made = specialize.cached_call

    def changed(*args):
        call = made(*args)
        module.weight.mul_(2)
        f._programs.follow_changes()
        return call

    f(x), f(x), f(x), f(x)
    monkeypatch.setattr(specialize, "cached_call", changed)
    f(x)
    assert f._specializer.inline_cache.function is None
    torch.testing.assert_close(f(x), module.weight.detach())


def test_threads():
    f, wrong = jitted(), []

    def work(seed):
        x = torch.full((7,), float(seed))
        wrong.extend(seed for _ in range(300) if not torch.equal(f(x), x * 2 + 1))

    in_threads(8, work)
    assert not wrong


def test_references_are_not_leaked():
    f, x = jitted(), torch.randn(7)
    repeated(f, x)
    found = weakref.ref(f(x))
    assert found() is None
    before = torch.randn(7)
    kept = weakref.ref(before)
    f(before)
    del before
    assert kept() is None
