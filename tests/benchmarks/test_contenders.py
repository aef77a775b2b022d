"""A contender that cannot run a workload says why, before any process is started."""

import re
import shutil

import numpy as np
import pytest

from benchmarks.contenders import CONTENDERS
from benchmarks.contenders.contender import Job
from benchmarks.workloads import WORKLOADS


@pytest.mark.parametrize(
    ("contender", "workload", "reason"),
    [
        ("zenith jit", "minilm_b8", "PyTorch module only"),
        ("jax", "minilm_b8", "PyTorch module only"),
        ("numexpr", "softmax", "more than one elementwise expression"),
        ("inductor freezing", "layernorm", "no matrices"),
        ("inductor dynamic", "matmul", "sizes do not change"),
    ],
)
def test_a_contender_declines_with_the_reason(contender, workload, reason, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: name)
    assert reason in CONTENDERS[contender].declines(WORKLOADS[workload])
    assert CONTENDERS[contender].declines(WORKLOADS["dynamic_lengths"]) is None or contender == "numexpr"


@pytest.mark.parametrize("name", [name for name in CONTENDERS if name.startswith("inductor")])
def test_inductor_needs_a_compiler(name, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert re.search("no-such-compiler is not installed", CONTENDERS[name].declines(WORKLOADS["minilm_b8"]))


def test_numexpr_computes_in_the_arguments_type():
    pytest.importorskip("numexpr")
    gelu, x = WORKLOADS["gelu"], np.linspace(-2, 2, 5, dtype=np.float32)
    call = CONTENDERS["numexpr"].compile(Job(gelu.numpy((), np), (x,), [[]], gelu.expression))
    assert call(x).dtype == np.float32


def test_a_part_is_compiled_instead_of_the_whole():
    torch = pytest.importorskip("torch")
    program = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())
    seen = []

    def compile(module):
        seen.append(module)
        return torch.nn.Identity()

    call = Job(program, (), [], "", part="1").compiled(compile)
    assert [type(module) for module in seen] == [torch.nn.Tanh]
    x = torch.tensor([-1.0, 2.0])
    assert torch.equal(call(x), torch.relu(x))
    assert Job(program, (), [], "").compiled(lambda module: module) is program


def test_contenders_that_compile_no_parts_are_absent_from_generation():
    present = {name for name, c in CONTENDERS.items() if c.absent_from(WORKLOADS["generate"]) is None}
    assert "torch eager" in present and "zenith torch.compile" in present
    assert not present & {"zenith jit", "zenith from_torch", "onnx runtime", "openvino", "jax", "numpy"}
