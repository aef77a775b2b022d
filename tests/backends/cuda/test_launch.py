"""Launches: blocks, threads and teams from sizes, and parameters as the driver reads them."""

import ctypes

import pytest

from tests.backends.cuda.programs import kernels
from tests.backends.running import plan_of
from tests.passes.compare import program
from zenith.backends.cuda.forms import KernelForm, fits, forms
from zenith.backends.cuda.launch import Geometry, LaunchArguments, geometry
from zenith.backends.cuda.target import cuda_target
from zenith.backends.steps import LaunchStep

SIZES = {"n": 8, "m": 768}


def of(name, form=None, **sizes):
    kernel, *_ = kernels(name)
    sizes = SIZES | sizes
    return geometry(kernel, form or KernelForm(), kernel.tasks.evaluate(sizes), sizes)


def test_a_thread_takes_a_task_or_a_group_of_them():
    assert of("chain") == Geometry(24, 256)
    assert of("chain", KernelForm(width=4)) == Geometry(6, 256)
    assert of("chain", n=1 << 20) == Geometry(1 << 20, 256), "threads walk on in steps of the grid"
    assert of("chain", n=0) == Geometry(1, 256)


def test_a_tile_is_a_block():
    assert of("product", n=1000, k=2000) == Geometry(512, 256), "16 x 32 tiles of 64 x 64"


@pytest.mark.parametrize(
    ("n", "m", "team"),
    [(100_000, 768, 32), (8, 100, 32), (8, 768, 32), (8, 4096, 256), (100_000, 4096, 32), (1, 1 << 20, 1024)],
)
def test_the_team_of_a_row_grows_with_the_row_where_there_is_room(n, m, team):
    found = of("softmax", n=n, m=m)
    assert found.team == team
    assert found.threads % team == 0 and found.blocks * found.threads >= n * team


def test_a_wide_form_needs_multiples_and_alignment():
    (kernel,) = kernels("chain")
    plain, wide = forms(kernel)
    assert fits(kernel, wide, SIZES, [0, 16, 32])
    assert not fits(kernel, wide, SIZES | {"m": 6}, [0, 16, 32])
    assert not fits(kernel, wide, SIZES, [0, 4, 32])
    assert fits(kernel, plain, SIZES | {"m": 7}, [4, 4, 4])


def test_indices_of_32_bits_need_buffers_below_two_to_the_31():
    (kernel,) = kernels("chain")
    huge = {"n": 1 << 16, "m": 1 << 15}
    assert not fits(kernel, KernelForm(), huge, [0, 0, 0])
    assert fits(kernel, KernelForm("u64"), huge, [0, 0, 0])


def test_parameters_are_where_the_table_says():
    (kernel,) = kernels("softmax")
    wide = forms(kernel)[-1]
    arguments = LaunchArguments(kernel, wide)
    arguments.set_sizes(8, geometry(kernel, wide, 8, SIZES), SIZES)
    arguments.set_addresses(1 << 40, [11, 12, 13])
    table = (ctypes.c_uint64 * len(arguments.names)).from_address(arguments.address)
    words = [ctypes.c_uint64.from_address(at).value for at in table]
    assert dict(zip(arguments.names, words, strict=True)) == {
        "tasks": 8, "team": 32, "status": 1 << 40, "p0": 11, "out0": 12, "out1": 13, "m": 768, "n": 8,
    }  # fmt: skip
    assert arguments.value("m") == 768


def test_tasks_of_threads_come_in_groups():
    (kernel,) = kernels("chain")
    arguments = LaunchArguments(kernel, KernelForm(width=4))
    arguments.set_sizes(6144, Geometry(6, 256), SIZES)
    assert arguments.value("tasks") == 1536


def test_indices_of_32_bits_need_loops_below_two_to_the_31_too():
    body = """
        v1 = broadcast(x, shape=(n, m), axes=(0,))
        v2 = broadcast(y, shape=(n, m), axes=(1,))
        v3 = sub(v1, v2)
        v4 = reduce_sum(v3, axes=(0, 1))
        return (v4,)
    """
    plan = plan_of(program("x: f32[n], y: f32[m]", body), cuda_target())
    for kernel in (s.kernel for s in plan.steps if isinstance(s, LaunchStep)):
        addresses = [0] * len(kernel.buffers)
        assert fits(kernel, KernelForm(), {"n": 1000, "m": 1000}, addresses)
        assert not fits(kernel, KernelForm(), {"n": 70_000, "m": 70_000}, addresses)
        assert fits(kernel, KernelForm("u64"), {"n": 70_000, "m": 70_000}, addresses)


def test_a_sum_of_everything_has_threads_and_wide_reads():
    plan = plan_of(program("x: f32[n]", "v1 = reduce_sum(x, axes=(0,))\nreturn (v1,)"), cuda_target())
    partial, total = (s.kernel for s in plan.steps if isinstance(s, LaunchStep))
    assert forms(partial)[-1] == KernelForm(width=4)
    sizes = {"n": 1 << 24}
    shape = geometry(partial, KernelForm(width=4), partial.tasks.evaluate(sizes), sizes)
    assert shape.blocks * shape.threads >= 1 << 18
    assert geometry(total, KernelForm(), 1, sizes).team == 512
