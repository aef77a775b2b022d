"""Stages, profiles and bounds on compilations of modules."""

import json

import pytest
import torch
from torch import nn

import zenith
from zenith import ShapeDtypeStruct
from zenith.errors import RecompilationError, ShapeError, TraceError, UnsupportedError


def made(**options):
    module = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)).eval()
    return module, zenith.from_torch(module, (torch.zeros(4, 6),), **options)


@torch.no_grad()
def test_a_module_is_lowered_from_structs_and_shares_its_cache():
    module, fast = made(backend="lanes")
    lowered = fast.lower(ShapeDtypeStruct(("n", 6), "float32"))
    compiled = lowered.compile()
    for n in (1, 5, 0):
        x = torch.randn(n, 6)
        torch.testing.assert_close(compiled(x), module(x))
        torch.testing.assert_close(fast(x), module(x))
    assert fast.cache_info().misses == 1
    with pytest.raises(ShapeError, match="is compiled for other sizes"):
        compiled(torch.randn(2, 7))
    with pytest.raises(TraceError, match="is compiled for"):
        compiled(torch.randn(2, 6, dtype=torch.float64))


@torch.no_grad()
def test_costs_and_memory_know_the_weights():
    module, fast = made()
    lowered = fast.lower(torch.zeros(4, 6))
    cost = lowered.cost_analysis().at(lowered.sizes)
    assert cost.operations.static >= 4 * 2 * (6 * 8 + 8 * 3)
    weights = sum(p.numel() * 4 for p in module.parameters())
    memory = lowered.memory_analysis().at(lowered.sizes)
    assert memory.constants.static >= weights and memory.packed.static > 0
    assert (memory.arguments, memory.results) == (4 * 6 * 4, 4 * 3 * 4)


def test_a_compiled_stage_follows_weights_and_refuses_to_lose_gradients():
    module, fast = made(backend="lanes")
    x = torch.randn(2, 6)
    with torch.no_grad():
        compiled = fast.lower(x).compile()
        compiled(x)
        module[0].weight.mul_(2)
        torch.testing.assert_close(compiled(x), module(x))
    with pytest.raises(UnsupportedError, match="no_grad"):
        compiled(x)
    assert fast.cache_info().misses == 1


@torch.no_grad()
def test_a_compiled_stage_refuses_weights_of_another_structure():
    module, fast = made(backend="lanes")
    compiled = fast.lower(torch.zeros(2, 6)).compile()
    module[2] = nn.Linear(8, 5)
    with pytest.raises(TraceError, match="weights of Sequential have another structure now"):
        compiled(torch.zeros(2, 6))
    assert fast(torch.zeros(2, 6)).shape == (2, 5)


@torch.no_grad()
def test_another_rank_is_another_program():
    module, fast = made(backend="lanes")
    x = torch.randn(2, 3, 6)
    torch.testing.assert_close(fast(x), module(x))


@torch.no_grad()
def test_bounds_on_compilations():
    _, fast = made(backend="lanes", max_compilations=1)
    with zenith.forbid_recompile(), pytest.raises(RecompilationError, match="it has not been compiled yet"):
        fast(torch.zeros(2, 6))
    fast(torch.zeros(2, 6))
    with pytest.raises(RecompilationError, match="max_compilations is 1"):
        fast(torch.zeros(2, 2, 6))


@torch.no_grad()
def test_a_profile_of_a_module(tmp_path):
    _, fast = made()
    report = fast.profile(torch.randn(16, 6))
    assert [launch.operations for launch in report.launches][-1] == 16 * 3 * (2 * 8 + 1)
    report.to_chrome(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [e["name"] for e in events if e["ph"] == "X"] == [launch.kernel for launch in report.launches]
