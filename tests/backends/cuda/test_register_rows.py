"""Register-resident rows: read once, the same bits, no stack; read a second time where they do not fit."""

import itertools
import re

import numpy as np
import pytest

from tests.backends.cuda.fake_driver import FakeCompiler, FakeDriver, lanes_function
from tests.backends.cuda.grid import run_grid
from tests.backends.cuda.programs import PROGRAMS, kernels
from tests.backends.running import plan_of
from tests.passes.compare import program
from tests.sampling import leave
from zenith.backends.cuda.compile import available, compile_forms, compile_kernel
from zenith.backends.cuda.cubin import resources
from zenith.backends.cuda.forms import KernelForm, fits, forms
from zenith.backends.cuda.functions import Functions
from zenith.backends.cuda.launch import geometry, most_threads
from zenith.backends.cuda.register_rows import THREADS, register_rows
from zenith.backends.cuda.target import cuda_target
from zenith.backends.kernel import Strip

needs_compiler = pytest.mark.skipif(not available(), reason="the CUDA compiler is not installed")
INPUTS = {"softmax": 1, "normalized": 2}  # arrays that are read


def kernel_of(name, length="m", dtype="f32"):
    """The row kernel of a program whose rows have a length, for example a number."""
    signature, body = PROGRAMS[name]
    old = "m" if name == "softmax" else "96"
    signature = re.sub(rf"\b{old}\]", f"{length}]", signature).replace("f32", dtype)
    body = re.sub(rf"\b{old}\)", f"{length})", body).replace("f32", dtype)
    (launch,) = plan_of(program(signature, body), cuda_target()).steps
    return launch.kernel


def buffers(kernel, sizes, seed=5):
    """Memory for a kernel's buffers: numbers to read, ones to overwrite."""
    rng = np.random.default_rng(seed)
    made = [rng.uniform(-3, 3, b.size.evaluate(sizes)).astype(b.dtype.numpy) for b in kernel.buffers]
    return [a if b.role == "in" else np.ones_like(a) for a, b in zip(made, kernel.buffers, strict=True)]


