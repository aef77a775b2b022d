"""``jit``: arguments and results of every kind, static arguments, nesting, methods, errors that name arguments."""

import functools
import inspect
from collections import namedtuple
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest
import torch

import zenith
import zenith.numpy as znp
from zenith.errors import ArgumentError, DTypeError, ShapeError, TraceError, UnsupportedError

X = np.arange(6, dtype=np.float32).reshape(2, 3)
W = np.full((3, 4), 0.5, np.float32)

reference = functools.partial(zenith.jit, backend="reference")


def layer(x, w, bias=1.0):
    """A dense layer."""
    return np.tanh(x @ w + bias)


# --- arguments and results -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_a_numpy_function(backend):
    step = zenith.jit(layer, backend=backend)
    np.testing.assert_allclose(step(X, W), layer(X, W), rtol=1e-6)
    np.testing.assert_allclose(step(X, W, 0.25), layer(X, W, 0.25), rtol=1e-6)
    assert step(X, W).dtype == np.float32


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_tensors_in_tensors_out(backend):
    step = zenith.jit(layer, backend=backend)
    result = step(torch.from_numpy(X), torch.from_numpy(W))
    assert type(result) is torch.Tensor
    np.testing.assert_allclose(result.numpy(), layer(X, W), rtol=1e-6)


def test_any_tensor_makes_the_results_tensors():
    assert type(reference(layer)(torch.from_numpy(X), W)) is torch.Tensor
    assert type(reference(layer)(X, W)) is np.ndarray


def test_wraps_the_function():
    step = reference(layer)
    assert step.__name__ == "layer" and step.__doc__ == "A dense layer." and step.__wrapped__ is layer


def test_trees_in_and_out():
    Point = namedtuple("Point", "x y")

    @reference
    def f(tree, point):
        return {"sum": tree["a"] + tree["b"][0], "point": Point(point.y, None), "both": [point.x, (point.y,)]}

    one, two = np.ones(3), np.arange(3.0)
    result = f({"a": one, "b": [two]}, Point(one, two))
    assert type(result["point"]) is Point and result["point"].y is None
    np.testing.assert_array_equal(result["sum"], one + two)
    np.testing.assert_array_equal(result["both"][1][0], two)
    assert [v.type.dtype.name for v in f.graph.inputs] == ["f64"] * 4
    assert [f.graph.node(v.node).params["name"] for v in f.graph.inputs] == ["tree_a", "tree_b_0", "point_x", "point_y"]


def test_names_of_inputs_and_sizes():
    def f(x, v1, *rest, scale, **options):
        return x + v1 + rest[0] + scale + options["for"]

    graph = zenith.make_graph(f)(X, X, X, scale=X, **{"for": X})
    names = [graph.node(v.node).params["name"] for v in graph.inputs]
    assert names == ["x", "v1_", "rest_0", "for_", "scale"]
    assert zenith.parse(str(graph)) == graph


def test_sizes_and_inputs_never_share_a_name():
    graph = zenith.make_graph(lambda x, x0, x01: (x, x0, x01))(X, X, X)
    names = {graph.node(v.node).params["name"] for v in graph.inputs}
    assert len(set(graph.symbols())) == 6 and not names & set(graph.symbols())


def test_arguments_may_be_called_as_kernels_call_their_own():
    @zenith.jit
    def total(p, out, log):
        return np.exp(p @ out) + np.sum(log)

    p, out, log = np.full((2, 3), 0.5, np.float32), np.ones((3, 2), np.float32), np.ones((1, 2, 3), np.float32)
    np.testing.assert_allclose(total(p, out, log), np.exp(p @ out) + 6, rtol=1e-6)


def test_keyword_and_positional_calls_are_one_program():
    step = reference(layer)
    step(X, W, 2.0)
    step(X, w=W, bias=2.0)
    step(x=X, w=W, bias=3.0)
    assert step.cache_info().misses == 1


