"""Results are numbers of Python's where Python gives these, and NumPy's where NumPy does."""

import json
import math

import numpy as np
import pytest

import zenith
from tests.plain.checks import check_alike

X = np.arange(1.0, 6.0)


def count(x, n, t):
    found = 0
    for v in x:
        if v > 2:
            found += 1
    return found


def mean_of_large(x, n, t):
    found = []
    for v in x:
        if v > 2:
            found.append(float(v))
    return sum(found) / len(found)


def total(x, n, t):
    found = 0.0
    for v in x:
        found += v
    return found


def steps(x, n, t):
    i = 0
    while i < len(x) and x[i] < 3:
        i += 1
    return i


def all_small(x, n, t):
    ok = True
    for v in x:
        if v > 2:
            ok = False
    return ok


def root(x, n, t):
    z = t
    while abs(z * z - t) > 1e-9:
        z = 0.5 * (z + t / z)
    return z


def place(x, n, t):
    for i in range(len(x)):
        if x[i] > 2:
            return i
    return -1


def report(x, n, t):
    return {"n": len(x), "ok": len(x) > n, "rows": [n * t, x.sum()], "shape": x.shape, "odd": x.sum() % 2 == 1}


NAMED = [count, mean_of_large, total, steps, all_small, root, place, report]
EXPRESSIONS = {
    "len": lambda x, n, t: len(x),
    "shape": lambda x, n, t: x.shape,
    "half": lambda x, n, t: len(x) / 2,
    "larger": lambda x, n, t: len(x) > n,
    "product": lambda x, n, t: n * t,
    "power": lambda x, n, t: n**2,
    "constant": lambda x, n, t: 3,
    "true": lambda x, n, t: True,
    "sum": lambda x, n, t: x.sum(),
    "element": lambda x, n, t: x[0] * n,
    "compared": lambda x, n, t: x[1] > n,
    "and": lambda x, n, t: t > 1 and n > 2,
    "not": lambda x, n, t: not x[1] > 1,
    "in": lambda x, n, t: n in x,
    "chain": lambda x, n, t: 1 < n < 5,
    "int": lambda x, n, t: int(x[1]),
    "float": lambda x, n, t: float(x.sum()),
    "bool": lambda x, n, t: bool(x[1] > 2),
    "complex": lambda x, n, t: complex(t, n),
    "item": lambda x, n, t: x.item(2),
    "round": lambda x, n, t: (round(t), round(t, 1), round(x[1], 1)),
    "sum of ints": lambda x, n, t: sum(1 for v in x if v > 2),
    "max of floats": lambda x, n, t: max(float(v) for v in x),
    "any": lambda x, n, t: any(v > 2 for v in x),
    "np.any": lambda x, n, t: np.any(x > 2),
    "allclose": lambda x, n, t: (np.allclose(x, x), np.array_equal(x, x[:2]), np.array_equal(x, x)),
    "np.sqrt": lambda x, n, t: np.sqrt(n),
    "np.maximum": lambda x, n, t: np.maximum(n, 3),
    "math": lambda x, n, t: (math.sqrt(n), math.floor(t), math.isnan(t), math.gcd(n, 6)),
    "more math": lambda x, n, t: (math.modf(t), math.frexp(x[2]), math.ldexp(t, n), math.isclose(x[0], 1.0)),
    "distance": lambda x, n, t: math.dist([x[0], 1.0], [n, t]),
    "argmax": lambda x, n, t: np.argmax(x),
    "np.float32": lambda x, n, t: np.float32(t),
    "chosen": lambda x, n, t: 1 if x[0] > 0 else 0,
    "0-d": lambda x, n, t: np.asarray(t),
}


@pytest.mark.parametrize("function", [*NAMED, *EXPRESSIONS.values()], ids=[*(f.__name__ for f in NAMED), *EXPRESSIONS])
@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_result_has_the_type_that_python_gives(function, backend):
    compiled, expected = zenith.jit(function, backend=backend), function(X, 3, 1.75)
    for _ in range(3):  # also once calls are answered natively
        found = compiled(X, 3, 1.75)
        check_alike(found, expected)
        for a, b in zip(*map(_numbers, (found, expected)), strict=True):
            assert type(a) is type(b)


def _numbers(value):
    """The numbers in a result."""
    nested = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else None
    return [value] if nested is None else [number for item in nested for number in _numbers(item)]


def test_the_numbers_of_a_call_of_many_values():
    compiled = zenith.jit(lambda n, t, z: (n, -n, n > 0, t, t * 2, z, 2 * z))
    for n, t, z in [(2**62, 1e300, 1j), (-(2**62), -0.0, 1 - 2j), (0, math.inf, 0j), (7, 0.1, complex(math.inf, 1))]:
        check_alike(compiled(n, t, z), (n, -n, n > 0, t, t * 2, z, 2 * z))


def test_results_can_be_written_as_json():
    assert json.loads(json.dumps(zenith.jit(lambda x: {"n": len(x), "ok": len(x) > 2})(X))) == {"n": 5, "ok": True}


def test_saved_and_ejected_functions_return_the_same(tmp_path):
    def numbers(x, n, t):
        return len(x), n * t, x.sum(), n > 2, x * 2

    compiled, expected = zenith.jit(numbers), numbers(X, 3, 1.75)
    compiled(X, 3, 1.75)
    compiled.save(tmp_path / "numbers.zenith")
    check_alike(zenith.load(tmp_path / "numbers.zenith")(X, 3, 1.75), expected)
    compiled.eject(tmp_path / "numbers.py")
    scope = {}
    exec(compile((tmp_path / "numbers.py").read_text(), str(tmp_path / "numbers.py"), "exec"), scope)
    check_alike(scope["numbers"](X, 3, 1.75), expected)


def test_a_state_that_begins_as_a_python_number_needs_one_program():
    step = zenith.jit(lambda t: 0.5 * (t + 2.0 / t))
    t = 1.0
    for _ in range(5):
        t = step(t)
    assert type(t) is float and step.cache_info().misses == 1
