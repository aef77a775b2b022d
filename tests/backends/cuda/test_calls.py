"""Whole calls on a GPU, on a driver without a device: jit and from_torch choose it by their arrays' device alone."""

import gc
import itertools

import numpy as np
import pytest

import zenith
from tests.backends.cuda.arrays import on_device, on_host
from tests.backends.cuda.fake_driver import FakeDriver
from tests.threads import in_threads
from zenith.backends.cuda import driver as driver_module
from zenith.backends.cuda.memory import pool
from zenith.errors import DeviceError, OutOfBoundsError, TraceError

cupy = pytest.importorskip("cupy")
W = np.linspace(-1, 1, 64 * 10, dtype=np.float32).reshape(64, 10)
B = np.linspace(0, 1, 10, dtype=np.float32)


def classify(x):
    scores = np.tanh(x @ W + B)
    shifted = scores - np.max(scores, axis=-1, keepdims=True)
    return np.exp(shifted) / np.sum(np.exp(shifted), axis=-1, keepdims=True)


def test_the_device_of_the_arguments_decides(gpu, rng):
    step = zenith.jit(classify)
    for n in (5, 1, 100, 0, 5):
        x = rng.standard_normal((n, 64), dtype=np.float32)
        found = step(on_device(x))
        assert type(found) is cupy.ndarray and found.dtype == np.float32
        np.testing.assert_allclose(on_host(found), classify(x) if n else np.empty((0, 10)), rtol=3e-6, atol=3e-6)
    assert gpu.launches and step.cache_info().misses == 1
    host = step(rng.standard_normal((3, 64), dtype=np.float32))
    assert type(host) is np.ndarray and step.cache_info().misses == 2


def test_strided_arrays_are_made_dense_by_their_library(gpu, rng, monkeypatch):
    x = rng.standard_normal((64, 6), dtype=np.float32)
    monkeypatch.setattr(cupy, "ascontiguousarray", lambda a: on_device(np.ascontiguousarray(x.T)))
    np.testing.assert_allclose(on_host(zenith.jit(classify)(on_device(x.T))), classify(x.T), rtol=3e-6, atol=3e-6)


def test_python_numbers_and_trees(gpu):
    @zenith.jit
    def f(params, k):
        return {"y": params["x"] * k, "z": params["x"].astype(np.int32)}

    x = np.arange(5, dtype=np.float32)
    for k in (2.0, 0.5):
        found = f({"x": on_device(x)}, k)
        assert on_host(found["y"]).tolist() == (x * k).tolist() and found["z"].dtype == np.int32


def test_half_precision_comes_and_goes_as_it_is(gpu, rng):
    x = rng.standard_normal((3, 16)).astype(np.float16)
    found = zenith.jit(lambda x: np.tanh(x) * 2)(on_device(x))
    assert found.dtype == np.float16
    np.testing.assert_allclose(on_host(found), np.tanh(x) * 2, rtol=2e-3, atol=2e-3)


def test_numbers_alone_on_the_gpu_give_arrays_there(gpu):
    found = zenith.jit(lambda k: np.full((3,), 2.0) * k, backend="cuda")(4.0)
    assert type(found) is cupy.ndarray and on_host(found).tolist() == [8.0] * 3
    assert type(zenith.jit(lambda k: np.full((3,), 2.0) * k)(4.0)) is np.ndarray


@pytest.mark.parametrize("count", [0, 1, 4])
def test_counted_loops_wait_for_nothing(gpu, count):
    step = zenith.jit(lambda x: zenith.fori_loop(0, count, lambda i, y: np.sin(y) + x, x))
    x = np.linspace(0, 1, 7, dtype=np.float32)
    wanted = x
    for _ in range(count):
        wanted = np.sin(wanted) + x
    given = on_device(x)
    step(given)
    gpu.calls.clear()
    np.testing.assert_allclose(on_host(step(given)), wanted, rtol=1e-6)
    assert gpu.calls["synchronize"] == 0


def test_loops_with_a_condition_and_branches_read_it_back(gpu):
    @zenith.jit
    def halve(x):
        return zenith.while_loop(lambda y: np.sum(y) > 1.0, lambda y: y / 2, x)

    @zenith.jit
    def choose(i, x):
        return zenith.switch(i, [np.sin, np.cos, lambda y: -y], x)

    x = np.array([3.0, 4.0, 5.0], np.float32)
    assert on_host(halve(on_device(x))).tolist() == (x / 16).tolist()
    for i, wanted in enumerate((np.sin(x), np.cos(x), -x)):
        np.testing.assert_allclose(on_host(choose(on_device(np.array(i)), on_device(x))), wanted, rtol=1e-6)


