"""The order of a dict's keys, which functions see: programs and results follow the call at hand, not the first one."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from functools import partial
from typing import Any

import numpy as np
import pytest

import zenith
from zenith.errors import TraceError

reference = partial(zenith.jit, backend="reference")
KINDS = {"dict": dict, "defaultdict": partial(defaultdict, float), "OrderedDict": OrderedDict}


def weighted(p: dict[str, Any]) -> Any:
    return sum((i + 1) * v for i, v in enumerate(p.values()))


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("nest", [lambda p: p, lambda p: {"z": [p, 1.0], "y": 2.0}], ids=["alone", "nested"])
def test_functions_see_the_order_of_the_call(make, nest):
    f = reference(lambda p: weighted(p["z"][0] if "z" in p else p))
    calls = [nest(make(pairs)) for pairs in ([("a", 1.0), ("b", 10.0)], [("b", 10.0), ("a", 1.0)])]
    assert [float(f(p)) for p in calls * 2] == [21.0, 12.0] * 2
    assert f.cache_info().misses == 2


def test_results_have_the_order_of_the_call():
    f = reference(lambda p: {name: 2 * v for name, v in p.items()})
    for p in ({"a": 1.0, "b": 2.0}, {"b": 2.0, "a": 1.0}, {"a": 3.0, "b": 4.0}):
        assert list(f(p)) == list(p)


def test_names_of_parameters_may_come_in_any_order():
    f = reference(lambda x, *, a=0.0, b=0.0, k=None: x + a - b, static_argnames="k")
    assert [float(f(1.0, a=2.0, b=3.0, k=1)), float(f(1.0, k=1, b=3.0, a=2.0))] == [0.0, 0.0]
    assert f.cache_info().misses == 1


def test_further_keywords_come_in_their_order():
    f = reference(lambda x, **rest: x + weighted(rest), static_argnames="k")
    assert [float(f(x=0.0, a=1.0, b=10.0)), float(f(b=10.0, a=1.0, x=0.0)), float(f(a=1.0, x=0.0, b=10.0))] == [
        21,
        12,
        21,
    ]
    assert f.cache_info().misses == 2
    assert [float(f(0.0, a=1.0, k=10.0)), float(f(0.0, k=10.0, a=1.0))] == [21.0, 12.0]


def test_a_compiled_program_is_for_one_order():
    compiled = reference(weighted).lower({"a": 1.0, "b": 10.0}).compile()
    assert float(compiled({"a": 1.0, "b": 10.0})) == 21.0
    with pytest.raises(TraceError, match="is compiled for"):
        compiled({"b": 10.0, "a": 1.0})


def test_callbacks_see_the_order_of_the_call():
    def host(p: dict[str, Any]) -> Any:
        return np.asarray(weighted(p))

    @zenith.jit
    def f(x):
        result = zenith.ShapeDtypeStruct((), np.float64)
        one = zenith.pure_callback(host, result, {"a": x, "b": 10 * x})
        return one, zenith.pure_callback(host, result, {"b": 10 * x, "a": x})

    assert tuple(map(float, f(np.float64(1)))) == (21.0, 12.0)


def test_static_names_keep_their_order_in_files(tmp_path):
    f = zenith.jit(lambda x, **options: x * next(iter(options.values())), static_argnames=("a", "b"))
    first, second = f(np.ones(2), a=2.0, b=3.0), f(np.ones(2), b=3.0, a=2.0)
    assert (first[0], second[0]) == (2.0, 3.0)
    f.save(tmp_path / "f.zenith")
    loaded = zenith.load(tmp_path / "f.zenith")
    assert loaded(np.ones(2), b=3.0, a=2.0)[0] == 3.0 and loaded(np.ones(2), a=2.0, b=3.0)[0] == 2.0
