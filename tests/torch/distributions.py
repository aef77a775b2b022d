"""Every distribution of PyTorch: how one is made from tensors, and values at which it has a density."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch import distributions as dist
from torch.distributions import transforms

ROWS, COLUMNS = 3, 4


@dataclass(frozen=True)
class Case:
    """A distribution of some ``parameters``, made by ``build``, and a ``value`` in its support."""

    build: Callable[..., dist.Distribution]
    parameters: tuple[Tensor, ...]
    value: Tensor


def _noise(seed: int, *shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def _unit(seed: int, *shape: int) -> Tensor:
    """Numbers inside the unit interval."""
    return 0.1 + 0.8 * _noise(seed, *(shape or (ROWS, COLUMNS)))


def _positive(seed: int, *shape: int) -> Tensor:
    return 0.3 + 2 * _noise(seed, *(shape or (ROWS, COLUMNS)))


def _real(seed: int, *shape: int) -> Tensor:
    return 3 * _noise(seed, *(shape or (ROWS, COLUMNS))) - 1.5


def _simplex(seed: int) -> Tensor:
    return torch.softmax(_real(seed), -1)


def _count(seed: int, most: int = 4) -> Tensor:
    return torch.floor(_noise(seed, ROWS, COLUMNS) * (most + 1))


def _one_hot(seed: int) -> Tensor:
    return torch.nn.functional.one_hot(_real(seed).argmax(-1), COLUMNS).float()


def _triangle(seed: int) -> Tensor:
    """Lower triangular matrices with a positive diagonal."""
    return _real(seed, ROWS, COLUMNS, COLUMNS).tril(-1) + torch.diag_embed(_positive(seed))


def _definite(seed: int) -> Tensor:
    factor = _triangle(seed)
    return factor @ factor.mT


def _correlations(seed: int) -> Tensor:
    """Cholesky factors of correlation matrices: rows of length one."""
    factor = _triangle(seed)
    return factor / factor.norm(dim=-1, keepdim=True)


def _mixture(weights: Tensor, means: Tensor, scales: Tensor) -> dist.Distribution:
    return dist.MixtureSameFamily(dist.Categorical(logits=weights), dist.Normal(means, scales))


def _of(kind: Callable[..., dist.Distribution], *names: str, **fixed: object) -> Callable[..., dist.Distribution]:
    """A function that makes a distribution from tensors: by position, or by these names."""

    def build(*tensors: Tensor) -> dist.Distribution:
        named = dict(zip(names, tensors, strict=True)) if names else {}
        return kind(*(() if names else tensors), **named, **fixed)

    return build


def _squashed(mean: Tensor, scale: Tensor) -> dist.Distribution:
    """The tanh of a normal distribution, as in reinforcement learning's policies."""
    base = dist.Independent(dist.Normal(mean, scale), 1)
    return dist.TransformedDistribution(base, [transforms.TanhTransform()])


def _affine(mean: Tensor, scale: Tensor) -> dist.Distribution:
    base = dist.Normal(torch.zeros_like(mean), torch.ones_like(scale))
    return dist.TransformedDistribution(base, [transforms.AffineTransform(mean, scale), transforms.ExpTransform()])


