"""Convolutions by cuDNN: which ones it is asked for, by the values that the driver without a device gives."""

import inspect

import ml_dtypes
import numpy as np
import pytest

import zenith
from tests.backends.cuda.arrays import on_device, on_host
from tests.backends.cuda.fake_cudnn import NOTES, FakeGraph, bound_graph, fake_cudnn
from tests.backends.running import plan_of
from zenith import nn
from zenith.backends.cuda import cudnn
from zenith.backends.cuda.libraries import LIBRARIES
from zenith.backends.cuda.target import cuda_target
from zenith.config import config

BF16 = ml_dtypes.bfloat16
ENGINE = "cudnn_convolution"


@pytest.fixture
def dnn(gpu, monkeypatch):
    """The library, which computes every convolution that it supports."""
    monkeypatch.setattr(config, "engines", (ENGINE,))
    with fake_cudnn(gpu) as found:
        yield found


def integers(shape, dtype=np.float32, seed=0):
    """Small ones, whose sums are exact."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


def convolve(x, w, *bias, **options):
    """A convolution of an array whose channels are the last axis, as after another one."""
    return np.transpose(nn.conv(np.transpose(x, (0, 3, 1, 2)), w, *bias, **options), (0, 2, 3, 1))


def run(dnn, function, *arrays, tf32=False):
    """The operations that the library executed, and the jitted function; checks the result against NumPy."""
    before = len(dnn.executed)
    jitted = zenith.jit(function, tf32=tf32)
    found = on_host(jitted(*map(on_device, arrays)))
    zenith.synchronize()
    np.testing.assert_array_equal(found, function(*arrays))
    return [call.operation for call in dnn.executed[before:]], jitted


def refused(jitted):
    """The reasons for which the library refused calls."""
    return str([pair for program in jitted._specializer.specializations() for pair in program.executable.refused])


def why_not(function, *types, **target):
    """The engine's reason against the convolution of a function."""
    graph = zenith.make_graph(function)(*(zenith.ShapeDtypeStruct(s, d) for s, d in types))
    plan = plan_of(graph, cuda_target(libraries=LIBRARIES, **target))
    return [dict(g.choice.others)[ENGINE] for g in plan.groups if g.choice.kind == "convolution"]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
@pytest.mark.parametrize(("x", "w", "options"), [
    ((2, 6, 5, 8), (4, 8, 3, 3), {"padding": 1}),
    ((1, 9, 8, 4), (12, 4, 3, 2), {"stride": (2, 3), "dilation": (1, 2)}),
    ((3, 4, 4, 16), (8, 16, 1, 1), {}),
])  # fmt: skip
def test_windows(dnn, x, w, options, dtype):
    (of,), _ = run(dnn, lambda x, w: convolve(x, w, **options), integers(x, dtype), integers(w, dtype, 1))
    assert of.epilogue == [] and of.image.stride[1] == of.weight.stride[1] == 1


@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_sums_and_relu_are_fused_in_16_bits(dnn, dtype):
    def block(x, v, w, b):
        return nn.relu(convolve(x, w, b, padding=1) + convolve(x, v))

    arrays = [integers(s, dtype, i) for i, s in enumerate(((2, 5, 5, 8), (8, 8, 1, 1), (8, 8, 3, 3), (8,)))]
    both, jitted = run(dnn, block, *arrays)
    assert [[name for name, _ in of.epilogue] for of in both] == [["bias"], ["addend", "relu"]], refused(jitted)
    assert all(of.most > 0 and "FFT" in of.left_out and "TENSOR_CORE" not in of.left_out for of in both)


def test_float32_is_convolved_in_full_and_a_kernel_does_the_rest(dnn):
    def block(x, w, b):
        return nn.relu(convolve(x, w, b))

    arrays = [integers(s, np.float32, i) for i, s in enumerate(((2, 5, 5, 4), (8, 4, 3, 3), (8,)))]
    (of,), jitted = run(dnn, block, *arrays)
    assert of.epilogue == [] and {"TENSOR_CORE", "DOWN_CONVERT_INPUTS", "NONDETERMINISTIC"} <= {*of.left_out}
    (program,) = jitted._specializer.specializations()
    why = dict(next(g for g in program.origin.plan.groups if g.choice.engine == ENGINE).choice.others)
    assert "fused on tensor cores alone" in why[f"all of it by {ENGINE}"]
    (of,), _ = run(dnn, block, *arrays, tf32=True)
    assert [name for name, _ in of.epilogue] == ["bias", "relu"] and "TENSOR_CORE" not in of.left_out


def test_sizes_that_change_make_a_graph_each(dnn):
    jitted = zenith.jit(lambda x, w: nn.conv(x, w, padding=1))
    w = integers((8, 4, 3, 3), seed=1)
    for shape in ((1, 4, 5, 5), (3, 4, 7, 2), (1, 4, 5, 5)):
        x = integers(shape)
        np.testing.assert_array_equal(on_host(jitted(on_device(x), on_device(w))), nn.conv(x, w, padding=1))
    assert dnn.built == 2 and len(dnn.executed) == 3 and jitted.cache_info().misses == 1


def test_refused_convolutions_are_kernels(dnn):
    dnn.refuses = lambda operation: True
    operations, jitted = run(dnn, convolve, integers((1, 5, 5, 4)), integers((4, 4, 3, 3), seed=1))
    assert operations == [] and "no valid execution plans" in refused(jitted)


def test_refusals_when_planned(dnn):
    f32, f64 = np.float32, np.float64
    groups = why_not(lambda x, w: nn.conv(x, w, groups=2), ((1, 4, 5, 5), f32), ((4, 2, 3, 3), f32))
    line = why_not(nn.conv, ((1, 4, 5), f32), ((4, 4, 3), f32))
    channels_first = why_not(nn.conv, ((1, 4, 5, 5), f32), ((4, 4, 3, 3), f32))
    doubles = why_not(convolve, ((1, 5, 5, 4), f64), ((4, 4, 3, 3), f64))
    other = why_not(lambda x, w: np.tanh(convolve(x, w)), ((1, 5, 5, 4), np.float16), ((4, 4, 3, 3), np.float16))
    assert "groups" in groups[0] and "spatial axes" in line[0] and "no channels" in channels_first[0]
    assert "f64" in doubles[0] and "formula" in other[0]


def test_small_ones_are_not_worth_a_call(gpu):
    with fake_cudnn(gpu):
        (why,) = why_not(convolve, ((1, 5, 5, 4), np.float32), ((4, 4, 3, 3), np.float32))
    assert "a call costs" in why


def test_without_the_library_kernels_compute_it(gpu):
    with cudnn.DOOR.using(None, "cudnn is not installed (pip install nvidia-cudnn-frontend)"):
        (why,) = why_not(convolve, ((8, 56, 56, 256), np.float32), ((256, 256, 3, 3), np.float32))
    assert "pip install nvidia-cudnn-frontend" in why


def test_the_front_end_has_all_functions_and_options_in_use():
    real = pytest.importorskip("cudnn")
    for name in ("conv_fprop", "add", "relu"):
        words = [p for p in inspect.signature(getattr(FakeGraph, name)).parameters if p != "self"]
        assert all(f"{word}: " in getattr(bound_graph(real), name).__doc__ for word in words), name
    assert hasattr(real.pygraph, "deselect_numeric_notes") and hasattr(real.pygraph, "deselect_workspace_greater_than")
    assert {note.name for note in NOTES} <= {*real.numerical_note.__members__}