def bytes_read(ptx):
    """The bytes that all reads of memory in a PTX text together take, each counted once."""
    found = re.findall(r"^\s*(?:@\S+ )?ld\.global(?:\.nc)?(?:\.v(\d))?\.[a-z](\d+)", ptx, re.M)
    return sum(int(width or 1) * int(bits) // 8 for width, bits in found)


FIRST = [("sm_75", 1000)]


@needs_compiler
@pytest.mark.parametrize(
    ("arch", "length"),
    [
        pytest.param(arch, length, marks=[] if (arch, length) in FIRST else [pytest.mark.thorough])
        for arch in ("sm_75", "sm_80", "sm_90a")
        for length in (768, 1024, 1000)
    ],
)
@pytest.mark.parametrize("name", INPUTS)
def test_each_element_is_read_once(name, length, arch):
    kernel = kernel_of(name, length)
    codes = compile_forms(kernel, arch)
    assert [code.form.width for code in codes] == [1, 4]
    for code in codes:
        form, found = code.form, resources(code.cubin)
        assert (form.iterations - 1) * form.team * form.width < length <= form.iterations * form.team * form.width
        each = form.iterations * form.width * 4  # bytes of a row that a thread has, its loops all written out
        assert bytes_read(code.ptx) == INPUTS[name] * each
        assert found.stack == 0 and not re.search(r"(ld|st)\.local", code.ptx)
        assert found.registers * most_threads(kernel, form) <= 65536


@needs_compiler
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
@pytest.mark.parametrize("name", INPUTS)
def test_rows_of_any_length_have_a_register_resident_form(name, dtype):
    kernel = kernel_of(name, dtype=dtype)
    plain, wide, regs = forms(kernel)
    assert (
        (plain.iterations, wide.iterations) == (0, 0)
        and regs.width == wide.width
        and regs.iterations > 1
        and regs.team is None
    )
    code = compile_kernel(kernel, regs, "sm_90a")
    assert bytes_read(code.ptx) == INPUTS[name] * regs.iterations * regs.width * kernel.buffers[0].dtype.itemsize
    assert resources(code.cubin).stack == 0 and not re.search(r"(ld|st)\.local", code.ptx)


@pytest.mark.parametrize(
    ("length", "team"),
    leave(lambda case: case not in ((96, 32), (100, 64), (640, 64)), itertools.product((96, 100, 300, 640), (32, 64))),
)
@pytest.mark.parametrize("name", INPUTS)
def test_the_bits_are_those_of_rows_that_are_read_twice(name, length, team):
    kernel, sizes = kernel_of(name), {"n": 3, "m": length}
    results = []
    for form in forms(kernel):
        memory = buffers(kernel, sizes)
        assert form.width == 1 or length % 4 == 0
        assert run_grid(kernel, 3, memory, [sizes[s] for s in kernel.sizes], form, team) == 0
        results.append(memory[-1])
    np.testing.assert_array_equal(results[1], results[2])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("length", [37, 300, 768])
@pytest.mark.parametrize("name", INPUTS)
def test_rows_of_known_length(name, length):
    kernel = kernel_of(name, length)
    wanted = buffers(kernel, {"n": 3})
    lanes_function(kernel)(0, 3, [[0], *wanted, 3])
    for form in forms(kernel):
        assert form.iterations
        memory = buffers(kernel, {"n": 3})
        run_grid(kernel, 3, memory, [3], form)
        np.testing.assert_allclose(memory[-1], wanted[-1], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", INPUTS)
def test_the_kernel_with_resident_rows_is_one_of_the_kernel_ir(name):
    kernel, sizes = kernel_of(name), {"n": 3, "m": 40}
    plain, regs = buffers(kernel, sizes), buffers(kernel, sizes)
    for k, memory in ((kernel, plain), (register_rows(kernel).kernel, regs)):
        lanes_function(k)(0, 3, [[0], *memory, *(sizes[s] for s in k.sizes)])
    for a, b in zip(plain, regs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_softmax_needs_one_resident_strip_at_a_time():
    rows = register_rows(kernel_of("softmax"))
    assert rows.strips == 1, "exponentials take the registers of their arguments"
    assert [s.name for s in rows.kernel.body[-1].body if isinstance(s, Strip)] == ["v1_resident", "v4_resident"]


@pytest.mark.parametrize("name", ["chain", "columns", "product", "attended", "sorted"])
def test_other_kernels_have_no_resident_rows(name):
    assert all(register_rows(kernel) is None for kernel in kernels(name))


def test_rows_that_are_too_long_are_read_twice():
    kernel = kernel_of("softmax")
    *_, wide, regs = forms(kernel)
    longest = THREADS * regs.iterations * regs.width
    at = [0] * len(kernel.buffers)
    assert fits(kernel, regs, {"n": 8, "m": longest}, at)
    assert not fits(kernel, regs, {"n": 8, "m": longest + 4}, at) and fits(kernel, wide, {"n": 8, "m": longest + 4}, at)
    assert all(form.iterations == 0 for form in forms(kernel_of("softmax", 100_000)))


@pytest.mark.parametrize(("m", "team"), [(4, 32), (768, 32), (1024, 32), (1028, 64), (8192, 256)])
def test_a_row_has_the_threads_whose_registers_fit_it(m, team):
    kernel = kernel_of("softmax")
    found = geometry(kernel, forms(kernel)[-1], 100, {"n": 100, "m": m})
    assert found.team == team and found.threads == (THREADS if team == 32 else team)


def test_a_call_takes_the_form_whose_registers_fit_its_rows():
    kernel = kernel_of("softmax")
    functions = Functions(FakeDriver(), kernel, FakeCompiler(), "sm_90a")
    at = [0] * len(kernel.buffers)
    chosen = [functions.choose({"n": 8, "m": m}, at).form for m in (768, 767, 40_000)]
    assert [(f.width, bool(f.iterations)) for f in chosen] == [(4, True), (1, False), (4, False)]
    assert KernelForm("u64") == functions.choose({"n": 1 << 20, "m": 1 << 12}, at).form
