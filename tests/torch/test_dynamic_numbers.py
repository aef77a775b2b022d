"""Python numbers among a module's arguments: inputs of one program from their second value on, or constants of many."""

import math

import pytest
import torch

import zenith
from zenith.errors import UnsupportedError


class Module(torch.nn.Module):
    """A layer, and a function of what it gives and of numbers."""

    def __init__(self, function):
        super().__init__()
        self.layer, self.function = torch.nn.Linear(4, 4), function

    def forward(self, x, *numbers, **options):
        return self.function(self.layer(x), *numbers, **options)


INTS = {
    "slice": lambda x, n: x[:, :n],
    "last rows": lambda x, n: x[-n:],
    "reshape": lambda x, n: x[: x.shape[0] // n * n].reshape(n, -1),
    "sum": lambda x, n: x * n + n,
    "power": lambda x, n: x**n,
    "arange": lambda x, n: x.sum() + torch.arange(n),
    "topk": lambda x, n: x.topk(n, dim=0)[0],
    "repeat": lambda x, n: x.repeat(n, 1),
    "asks what it is": lambda x, n: x[:n] if isinstance(n, int) else x[n],
    "is given back": lambda x, n: (x, n),
}
FLOATS = {
    "sum": lambda x, s: x + s,
    "quotient": lambda x, s: x / s,
    "mix": lambda x, s: x * (1 - s) + s * 2,
    "root": lambda x, s: x * s**0.5,
    "clamp": lambda x, s: x.clamp(-s, s),
    "where": lambda x, s: torch.where(x > s, x, s),
    "leaky": lambda x, s: torch.nn.functional.leaky_relu(x, s),
    "full": lambda x, s: torch.full((3, 4), s) + x[0],
}
FIXED_INTS = {
    "loop": lambda x, n: sum(x * i for i in range(n)),
    "type": lambda x, n: x[:n] if type(n) is int else x[n],
    "table": lambda x, n: x * {2: 5.0}.get(n, 7.0),
    "text": lambda x, n: x * len(f"{n:>{n}}"),
    "other tensors": lambda x, n: x * (torch.ones(4) if type(n) is int else torch.zeros(4)),
    "window": lambda x, n: torch.nn.functional.avg_pool1d(x.T[None], n),
}
FIXED_FLOATS = {
    "error that is caught": lambda x, s: x * caught(lambda: int(s * 2)),
    "key": lambda x, s: x * caught(lambda: {0.75: 2.0}[s]),
    "branch": lambda x, s: x if s > 0.5 else -x,
    "type": lambda x, s: x * s if type(s) is float else x,
    "math": lambda x, s: x * math.exp(s),
    "is given back": lambda x, s: (x, s),
}


def caught(function):
    """What a function gives, or 3."""
    try:
        return function()
    except Exception:
        return 3


def check(module, fast, *args, **kwargs):
    """Results and gradients are eager's."""
    with torch.no_grad():
        torch.testing.assert_close(fast(*args, **kwargs), module(*args, **kwargs))
    found = []
    for run in (fast, module):
        module.zero_grad()
        result = run(*args, **kwargs)
        (result[0] if isinstance(result, tuple) else result).pow(2).sum().backward()
        found.append(module.layer.weight.grad.clone())
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def programs(function, values, then=()):
    """How many programs a module of a number has, after calls with ``values``, and how many are made ``then``."""
    module = Module(function)
    fast = zenith.from_torch(
        module, (torch.randn(6, 4), values[0]), backend="reference"
    )  # all of it is said of exports
    for value in values:
        check(module, fast, torch.randn(6, 4), value)
    before = fast.cache_info().misses
    with zenith.forbid_recompile():
        for value in then:
            check(module, fast, torch.randn(7, 4), value)
    assert fast.autograd.forward.cache_info().misses == before
    return before


@pytest.mark.parametrize("name", INTS)
def test_an_int_is_an_input_from_its_second_value_on(name):
    assert programs(INTS[name], [2, 3], then=[4, 2]) == 2


@pytest.mark.parametrize("name", FLOATS)
def test_a_float_is_an_input_from_its_second_value_on(name):
    assert programs(FLOATS[name], [0.25, 0.5], then=[0.75, 0.25, 2.5]) == 2


@pytest.mark.parametrize("name", FIXED_INTS)
def test_what_python_does_with_an_int_fixes_it(name):
    assert programs(FIXED_INTS[name], [2, 3, 4, 3]) == 3


@pytest.mark.parametrize("name", FIXED_FLOATS)
def test_what_python_does_with_a_float_fixes_it(name):
    assert programs(FIXED_FLOATS[name], [0.25, 0.75, 0.5, 0.75]) == 3


def test_branches_on_an_int_hold_for_all_on_one_side():
    assert programs(lambda x, n: x + n if n > 3 else x - n, [2, 5, 3], then=[7, 4]) == 3


@pytest.mark.parametrize(
    ("x", "values"),
    [
        (torch.linspace(-2, 2, 5).half(), [2, 3, 70_000]),  # PyTorch multiplies in float32, and rounds then
        (torch.linspace(-2, 2, 5).half(), [0.1, 0.3, 1e6]),
        (torch.linspace(-2, 2, 5).bfloat16(), [0.1, 0.3, 1.5]),  # PyTorch's sums have numbers that are rounded before
        (torch.arange(5, dtype=torch.uint8), [2, 3, 300]),
        (torch.arange(5, dtype=torch.int32), [2, 3, 2**31 + 5]),
        (torch.arange(5), [0.1, 0.3, math.inf]),
        (torch.tensor([True, False]), [2, 3, 5]),
        (torch.linspace(-2, 2, 5), [0.1, math.nan, math.inf, -0.0]),
    ],
)
def test_numbers_are_weak(x, values):
    module = Module(lambda x, n: x).eval()
    module.forward = lambda x, n: (x * n, x + n, x > n)
    fast = zenith.from_torch(module, (x, values[0]), backend="reference")
    for value in values:
        for found, expected in zip(fast(x, value), module(x, value), strict=True):
            torch.testing.assert_close(
                found, expected, rtol=0 if x.dtype.itemsize < 4 else 1e-6, atol=0, equal_nan=True
            )


def test_a_number_that_an_integer_type_may_not_hold_is_a_constant():
    module = Module(lambda x, n: x).eval()
    module.forward = lambda x, n: x.masked_fill(x > 1, n)
    x = torch.arange(5, dtype=torch.uint8)
    fast = zenith.from_torch(module, (x, 2), backend="reference")
    for value in (2, 3):
        torch.testing.assert_close(fast(x, value), module(x, value))
    with pytest.raises(zenith.errors.ZenithError, match="300 is out of bounds for uint8"):
        fast(x, 300)


def test_equal_sizes_mean_nothing():
    module = Module(lambda x, n: x.sum() + torch.arange(n))
    fast = zenith.from_torch(module, (torch.randn(6, 4), 5))
    for rows, n in ((6, 5), (6, 4), (6, 6), (7, 6), (4, 8)):
        check(module, fast, torch.randn(rows, 4), n)
    assert fast.cache_info().misses == 2


@pytest.mark.parametrize("value", [0, 1, -2, True])
def test_small_ints_stay_constants(value):
    module = Module(lambda x, n: x * n)
    fast = zenith.from_torch(module, (torch.randn(6, 4), 3))
    for n in (3, 4, value, 5):
        check(module, fast, torch.randn(6, 4), n)
    assert fast.cache_info().misses == 3


def test_a_forward_that_asks_for_types_has_constants():
    class Typed(Module):
        def forward(self, x, n):
            return self.layer(x) if type(n) is int and n > 5 else -x

    module = Typed(None).eval()
    fast = zenith.from_torch(module, (torch.randn(6, 4), 2), backend="reference")
    x = torch.randn(6, 4)
    with torch.no_grad():
        for n in (2, 3, 7):
            torch.testing.assert_close(fast(x, n), module(x, n))


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_is_a_constant(value):
    module = Module(lambda x, s: x * (s - s) if s == s else -x)
    fast = zenith.from_torch(module, (torch.randn(6, 4), 2.0), backend="reference")
    x = torch.randn(6, 4)
    with torch.no_grad():
        for s in (2.0, 3.0, value):
            torch.testing.assert_close(fast(x, s), module(x, s), equal_nan=True)


@pytest.mark.parametrize(
    ("function", "bad"), [(lambda s: 1 / s, 0.0), (lambda s: 2 % s, 0.0), (lambda s: math.sqrt(s), -1.0)]
)
def test_what_python_raises_is_raised(function, bad):
    module = Module(lambda x, s: x * function(s)).eval()
    fast = zenith.from_torch(module, (torch.randn(6, 4), 2.0))
    x = torch.randn(6, 4)
    with torch.no_grad():
        for s in (2.0, 3.0, 4.0):
            torch.testing.assert_close(fast(x, s), module(x, s))
        assert fast.cache_info().misses == 2
        with pytest.raises(zenith.errors.CheckError, match=r"domain|division by zero"):
            fast(x, bad)


def test_each_number_is_its_own():
    """One that is fixed leaves the others inputs, in whatever structure they come."""
    module = Module(lambda x, n, options: sum(x[:, : options["width"]] * i for i in range(n)) * options["scale"])
    fast = zenith.from_torch(module, (torch.randn(6, 4), 2, {"width": 4, "scale": 0.5}))
    for n, width, scale in ((2, 4, 0.5), (3, 3, 0.25)):
        check(module, fast, torch.randn(6, 4), n, {"width": width, "scale": scale})
    assert fast.cache_info().misses == 2
    with zenith.forbid_recompile():
        check(module, fast, torch.randn(6, 4), 3, {"width": 2, "scale": 0.75})


def test_a_float_that_is_fixed_leaves_ints():
    module = Module(lambda x, s, n: x * n if s > 0.5 else -x * n)
    fast = zenith.from_torch(module, (torch.randn(6, 4), 0.25, 2), backend="reference")
    for s, n in ((0.25, 2), (0.75, 3), (0.75, 4), (0.75, 5)):
        check(module, fast, torch.randn(6, 4), s, n)
    assert fast.cache_info().misses == 2


def test_keywords_and_other_types():
    module = Module(lambda x, **o: x[: o["n"]] * o["s"])
    fast = zenith.from_torch(module, (torch.randn(6, 4),), {"n": 2, "s": 1.5})
    for kwargs in ({"n": 2, "s": 0.5}, {"n": 5, "s": 2.5}, {"n": 5, "s": 2}, {"n": 4, "s": 7}):
        check(module, fast, torch.randn(6, 4), **kwargs)
    assert fast.cache_info().misses == 3
    assert fast.cache_info().reasons[-1].call[-2:] == ("n: a Python int", "s: a Python int")


def test_a_saved_module_takes_every_number(tmp_path):
    module = Module(lambda x, n, s: x[:n] * s).eval()
    fast = zenith.from_torch(module, (torch.randn(6, 4), 2, 0.5))
    with torch.no_grad():
        for n, s in ((2, 0.5), (3, 0.25)):
            fast(torch.randn(6, 4), n, s)
    for path in (tmp_path / "m.zenith", tmp_path / "m"):
        fast.save(path)
        loaded, x = zenith.load(path), torch.randn(6, 4)
        for n, s in ((5, 7.5), (2, 0.5), (3, 0.5)):
            torch.testing.assert_close(loaded(x, n, s), module(x, n, s).detach())
        with pytest.raises(zenith.errors.ValueTypeError, match=r"\[0\]=1, numbers\[1\]=0.5"):
            loaded(x, 1, 0.5)


def test_what_is_compiled_ahead_is_for_one_number(tmp_path):
    module = Module(lambda x, n: x[:n]).eval()
    fast = zenith.from_torch(module, (torch.randn(6, 4), 2))
    with torch.no_grad():
        fast(torch.randn(6, 4), 3)
        fast(torch.randn(6, 4), 4)
        compiled, x = fast.lower(torch.randn(6, 4), 5).compile(), torch.randn(6, 4)
        torch.testing.assert_close(compiled(x, 5), module(x, 5))
        compiled.eject(tmp_path / "five.py")
        with zenith.forbid_recompile():
            fast(x, 5)


def test_a_program_of_numbers_is_not_ejected(tmp_path, monkeypatch):
    monkeypatch.setattr(zenith.config, "executables", 1)  # so that it is the only one
    module = Module(lambda x, n: x[:n]).eval()
    fast = zenith.from_torch(module, (torch.randn(6, 4), 2))
    with torch.no_grad():
        fast(torch.randn(6, 4), 3)
        fast(torch.randn(6, 4), 4)
    with pytest.raises(UnsupportedError, match=r"takes any number for numbers\[0\]"):
        fast.eject(tmp_path / "m.py")
