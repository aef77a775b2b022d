"""Products by cuBLASLt: layouts, types, batches and epilogues by the values that the driver without a device gives."""

import ctypes
import threading

import numpy as np
import pytest

import zenith
from tests.backends.cuda.arrays import on_device, on_host
from tests.backends.cuda.fake_cublaslt import BYTES, ENUMS, OTHERS, FakeLt, fake_cublaslt
from tests.backends.cuda.library_checks import (
    BF16,
    check,
    random,
    run,
    tanh_gelu,
    tanh_gelu_slope,
    why_not,
)
from zenith.backends.cuda import cublaslt
from zenith.config import ConfigError, config
from zenith.kernels import gelu as exact_gelu

cupy = pytest.importorskip("cupy")


# --- layouts ---

LAYOUTS = {
    "plain": (lambda x, y: x @ y, lambda m, k, n: ((m, k), (k, n))),
    "right transposed": (lambda x, y: x @ y.T, lambda m, k, n: ((m, k), (n, k))),
    "left transposed": (lambda x, y: x.T @ y, lambda m, k, n: ((k, m), (k, n))),
    "both transposed": (lambda x, y: x.T @ y.T, lambda m, k, n: ((k, m), (n, k))),
    "slices": (lambda x, y: x[1:, 2:] @ y[:, 3:-1], lambda m, k, n: ((m + 1, k + 2), (k, n + 4))),
}


@pytest.mark.parametrize("sizes", [(5, 7, 11), (1, 8, 16), (16, 8, 1), (1, 1, 1), (3, 1, 4), (64, 33, 40)], ids=str)
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(lt, name, sizes):
    function, shapes = LAYOUTS[name]
    left, right = shapes(*sizes)
    check(lt, function, random(left), random(right, seed=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, BF16], ids=lambda t: np.dtype(t).name)
def test_types(lt, dtype):
    check(lt, lambda x, y: x @ y.T, random((9, 16), dtype), random((24, 16), dtype, 1))


@pytest.mark.parametrize("dtype", [np.float16, BF16], ids=lambda t: np.dtype(t).name)
def test_sums_of_16_bit_factors_may_stay_float32(lt, dtype):
    x, y = random((9, 16), dtype), random((16, 24), dtype, 1)
    jitted = check(lt, lambda x, y: x.astype(np.float32) @ y.astype(np.float32), x, y,
                   wanted=lambda x, y: x @ y)  # fmt: skip
    assert "cublasLt.matmul" in str(jitted.show("plan"))


@pytest.mark.parametrize("tf32", [False, True])
def test_float32_is_rounded_to_tf32_by_option_alone(lt, tf32):
    jitted, x, y = zenith.jit(lambda x, y: x @ y, tf32=tf32), random((9, 16)), random((16, 24), seed=1)
    np.testing.assert_allclose(on_host(jitted(on_device(x), on_device(y))), x @ y, 1e-4, 1e-4)
    assert [m.problem.key for m in lt.matmuls] == [(77 if tf32 else 68, 0, 0)]
    assert ("f32 as tf32" in jitted.show("plan")) == tf32


def test_a_batch_is_one_call(lt):
    x, y = random((3, 2, 5, 7)), random((3, 2, 7, 4), seed=1)
    check(lt, lambda x, y: x @ y, x, y)
    check(lt, lambda x, y: x @ np.swapaxes(y, -1, -2), x, random((3, 2, 4, 7), seed=1))
    check(lt, lambda x, y: np.matmul(x, y[None]), random((6, 5, 7)), random((7, 4)), wanted=lambda x, y: x @ y)


def test_heads_of_one_example_are_a_batch(lt):
    """Views of (1, sequence, heads, size): strides of rows are longer than rows."""
    q, k = random((1, 6, 3, 8)), random((1, 5, 3, 8), seed=1)
    check(lt, lambda q, k: np.transpose(q, (0, 2, 1, 3)) @ np.transpose(k, (0, 2, 3, 1)), q, k)


def test_a_transposed_result_is_written_without_a_copy(lt):
    x, y = random((1, 3, 5, 7)), random((1, 3, 7, 8), seed=1)
    check(lt, lambda x, y: np.transpose(x @ y, (0, 2, 1, 3)), x, y)