def test_scans_slice_and_stack(gpu, rng):
    def step(carry, x):
        carry = np.tanh(carry + x)
        return carry, carry * 2

    run = zenith.jit(lambda start, xs: zenith.scan(step, start, xs))
    for length in (1, 5):
        start, xs = rng.standard_normal(3, dtype=np.float32), rng.standard_normal((length, 3), dtype=np.float32)
        last, stacked = run(on_device(start), on_device(xs))
        carry, wanted = start, []
        for x in xs:
            carry, y = step(carry, x)
            wanted.append(y)
        np.testing.assert_allclose(on_host(last), carry, rtol=1e-5)
        np.testing.assert_allclose(on_host(stacked), wanted, rtol=1e-5)


def test_python_is_called_in_the_middle_with_copies_on_the_host(gpu):
    seen = []

    def look(x):
        seen.append(x.copy())
        return x + 1

    @zenith.jit
    def f(x):
        return zenith.pure_callback(look, zenith.ShapeDtypeStruct(x.shape, x.dtype), np.exp(x)) * 2

    x = np.arange(4, dtype=np.float32)
    np.testing.assert_allclose(on_host(f(on_device(x))), (np.exp(x) + 1) * 2, rtol=1e-6)
    np.testing.assert_allclose(seen[0], np.exp(x), rtol=1e-6)


def test_gradients_and_batches(gpu, rng):
    gradient = zenith.jit(zenith.grad(lambda w, x: np.sum(np.tanh(x @ w))))
    w, x = rng.standard_normal((4, 3), dtype=np.float32), rng.standard_normal((6, 4), dtype=np.float32)
    wanted = x.T @ (1 - np.tanh(x @ w) ** 2)
    np.testing.assert_allclose(on_host(gradient(on_device(w), on_device(x))), wanted, rtol=1e-5, atol=1e-5)


def test_an_index_outside_is_raised_by_synchronize_with_the_line(gpu):
    take = zenith.jit(lambda x, i: x[i])
    take(on_device(np.arange(3.0)), on_device(np.array([0, 7])))
    with pytest.raises(OutOfBoundsError, match=r"test_calls\.py"):
        zenith.synchronize()
    zenith.synchronize()


def test_many_threads_and_streams(gpu, rng):
    step, failures = zenith.jit(classify), []
    inputs = [rng.standard_normal((n, 64), dtype=np.float32) for n in (1, 3, 8, 17)]
    given = [on_device(x) for x in inputs]
    step(given[0])

    def work(number):
        gpu.on_stream(number % 3 + 5)
        for _ in range(20):
            for x, moved in zip(inputs, given, strict=True):
                if not np.allclose(on_host(step(moved)), classify(x), rtol=1e-5, atol=1e-5):
                    failures.append(number)

    in_threads(6, work)
    assert not failures and step.cache_info().misses == 1


def test_slots_of_an_arena_stay_inside_it_and_apart(gpu, rng):
    """The driver notices buffers that end beyond their memory; here, slots that live at one time must not meet."""
    step = zenith.jit(lambda x: np.cumsum(np.sort(np.tanh(x @ W), axis=0), axis=0).sum(axis=0) @ W.T)
    for n in (3, 300, 30):
        x = rng.standard_normal((n, 64), dtype=np.float32)
        step(on_device(x))
        arenas = [lease.arena for s in step._specializer.specializations() for lease in s.executable._leases]
        slots = [slot for s in step._specializer.specializations() for slot in s.executable.plan.slots]
        sizes = {"x0": n}
        ranges = sorted((s.offset.evaluate(sizes), s.length.evaluate(sizes)) for s in slots)
        assert all(a + length <= b for (a, length), (b, _) in itertools.pairwise(ranges))
        assert not ranges or sum(ranges[-1]) <= max(a.length for a in arenas)


def test_captured_arrays_of_the_gpu_become_constants(gpu, rng):
    w = rng.standard_normal((3, 2), dtype=np.float32)
    captured = on_device(w)
    step = zenith.jit(lambda x: x @ captured + captured[0])
    x = rng.standard_normal((4, 3), dtype=np.float32)
    np.testing.assert_allclose(on_host(step(on_device(x))), x @ w + w[0], rtol=1e-5, atol=1e-6)


def test_code_is_compiled_for_the_device_and_loaded(fake):
    """The compiler's own machine code reaches the driver, each kernel once in each form."""
    pytest.importorskip("numba_cuda")
    loaded, load = [], fake.load
    fake.load = lambda code: loaded.append(code) or load(code)
    step = zenith.jit(lambda x: np.tanh(x) + 1)
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    for _ in range(2):
        np.testing.assert_allclose(on_host(step(on_device(x))), np.tanh(x) + 1, rtol=1e-6)
    assert {code.form.width for code in loaded} == {1, 4} and all(code.arch == "sm_90a" for code in loaded)
    assert all(code.cubin[:4] == b"\x7fELF" for code in loaded)
    assert "def tanh" in step.lower(on_device(x)).compile().as_text("kernels")