def test_python_numbers_are_weak_and_serve_every_value():
    f = reference(lambda x, s: x * s)
    for number in (2.0, 3.5):
        np.testing.assert_array_equal(f(X, number), X * number, strict=True)
    np.testing.assert_array_equal(f(X, 3), X * 3, strict=True)
    np.testing.assert_array_equal(f(X, np.float64(3)), X * np.float64(3), strict=True)
    assert f.cache_info().misses == 3


def test_results_of_rank_zero_are_numbers():
    f = reference(lambda x: (np.sum(x), x.shape[0], 3, 2.5, True))
    total, size, three, half, true = f(X)
    types = [type(r) for r in (total, size, three, half, true)]
    assert types == [X.dtype.type, int, int, float, bool]
    assert (total, size, three, half, true) == (15, 2, 3, 2.5, True)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_results_share_memory_with_nothing(backend):
    captured = np.arange(3.0)

    @zenith.jit(backend=backend)
    def f(x):
        return x, x, captured, x.T

    results = f(X)
    for i, result in enumerate(results):
        assert not any(np.shares_memory(result, other) for other in (X, captured, *results[:i], *results[i + 1 :]))
        result[...] = -1
    np.testing.assert_array_equal(f(X)[2], [0, 1, 2])


def test_captured_arrays_are_snapshots():
    captured = np.ones(3)
    f = reference(lambda x: x + captured)
    f(np.zeros(3))
    captured[:] = 5
    np.testing.assert_array_equal(f(np.zeros(3)), [1, 1, 1])
    f.cache_clear()
    np.testing.assert_array_equal(f(np.zeros(3)), [5, 5, 5])
    assert f.cache_info().reasons[-1].reason == "cache_clear() was called"


def test_no_arguments():
    np.testing.assert_array_equal(reference(lambda: znp.ones(3))(), np.ones(3))


# --- static arguments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("static", [{"static_argnames": "axis"}, {"static_argnums": 1}, {"static_argnums": (-1,)}])
def test_static_arguments(static):
    compiled = reference(total, **static)
    for axis in (0, 1, (0, 1)):
        np.testing.assert_array_equal(compiled(X, axis), np.sum(X, axis=axis))
    np.testing.assert_array_equal(compiled(X, axis=0), np.sum(X, axis=0))
    assert compiled.cache_info().misses == 3
    assert "axis=1" in compiled.cache_info().reasons[1].reason


def test_static_values_of_different_types_are_different():
    f = reference(lambda x, k: x + k, static_argnums=1)
    assert f(np.zeros(1, np.int32), 1).dtype == np.int32
    assert f(np.zeros(1, np.int32), 1.0).dtype == np.float64
    assert f(np.zeros(1, np.int32), True).dtype == np.int32
    assert f.cache_info().misses == 3


@dataclass
class Named:
    """Equal by its name; what else it has cannot be hashed."""

    name: str
    scales: dict

    def __hash__(self):
        return hash(self.name)


def test_a_static_argument_with_a_hash_of_its_own():
    f = reference(lambda x, c: x * c.scales["a"], static_argnums=1)
    assert f(np.ones(1), Named("a", {"a": 2.0}))[0] == 2.0
    assert f(np.ones(1), Named("b", {"a": 3.0}))[0] == 3.0


@dataclass(frozen=True)
class Options:
    scale: object
    name: object = field(default="", compare=False)


class Choice(NamedTuple):
    scale: object


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1,), (1.0,)),
        ((True, (2,)), (True, (2.0,))),
        (0.0, -0.0),
        (np.float64(0.0), np.float64(-0.0)),
        (complex(0.0, 1), complex(-0.0, 1)),
        (np.complex64(complex(0, 0.0)), np.complex64(complex(0, -0.0))),
        (frozenset([2]), frozenset([2.0])),
        (np.datetime64("2020", "Y"), np.datetime64("2020-01-01", "D")),
        (Options(2), Options(2.0)),
        (Options((Options(0.0),)), Options((Options(-0.0),))),
        (Choice(1), Choice(True)),
    ],
)
def test_static_values_that_are_equal_but_not_the_same(one, other):
    f = reference(lambda x, k: x + float(str(k) == str(one)), static_argnums=1)
    assert [f(0.0, k) for k in (one, other, one)] == [1.0, 0.0, 1.0]
    assert f.cache_info().misses == 2


