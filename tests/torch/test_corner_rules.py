"""Rules at corners where NumPy's function, or the plain formula, is not PyTorch's."""

import pytest

import zenith

torch = pytest.importorskip("torch")
F = torch.nn.functional
inf, nan, t = float("inf"), float("nan"), torch.tensor


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


CASES = [
    ("addmm without its bias", lambda b, x: torch.addmm(b, x, x, beta=0), torch.full((2, 2), nan), torch.eye(2)),
    (
        "baddbmm without its bias",
        lambda b, x: torch.baddbmm(b, x, x, beta=0),
        torch.full((1, 2, 2), nan),
        torch.eye(2)[None],
    ),
    (
        "addmv without its bias",
        lambda b, x, v: torch.addmv(b, x, v, beta=0),
        torch.full((2,), nan),
        torch.eye(2),
        torch.ones(2),
    ),
    ("sign of nan", torch.sign, t([nan, 2.0])),
    ("sgn of nan", torch.sgn, t([nan, 2.0])),
    (
        "triangular_solve of a transpose",
        lambda b, a: torch.triangular_solve(b, a, transpose=True)[1],
        torch.ones(2, 1),
        t([[1.0, 5.0], [0.0, 2.0]]),
    ),
    ("cholesky_solve", torch.cholesky_solve, t([[1.0], [2.0]]), t([[1.0, 0.0], [1.0, 1e-3]])),
    ("histc of equal elements", lambda x: torch.histc(x, 4), torch.ones(4)),
    ("histc at edges", lambda x: torch.histc(x, 41, 0, 41), torch.arange(41.0)),
    ("searchsorted of nan", torch.searchsorted, t([[1.0, 2.0], [3.0, 4.0]]), t([[nan], [nan]])),
    ("bucketize of two types", torch.bucketize, t([16777217]), t([16777216.0])),
    ("any of no axes", lambda x: torch.any(x, dim=()), t([True, False])),
    ("all of no axes", lambda x: torch.all(x, dim=()), t([True, False])),
    ("any of bytes", torch.any, t([1, 0], dtype=torch.uint8)),
    ("all of bytes", torch.all, t([1, 0], dtype=torch.uint8)),
    ("circular padding that cuts", lambda x: F.pad(x, (-1, 1), mode="circular"), torch.arange(4.0)[None, None]),
    ("arange of int64", lambda x: torch.arange(0, 10, 2.5, dtype=torch.int64) + x, t(0)),
    ("arange of int32", lambda x: torch.arange(0, 4, 1.5, dtype=torch.int32) + x, t(0, dtype=torch.int32)),
    ("norm of complex numbers", lambda x: torch.linalg.vector_norm(x, dtype=torch.complex128), t([3 + 4j])),
    ("largest of infinities", lambda w, i: F.embedding_bag(i, w, mode="max"), t([[-inf], [-inf]]), t([[0, 1]])),
    ("inverse root", lambda x: x**-0.5, t([-inf, -0.0])),
]


@pytest.mark.parametrize(("function", "args"), [pytest.param(f, args, id=name) for name, f, *args in CASES])
@pytest.mark.parametrize(
    "compiled",
    [lambda f: zenith.from_torch(Module(f)), lambda f: torch.compile(f, backend="zenith")],
    ids=["from_torch", "compile"],
)
@pytest.mark.filterwarnings("ignore")
def test_results_are_those_of_pytorch(function, args, compiled):
    torch._dynamo.reset()
    expected, found = function(*args), compiled(function)(*args)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5, equal_nan=True)


def test_zeros_of_either_sign_are_two_numbers():
    function, params = zenith.from_torch(Module(lambda x, s: x / s)).functional()
    one = torch.ones(1)
    assert [function(params, one, s).item() for s in (0.0, -0.0)] == [inf, -inf]
