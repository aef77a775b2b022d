"""Saved programs of a GPU, on a driver without a device: loaded, they are planned restored and compiled never."""

import subprocess
import sys
import textwrap
import weakref
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import zenith
from tests.backends.cuda.arrays import on_device, on_host
from zenith.api.saving import read
from zenith.backends.archive import write
from zenith.backends.cuda.driver import Device
from zenith.errors import LoadError, OutOfBoundsError, TraceError, UnsupportedError

TABLE = np.linspace(-1, 1, 40, dtype=np.float32).reshape(8, 5)


class Coder:
    """A compiler whose code names the kernel and the form; once ``stopped``, every call fails."""

    stopped = False

    def __call__(self, kernel, form, arch):
        assert not self.stopped, f"{kernel.name} was compiled"
        text = f"{kernel.name} {form} {arch}"
        return SimpleNamespace(kernel=kernel, form=form, source=text, ptx=f"// {text}", cubin=text.encode())


@pytest.fixture
def coder(gpu, monkeypatch):
    found = Coder()
    found.patch = monkeypatch
    monkeypatch.setattr("zenith.backends.cuda.link.compile_kernel", found)
    monkeypatch.setattr("zenith.backends.cuda.compile.compile_ptx", None)  # calling it is an error
    return found


@pytest.fixture
def path(tmp_path):
    return tmp_path / "saved.zenith"


def loaded(coder, function, path):
    """The saved function, loaded where no compiler works."""
    function.save(path)
    coder.stopped = True
    coder.patch.setattr("zenith.backends.cuda.functions._functions", weakref.WeakValueDictionary())
    return zenith.load(path)


def same_bits(one, other):
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def features(x):
    return np.tanh(x @ TABLE), x.sum(axis=0)


def test_a_function_with_a_captured_array_at_several_sizes(coder, path, rng):
    function = zenith.jit(features)
    function(on_device(rng.standard_normal((4, 8), dtype=np.float32)))
    restored = loaded(coder, function, path)
    for rows in (4, 1, 33, 0):
        x = on_device(rng.standard_normal((rows, 8), dtype=np.float32))
        for one, other in zip(restored(x), function(x), strict=True):
            assert same_bits(on_host(one), on_host(other))
    assert restored.cache_info().misses == 0 and "cupy f32[_, _] on cuda:0" in str(restored.cache_info())
    with pytest.raises(TraceError, match="saved without a program"):
        restored(on_device(np.ones((4, 8))))


def test_loops_and_numbers_of_the_host(coder, path):
    def total(x, k):
        return zenith.scan(lambda carry, row: (np.tanh(carry * k + row), carry), x[0], x)

    function, x = zenith.jit(total), on_device(np.arange(12, dtype=np.float32).reshape(4, 3) / 7)
    wanted = function(x, 0.5)
    for one, other in zip(loaded(coder, function, path)(x, 0.5), wanted, strict=True):
        assert same_bits(on_host(one), on_host(other))


def test_the_code_is_the_files(coder, path):
    function = zenith.jit(features)
    function(on_device(np.ones((4, 8), np.float32)))
    restored = loaded(coder, function, path)
    executable = restored._specializer.specializations()[0].executable
    codes = [f.code for functions in executable.program.functions.values() for f in functions.functions]
    assert codes and all(c.cubin == f"{c.kernel.name} {c.form} sm_90a".encode() for c in codes)
    assert all(c.ptx == f"// {c.cubin.decode()}" and c.cached for c in codes)
    assert executable.report.cached


def test_programs_of_both_devices_are_in_one_file(coder, path, rng):
    function, x = zenith.jit(features), rng.standard_normal((4, 8), dtype=np.float32)
    here, there = function(x), function(on_device(x))
    restored = loaded(coder, function, path)
    assert all(same_bits(one, other) for one, other in zip(restored(x), here, strict=True))
    for one, other in zip(restored(on_device(x)), there, strict=True):
        assert same_bits(on_host(one), on_host(other))


def test_errors_name_the_users_line(coder, gpu, path):
    function = zenith.jit(lambda x, i: np.take(x, i))  # the line
    x = on_device(np.ones(3, np.float32))
    function(x, on_device(np.array([1])))
    restored = loaded(coder, function, path)
    restored(x, on_device(np.array([9])))
    with pytest.raises(OutOfBoundsError, match="out of bounds for its axis") as caught:
        zenith.synchronize()
    assert "# the line" in str(caught.value)


def test_another_architecture_is_refused(coder, gpu, path, monkeypatch):
    function = zenith.jit(features)
    function(on_device(np.ones((4, 8), np.float32)))
    function.save(path)
    monkeypatch.setattr(gpu, "describe", lambda device: Device(device, "older", (8, 0), gpu.memory))
    with pytest.raises(LoadError, match=r"GPUs of sm_90a, and cuda:0 is one of sm_80"):
        zenith.load(path)


def test_other_choices_and_missing_code_are_refused(coder, path):
    function = zenith.jit(features)
    function(on_device(np.ones((4, 8), np.float32)))
    function.save(path)
    archive = read(path)
    (program,) = archive.content.programs
    made = program.executable
    for changes, why in (
        ({"codes": dict(list(made.codes.items())[1:])}, "no code for sm_90a of kernel"),
        ({"plan": made.plan[::-1]}, "other choices"),
    ):
        other = replace(program, executable=replace(made, **changes))
        write(path, archive.made_for, replace(archive.content, programs=(other,)))
        with pytest.raises(LoadError, match=why):
            zenith.load(path)


