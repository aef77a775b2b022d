"""PyTorch's checks of values raise in compiled modules, too, with the user's line; and only where they fail."""

import os
import re

import pytest
import torch
import torch.nn.functional as F

import zenith
from tests.torch.function import Function
from zenith.errors import CheckError, OutOfBoundsError, UnsupportedError


def asserted(x):
    torch._assert_async((x >= 0).all(), "x must not be negative")
    torch._assert_async(x.sum() < 10)
    return x * 2


INTEGERS, BY_ZERO = torch.tensor([7, -5]), torch.tensor([1, 0])
DIVISION = "ZeroDivisionError"
CASES = {
    "floor_divide": (lambda x, y: x // y, (INTEGERS, torch.tensor([2, 3])), (INTEGERS, BY_ZERO), DIVISION),
    "remainder": (lambda x, y: x % y, (INTEGERS, torch.tensor([2, 3])), (INTEGERS, BY_ZERO), DIVISION),
    "fmod": (torch.fmod, (INTEGERS, torch.tensor([2, 3])), (INTEGERS, BY_ZERO), DIVISION),
    "trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), (INTEGERS, torch.tensor([2, 3])),
              (INTEGERS, BY_ZERO), DIVISION),
    "number over": (lambda y: 5 // y, (torch.tensor([2, 3]),), (BY_ZERO,), DIVISION),
    "bytes": (lambda x, y: x % y, (INTEGERS.byte(), torch.tensor([2, 3]).byte()), (INTEGERS.byte(), BY_ZERO.byte()),
              DIVISION),
    "probabilities": (F.binary_cross_entropy, (torch.tensor([0.0, 1.0]), torch.tensor([0.0, 1.0])),
                      (torch.tensor([0.1, 1.5]), torch.tensor([0.0, 1.0])), "all elements of input should be between"),
    "probabilities apart": (lambda x, y: F.binary_cross_entropy(x, y, reduction="none"),
                            (torch.tensor([0.2, 1.0]), torch.tensor([0.0, 1.0])),
                            (torch.tensor([0.1, torch.nan]), torch.tensor([0.0, 1.0])),
                            "all elements of input should be between"),
    "variances": (F.gaussian_nll_loss, (torch.ones(2), torch.zeros(2), torch.tensor([0.0, 1.0])),
                  (torch.ones(2), torch.zeros(2), torch.tensor([0.0, -1.0])), "var has negative entry"),
    "classes below": (lambda x: F.one_hot(x, 4), (torch.tensor([0, 3]),), (torch.tensor([0, -1]),), "class"),
    "classes above": (lambda x: F.one_hot(x, 4), (torch.tensor([0, 3]),), (torch.tensor([0, 4]),), "class"),
    "inverses": (torch.linalg.inv, (torch.eye(2).expand(3, 2, 2),),
                 (torch.stack([torch.eye(2), torch.zeros(2, 2)]),), "linalg.inv"),
    "solutions": (torch.linalg.solve, (torch.eye(2), torch.ones(2, 1)), (torch.ones(2, 2), torch.ones(2, 1)),
                  "linalg.solve"),
    "factors": (torch.linalg.cholesky, (torch.eye(3),), (-torch.eye(3),), "linalg.cholesky"),
    "an assertion": (asserted, (torch.ones(3),), (-torch.ones(3),), "x must not be negative"),
    "another one": (asserted, (torch.ones(3),), (4 * torch.ones(3),), "an assertion of the module does not hold"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_eager_refuses_is_refused_when_it_runs(name):
    function, good, bad, why = CASES[name]
    module = Function(function)
    compiled = zenith.from_torch(module, good)
    torch.testing.assert_close(compiled(*good), module(*good))
    with pytest.raises((RuntimeError, ValueError)):
        module(*bad)
    with pytest.raises(CheckError, match=re.escape(why)) as error:
        compiled(*bad)
    assert os.path.dirname(error.value.where.file) == os.path.dirname(__file__)
    torch.testing.assert_close(compiled(*good), module(*good))


@pytest.mark.parametrize("name", ["floor_divide", "probabilities", "an assertion"])
def test_torch_compile_does_as_well(name):
    function, good, bad, why = CASES[name]
    compiled = torch.compile(Function(function), backend="zenith")
    torch.testing.assert_close(compiled(*good), function(*good))
    with pytest.raises(RuntimeError, match=re.escape(why)):
        compiled(*bad)


def test_floats_are_divided_by_zero():
    x, y = torch.tensor([7.0, -5.0]), torch.tensor([0.0, 2.0])
    compiled = zenith.from_torch(Function(lambda x, y: (x // y, x % y, torch.fmod(x, y))), (x, y))
    for found, wanted in zip(compiled(x, y), (x // y, x % y, torch.fmod(x, y)), strict=True):
        torch.testing.assert_close(found, wanted, equal_nan=True)


def test_divisors_that_are_numbers_cost_no_check():
    compiled = zenith.from_torch(Function(lambda x: x // 3 % 2), (INTEGERS,))
    assert compiled(INTEGERS).tolist() == (INTEGERS // 3 % 2).tolist()
    assert "error_if" not in compiled.show("graph")


def test_steps_of_training_check_what_the_module_asserts():
    module = Function(lambda x, w: F.binary_cross_entropy(x * w, torch.ones(2)))
    x, w = torch.tensor([0.5, 0.9]), torch.tensor([1.0, 1.0], requires_grad=True)
    compiled = zenith.from_torch(module, (x, w))
    compiled(x, w).backward()
    torch.testing.assert_close(w.grad, torch.autograd.grad(module(x, w), w)[0])
    with pytest.raises(CheckError, match="between 0 and 1"):
        compiled(x * 3, w)


def test_a_module_without_a_result_that_asserts_is_refused():
    def nothing(x):
        torch._assert_async(x.sum() > 0)
        return x.shape[0]

    with pytest.raises(UnsupportedError, match=r"without a tensor as result[\s\S]*function.py"):
        zenith.from_torch(Function(nothing), (torch.ones(2),))(torch.ones(2))


def test_an_index_outside_is_still_an_index_error():
    compiled = zenith.from_torch(Function(lambda x, i: F.embedding(i, x)), (torch.ones(3, 2), torch.tensor([0])))
    with pytest.raises(OutOfBoundsError):
        compiled(torch.ones(3, 2), torch.tensor([3]))


EMPTY = torch.empty(0, dtype=torch.int64)
NAN = torch.full((3, 3), torch.nan)
ACCEPTED = {
    "a nan in the other triangle": (torch.linalg.eigvalsh, (torch.tensor([[1.0, torch.nan], [2.0, 3.0]]),)),
    "a factor of nan": (torch.linalg.qr, (NAN,)),
    "a singular matrix's condition": (torch.linalg.cond, (torch.zeros(2, 2),)),
    "nothing over nothing": (lambda x, y: (x // 0, x % y), (EMPTY, torch.tensor([0]))),
    "nan on the right": (torch.linalg.solve, (torch.eye(2), torch.tensor([[torch.nan], [1.0]]))),
    "infinity on the right": (torch.linalg.solve, (torch.eye(2), torch.tensor([torch.inf, 1.0]))),
    "no matrices": (torch.linalg.inv, (torch.empty(0, 2, 2),)),
    "an unknown variance": (F.gaussian_nll_loss, (torch.ones(2), torch.zeros(2), torch.tensor([torch.nan, 1.0]))),
}
REFUSED = {
    "Cholesky's factor of nan": (torch.linalg.cholesky, (NAN,)),
    "singular values of nan": (torch.linalg.svdvals, (NAN,)),
    "a decomposition of nan": (torch.linalg.svd, (NAN,)),
    "eigenvalues of nan": (torch.linalg.eigvalsh, (NAN,)),
    "eigenvectors of nan": (torch.linalg.eigh, (NAN,)),
    "an upper triangle with nan": (lambda a: torch.linalg.eigh(a, "U"), (NAN,)),
    "a pseudoinverse of nan": (torch.linalg.pinv, (NAN,)),
    "a Hermitian pseudoinverse of nan": (lambda a: torch.linalg.pinv(a, hermitian=True), (NAN,)),
    "a rank of nan": (torch.linalg.matrix_rank, (NAN,)),
    "a condition of nan": (torch.linalg.cond, (NAN,)),
    "a nuclear norm of nan": (lambda a: torch.linalg.norm(a, "nuc"), (NAN,)),
    "a tensor's inverse": (torch.linalg.tensorinv, (torch.zeros(2, 2, 2, 2),)),
    "a tensor's equations": (torch.linalg.tensorsolve, (torch.zeros(2, 2, 2, 2), torch.ones(2, 2))),
    "the inverse of a factor of 0": (torch.cholesky_inverse, (torch.zeros(2, 2),)),
    "one matrix of ones": (torch.linalg.inv, (torch.ones(2, 2),)),
    "one matrix of zero": (torch.linalg.inv, (torch.zeros(1, 1),)),
    "an inverse that checks": (lambda a: torch.linalg.inv_ex(a, check_errors=True)[0], (torch.zeros(2, 2),)),
    "a factor that checks": (lambda a: torch.linalg.cholesky_ex(a, check_errors=True)[0], (-torch.eye(2),)),
    "a negative power": (lambda a: torch.linalg.matrix_power(a, -2), (torch.zeros(2, 2),)),
    "a target": (F.binary_cross_entropy, (torch.tensor([0.5, 0.5]), torch.tensor([0.5, 1.5]))),
    "a size of 0": (lambda x, y: y // x.shape[0], (torch.empty(0), torch.tensor([5, 6]))),
    "an assertion next to nothing": (lambda x: (torch._assert_async(x.sum() > 0), x[:, :0], x.sum())[1:],
                                    (-torch.ones(2, 2),)),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_eager_accepts_is_accepted(name):
    function, args = ACCEPTED[name]
    wanted, found = function(*args), zenith.from_torch(Function(function), args)(*args)
    torch.testing.assert_close(found, wanted, equal_nan=True)


@pytest.mark.parametrize("name", REFUSED)
def test_corners_that_eager_refuses_are_refused(name):
    function, args = REFUSED[name]
    with pytest.raises((RuntimeError, ValueError)):
        function(*args)
    compiled = zenith.from_torch(Function(function), args)
    with pytest.raises(CheckError):
        compiled(*args)
