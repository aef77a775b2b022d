"""``grad`` and ``value_and_grad``: against JAX, in any structure, under jit for every size, and what they refuse."""

import numpy as np
import pytest
import torch

import zenith
from tests.sampling import leave
from tests.transforms.compare import agree, attention, jax_and_numpy, normalised, perceptron, picked, squared_error
from zenith import grad, jit, jvp, value_and_grad, vmap
from zenith.errors import ArgumentError, DTypeError, ShapeError, TraceError, ZenithError

RNG = np.random.default_rng(0)
PARAMS = [
    (RNG.standard_normal((4, 5)), RNG.standard_normal(5)),
    (RNG.standard_normal((5, 3)), RNG.standard_normal(3)),
]
X, Y = RNG.standard_normal((7, 4)), RNG.standard_normal((7, 3))
HEADS = tuple(RNG.standard_normal((2, 6, 4)) for _ in range(3))
FUNCTIONS = {
    "perceptron": (squared_error, (PARAMS, X, Y)),
    "attention": (attention, HEADS),
    "normalised": (normalised, (X,)),
    "picked": (picked, (X[:, 0],)),
    "product": (lambda x, np: np.sum(x @ x.T @ x), (X,)),
    "norm": (lambda x, np: np.linalg.norm(x), (X[0],)),
    "powers": (lambda x, np: np.sum(np.abs(x) ** x + np.log1p(x * x) / np.sqrt(1 + x * x)), (X,)),
}


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_jax(name, wrap):
    jax, jnp = jax_and_numpy()
    function, args = FUNCTIONS[name]
    every = tuple(range(len(args)))
    found = wrap(value_and_grad(lambda *a: function(*a, np), argnums=every))(*args)
    agree(found, jax.value_and_grad(lambda *a: function(*a, jnp), argnums=every)(*args))


@pytest.mark.parametrize("name", leave(("attention", "product"), FUNCTIONS))
def test_second_derivatives_are_those_of_jax(name):
    jax, jnp = jax_and_numpy()
    function, args = FUNCTIONS[name]

    def twice(grad, function, cos, total):
        return grad(lambda *a: total([(cos(g)).sum() for g in zenith.tree.flatten(grad(function)(*a))[0]]))

    found = jit(twice(grad, lambda *a: function(*a, np), np.cos, sum))(*args)
    agree(found, twice(jax.grad, lambda *a: function(*a, jnp), jnp.cos, sum)(*args), 1e-8)


def test_one_program_serves_all_sizes():
    step = jit(grad(lambda p, x, y: squared_error(p, x, y, np)))
    for rows in (7, 1, 3, 0):
        with np.errstate(all="ignore"):
            found = step(PARAMS, X[:rows], Y[:rows])
        expected = grad(lambda p, x, y: squared_error(p, x, y, np))(PARAMS, X[:rows], Y[:rows])
        agree(found, expected)
    assert step.cache_info().misses == 1


def test_gradients_have_the_structure_and_type_of_their_arguments():
    params = {"w": np.ones((3, 2), np.float32), "b": (np.zeros(2), None)}
    value, gradient = value_and_grad(lambda p, x: np.sum(x @ p["w"] + p["b"][0]))(params, np.ones((4, 3), np.float32))
    assert value.shape == () and gradient.keys() == params.keys() and gradient["b"][1] is None
    assert (gradient["w"].dtype, gradient["b"][0].dtype) == (np.float32, np.float64)
    assert gradient["w"].tolist() == [[4, 4]] * 3


def test_tensors_give_tensors():
    x = torch.arange(3.0)
    value, (constant, gradient) = value_and_grad(lambda k, x: k * np.sum(x * x), argnums=(0, 1))(1.0, x)
    assert all(isinstance(t, torch.Tensor) for t in (value, constant, gradient)) and gradient.tolist() == [0, 2, 4]
    (moved, back), mapped = zenith.vjp(np.sin, x), zenith.vmap(lambda k, x: k * x, in_axes=(None, 0))(2.0, x)
    assert isinstance(moved, torch.Tensor) and isinstance(back(x)[0], torch.Tensor) and mapped.tolist() == [0, 2, 4]
    assert all(isinstance(t, torch.Tensor) for t in zenith.jvp(np.sin, (x,), (x,)))
    assert jit(grad(lambda x: np.sum(x * x)))(x).tolist() == [0, 2, 4]


def test_aux_goes_along_and_keywords_are_constants():
    def loss(w, *, scale):
        y = w * scale
        return np.sum(y), {"y": y, "count": 3}

    gradient, aux = grad(loss, has_aux=True)(np.ones(2), scale=np.array([2.0, 3.0]))
    assert gradient.tolist() == [2, 3] and aux["y"].tolist() == [2, 3] and aux["count"] == 3
    (value, _), _ = jit(value_and_grad(loss, has_aux=True))(np.ones(2), scale=np.array([2.0, 3.0]))
    assert value == 5


