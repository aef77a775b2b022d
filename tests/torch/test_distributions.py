"""Densities, entropies and divergences of every distribution of PyTorch are as close to float64 as eager's.

They are chains of reductions along rows, as in losses, from which a network gets its gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn
from torch import distributions as dist

import zenith
from tests.sampling import leave
from tests.torch.distributions import CASES, Case
from tests.transforms.envelope import nudged

RUNS = 3
SHORT = ("Categorical logits",)  # what `make test` runs
# Not functions of tensors alone: PyTorch looks at the values, or asks autograd for a derivative.
BY_VALUE = {
    **dict.fromkeys(("Binomial", "Binomial logits"), ("entropy", "kl")),
    **dict.fromkeys(("InverseGamma", "Wishart"), ("kl",)),
}
UNTRACED = [("MultivariateNormal", "kl")]  # Dynamo fails in it: `torch._C._infer_size` takes no sizes of its own
# torch.export makes a size of a number of draws, and fails where Dynamo does.
UNEXPORTED = [("Multinomial", "entropy"), *UNTRACED]
MADE_BY_VALUE = ("Wishart",)


@pytest.fixture(autouse=True)
def _unchecked() -> Iterator[None]:
    """Without checks of parameters, which look at values."""
    dist.Distribution.set_default_validate_args(False)
    yield
    dist.Distribution.set_default_validate_args(True)


class Evaluated(nn.Module):
    """What is asked of a distribution: ``kl`` is its divergence from the one of its parameters in another order."""

    def __init__(self, case: Case, asked: list[str]) -> None:
        super().__init__()
        self.case, self.asked = case, asked

    def forward(self, parameters: tuple[Tensor, ...], value: Tensor) -> dict[str, Tensor]:
        found = self.case.build(*parameters)
        results = {"log_prob": found.log_prob(value)}
        if "entropy" in self.asked:
            results["entropy"] = found.entropy()
        if "kl" in self.asked:
            other = self.case.build(*(p.flip(0) for p in parameters))
            results["kl"] = dist.kl_divergence(found, other)
        return results


def _asked(name: str) -> list[str]:
    """What PyTorch computes for a distribution, of its tensors alone."""
    found = []
    for what in ("entropy", "kl"):
        if what in BY_VALUE.get(name, ()):
            continue
        try:
            _eager(name, [what], CASES[name].parameters)
        except NotImplementedError:
            continue
        found.append(what)
    return found


def _eager(name: str, asked: list[str], parameters: tuple[Tensor, ...]) -> dict[str, Tensor]:
    return Evaluated(CASES[name], asked)(parameters, CASES[name].value)


@contextmanager
def _in_double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def _exact(name: str, asked: list[str]) -> dict[str, Tensor]:
    case = CASES[name]
    value = case.value.double() if case.value.is_floating_point() else case.value
    with _in_double():
        return Evaluated(case, asked)(tuple(p.double() for p in case.parameters), value)


def _require_close(name: str, asked: list[str], found: dict[str, Tensor]) -> None:
    """At most eight times as far from float64 as eager's results are, its parameters a unit in the last place off."""
    case, exact, wanted = CASES[name], _exact(name, asked), _eager(name, asked, CASES[name].parameters)
    moved = [
        tuple(torch.from_numpy(nudged(p.numpy(), (run, i))) for i, p in enumerate(case.parameters))
        for run in range(RUNS)
    ]
    runs = [wanted, *(_eager(name, asked, parameters) for parameters in moved)]
    assert found.keys() == exact.keys()
    for what, wide in exact.items():
        ours = found[what]
        assert (ours.shape, ours.dtype) == (wanted[what].shape, wanted[what].dtype), what
        finite = wide.isfinite()
        assert torch.equal(ours[~finite].double(), wide[~finite]), what
        apart = max((run[what].double() - wide)[finite].abs().max().item() for run in runs)
        bound = 8 * apart + 2.0**-20 * wide[finite].abs().max().item()
        assert (ours.double() - wide)[finite].abs().max().item() <= bound, f"{what}: {ours}, not {wide}"


def test_every_distribution_has_a_case() -> None:
    kinds = {type(case.build(*case.parameters)) for case in CASES.values()}
    abstract = {dist.Distribution, dist.ExponentialFamily}
    every = [getattr(dist, name) for name in dist.__all__]
    assert {k for k in every if isinstance(k, type) and issubclass(k, dist.Distribution)} - kinds == abstract


@pytest.mark.parametrize("name", leave(lambda name: name not in SHORT, [n for n in CASES if n not in MADE_BY_VALUE]))
@torch.no_grad()
def test_modules(name: str) -> None:
    case, asked = CASES[name], [what for what in _asked(name) if (name.split()[0], what) not in UNEXPORTED]
    compiled = zenith.from_torch(Evaluated(case, asked), (case.parameters, case.value))
    _require_close(name, asked, compiled(case.parameters, case.value))


@pytest.mark.parametrize("name", leave(lambda name: name not in SHORT, CASES))
@torch.no_grad()
def test_compiled_functions(name: str) -> None:
    case, asked = CASES[name], [what for what in _asked(name) if (name.split()[0], what) not in UNTRACED]
    torch.compiler.reset()
    compiled = torch.compile(Evaluated(case, asked), backend="zenith", options={"fallback": "error"})
    _require_close(name, asked, compiled(case.parameters, case.value))
