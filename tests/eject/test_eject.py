"""Ejected files give the same bits in a process without Zenith, and say what is wrong with a call or a program."""

import builtins
import shutil
import subprocess
import sys
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.classifier import cross_entropy
from tests.eject.alone import run
from zenith.errors import UnsupportedError, ZenithError

RNG = np.random.default_rng(7)
W = RNG.standard_normal((64, 10)).astype(np.float32)


class Pair(NamedTuple):
    first: object
    second: object


def floats(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def elementwise(x, scale):
    """Operations of one element, and reductions."""
    y = np.tanh(x) * scale + np.exp(-np.abs(x)) / (1 + x * x)
    return {"mean": np.mean(y, axis=-1), "largest": np.max(y), "all": y, "positive": np.sum(y > 0, axis=0)}


def classifier(weights, x, labels):
    """The loss of a classifier of two layers."""
    return cross_entropy(weights, x, labels)


def attention(x, w):
    """Projections, attention, a norm and captured weights."""
    heads = np.reshape(x @ w, (*x.shape[:-1], 2, 8)).swapaxes(-3, -2)
    y = znp.attention(heads, heads, heads, causal=True).swapaxes(-3, -2).reshape(x.shape)
    return np.exp(y) / np.sum(np.exp(y), axis=-1, keepdims=True)


def gather_scatter(table, indices, updates):
    """Gather, scatter, and an index that is checked."""
    picked = np.take(table, indices, axis=0)
    total = table.copy()
    np.add.at(total, indices, updates)
    return Pair(picked, [total, table[indices[0]]])


def libraries(a):
    """Equations, singular values and Fourier transforms, in a loop, too."""
    x = zenith.fori_loop(0, 3, lambda i, x: np.linalg.solve(a, x) + np.fft.irfft(np.fft.rfft(x), x.shape[0]), a[0])
    return x, np.linalg.svd(a, compute_uv=False), np.abs(np.fft.fft2(a))


def order(x):
    """Sorted rows, and running sums."""
    return np.sort(x, axis=-1), np.cumsum(x, axis=-1)


def loops(x, w):
    """A scan that carries and stacks, and a loop that counts until a condition."""

    def step(state, row):
        state = np.tanh(state @ w + row)
        return state, np.sum(state)

    last, sums = zenith.scan(step, np.zeros_like(x[0]), x)
    _, backwards = zenith.scan(step, last, x, reverse=True)
    count, value = zenith.while_loop(
        lambda s: np.max(np.abs(s[1])) < 100, lambda s: (s[0] + 1, s[1] * 1.5 + 1), (np.int32(0), last)
    )
    return last, sums, backwards, count, value


def branches(x, which):
    """A choice by number and one by a condition."""
    y = zenith.switch(which, [lambda x: x + 1, lambda x: np.sin(x), lambda x: x[::-1] * 2], x)
    return zenith.cond(np.sum(y) > 0, lambda y: y * 3, lambda y: -y, y)


def kinds(x, half, number, n, flag=True):
    """Integers, 16-bit floats, complex numbers, Python numbers, static arguments."""
    z = (x[:n] * (1 + 2j)).astype(np.complex64)
    bits = (x.astype(np.int32) << 2) // 3 % 5
    return np.abs(z) * number, half * half + half, bits, np.where(x > 0, x, 2.0) if flag else x


def sizes(x, y):
    """Sizes that must fit, and one that decides."""
    return (x + y) / x.shape[0] if x.shape[0] % 2 == 0 else x - y


def checks(x, i):
    """A check and an index in one kernel."""
    return np.sqrt(zenith.error_if(x, x < 0, "a 'root' of a \"negative\" number\n"))[i]


def launch(array, *steps):
    """Names that the file itself uses."""
    return array + steps[0] * steps[1]


def numbers(key):
    return zenith.random.normal(key, (5, 7)), zenith.random.uniform(key, (3,))


WEIGHTS = floats(20, 16), floats(16), floats(16, 10), floats(10)
INDICES = np.array([3, 1, 3, 8])
PROGRAMS = {
    "elementwise": (elementwise, [((floats(n, 70), np.float32(0.3)), {}) for n in (5, 2048)]),
    "classifier": (classifier, [((WEIGHTS, floats(n, 20), np.arange(n) % 10), {}) for n in (9, 70)]),
    "attention": (attention, [((floats(2, n, 16), floats(16, 16)), {}) for n in (6, 40)]),
    "gather_scatter": (gather_scatter, [((floats(9, 4), INDICES + off, floats(4, 4)), {}) for off in (0, 3)]),
    "order": (order, [((floats(3, n),), {}) for n in (17, 1500)]),
    "loops": (loops, [((floats(n, 6), floats(6, 6)), {}) for n in (6, 1, 0)]),
    "branches": (branches, [((floats(6), np.int32(i)), {}) for i in (0, 1, 2, 7)]),
    "kinds": (kinds, [((floats(30) * 9, floats(30).astype(np.float16), 2.5, 4), {"flag": False})]),
    "sizes": (sizes, [((floats(n, 3), floats(m, 3)), {}) for n, m in ((4, 4), (8, 8), (8, 6))]),
    "launch": (launch, [((floats(4), floats(4), floats(4)), {})]),
    "checks": (checks, [((floats(4) + off, np.array([i])), {}) for off, i in ((9, 3), (-9, 0), (9, 4))]),
    "numbers": (numbers, [((zenith.random.key(3),), {})]),
    "libraries": (libraries, [((floats(n, n) + 3 * np.eye(n, dtype=np.float32),), {}) for n in (6, 9)]),
}
STATIC = {"kinds": ("n", "flag")}


def flat(tree):
    return [np.asarray(leaf) for leaf in zenith.tree.flatten(tree)[0]]


def called(function, args, kwargs):
    try:
        return flat(function(*args, **kwargs))
    except ZenithError as error:
        return error


def layer(params, x, axis):
    """A layer, and a maximum."""
    y = np.maximum(x @ params["w"] + params["b"][0], 0)
    return y, [np.max(y, axis=axis)]


def project(x):
    return x @ W


def scaled(x, by, shift):
    """An array, a number of Python's, which takes its type, and one of NumPy's, which has its own."""
    return x * by + shift


def eject(folder, name, function, calls, **options):
    """The ejected file, and the results in this process."""
    jitted = zenith.jit(function, **options)
    wanted = [called(jitted, *call) for call in calls]
    jitted.eject(folder / f"{name}.py")
    return folder / f"{name}.py", wanted


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """For each program: its file, what it gave here, and what the file gave alone."""
    folder = tmp_path_factory.mktemp("ejected")
    made = {n: eject(folder, n, f, calls, static_argnames=STATIC.get(n, ())) for n, (f, calls) in PROGRAMS.items()}
    given = {name: calls for name, (_, calls) in PROGRAMS.items()}
    made["layer"] = eject(folder, "layer", layer, RIGHT, static_argnames="axis")
    given["layer"] = RIGHT + WRONG
    given["scaled"] = [(call, {}) for call in NUMBERS]
    made["scaled"] = eject(folder, "scaled", scaled, given["scaled"][:1])
    made["project"] = eject(folder, "project", project, [((floats(2, 64),), {})])
    (name,) = np.load(folder / "project.npz").files
    np.testing.assert_array_equal(np.load(folder / "project.npz")[name], W)
    np.savez(folder / "project.npz", **{name: W[:2]})
    given["project"] = [((floats(2, 64),), {})]
    found = run(folder, [(name, str(made[name][0]), calls) for name, calls in given.items()])
    return {name: (*made[name], found[name]) for name in made}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_bits(results, name):
    _, wanted, found = results[name]
    for here, there in zip(wanted, found, strict=True):
        if isinstance(here, ZenithError):
            assert isinstance(here, getattr(builtins, there[0])) and str(here.where) in there[1]
            continue
        assert isinstance(there, list), there
        for one, other in zip(here, there, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert one.tobytes() == other.tobytes()


def test_the_file_is_readable(results):
    text = results["classifier"][0].read_text()
    assert text.startswith('"""classifier: the program compiled from test_eject.py, line ')
    assert "RANGES.register_global(range, " in text  # loops are compiled as they are here
    assert "The loss of a classifier of two layers." in text
    assert "# def classifier(weights_0: f32[" in text
    order = [text.index(part) for part in ("\ndef classifier(", "\ndef steps(", "p0 = f32_buffer(",
                                           "\ndef launch(", "_lower_product_tile(")]  # fmt: skip
    assert order == sorted(order)
    assert "sin" not in {line.partition("(")[0].removeprefix("def ") for line in text.splitlines()}


def test_every_name_in_the_files_is_defined(results):
    ruff = shutil.which("ruff") or f"{sys.prefix}/bin/ruff"
    files = [str(file) for file, _, _ in results.values()]
    done = subprocess.run(
        [ruff, "check", "--isolated", "--select", "F821,F811,F401,E9", *files], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


PARAMS, X = {"w": floats(4, 3), "b": (floats(3), None)}, floats(2, 4)
RIGHT = [((PARAMS, X), {"axis": 0})]
NUMBERS = [(X, 2.5, np.float64(1)), (X, np.float64(2.5), np.float64(1)), (X, 2.5, 1.0), (X, 2, np.float64(1)),
           (X, 2.5, np.ones(()))]  # fmt: skip
WRONG = [
    ((PARAMS, X.astype(np.float64)), {"axis": 0}),
    ((PARAMS, X[0]), {"axis": 0}),
    ((PARAMS, "x"), {"axis": 0}),
    ((PARAMS, X), {"axis": 1}),
    ((PARAMS, floats(2, 5)), {"axis": 0}),
    (({"w": PARAMS["w"]}, X), {"axis": 0}),
    (({**PARAMS, "b": PARAMS["b"][:1]}, X), {"axis": 0}),
]


def test_wrong_calls_are_errors_that_say_why(results):
    _, (wanted,), (found, *errors) = results["layer"]
    assert [one.tobytes() for one in found] == [one.tobytes() for one in wanted]
    line = layer.__code__.co_firstlineno + 2
    assert errors == [
        ("TypeError", "x is made for an array of float32 with 2 axes, and is float64 with 2"),
        ("TypeError", "x is made for an array of float32 with 2 axes, and is float32 with 1"),
        ("TypeError", "x is made for an array of float32 with 2 axes, and is str"),
        ("TypeError", "axis is 1, and the program was made for 0"),
        ("ValueError", "matmul: the inner sizes of (x0, x1) and (params_w0, params_w1) must be equal (test_eject.py:"
                       f"{line}): x1 == params_w0 does not hold in this call (x1 = 5, params_w0 = 4)"),
        ("TypeError", "params is made for a dict with ['w', 'b'], and is a dict with ['w']"),
        ("TypeError", "params['b'] is made for a tuple with [0, 1], and is a tuple with [0]"),
    ]  # fmt: skip


def test_numbers_of_python_and_numpy_are_told_apart(results):
    _, (wanted,), (found, *errors, boxed) = results["scaled"]
    assert wanted[0].dtype == found[0].dtype == np.float64 and found[0].tobytes() == wanted[0].tobytes()
    assert boxed[0].tobytes() == found[0].tobytes()
    assert errors == [
        ("TypeError", "by is made for Python's float, and is float64"),
        ("TypeError", "shift is made for an array of float64 with 0 axes, and is Python's float"),
        ("TypeError", "by is made for Python's float, and is Python's int"),
    ]


def test_data_of_another_shape_is_refused(results):
    ((error, text),) = results["project"][2]
    assert error == "ValueError" and text.endswith("is float32[2, 10], and the program was made for float32[64, 10]")


def test_one_of_several_programs_is_chosen_by_its_arguments(tmp_path):
    function = zenith.jit(lambda x: x * 2)
    with pytest.raises(ZenithError, match="has no compiled program to eject"):
        function.eject(tmp_path / "f.py")
    x = floats(3)
    for dtype in (np.float32, np.float64):
        function(x.astype(dtype))
    with pytest.raises(ZenithError, match=r"has 2 compiled programs, and a file holds one:\n  \(x: numpy f32\[_\]\)"):
        function.eject(tmp_path / "f.py")
    function.lower(x.astype(np.float64)).compile().eject(tmp_path / "double.py")
    text = (tmp_path / "double.py").read_text()
    assert "'float64', 1)" in text and "'float32', 1)" not in text
    assert [file.name for file in tmp_path.iterdir()] == ["double.py"]


def complete(x):
    return np.linalg.qr(x, "complete")


def callback(x):
    return zenith.pure_callback(np.sin, zenith.ShapeDtypeStruct(x.shape, x.dtype), x)


@pytest.mark.parametrize(
    ("function", "backend", "dtype", "why"),
    [
        (
            callback,
            None,
            np.float32,
            "calls sin, Python or native code that is no kernel\n  at .*in callback",
        ),
        (complete, None, np.float32, "complete_qr, Python or native code that is no kernel"),
        (np.exp, "lanes", np.float32, "is not compiled to machine code"),
        (np.exp, None, ml_dtypes.bfloat16, "takes or returns bfloat16 arrays, which NumPy has not"),
    ],
)
def test_what_a_file_cannot_hold(tmp_path, function, backend, dtype, why):
    jitted = zenith.jit(lambda x: function(x), backend=backend)
    jitted(np.ones((3, 3), dtype))
    with pytest.raises(UnsupportedError, match=why):
        jitted.eject(tmp_path / "f.py")
    assert list(tmp_path.iterdir()) == []