def test_programs_are_planned_for_a_gpu_that_is_not_there():
    lowered = zenith.jit(classify, backend="cuda").lower(zenith.ShapeDtypeStruct(("batch", 64), "float32"))
    assert "launch" in lowered.as_text("plan") and lowered.memory_analysis().at({"x0": 5})


def test_programs_lowered_from_shapes_serve_calls(gpu):
    step = zenith.jit(lambda x: x * 2, backend="cuda")
    compiled = step.lower(zenith.ShapeDtypeStruct(("n",), "float32")).compile()
    with zenith.forbid_recompile():
        assert on_host(step(on_device(np.ones(3, np.float32)))).tolist() == [2.0] * 3
    assert on_host(compiled(on_device(np.ones(2, np.float32)))).tolist() == [2.0] * 2


def test_a_loop_that_copies_slices_takes_the_form_that_they_allow(gpu, rng):
    """Rows of three floats are not aligned, rows of four are."""
    run = zenith.jit(lambda xs: zenith.scan(lambda c, x: (c + 1, np.exp(x)), np.int32(0), xs)[1])
    for columns in (3, 4):
        xs = rng.standard_normal((5, columns), dtype=np.float32)
        np.testing.assert_allclose(on_host(run(on_device(xs))), np.exp(xs), rtol=1e-6)


def test_a_function_that_is_gone_gives_everything_back_at_once(gpu):
    """Loops, callbacks and status words included, without the collector of circles."""
    shape = zenith.ShapeDtypeStruct((4,), np.float64)
    step = zenith.jit(
        lambda x, i: zenith.pure_callback(np.sin, shape, zenith.scan(lambda c, y: (c + y, c), x, x[i])[0])
    )
    step(on_device(np.arange(4.0)), on_device(np.array([1, 2])))
    gc.collect()
    gc.disable()
    del step
    gc.enable()
    assert pool().stats().bytes_in_use == 0 and not gpu.modules


# --- refusals ---


def test_operations_outside_of_jit_move_no_arrays_silently(gpu):
    x = on_device(np.ones(3))
    for compute in (zenith.numpy.exp, zenith.grad(lambda x: np.sum(x * x))):
        with pytest.raises(DeviceError, match=r"NumPy computes, on the CPU[\s\S]*zenith.jit"):
            compute(x)


def test_arrays_on_two_devices(gpu):
    add = zenith.jit(lambda x, y: x + y)
    with pytest.raises(DeviceError, match=r"y is on the CPU and x is on cuda:0[\s\S]*cupy.asarray\(y\)"):
        add(on_device(np.ones(3)), np.ones(3))
    with pytest.raises(DeviceError, match=r"x is on the CPU and y is on cuda:0"):
        add(np.ones(3), on_device(np.ones(3)))


def test_two_gpus_have_programs_of_their_own(compiler, monkeypatch):
    monkeypatch.setattr("zenith.backends.cuda.link.compile_kernel", compiler)
    with driver_module.using(FakeDriver(devices=2)):
        add = zenith.jit(lambda x, y: x + y)
        one, two = on_device(np.ones(3), 0), on_device(np.ones(3), 1)
        with pytest.raises(DeviceError, match="x is on cuda:0 and y is on cuda:1"):
            add(one, two)
        assert on_host(add(two, two)).tolist() == [2.0] * 3 and add(two, two).data.device_id == 1
        assert add(one, one).data.device_id == 0 and add.cache_info().misses == 2


def test_host_arrays_are_not_moved_silently(gpu):
    with pytest.raises(DeviceError, match=r"nothing is moved silently[\s\S]*pass cupy.asarray\(x\)"):
        zenith.jit(lambda x: x + 1, backend="cuda")(np.ones(3))
    with pytest.raises(DeviceError, match=r"computes on the CPU[\s\S]*cupy.asnumpy\(x\)"):
        zenith.jit(lambda x: x + 1, backend="cpu")(on_device(np.ones(3)))


def test_without_a_gpu_the_reason_is_said():
    pytest.importorskip("cupy")
    from zenith.backends.cuda.presence import find, problem

    why = problem(find())
    if why is None:
        pytest.skip("this machine has a GPU")
    with pytest.raises(DeviceError) as caught:
        zenith.jit(lambda x: x + 1, backend="cuda")(np.ones(3))
    assert caught.value.what == why.what


def test_element_types_and_subclasses(gpu):
    with pytest.raises(Exception, match=r"element type for float128"):
        zenith.jit(lambda x: x + 1)(on_device(np.ones(3, np.longdouble)))
    with pytest.raises(TraceError):
        zenith.jit(lambda x: x + 1)(object())


def test_stages_and_explanations(gpu):
    step = zenith.jit(lambda x: np.tanh(x) + 1)
    step(on_device(np.ones(3, np.float32)))
    assert "cupy f32[_] on cuda:0" in str(step.cache_info()) and "launch" in step.lower(on_device(np.ones(3))).as_text(
        "plan"
    )
    assert "tanh" in str(step.explain())