def test_what_is_captured_is_constant_and_outer_gradients_see_it():
    outer = grad(lambda s: grad(lambda x: np.sin(s * x))(2.0))
    assert outer(0.5) == pytest.approx(np.cos(1.0) - 1.0 * np.sin(1.0))
    assert jit(outer)(0.5) == pytest.approx(np.cos(1.0) - 1.0 * np.sin(1.0))


def test_jitted_functions_inside_and_python_numbers():
    inner = jit(lambda x: x**3)
    assert grad(inner)(2.0) == 12 and grad(grad(grad(inner)))(2.0) == 6
    assert jit(grad(jit(grad(inner))))(2.0) == 12


def test_negative_argnums_and_arguments_that_do_not_matter():
    found = grad(lambda x, y: np.sum(y * y), argnums=(0, -1))(np.ones(2), np.arange(2.0))
    assert found[0].tolist() == [0, 0] and found[1].tolist() == [0, 2]


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: grad(np.sin)(np.ones(3)), ShapeError, r"one floating-point number(.|\n)*f64\[3\](.|\n)*jacrev"),
        (lambda: grad(lambda x: (x, x))(1.0), ShapeError, "one floating-point number"),
        (lambda: grad(lambda w: w * 2)(3), DTypeError, r"w has no derivative(.|\n)*i64(.|\n)*float32"),
        (lambda: grad(lambda p: p["a"] * 1.0)({"a": True}), DTypeError, r'p\["a"\] has no derivative'),
        (lambda: grad(np.sum, argnums=1)(np.ones(2)), TraceError, "argument 1, and the call has 1"),
        (lambda: grad(np.sum, argnums=1.5)(np.ones(2)), ArgumentError, "argnums is 1.5, no number of an argument"),
        (lambda: grad(np.sum, argnums=("x",))(np.ones(2)), ArgumentError, "argnums is .*, no number of an argument"),
        (lambda: grad(lambda x: "x")(1.0), TraceError, "a result is a str"),
        (lambda: grad(lambda x: x, has_aux=True)(1.0), TraceError, "returns a pair"),
        (lambda: grad(lambda x, f: x)(1.0, object()), TraceError, "f is a object"),
    ],
)
def test_refusals_name_the_cause(call, error, text):
    with pytest.raises(error, match=text) as caught:
        call()
    assert isinstance(caught.value, ZenithError) and "test_gradients.py" in str(caught.value)


def test_a_value_of_the_function_cannot_be_used_after_it():
    leaked = []
    grad(lambda x: leaked.append(x) or x)(1.0)
    with pytest.raises(TraceError, match="after the trace had ended"):
        leaked[0] + 1


def test_prints_happen_once_in_order(capsys):
    def f(x):
        zenith.debug.print("a {}", x)
        y = x * x
        zenith.debug.print("b {}", y)
        return y

    assert jit(grad(f))(3.0) == 6
    assert capsys.readouterr().out == "a 3.0\nb 9.0\n"
    assert grad(f)(3.0) == 6
    assert capsys.readouterr().out == "a 3.0\nb 9.0\n"


def test_a_perceptron_learns():
    step = jit(value_and_grad(lambda p, x, y: squared_error(p, x, y, np)))
    params, target = PARAMS, perceptron(PARAMS, X, np) * 0.5
    losses = []
    for _ in range(50):
        loss, gradient = step(params, X, target)
        losses.append(float(loss))
        params = [(w - 0.5 * gw, b - 0.5 * gb) for (w, b), (gw, gb) in zip(params, gradient, strict=True)]
    assert losses[-1] < losses[0] / 3 and step.cache_info().misses == 1


@pytest.mark.parametrize("backend", ["reference", "lanes", "cpu"])
def test_an_axis_found_to_have_size_1_while_the_function_runs_is_stretched(backend):
    def stretched(x):
        one = np.reshape(x, (1,))
        return np.sum(np.broadcast_to(one, (4,)) * np.arange(4.0)) + np.sum(one * np.arange(3.0))

    x = np.array([0.3])
    np.testing.assert_array_equal(jit(grad(stretched), backend=backend)(x), [9.0])
    moved = jit(lambda x, d: jvp(stretched, (x,), (d,))[1], backend=backend)(x, np.array([2.0]))
    np.testing.assert_allclose(moved, 18.0, rtol=1e-15)
    each = jit(vmap(grad(stretched)), backend=backend)(np.ones((5, 1)))
    np.testing.assert_array_equal(each, np.full((5, 1), 9.0))
