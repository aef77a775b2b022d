"""Hugging Face's architectures from small configurations: two shapes, one program, as near to float64 as PyTorch.

Compiled, and saved and loaded with equal bits, they are long tests; a few of every kind are in every run, compiled or
in the interpreter, which shows that every operator is known.
"""

import pytest
import torch

import zenith
from tests.torch.architectures import FAMILIES, UNCOMPILED
from tests.torch.test_models import check, tensors, transformers  # noqa: F401 (a fixture)

INTERPRETED = ("Electra", "Bart", "ResNet")
COMPILED = ("OPT",)


def compiled(library, name, backend=None):
    """The family's program for both of its calls, compared on each."""
    family = FAMILIES[name]
    module, calls = family.build(library), family.calls()
    with torch.no_grad():
        module(**calls[0])  # the first call of some sets their attributes
    fast = zenith.from_torch(module, (), calls[0], backend=backend)
    for call in calls:
        check(fast, module, **call)
    assert fast.cache_info().misses == family.programs, fast.cache_info().reasons
    return fast, calls


def families(names, sampled):
    return [pytest.param(n, marks=() if n in sampled else pytest.mark.thorough) for n in names]


@pytest.mark.filterwarnings("ignore:The tensor attributes .*bias_cache:UserWarning")  # LeViT's, made of parameters
@pytest.mark.parametrize("name", families((*INTERPRETED, *sorted(UNCOMPILED)), INTERPRETED))
def test_interpreted(transformers, name):  # noqa: F811
    compiled(transformers, name, "reference")


@pytest.mark.parametrize("name", families([n for n in FAMILIES if n not in UNCOMPILED], COMPILED))
@torch.no_grad()
def test_compiled_and_saved(transformers, name, tmp_path):  # noqa: F811
    fast, calls = compiled(transformers, name)
    for path in (tmp_path / "model.zenith", tmp_path / "folder"):
        fast.save(path)
        loaded = zenith.load(path)
        for call in calls:
            for found, wanted in zip(tensors(loaded(**call)), tensors(fast(**call)), strict=True):
                assert torch.equal(found, wanted)