def test_static_values_that_are_the_same_share_a_program():
    f = reference(lambda x, k: x + 1, static_argnums=1)
    for make in (lambda: float("nan"), lambda: (np.float32("nan"),), lambda: Options(1, [1]), lambda: frozenset([0.5])):
        before = f.cache_info().misses
        assert [float(f(0.0, make())) for _ in range(3)] == [1.0] * 3
        assert f.cache_info().misses == before + 1


def test_static_arguments_must_be_hashable():
    with pytest.raises(TraceError, match="static argument axis of total is a list, which cannot be hashed"):
        reference(total, static_argnames="axis")(X, [0])


def total(x, axis):
    return np.sum(x, axis=axis)


def test_static_names_must_exist():
    with pytest.raises(TraceError, match=r"total has no argument axes to be static"):
        reference(total, static_argnames="axes")


@pytest.mark.parametrize("options", [{"static_argnums": 3}, {"donate_argnums": (0, 7)}, {"static_argnums": -3}])
def test_numbers_of_arguments_must_exist(options):
    with pytest.raises(TraceError, match=r"total has no argument .* to be (static|donated)"):
        zenith.jit(total, **options)
    zenith.jit(lambda x, *rest: x, **dict.fromkeys(options, 3))


@pytest.mark.parametrize(
    "options",
    [
        {"static_argnums": "0"},
        {"static_argnums": 0.0},
        {"donate_argnums": ("x",)},
        {"static_argnames": 3},
        {"max_compilations": "3"},
        {"max_compilations": -1},
    ],
)
def test_options_of_other_kinds_are_refused(options):
    with pytest.raises(ArgumentError, match=f"{next(iter(options))} is "):
        zenith.jit(total, **options)


@pytest.mark.parametrize("transform", [zenith.grad, zenith.value_and_grad, zenith.jacfwd, zenith.jacrev])
@pytest.mark.parametrize("argnums", ["x", 0.0, (None,)])
def test_what_numbers_no_argument_is_refused(transform, argnums):
    with pytest.raises(ArgumentError, match="argnums is "):
        transform(np.sum, argnums)(np.ones(3))


def test_what_is_no_axis_is_refused():
    for axes in (0.0, ("x",), ({"a": 1.0},)):
        with pytest.raises(ArgumentError, match=r"in_axes says .* for an axis"):
            zenith.vmap(lambda p: p, axes)({"a": np.ones((2, 2))})


def test_an_unknown_backend():
    with pytest.raises(UnsupportedError, match=r"no backend 'gpu'(.|\n)*cpu.*reference"):
        zenith.jit(layer, backend="gpu")


# --- nesting, methods, recursion -----------------------------------------------------------------------------------


def test_nested_jit_is_inlined():
    inner = reference(lambda x: x * 2)
    outer = reference(lambda x: inner(inner(x)) + 1)
    np.testing.assert_array_equal(outer(X), X * 4 + 1)
    assert inner.cache_info().misses == 0
    assert "mul" in str(outer.graph) and str(outer.graph).count("def ") == 1


def test_a_nested_function_may_capture_traced_values():
    @reference
    def outer(x):
        inner = reference(lambda y: y + x)
        return inner(np.ones(3, np.float32))

    np.testing.assert_array_equal(outer(X), X + 1)


def test_recursion_over_a_static_argument():
    @reference(static_argnums=1)
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    np.testing.assert_array_equal(power(X, 4), X**4)
    assert power.cache_info().misses == 1


