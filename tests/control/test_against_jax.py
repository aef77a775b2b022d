"""The same programs in jax.lax: results, structures, element types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zenith

jax = pytest.importorskip("jax")
RNG = np.random.default_rng(11)
U = (RNG.standard_normal((4, 4)) / 2).astype(np.float32)
XS = RNG.standard_normal((6, 4)).astype(np.float32)
H = RNG.standard_normal(4).astype(np.float32)

Program = Callable[[Any, Any], Any]  # takes the functions, and the array namespace

PROGRAMS: dict[str, Program] = {
    "scan": lambda z, np: z.scan(lambda h, x: (np.tanh(h @ U + x), h), H, XS),
    "reverse": lambda z, np: z.scan(lambda h, x: (np.tanh(h @ U + x), h), H, XS, reverse=True),
    "length": lambda z, np: z.scan(lambda h, _: (np.sin(h), None), H, None, length=5),
    "numbers": lambda z, np: z.scan(lambda h, x: (h + x.sum(), {"x": x}), 0.0, XS),
    "fori_loop": lambda z, np: z.fori_loop(1, 5, lambda i, h: h * i + U[0], H),
    "while_loop": lambda z, np: z.while_loop(lambda s: s[1] < 4, lambda s: (np.cos(s[0]), s[1] + 1), (H, 0)),
    "cond": lambda z, np: z.cond(XS[0, 0] > 0, lambda x: x + 1, lambda x: x * 2, H),
    "switch": lambda z, np: z.switch(7, [lambda x: x, lambda x: x - 1, lambda x: x * x], H),
    "map": lambda z, np: z.map(lambda x: (x.sum(), x[::-1]), XS),
    "associative_scan": lambda z, np: z.associative_scan(np.add, XS, reverse=True, axis=1),
}


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_jax(name: str, backend: str) -> None:
    expected = PROGRAMS[name](jax.lax, jax.numpy)
    found = zenith.jit(lambda: PROGRAMS[name](zenith, np), backend=backend)()
    leaves, structure = jax.tree.flatten(found)
    others, wanted = jax.tree.flatten(expected)
    assert structure == wanted
    for x, y in zip(leaves, others, strict=True):
        assert np.shape(x) == y.shape and (np.asarray(x).dtype == y.dtype or np.asarray(x).dtype.kind in "iu")
        np.testing.assert_allclose(x, y, rtol=2e-6, atol=2e-6)