def test_axes_that_do_not_fold_are_refused(lt):
    """Two examples of three heads: there is one stride from matrix to matrix."""
    q, k = random((2, 6, 3, 8)), random((2, 5, 3, 8), seed=1)
    jitted, (found,) = run(lambda q, k: np.transpose(q, (0, 2, 1, 3)) @ np.transpose(k, (0, 2, 3, 1)), q, k)
    assert not lt.matmuls and lt.driver.launches
    np.testing.assert_allclose(found, q.transpose(0, 2, 1, 3) @ k.transpose(0, 2, 3, 1), 1e-5, 1e-5)
    assert "leading axes lie in memory in two ways" in str(jitted.explain())


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_unaligned_addresses_are_reported(lt, shift):
    """The library gets the true alignment: the binding checks each address against it."""
    x, y = random((40,))[shift : shift + 24].reshape(4, 6), random((6, 8), seed=1)
    assert x.base is not None
    check(lt, lambda x, y: x @ y, x, y)


def test_empty_results_and_empty_sums(lt):
    jitted, (found,) = run(lambda x, y: x @ y, random((0, 4)), random((4, 3)))
    assert found.shape == (0, 3) and not lt.matmuls
    jitted, (found,) = run(lambda x, y: x @ y + 1, random((2, 0)), random((0, 3)))
    assert np.array_equal(found, np.ones((2, 3), np.float32)) and not lt.matmuls
    assert "there are no terms to sum" in str(jitted.explain())


# --- epilogues ---

EPILOGUES = {
    "bias": (lambda x, y, b: x @ y + b, "BIAS"),
    "relu": (lambda x, y, b: np.maximum(x @ y, 0), "RELU"),
    "bias and relu": (lambda x, y, b: np.maximum(0, b + x @ y), "RELU_BIAS"),
    "relu, derivative 0 at 0": (lambda x, y, b: zenith.nn.relu(x @ y + b), "RELU_BIAS"),
    "gelu": (lambda x, y, b: tanh_gelu(x @ y), "GELU"),
    "bias and gelu": (lambda x, y, b: tanh_gelu(x @ y + b), "GELU_BIAS"),
    "scaled, bias and relu": (lambda x, y, b: np.maximum(b + (x @ y) * 0.25, 0), "RELU_BIAS"),
    "negative": (lambda x, y, b: b - x @ y, "BIAS"),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16], ids=lambda t: np.dtype(t).name)
@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues(lt, name, dtype):
    function, epilogue = EPILOGUES[name]
    arrays = random((10, 6), dtype), random((6, 16), dtype, 1), random((16,), dtype, 2)
    check(lt, function, *arrays, epilogue=epilogue)


@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=lambda t: np.dtype(t).name)
def test_the_addend_is_read_by_the_library(lt, dtype):
    x, y, b, r = random((10, 6), dtype), random((6, 16), dtype, 1), random((16,), dtype, 2), random((10, 16), dtype, 3)
    check(lt, lambda x, y, b, r: r + (x @ y + b), x, y, b, r, epilogue="BIAS")
    check(lt, lambda x, y, r: np.maximum(x @ y - 2 * r, 0), x, y, r, epilogue="RELU")


def test_a_batch_with_bias_and_addend(lt):
    x, y, b, r = random((3, 5, 6)), random((3, 6, 8), seed=1), random((8,), seed=2), random((3, 5, 8), seed=3)
    check(lt, lambda x, y, b, r: x @ y + b + r, x, y, b, r, epilogue="BIAS")


def test_the_bias_may_be_a_slice_of_an_array(lt):
    x, y, b = random((10, 6)), random((6, 16), seed=1), random((20,), seed=2)
    check(lt, lambda x, y, b: x @ y + b[3:19], x, y, b, epilogue="BIAS")


def test_gelu_with_its_argument_saved(lt):
    x, y, b = random((10, 6)), random((6, 16), seed=1), random((16,), seed=2)

    def both(x, y, b):
        before = x @ y + b
        return before, tanh_gelu(before)

    check(lt, both, x, y, b, epilogue="GELU_AUX_BIAS")


def test_the_derivative_of_gelu_after_a_product(lt):
    x, y, before = random((10, 6)), random((6, 16), seed=1), random((10, 16), seed=2)
    check(lt, lambda x, y, before: tanh_gelu_slope(before) * (x @ y), x, y, before, epilogue="DGELU")