def test_a_damaged_file_is_refused(coder, path):
    function = zenith.jit(features)
    function(on_device(np.ones((4, 8), np.float32)))
    function.save(path)
    data = bytearray(path.read_bytes())
    data[data.rindex(b"u32x")] ^= 1
    path.write_bytes(data)
    with pytest.raises(LoadError, match="is damaged"):
        zenith.load(path)


def test_a_module_with_its_weights_of_that_moment(cuda_tensors, coder, path):
    import torch

    torch.manual_seed(0)
    layers = torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
    module = torch.nn.Sequential(*layers).eval()
    fast = zenith.from_torch(module, (torch.randn(8, 16),))
    with torch.no_grad():
        fast(torch.randn(8, 16))
        module[0].weight.mul_(2)
        restored = loaded(coder, fast, path)
        inputs = [torch.randn(n, 16) for n in (8, 1, 5, 64)]
        wanted = [fast(x) for x in inputs]
        module[3].bias.add_(1)
        assert all(torch.equal(restored(x), y) for x, y in zip(inputs, wanted, strict=True))
        assert not torch.equal(fast(inputs[0]), wanted[0])


def test_callbacks_are_still_refused(coder, path):
    def printing(x):
        zenith.debug.print("x is {}", x)
        return x + 1

    function = zenith.jit(printing)
    function(on_device(np.ones(3, np.float32)))
    with pytest.raises(UnsupportedError, match="calls back into Python"):
        function.save(path)


def test_loading_needs_no_numba():
    """The steps of loading before code goes to the device: reading, planning and naming kernels."""
    script = """
        import sys
        sys.modules["numba"] = None  # importing it is an error
        import numpy as np
        import zenith.backends.cuda.closed, zenith.backends.cuda.link, zenith.serial
        from zenith.backends.cuda.compile import named
        from zenith.backends.cuda.forms import forms
        from zenith.backends.steps import LaunchStep, walk
        from zenith.compile import lower_graph
        from zenith.ir.text import parse
        lowered = lower_graph(parse("def f(x: f32[n]) -> (f32[n]):\\n    v1 = exp(x)\\n    return (v1,)"), "cuda")
        kernels = [step.kernel for step in walk(lowered.plan.steps) if isinstance(step, LaunchStep)]
        print(*(named(k, form, "sm_90a")[0] for k in kernels for form in forms(k)))
        """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip()


def branches(x, n):
    y = zenith.cond(x.sum() > 0, lambda x: np.tanh(x), lambda x: x * 2, x)
    return zenith.while_loop(
        lambda c: c[0] < n, lambda c: (c[0] + 1, np.sin(c[1]) @ np.eye(3, dtype=np.float32)), (0, y)
    )


def loss(x):
    hidden = np.maximum(np.sort(x @ TABLE, axis=1), 0)
    return (np.exp(hidden - hidden.max(axis=1, keepdims=True)) ** 2).mean()


@pytest.mark.parametrize("function, args", [
    (branches, (np.ones((2, 3), np.float32), 4)),
    (zenith.grad(loss), (TABLE.T.copy(),)),
    (zenith.vmap(loss), (np.stack([TABLE.T, TABLE.T]).copy(),)),
    (lambda x: x.astype(np.float16) @ x.T.astype(np.float16), (np.ones((64, 64), np.float32),)),
], ids=["branches", "grad", "vmap", "half"])  # fmt: skip
def test_traced_programs_are_planned_again_in_the_same_way(coder, path, function, args):
    compiled = zenith.jit(function)
    args = [on_device(a) if isinstance(a, np.ndarray) else a for a in args]
    wanted, restored = compiled(*args), loaded(coder, compiled, path)
    found = restored(*args)
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    assert all(same_bits(on_host(one), on_host(other)) for one, other in pairs)


def test_attention_and_numerics(cuda_tensors, coder, path):
    import torch
    from torch.nn import functional

    class Mixer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.qkv = torch.nn.Embedding(20, 32), torch.nn.Linear(32, 96)

        def forward(self, tokens):
            q, k, v = (t.unflatten(-1, (4, 8)).transpose(1, 2) for t in self.qkv(self.words(tokens)).chunk(3, -1))
            return functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    module = Mixer().eval()
    fast = zenith.from_torch(module, (torch.zeros(2, 5, dtype=torch.int64),), repeatable=False, tf32=True)
    with torch.no_grad():
        calls = [torch.arange(rows * 7).view(rows, 7) % 20 for rows in (2, 3)]
        wanted = [fast(tokens) for tokens in calls]
        restored = loaded(coder, fast, path)
        assert all(torch.equal(restored(tokens), y) for tokens, y in zip(calls, wanted, strict=True))


def test_a_file_is_inspected(coder, path):
    from typer.testing import CliRunner

    from zenith import cli

    function = zenith.jit(features)
    function(on_device(np.ones((4, 8), np.float32)))
    function.save(path)
    shown = CliRunner().invoke(cli.app, ["inspect", str(path)], env={"COLUMNS": "200"})
    assert shown.exit_code == 0 and "for GPUs of sm_90a; runs on these" in shown.output
    assert "x: cupy f32[_, _] on cuda:0" in shown.output


def test_programs_of_a_file_share_their_weights(cuda_tensors, coder, path):
    import torch

    fast = zenith.from_torch(torch.nn.Linear(16, 4).eval(), (torch.zeros(2, 16),))
    with torch.no_grad():
        inputs = torch.randn(3, 16), torch.randn(2, 3, 16)
        wanted = [fast(x) for x in inputs]
        restored = loaded(coder, fast, path)
        assert all(torch.equal(restored(x), y) for x, y in zip(inputs, wanted, strict=True))
    one, other = (s.executable for s in restored._specializer.specializations())
    assert one._fixed.table is other._fixed.table and {*one._fixed.table} == {"weight", "bias"}
