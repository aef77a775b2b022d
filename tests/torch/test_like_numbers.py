"""Sizes of an export pass for numbers in a module's Python, by their texts and their class."""

import pytest
import torch

import zenith
from tests.torch.function import Function

TABLE = {"12": 1.0, "8": 2.0}


FUNCTIONS = {
    "str": lambda x: x + len(str(x.shape[0])),
    "format": lambda x: x * len(f"{x.shape}"),
    "percent": lambda x: x * len("%s of %d" % (x.shape[0], 3)),  # noqa: UP031
    "repr of a float": lambda x: x + len(repr(x.shape[0] * 1.5)),
    "str of a comparison": lambda x: x * len(str(x.shape[0] > 10)),
    "width": lambda x: x * float(f"{x.shape[0]:05d}.5"),
    "hash": lambda x: x * {8: 1.0, 12: 2.0}.get(x.shape[0], 7.0),
    "text as a key": lambda x: x * TABLE.get(str(x.shape[0]), 3.0),
    "class": lambda x: x * 2 if isinstance(x.shape[0], int) else x * 3,
    "class of a float": lambda x: x * 2 if isinstance(x.shape[0] / 3, float) else x * 3,
    "no class": lambda x: x * 2 if isinstance(x.shape[0], (str, float)) else x * 3,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_the_modules(name):
    function = FUNCTIONS[name]
    fast = zenith.from_torch(Function(function), (torch.rand(8, 5),), backend="reference")
    with torch.no_grad():
        for n in (8, 12, 120, 3):
            x = torch.rand(n, 5)
            torch.testing.assert_close(fast(x), function(x))
    if "class" in name:
        assert fast.cache_info().misses == 1
    assert not {"__getattribute__"} & vars(torch.SymInt).keys()