def test_operands_of_an_epilogue_may_be_aligned_worse_than_the_result(lt):
    x, y, before = random((10, 6)), random((6, 16), seed=1), random((10, 16), seed=2)
    whole = on_device(np.concatenate([before.ravel()[:1], before.ravel()]))
    shifted = cupy.ndarray((10, 16), np.float32, whole.data + 4)
    found = zenith.jit(lambda x, y, z: tanh_gelu_slope(z) * (x @ y))(on_device(x), on_device(y), shifted)
    assert {m.problem.epilogue for m in lt.matmuls} == {"DGELU"}
    np.testing.assert_allclose(on_host(found), tanh_gelu_slope(before) * (x @ y), 1e-5, 1e-5)


def test_saved_rows_must_be_some_elements_apart(lt):
    x, y, before = random((10, 6)), random((6, 13), seed=1), random((10, 13), seed=2)
    jitted, (found,) = run(lambda x, y, before: tanh_gelu_slope(before) * (x @ y), x, y, before)
    assert not lt.matmuls and "no multiple of 8" in str(jitted.explain())
    np.testing.assert_allclose(found, tanh_gelu_slope(before) * (x @ y), 1e-5, 1e-5)


OTHER_EPILOGUES = {
    "tanh": lambda x, y, b: np.tanh(x @ y + b),
    "exact gelu": lambda x, y, b: exact_gelu.function(x @ y + b),
    "a limit": lambda x, y, b: np.minimum(np.maximum(x @ y + b, 0), 6),
    "a column of biases": lambda x, y, b: x @ y + b[:10, None],
    "several results": lambda x, y, b: (x @ y + b, np.tanh(x @ y + b)),
}


