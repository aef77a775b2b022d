"""Convolutions planned for a GPU: values on lanes and of the printed source, gradients, layouts, engines."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import zenith
from tests.backends.cuda import networks
from tests.backends.cuda.grid import GridExecutable
from tests.backends.running import call, plan_of
from tests.nn.test_convolution import CASES
from zenith import nn
from zenith.backends.cpu.texts import TILE_FUNCTIONS
from zenith.backends.cuda.forms import wide_loops
from zenith.backends.cuda.target import cuda_target
from zenith.backends.kernel import walk
from zenith.backends.lanes.executable import LanesExecutable
from zenith.backends.steps import LaunchStep
from zenith.backends.tiles import Folded, Operand, SharedProduct
from zenith.backends.weights import WeightTable
from zenith.ir.interpret import interpret

ELEMENTS = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


def arrays(name, dtype=np.float32):
    """A case's image, weights and bias: small integers, whose sums are exact in any order."""
    x, w, _ = CASES[name]
    rng = np.random.default_rng(0)
    return [rng.integers(-3, 4, shape).astype(dtype) for shape in (x, w, (w[0],))]


def convolution(name):
    options = CASES[name][2]
    return lambda x, w, b: np.maximum(nn.conv(x, w, b, **options), -5)


def planned(function, args, target=None, known=False):
    """The graph of a function and its plan, with sizes of the image that are known or not."""
    specs = [zenith.ShapeDtypeStruct(a.shape, a.dtype) for a in args]
    graph = zenith.make_graph(function)(*(specs if known else args))
    return graph, plan_of(graph, target or cuda_target())


def on_lanes(graph, plan):
    return LanesExecutable(plan, TILE_FUNCTIONS, WeightTable.of(graph))


def products(plan):
    """The kernels that multiply, with their products."""
    kernels = [s.kernel for s in plan.steps if isinstance(s, LaunchStep)]
    return [(k, s) for k in kernels for s in walk(k.body) if isinstance(s, SharedProduct)]


def engines(plan):
    return [g.choice.engine for g in plan.groups if g.choice.kind == "convolution"]


# --- values ---


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_convolution(name, known):
    args = arrays(name)
    graph, plan = planned(convolution(name), args, known=known)
    (result,) = call(on_lanes(graph, plan), graph, args)
    np.testing.assert_array_equal(result, interpret(graph, *args)[0])


@pytest.mark.parametrize("name", ["plane", "groups", "points"])
def test_gradients(name):
    args = arrays(name)[:2]
    gradient = zenith.grad(lambda x, w: np.sum(nn.conv(x, w, **CASES[name][2]) ** 2), argnums=(0, 1))
    graph, plan = planned(gradient, args)
    for found, expected in zip(call(on_lanes(graph, plan), graph, args), interpret(graph, *args), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.float64, np.float16])
def test_element_types(dtype):
    args = arrays("plane", dtype)
    graph, plan = planned(convolution("plane"), args, known=True)
    assert engines(plan) == ["convolution_cores" if dtype == np.float16 else "shared_convolution"]
    np.testing.assert_array_equal(call(on_lanes(graph, plan), graph, args)[0], interpret(graph, *args)[0])