CASES = {
    "Bernoulli": Case(_of(dist.Bernoulli, "probs"), (_unit(1),), _count(2, 1)),
    "Bernoulli logits": Case(_of(dist.Bernoulli, "logits"), (_real(1),), _count(2, 1)),
    "Beta": Case(_of(dist.Beta), (_positive(1), _positive(2)), _unit(3)),
    "Binomial": Case(_of(dist.Binomial, "probs", total_count=4), (_unit(1),), _count(2)),
    "Binomial logits": Case(_of(dist.Binomial, "logits", total_count=4), (_real(1),), _count(2)),
    "Categorical": Case(_of(dist.Categorical, "probs"), (_unit(1),), torch.tensor([0, 3, 1])),
    "Categorical logits": Case(_of(dist.Categorical, "logits"), (_real(1),), torch.tensor([0, 3, 1])),
    "Cauchy": Case(_of(dist.Cauchy), (_real(1), _positive(2)), _real(3)),
    "Chi2": Case(_of(dist.Chi2), (_positive(1),), _positive(2)),
    "ContinuousBernoulli": Case(_of(dist.ContinuousBernoulli, "probs"), (_unit(1),), _unit(2)),
    "ContinuousBernoulli logits": Case(_of(dist.ContinuousBernoulli, "logits"), (_real(1),), _unit(2)),
    "Dirichlet": Case(_of(dist.Dirichlet), (_positive(1),), _simplex(2)),
    "Exponential": Case(_of(dist.Exponential), (_positive(1),), _positive(2)),
    "FisherSnedecor": Case(_of(dist.FisherSnedecor), (_positive(1), _positive(2)), _positive(3)),
    "Gamma": Case(_of(dist.Gamma), (_positive(1), _positive(2)), _positive(3)),
    "GeneralizedPareto": Case(_of(dist.GeneralizedPareto), (_real(1), _positive(2), _unit(3)), 2 + _positive(4)),
    "Geometric": Case(_of(dist.Geometric, "probs"), (_unit(1),), _count(2)),
    "Geometric logits": Case(_of(dist.Geometric, "logits"), (_real(1),), _count(2)),
    "Gumbel": Case(_of(dist.Gumbel), (_real(1), _positive(2)), _real(3)),
    "HalfCauchy": Case(_of(dist.HalfCauchy), (_positive(1),), _positive(2)),
    "HalfNormal": Case(_of(dist.HalfNormal), (_positive(1),), _positive(2)),
    "Independent": Case(
        lambda mean, scale: dist.Independent(dist.Normal(mean, scale), 1),
        (_real(1), _positive(2)),
        _real(3),
    ),
    "InverseGamma": Case(_of(dist.InverseGamma), (_positive(1), _positive(2)), _positive(3)),
    "Kumaraswamy": Case(_of(dist.Kumaraswamy), (_positive(1), _positive(2)), _unit(3)),
    "LKJCholesky": Case(lambda c: dist.LKJCholesky(COLUMNS, c), (_positive(1, ROWS),), _correlations(2)),
    "Laplace": Case(_of(dist.Laplace), (_real(1), _positive(2)), _real(3)),
    "LogNormal": Case(_of(dist.LogNormal), (_real(1), _positive(2)), _positive(3)),
    "LogisticNormal": Case(
        _of(dist.LogisticNormal), (_real(1, ROWS, COLUMNS - 1), _positive(2, ROWS, COLUMNS - 1)), _simplex(3)
    ),
    "LowRankMultivariateNormal": Case(
        _of(dist.LowRankMultivariateNormal), (_real(1), _real(2, ROWS, COLUMNS, 2), _positive(3)), _real(4)
    ),
    "MixtureSameFamily": Case(_mixture, (_real(1), _real(2), _positive(3)), _real(4, ROWS)),
    "Multinomial": Case(_of(dist.Multinomial, "probs", total_count=4), (_unit(1),), 4 * _one_hot(2)),
    "Multinomial logits": Case(_of(dist.Multinomial, "logits", total_count=4), (_real(1),), 4 * _one_hot(2)),
    "MultivariateNormal": Case(_of(dist.MultivariateNormal), (_real(1), _definite(2)), _real(3)),
    "MultivariateNormal scale_tril": Case(
        _of(dist.MultivariateNormal, "loc", "scale_tril"), (_real(1), _triangle(2)), _real(3)
    ),
    "MultivariateNormal precision": Case(
        _of(dist.MultivariateNormal, "loc", "precision_matrix"), (_real(1), _definite(2)), _real(3)
    ),
    "NegativeBinomial": Case(_of(dist.NegativeBinomial, "total_count", "probs"), (_positive(1), _unit(2)), _count(3)),
    "NegativeBinomial logits": Case(
        _of(dist.NegativeBinomial, "total_count", "logits"), (_positive(1), _real(2)), _count(3)
    ),
    "Normal": Case(_of(dist.Normal), (_real(1), _positive(2)), _real(3)),
    "OneHotCategorical": Case(_of(dist.OneHotCategorical, "probs"), (_unit(1),), _one_hot(2)),
    "OneHotCategorical logits": Case(_of(dist.OneHotCategorical, "logits"), (_real(1),), _one_hot(2)),
    "OneHotCategoricalStraightThrough": Case(
        _of(dist.OneHotCategoricalStraightThrough, "logits"), (_real(1),), _one_hot(2)
    ),
    "Pareto": Case(_of(dist.Pareto), (_positive(1), _positive(2)), 3 + _positive(3)),
    "Poisson": Case(_of(dist.Poisson), (_positive(1),), _count(2)),
    "RelaxedBernoulli": Case(_of(dist.RelaxedBernoulli, "temperature", "logits"), (_positive(1), _real(2)), _unit(3)),
    "RelaxedBernoulli probs": Case(
        _of(dist.RelaxedBernoulli, "temperature", "probs"), (_positive(1), _unit(2)), _unit(3)
    ),
    "RelaxedOneHotCategorical": Case(
        _of(dist.RelaxedOneHotCategorical, "temperature", "logits"), (_positive(1, 1), _real(2)), _simplex(3)
    ),
    "StudentT": Case(_of(dist.StudentT), (_positive(1), _real(2), _positive(3)), _real(4)),
    "TransformedDistribution": Case(_affine, (_real(1), _positive(2)), _positive(3)),
    "TransformedDistribution tanh": Case(_squashed, (_real(1), _positive(2)), _real(3) / 2),
    "Uniform": Case(_of(dist.Uniform), (_real(1) - 2, _positive(2)), _real(3) / 10),
    "VonMises": Case(_of(dist.VonMises), (_real(1), _positive(2)), _real(3)),
    "Weibull": Case(_of(dist.Weibull), (_positive(1), _positive(2)), _positive(3)),
    "Wishart": Case(_of(dist.Wishart, "df", "covariance_matrix"), (5 + _positive(1, ROWS), _definite(2)), _definite(3)),
}
