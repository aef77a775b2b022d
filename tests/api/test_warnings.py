"""Warnings of many compilations, and of scalars that widen: once, at the user's line, and nowhere else."""

import math
import warnings

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from zenith.errors import PerformanceWarning, RecompilationWarning, WideningWarning

X = np.ones((3, 4), np.float32)
ROOT, UNIT = np.sqrt(64), np.sqrt(-1 + 0j)


def jit(function, **options):
    return zenith.jit(function, backend="reference", **options)


def heard(function, *args, times=1):
    """The warnings of calls, whatever they were filtered to."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(times):
            function(*args)
    return caught


def test_they_are_public_and_of_one_kind():
    assert zenith.RecompilationWarning is RecompilationWarning and issubclass(RecompilationWarning, PerformanceWarning)
    assert zenith.WideningWarning is WideningWarning and issubclass(WideningWarning, PerformanceWarning)


# --- compilations -----------------------------------------------------------------------------------------------------


def most(x):
    return x[: int(0.8 * x.shape[0])]


def grown(function, sizes):
    for n in sizes:
        function(np.ones(n))


def test_the_eighth_program_is_reason_to_warn_once():
    f = jit(most)
    assert not heard(grown, f, range(4, 11))
    (warning,) = heard(grown, f, range(11, 30))
    assert warning.category is RecompilationWarning and warning.filename == __file__
    assert warning.lineno == grown.__code__.co_firstlineno + 2, "the line of the call"
    text, line = str(warning.message), most.__code__.co_firstlineno + 1
    assert f"most was compiled for the 8th time: x0 == 10 is assumed at test_warnings.py:{line}" in text
    assert "and 6 conditions like it" in text and f"test_warnings.py:{line} in most:  return x[: int(" in text
    assert "write the size itself" in text and "most.explain() lists all reasons" in text
    assert f"x0 == 10 is assumed at test_warnings.py:{line}" in "".join(str(f.cache_info()).split("\n"))


def test_it_can_be_an_error_and_the_program_stays():
    f = jit(most)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RecompilationWarning)
        grown(f, range(4, 11))
        with pytest.raises(RecompilationWarning):
            f(np.ones(11))
        with zenith.forbid_recompile():
            assert f(np.ones(11)).shape == (8,)
        f(np.ones(12))


def test_static_arguments_and_types_count():
    f = jit(lambda x, k: x * k, static_argnames="k")
    (warning,) = heard(lambda: [f(X, k=k) for k in range(12)])
    assert "new: k=7" in str(warning.message) and "do not declare k static" in str(warning.message)


def test_what_was_asked_for_does_not_count():
    f = jit(most)

    def cleared():
        for n in range(4, 20):
            f(np.ones(n))
            f.cache_clear()

    def ahead():
        for n in range(4, 20):
            f.lower(np.ones(n)).compile()

    assert not heard(cleared) and not heard(ahead)


# --- widening ---------------------------------------------------------------------------------------------------------


def of_size(x):
    return x @ x.T / np.sqrt(x.shape[-1])


def of_scalar(x):
    return x * ROOT


def of_logarithm(x):
    return x * np.log(2)


def of_argument(x, s=2.0):
    return x * np.sqrt(s)


def of_sum(x):
    return x * (x.sum() / np.sqrt(x.shape[0]))


def in_place(x):
    y = x.copy()
    y *= ROOT
    return y


def of_where(x):
    return np.where(x > 0, x, ROOT)


def of_complex(x):
    return np.maximum(x, UNIT)


WIDENING = [of_size, of_scalar, of_logarithm, of_argument, of_sum, in_place, of_where, of_complex]


@pytest.mark.parametrize("function", WIDENING, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("convert", [True, False])
def test_scalars_that_widen(function, dtype, convert):
    x, f = X.astype(dtype), jit(function, convert=convert)
    arguments = (x, 2.0) if function is of_argument else (x,)
    (warning,) = heard(f, *arguments, times=2)
    assert warning.category is WideningWarning and warning.filename == __file__
    first = function.__code__.co_firstlineno
    assert warning.lineno == first + (2 if function is in_place else 1)
    text = str(warning.message)
    assert f" of {dtype} in float64 by NumPy's rules" in text and f"in {function.__name__}:  " in text
    assert ("n ** 0.5" in text) == ("from a size" in text) == (function in (of_size, of_sum))
    assert f"test_warnings.py:{warning.lineno}: " in " ".join(str(f.explain()).split()).replace(" │ ", " ")
    assert np.result_type(function(*arguments)) == np.result_type(f(*arguments)), "NumPy's rules"


def test_once_for_a_line_of_a_function():
    f = jit(of_size)
    assert len(heard(f, X)) == 1 and not heard(f, X.astype(np.float16)), "another program, and the same line"
    assert len(heard(jit(of_size), X)) == 1, "another function"
    assert len(heard(jit(lambda x: (of_size(x), of_scalar(x), of_scalar(x))), X)) == 2


NARROW = {
    "a Python number": lambda x: x * 0.5 + math.sqrt(2),
    "a root in Python": lambda x: x / x.shape[-1] ** 0.5,
    "math": lambda x: x / math.sqrt(x.shape[-1]),
    "a scalar of the type": lambda x: x / np.sqrt(x.shape[-1]).astype(x.dtype) + ROOT.astype(x.dtype),
    "a mean": lambda x: x.mean(axis=0) + x.std() + np.average(x),
    "a size": lambda x: x * x.shape[0] / x.size,
    "sizes alone": lambda x: x[: int(np.sqrt(x.shape[0]) * ROOT) // 8],
    "a comparison": lambda x: x > ROOT,
}
ASKED = {
    "an array": lambda x: x.astype("d") / np.sqrt(x.shape[-1]),
    "the line": lambda x: x * np.float64(2),
    "an array without axes": lambda x: x * np.array(0.5),
    "a table": lambda x: x * np.linspace(0, 1, 4),
    "a mean of integers": lambda x: x * np.arange(3).mean(),
    "covariances": lambda x: np.cov(x),
    "a type": lambda x: np.sum(x, dtype="d") * np.sqrt(x.shape[0]),
    "integers": lambda x: x.astype(np.int32) / np.sqrt(x.shape[0]),
    "weights of integers": lambda x: np.average(np.arange(4), weights=x[0]),
}


@pytest.mark.parametrize("function", NARROW.values(), ids=NARROW)
def test_what_widens_nothing(function):
    f = jit(function)
    assert not heard(f, X) and f(X).dtype in (np.float32, np.bool_)


@pytest.mark.parametrize("function", ASKED.values(), ids=ASKED)
def test_what_was_asked_for(function):
    f = jit(function)
    assert not heard(f, X) and f(X).dtype == np.float64


def test_arguments_of_float64_ask_for_it():
    f = jit(lambda x, s: x * s + x * np.sqrt(s))
    assert not heard(f, X, np.float64(2)) and not heard(f, X.astype(np.float64), 2.0)
    assert f(X, np.float64(2)).dtype == np.float64


def test_functions_inside_of_others():
    def loss(x):
        return (of_size(x) ** 2).sum()

    for whole in (zenith.grad(loss), zenith.vmap(lambda row: row / np.sqrt(row.shape[0])),
                  lambda x: zenith.scan(lambda c, row: (c, row / np.sqrt(row.shape[0])), 0, x)[1]):  # fmt: skip
        (warning,) = heard(jit(whole), X)
        assert warning.category is WideningWarning and warning.filename == __file__


def test_nothing_is_said_without_a_program():
    assert not heard(lambda: (znp.multiply(X, ROOT), zenith.grad(lambda x: (x * ROOT).sum())(X)))


def test_modules_follow_pytorch():
    torch = pytest.importorskip("torch")

    class Scaled(torch.nn.Module):
        def forward(self, x):
            return x * ROOT * torch.tensor(2.0, dtype=torch.float64)

    x = torch.ones(3, 4)
    with torch.no_grad():
        fast = zenith.from_torch(Scaled(), (x,))
        assert not [w for w in heard(fast, x) if w.category is WideningWarning] and fast(x).dtype == torch.float32
        compiled = torch.compile(Scaled(), backend="zenith")
        assert not [w for w in heard(compiled, x) if w.category is WideningWarning]


def test_lines_of_libraries_are_not_the_users(tmp_path):
    code = "import numpy as np\ndef scaled(x):\n    return x / np.sqrt(x.shape[-1])\n"
    scope = {}
    exec(compile(code, str(tmp_path / "site-packages" / "library.py"), "exec"), scope)
    f = jit(scope["scaled"])
    assert not heard(f, X)
    assert "library.py:3" in str(f.explain())


def test_code_that_is_no_module_is_warned_too() -> None:
    """Cells of notebooks and strings that are executed: no module has their file."""
    names = {"np": np, "zenith": zenith}
    exec(compile("@zenith.jit\ndef f(x):\n    return x * np.log(2)", "a cell", "exec"), names)
    with pytest.warns(WideningWarning) as caught:
        names["f"](np.ones(3, np.float32))
    assert [(w.filename, w.lineno) for w in caught] == [("a cell", 3)]