def test_a_step_of_training():
    weights = networks.parameters((3, 8, 16), classes=5)
    rng = np.random.default_rng(1)
    args = [*weights.values(), rng.standard_normal((4, 3, 6, 5)).astype(np.float32), rng.integers(0, 5, 4)]
    names = list(weights)

    def step(*leaves):
        value, moved = networks.step(dict(zip(names, leaves, strict=False)), *leaves[len(names) :])
        return value, *moved.values()

    graph, plan = planned(step, args, known=True)
    assert engines(plan) == ["shared_convolution"] * 5
    for found, expected in zip(call(on_lanes(graph, plan), graph, args), interpret(graph, *args), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


# --- the printed source ---

GRID = [
    # element, image, weights, options, schedule, whether copies are wide
    ("f32", (2, 3, 6, 5), (4, 3, 3, 2), {"stride": (2, 1), "padding": 1}, None, False),
    ("f32", (1, 4, 5, 4), (8, 2, 3, 3), {"groups": 2, "dilation": 2, "padding": 2}, None, False),
    ("f16", (2, 8, 5, 6), (8, 8, 3, 3), {"padding": 1}, "f16_32x64", True),
    ("f16", (1, 8, 4, 7), (5, 8, 2, 3), {"stride": 2}, "f16_32x64", False),
    ("bf16", (1, 16, 6, 6), (32, 8, 3, 1), {"groups": 2, "dilation": 2, "padding": 1}, "bf16_16x128", True),
    ("f32", (1, 8, 5, 5), (8, 8, 3, 3), {"padding": 1, "stride": 2}, "tf32_32x64", True),
]


@pytest.mark.parametrize(("element", "x", "w", "options", "schedule", "wide"), GRID)
def test_on_a_grid_of_threads(element, x, w, options, schedule, wide):
    """With the true lane layout: exact, since few terms of small integers have exact sums in any order."""
    rng, dtype = np.random.default_rng(2), ELEMENTS[element]
    args = [rng.integers(-3, 4, shape).astype(dtype) for shape in (x, w)]
    target = cuda_target(tf32=schedule is not None)
    if schedule is not None:
        target = replace(target, pick=lambda tiles, _: next(t for t in tiles if t.name == schedule))
    graph, plan = planned(lambda x, w: nn.conv(x, w, **options) + 1, args, target, known=True)
    ((kernel, product),) = products(plan)
    assert (product.schedule.name if product.schedule else None) == schedule
    sides = {side for loop in wide_loops(kernel).loops.values() for side in loop.sides}
    assert ("a" in sides) == wide
    (result,) = call(GridExecutable(plan, WeightTable.of(graph), widest=True), graph, args)
    np.testing.assert_array_equal(result, interpret(graph, *args)[0])


def by_weights(shape, **options):
    """The gradient by weights of a shape, for an image and a cotangent whose channels are last, as after others."""

    def gradient(x, ct):
        x, ct = (np.transpose(a, (0, 3, 1, 2)) for a in (x, ct))
        found = zenith.grad(lambda w: np.sum(nn.conv(x, w, **options) * ct))(np.zeros(shape, x.dtype))
        return np.transpose(found, (2, 3, 1, 0))

    return gradient


def test_a_gradient_by_weights_on_a_grid_of_threads():
    """Its windows are gathered along channels, which are examples here: rows of the product that are copied at once."""
    rng = np.random.default_rng(3)
    args = [rng.integers(-2, 3, (2, 4, 5, 8)).astype(np.float16) for _ in range(2)]
    target = replace(cuda_target(), pick=lambda tiles, _: next(t for t in tiles if t.name == "f16_32x64"))
    graph, plan = planned(by_weights((8, 8, 3, 3), padding=1), args, target, known=True)
    ((kernel, product),) = products(plan)
    assert isinstance(product.a, Folded) and product.a.strides[0] == 1
    assert {side for loop in wide_loops(kernel).loops.values() for side in loop.sides} == {"a", "b"}
    (result,) = call(GridExecutable(plan, WeightTable.of(graph), widest=True), graph, args)
    np.testing.assert_array_equal(result, interpret(graph, *args)[0])


# --- plans ---


@pytest.mark.parametrize(("name", "folded"), [("window", True), ("points", False), ("strided points", True)])
def test_windows_of_one_position_are_ordinary_products(name, folded):
    *_, stride, border = networks.LAYERS[name]
    graph = zenith.make_graph(networks.layer(stride, border))(*networks.layer_types(name, "float32"))
    ((_, product),) = products(plan_of(graph, cuda_target()))
    assert isinstance(product.a, Folded if folded else Operand)


def test_convolutions_in_a_row_are_not_transposed_between():
    """Two layers: the image, the weights and the result are transposed, and borders are put around.

    The first layer's results are stored inside their border.
    """
    rng = np.random.default_rng(8)
    args = [rng.standard_normal(s).astype(np.float32) for s in ((2, 16, 9, 9), (32, 16, 3, 3), (8, 32, 3, 3))]
    graph, plan = planned(lambda x, v, w: nn.conv(nn.relu(nn.conv(x, v, padding=1)), w, padding=1), args)
    kernels = [s.kernel.name.rsplit("_", 1)[0] for s in plan.steps if isinstance(s, LaunchStep)]
    others = [name for name in kernels if "conv_blocks" not in name]
    assert sorted(others) == ["border", "transpose", "transpose", "transpose", "transpose_pad"] and len(kernels) == 7
    (result,) = call(on_lanes(graph, plan), graph, args)
    np.testing.assert_allclose(result, interpret(graph, *args)[0], rtol=1e-4, atol=1e-4)


def test_a_gradient_by_weights_reads_the_cotangent_where_it_is():
    """It is the matrix of weights, examples outermost: no transpose comes before, and many splits share its terms."""
    types = [zenith.ShapeDtypeStruct(s, "float32") for s in ((128, 34, 34, 64), (128, 32, 32, 128))]
    plan = plan_of(zenith.make_graph(by_weights((128, 64, 3, 3)))(*types), cuda_target())
    first = plan.steps[0].kernel
    ((kernel, product),) = products(plan)
    assert kernel is first and {product.a.buffer, product.b.buffer} == {"p0", "p1"}
    assert kernel.tasks.static > 128


def test_engines_say_why_not():
    graph = zenith.make_graph(networks.layer(1, 1))(*networks.layer_types("window", "float32"))
    (group,) = [g for g in plan_of(graph, cuda_target()).groups if g.choice.kind == "convolution"]
    why = dict(group.choice.others)
    assert "tf32=True" in why["convolution_cores"] and "gather" in why["convolution"]
    (group,) = [g for g in plan_of(graph).groups if g.choice.kind == "convolution"]
    assert group.choice.engine == "winograd"
    assert "teams of threads" in dict(group.choice.others)["shared_convolution"]