@pytest.mark.parametrize("name", OTHER_EPILOGUES)
def test_other_epilogues_are_a_kernel_after_the_call(lt, name):
    function, (x, y, b) = OTHER_EPILOGUES[name], (random((10, 6)), random((6, 16), seed=1), random((16,), seed=2))
    before = len(lt.driver.launches)
    _, results = run(function, x, y, b)
    wanted = "BIAS" if name == "several results" else "DEFAULT"  # the kernel reads the first result
    assert [m.problem.epilogue for m in lt.matmuls] == [wanted] and len(lt.driver.launches) == before + 1
    wanted = zenith.jit(function)(x, y, b)
    for found, want in zip(results, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(found, want, 1e-5, 1e-6)


def test_transposed_results_of_a_kernel_after_the_call(lt):
    x, y = random((3, 5, 7)), random((3, 7, 8), seed=1)
    check(lt, lambda x, y: np.transpose(np.tanh(x @ y), (1, 0, 2)), x, y, kernels=1)


# --- programs ---


def test_small_products_are_kernels_of_zenith(gpu):
    with fake_cublaslt(gpu) as lt:
        jitted = zenith.jit(lambda x, y: x @ y)
        small, large = random((32, 32)), random((640, 640), seed=1)
        for array in (small, large, small):
            on_host(jitted(on_device(array), on_device(array)))
        assert len(lt.matmuls) == 1 and lt.matmuls[0].problem.sizes == (640, 640, 640)
        assert jitted.cache_info().misses == 1, "one program serves both"
        plan = jitted.show("plan")
        assert "where 2*x0*x1*y1 >= " in plan and "call: call cublasLt.matmul [f32](" in plan
        explained = str(jitted.explain())
        assert "cublaslt, else product" in explained
        known = zenith.jit(lambda: small @ small)
        assert "cublasLt" not in known.lower().compile().as_text()


def test_a_known_size_is_refused_with_the_reason(gpu):
    with fake_cublaslt(gpu):
        weight = random((16, 16))
        jitted = zenith.jit(lambda x: x[:16] @ weight, dims={"x": (16, 16)})
        jitted(on_device(random((16, 16))))
        (why,) = why_not(jitted)
        assert why.startswith("it gains 8.2e+03 operations, a call costs as much as ")


@pytest.mark.parametrize("engines", [("product",), ("-cublaslt",)])
def test_the_user_may_choose_zeniths_own_engines(gpu, monkeypatch, engines):
    monkeypatch.setattr(config, "engines", engines)
    with fake_cublaslt(gpu) as lt:
        jitted, _ = run(lambda x, y: x @ y, random((480, 480)), random((480, 480)))
        reason = "ZENITH_ENGINES prefers product" if engines == ("product",) else "ZENITH_ENGINES leaves it out"
        assert not lt.matmuls and why_not(jitted) == [reason] and "ZENITH_ENGINES" in str(jitted.explain())


def test_a_wish_for_an_unknown_engine(monkeypatch):
    monkeypatch.setattr(config, "engines", ("cublas",))
    with pytest.raises(ConfigError, match="ZENITH_ENGINES names an engine 'cublas', and there is none"):
        zenith.jit(lambda x: x + 1)(np.ones(3))


def test_without_the_library_kernels_run(gpu):
    with cublaslt.DOOR.using(None, "nvmath is not installed (pip install nvmath-python)"):
        jitted, _ = run(lambda x, y: x @ y, random((480, 480)), random((480, 480)))
    assert why_not(jitted) == ["nvmath is not installed (pip install nvmath-python)"]


def test_a_product_without_an_algorithm_is_a_kernel(lt):
    lt.refuses = lambda problem: problem.sizes[2] > 4
    jitted = zenith.jit(lambda x, y: x @ y)
    for k, matmuls in ((3, 1), (7, 1), (4, 2)):
        x, y = random((5, k)), random((k, 8), seed=1)
        np.testing.assert_allclose(on_host(jitted(on_device(x), on_device(y))), x @ y, 1e-5, 1e-6)
        assert len(lt.matmuls) == matmuls
    assert "cuBLASLt has no algorithm for it: NOT_SUPPORTED" in str(jitted.explain())


def test_algorithms_are_asked_for_once(lt):
    jitted, x, y = zenith.jit(lambda x, y: x @ y), random((5, 7)), random((7, 8))
    for _ in range(3):
        jitted(on_device(x), on_device(y))
    other = zenith.jit(lambda a, b: a @ b + 0 * 1)
    other(on_device(x), on_device(y))
    assert lt.calls["heuristics"] == 1 and len(lt.matmuls) == 4


def test_known_algorithms_are_bounded(lt, monkeypatch):
    monkeypatch.setattr(cublaslt.DOOR, "capacity", 2)
    for k in (1, 2, 3, 1):
        jitted = zenith.jit(lambda x, y: x @ y)
        jitted(on_device(random((5, k))), on_device(random((k, 8))))
    assert lt.calls["heuristics"] == 4 and cublaslt.DOOR.count == 2


def test_a_call_neither_allocates_nor_waits(lt):
    jitted, x, y = zenith.jit(lambda x, y: np.tanh(x @ y)), on_device(random((64, 64))), on_device(random((64, 64)))
    jitted(x, y)
    waited, made = lt.driver.calls.copy(), len(lt.live)
    lt.driver.on_stream(77)
    first = jitted(x, y)
    before = lt.driver.allocated
    del first
    jitted(x, y)
    assert lt.driver.calls["synchronize"] == waited["synchronize"]
    assert lt.driver.allocated == before, "the workspace is in the arena"
    assert [m.stream for m in lt.matmuls] == [0, 77, 77] and len(lt.live) > made


def test_descriptors_go_with_their_programs(lt):
    jitted = zenith.jit(lambda x, y: x @ y)
    jitted(on_device(random((5, 7))), on_device(random((7, 8))))
    del jitted
    import gc

    gc.collect()
    assert set(lt.live.values()) == {"handle"}


def test_each_thread_has_its_handle(lt):
    jitted, x, y = zenith.jit(lambda x, y: x @ y), on_device(random((5, 7))), on_device(random((7, 8)))
    results = []
    threads = [threading.Thread(target=lambda: results.append(on_host(jitted(x, y)))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3 and len(lt.handles) == 3


def test_products_in_a_loop_read_moving_addresses(lt):
    """A step of a scan reads and writes slices of arrays, whose addresses are known when it runs."""
    w, xs = random((16, 16)) / 4, random((5, 8, 16), seed=1)

    def recurrent(w, xs):
        def step(h, x):
            h = np.maximum(h @ w + x, 0)
            return h, h

        return zenith.scan(step, np.zeros((8, 16), np.float32), xs)

    _, (last, every) = run(recurrent, w, xs)
    assert len(lt.matmuls) == 5
    wanted = zenith.jit(recurrent)(w, xs)
    np.testing.assert_allclose(every, wanted[1], 1e-5, 1e-6)
    np.testing.assert_allclose(last, wanted[0], 1e-5, 1e-6)


def test_constants_are_multiplied_by_kernels_ahead_of_calls(lt):
    a, b = random((8, 8)), random((8, 8), seed=1)
    jitted = zenith.jit(lambda x: x + np.asarray(a) @ zenith.numpy.asarray(b))
    jitted(on_device(random((8, 8))))
    assert not lt.matmuls


def test_concurrent_workspaces_do_not_meet(lt):
    """The workspace is garbage after a call; nothing else of the arena may be."""

    def chain(x, w):
        for _ in range(4):
            x = np.tanh(x @ w) + x
        return x

    x, w = random((24, 16)), random((16, 16), seed=1) / 4
    check(lt, chain, x, w, matmuls=4, kernels=4)


def test_calls_are_replayed_with_the_library_and_without(gpu):
    """The sizes of a call decide, not the program."""

    def chain(x, w):
        for _ in range(6):
            x = np.tanh(np.sin(x) @ w)
        return x

    with fake_cublaslt(gpu) as lt:
        jitted = zenith.jit(chain)
        for size in (16, 640):
            x, w = on_device(random((size, size))), on_device(random((size, size), seed=1) / size)
            for _ in range(4):
                jitted(x, w)
        assert len(lt.matmuls) == 4 * 6
        (program,) = jitted._specializer.specializations()
        setups = {s.sizes["x0"]: s for lease in program.executable._leases for s in lease.setups.values()}
        assert setups[16].why_not is None and setups[16].graph.replays
        assert setups[640].graph is None and setups[640].why_not.endswith("which would have to be copied")
        assert len(setups[16].actions) == 1 and len(setups[640].actions) == 6 + 7, "kernels in a row are one"


def test_calls_are_captured_by_others(lt):
    """As inside of ``torch.cuda.graph``: the library launches on the captured stream, with addresses that stay."""
    lt.driver.on_stream(9)
    jitted, values = zenith.jit(lambda x, y: np.tanh(x @ y)), random((64, 64))
    x, y = on_device(values), on_device(values)
    for _ in range(2):
        jitted(x, y)
    before = len(lt.matmuls)
    with lt.driver.graphs.capture(9) as graph:
        found = jitted(x, y)
    assert len(lt.matmuls) == before + 1 and [kind for kind, _ in graph.steps] == ["call", "kernel"]
    memory = (ctypes.c_char * x.nbytes).from_address(x.data.ptr)
    np.frombuffer(memory, np.float32).reshape(64, 64)[...] = 2 * values
    graph.replay(9)
    np.testing.assert_allclose(on_host(found), np.tanh(2 * values @ values), 1e-4, 1e-4)


# --- the real binding ---


def test_the_fakes_numbers_are_nvmaths():
    nvmath = pytest.importorskip("nvmath", reason="nvmath-python is not installed")
    from nvmath.bindings import cublas, cublasLt

    for name, members in ENUMS.items():
        assert {m: int(getattr(cublasLt, name)[m]) for m in members} == members
    real = {"compute": cublas.ComputeType, "operation": cublas.Operation, "types": nvmath.CudaDataType}
    for name, members in OTHERS.items():
        assert {m: int(real[name][m]) for m in members} == members
    functions = [n for n in dir(FakeLt) if n.startswith(("matmul", "matrix"))]
    assert functions and all(hasattr(cublasLt, name) for name in functions)


def test_sizes_of_attributes_are_nvmaths():
    pytest.importorskip("nvmath", reason="nvmath-python is not installed")
    from nvmath.bindings import cublasLt

    sizes = {
        "MatmulDescAttribute": cublasLt.get_matmul_desc_attribute_dtype,
        "MatrixLayoutAttribute": cublasLt.get_matrix_layout_attribute_dtype,
        "MatmulPreferenceAttribute": cublasLt.get_matmul_preference_attribute_dtype,
    }
    for enum, dtype_of in sizes.items():
        for name in ENUMS[enum]:
            assert np.dtype(dtype_of(getattr(cublasLt, enum)[name])).itemsize == BYTES.get(name, 8), name
    assert np.dtype(cublasLt.matmul_heuristic_result_dtype).fields["state"][1] == 72
    assert np.dtype(cublasLt.matmul_heuristic_result_dtype).itemsize == 96


def test_the_real_binding_says_what_is_missing():
    pytest.importorskip("nvmath", reason="nvmath-python is not installed")
    with cublaslt.DOOR.using(None):
        why = cublaslt.DOOR.problem()
    assert why == "" or why.startswith("the library cannot be loaded: ")