class Model:
    def __init__(self, scale):
        self.scale = scale

    @zenith.jit(backend="reference")
    def forward(self, x):
        """Scales."""
        return x * self.scale

    @zenith.jit(backend="reference", static_argnums=2)
    def repeated(self, x, n):
        return x * self.scale * n


def test_methods_are_compiled_for_each_instance():
    double, triple = Model(2.0), Model(3.0)
    for _ in range(2):
        np.testing.assert_array_equal(double.forward(X), X * 2)
        np.testing.assert_array_equal(triple.forward(X), X * 3)
    assert double.forward.cache_info().misses == 1 and double.forward.cache_info().hits == 1
    np.testing.assert_array_equal(double.repeated(X, 3), X * 6)
    assert double.forward.__name__ == "forward" and Model.forward.__doc__ == "Scales."


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    @functools.partial(zenith.jit, static_argnums=0)
    def __call__(self, x):
        return x * self.factor

    def __eq__(self, other):
        return self.factor == other.factor

    def __hash__(self):
        return hash(self.factor)


def test_an_instance_that_is_static_says_itself_what_it_equals():
    model = Scaled(2.0)
    np.testing.assert_array_equal(model(X), X * 2)
    model.factor = 5.0
    np.testing.assert_array_equal(model(X), X * 5)
    np.testing.assert_array_equal(Scaled(5.0)(X), X * 5)
    assert Scaled.__call__.cache_info().misses == 2
    assert zenith.verify(model.__call__, [X]).relative < 1e-6
    assert list(inspect.signature(model.__call__).parameters) == ["x"]
    assert model.__call__.lower(X).compile()(model, X).tolist() == (X * 5).tolist()


def test_a_method_keeps_its_instance_alive_and_no_longer():
    import gc
    import weakref

    model = Model(2.0)
    method, reference_to = model.forward, weakref.ref(model)
    del model
    np.testing.assert_array_equal(method(X), X * 2)
    del method
    gc.collect()
    assert reference_to() is None and id(reference_to) not in Model.forward._methods


def test_instances_without_weak_references():
    class Slotted:
        __slots__ = ("scale",)
        forward = Model.forward

    with pytest.raises(TraceError, match="__weakref__"):
        Slotted().forward(X)


# --- disable_jit ---------------------------------------------------------------------------------------------------


def test_disable_jit_runs_the_function_itself():
    seen = []

    @functools.partial(reference, convert=False)
    def f(x, k):
        seen.append(type(x))
        if float(np.sum(x)) > 0:  # not possible while tracing
            return x + k, np.sum(x)
        return x, np.sum(x)

    with zenith.disable_jit():
        result, total = f(X, 2)
        tensor, _ = f(torch.from_numpy(X), 2)
    np.testing.assert_array_equal(result, X + 2)
    assert type(total) is X.dtype.type
    assert type(tensor) is torch.Tensor and seen == [np.ndarray] * 2
    assert f.cache_info().misses == 0
    with pytest.raises(TraceError):
        f(X, 2)


# --- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        ("text", TraceError, r'options\["mode"\] is a str(.|\n)*static_argnames="options"'),
        (object(), TraceError, r'options\["mode"\] is a object, neither an array nor a number'),
        (np.zeros(2, "M8[s]"), DTypeError, r'options\["mode"\]: Zenith has no element type for datetime64'),
        (2**70, DTypeError, "does not fit int64"),
        (torch.zeros(2, requires_grad=True), UnsupportedError, r"torch.no_grad\(\)"),
    ],
)
def test_leaves_that_are_no_arrays_are_named(value, error, text):
    f = reference(lambda x, options: x)
    with pytest.raises(error, match=text):
        f(X, {"mode": value})
    assert f.cache_info().misses == 0


