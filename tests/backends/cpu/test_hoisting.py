"""Values that depend on sizes alone are arguments of kernels: equal layers at different depths share machine code."""

import numpy as np
import pytest

import zenith
from tests.backends.running import plan_of
from zenith.backends.cpu.hoisting import HoistingPrinter
from zenith.backends.cpu.program import Launch, program_of
from zenith.backends.steps import walk
from zenith.ir.dims import maximum, minimum, symbol

n, m, i, t = map(symbol, "nmit")
HALF = (n - 1) // 2


@pytest.mark.parametrize(
    "at, text, arguments",
    [
        (i * 16 + 3, "16*i + 3", []),
        (n, "size0", [n]),
        (n * i + n, "i*size0 + size0", [n]),
        ((HALF + 1) * (m + 1) * i * 16, "i*size0", [(HALF + 1) * (m + 1) * 16]),
        (t % (HALF + 1), "(t%size0)", [HALF + 1]),
        ((t + HALF) // 3 * m, "((size1 + t)//3)*size0", [m, HALF]),
        (minimum(maximum(n, m) - 1, i) + m, "min(i, size0) + size1", [maximum(n, m) - 1, m]),
    ],
)
def test_expressions_of_sizes_are_computed_by_the_host(at, text, arguments):
    printer = HoistingPrinter(["n", "m"], "size")
    assert printer.size(at) == text
    assert list(printer.arguments) == arguments


def pooled(x, depth):
    """Sorted sums of pairs of rows, several times: each iteration has half as many rows."""
    for _ in range(depth):
        rows = x.shape[0] // 2
        x = np.sort(x[: 2 * rows].reshape(rows, 2, x.shape[1]).sum(1) * 2, axis=0)
    return x


def test_layers_at_different_depths_share_their_code():
    x = np.arange(96, dtype=np.float32).reshape(32, 3) % 7
    texts = []
    for depth in (2, 3, 4):
        plan = plan_of(zenith.jit(lambda x, depth=depth: pooled(x, depth)).lower(x).graph)
        launches = [s for s in walk(program_of(plan).steps) if isinstance(s, Launch)]
        texts.append({launch.kernel.text for launch in launches})
    assert texts[0] == texts[1] == texts[2]
    assert len({launch.sizes for launch in launches}) > len(texts[0])
    fast = zenith.jit(lambda x: pooled(x, 4))
    for rows in (32, 17, 1, 0):
        x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3) % 7
        np.testing.assert_array_equal(fast(x), pooled(x, 4))
