"""Guards of an export: conditions on sizes, in Python's operators and builtins alone."""

import pytest
import torch
from torch import nn

import zenith
from zenith.api.binding import SourceGuard
from zenith.torch.conditions import in_python


@pytest.mark.parametrize(
    ("source", "n", "holds"),
    [
        ("math.ceil((-0.5 + torch.sym_float(n // 8)) / 1.0) >= 3", 24, True),
        ("math.ceil((-0.5 + torch.sym_float(n // 8)) / 1.0) >= 3", 23, False),
        ("math.floor(n / 2) == 3 and math.trunc(n / 2) == 3", 7, True),
        ("math.ceil(n / 2) * 2 == n", 7, False),
        ("torch._sym_sqrt(n) == 3.0", 9, True),
        ("torch.sym_max(n, 4) == torch.sym_min(n, 8)", 6, True),
        ("torch.sym_ite(n > 2, n, 2) == 2", 3, False),
        ("abs(n - 5) == round(1.2)", 4, True),
    ],
)
def test_functions_of_sizes(source, n, holds):
    written = in_python(source)
    assert "math" not in written and "torch" not in written
    assert SourceGuard(written, False).holds({"n": n}) is holds


class Centres(nn.Module):
    """Adds the centre of each row, between 0 and 1."""

    def forward(self, x):
        return x + (torch.arange(0.5, x.shape[0]) / x.shape[0])[:, None]


@torch.no_grad()
def test_a_range_that_begins_between_integers(tmp_path):
    module = Centres().eval()
    fast = zenith.from_torch(module, (torch.zeros(4, 3),))
    for rows in (4, 7, 2):
        x = torch.rand(rows, 3)
        torch.testing.assert_close(fast(x), module(x))
    assert fast.cache_info().misses == 1
    fast.save(tmp_path / "centres.zenith")
    assert torch.equal(zenith.load(tmp_path / "centres.zenith")(x), fast(x))


class Pooled(nn.Module):
    """A pooling, which has a derivative of its own, of an array whose sizes follow from the argument's."""

    def __init__(self):
        super().__init__()
        self.conv, self.pool = nn.Conv2d(1, 2, 3, stride=2), nn.MaxPool2d(2)

    def forward(self, x):
        return self.pool(self.conv(x))


@torch.no_grad()
def test_the_interpreter_knows_sizes_that_follow_from_others():
    module = Pooled().eval()
    fast = zenith.from_torch(module, (torch.zeros(1, 1, 9, 11),), backend="reference")
    x = torch.rand(2, 1, 12, 9)
    torch.testing.assert_close(fast(x), module(x))