def test_arrays_of_other_libraries():
    class Foreign:
        def __array__(self, dtype=None, copy=None):
            return np.zeros(2)

    with pytest.raises(TraceError, match=r"x is a Foreign(.|\n)*numpy.asarray\(x\)"):
        reference(lambda x: x)(Foreign())


def test_results_that_are_no_arrays():
    with pytest.raises(TraceError, match="returned a str, which is no array"):
        reference(lambda x: {"a": "text"})(X)


def test_a_gradient_that_would_be_lost_after_a_call_that_was_fine():
    f = reference(lambda x: x + 1)
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        f(x)
    with pytest.raises(UnsupportedError, match="x requires a gradient"):
        f(x)
    assert f.cache_info().misses == 1


def test_shapes_that_do_not_fit_in_a_later_call():
    f = reference(lambda x, w: x @ w)
    f(X, W)
    with pytest.raises(ShapeError, match=r"matmul(.|\n)*x1 = 3, w0 = 2|matmul(.|\n)*w0 = 2") as caught:
        f(X, W[:2])
    assert caught.value.where is not None and caught.value.where.file == __file__
    assert f.cache_info().misses == 1


# --- declared sizes ------------------------------------------------------------------------------------------------


def test_declared_sizes():
    batch = zenith.Dim("batch", min=1, max=8, multiple_of=2)
    f = reference(lambda x, y: x + y, dims={"x": (batch, 3), "y": (batch, None)})
    np.testing.assert_array_equal(f(X, X), X + X)
    assert str(f.graph.inputs[0].type) == "f32[batch, 3]"
    for rows, text in ((0, "batch >= 1"), (10, "batch <= 8"), (3, "batch % 2 == 0")):
        wrong = np.zeros((rows, 3), np.float32)
        with pytest.raises(ShapeError, match=rf"declared as Dim\('batch'(.|\n)*{text} does not hold"):
            f(wrong, wrong)
    with pytest.raises(ShapeError, match="axis 0 of y is declared as batch"):
        f(np.zeros((4, 3), np.float32), np.zeros((2, 3), np.float32))
    assert f.cache_info().misses == 1


def test_declarations_must_fit_the_arguments():
    with pytest.raises(ShapeError, match="dims declares z, which is no argument"):
        reference(lambda x: x, dims={"z": (None,)})(X)
    with pytest.raises(ShapeError, match="which has 2 axes, not 1"):
        reference(lambda x: x, dims={"x": (None,)})(X)
    f = reference(lambda x: x, dims={"x": (2, 4)})
    with pytest.raises(ShapeError, match="axis 1 of x is declared as 4 and has size 3 here"):
        f(X)
    np.testing.assert_array_equal(f(np.zeros((2, 4))), np.zeros((2, 4)))
    with pytest.raises(ShapeError, match="axis 0 of x is declared as 2 and has size 3 here"):
        f(np.zeros((3, 4)))
    with pytest.raises(ShapeError, match="no size is like"):
        zenith.Dim("n", min=3, max=2)


@pytest.mark.parametrize(
    ("dims", "said"),
    [
        ({"x": ("my batch", None)}, "axis 0 of x is declared as 'my batch'"),
        ({"x": (None, 2.0)}, "axis 1 of x is declared as 2.0"),
        ({"x": (-1, None)}, "axis 0 of x is declared as -1"),
        ({"x": (True, None)}, "axis 0 of x is declared as True"),
        ({"x": "bn"}, "dims declares 'x' as 'bn'"),
        ({"x": 2}, "dims declares 'x' as 2"),
        ([("x", (2, 3))], "dims is a list, no dict"),
    ],
)
def test_what_declares_no_sizes_is_refused(dims, said):
    with pytest.raises(ArgumentError, match=said):
        zenith.jit(lambda x: x, dims=dims)


def test_what_is_no_function_is_refused():
    with pytest.raises(TraceError, match=r"jit takes a function, not a int"):
        zenith.jit(3)
