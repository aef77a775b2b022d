"""Derivatives that users write: in every composition, against JAX, and what is refused."""

import numpy as np
import pytest

import zenith
from tests.transforms.compare import agree, jax_and_numpy
from zenith import checkpoint, custom_jvp, custom_vjp, grad, hessian, jit, jvp, stop_gradient, vmap
from zenith.errors import ShapeError, TraceError, ZenithError

X = np.random.default_rng(0).standard_normal(5)
SCALE = np.arange(1.0, 6.0)


def softplus(custom_jvp, np):
    @custom_jvp
    def f(x, y):
        return np.log1p(np.exp(x)) * y

    @f.defjvp
    def rule(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), dx * y / (1 + np.exp(-x)) + dy * np.log1p(np.exp(x))

    return f


def clipped(custom_vjp, np):
    @custom_vjp
    def f(p):
        return {"y": p["x"] ** 2 * p["k"]}

    def forward(p):
        return f(p), (p["x"], p["k"])

    def backward(residuals, cotangent):
        x, k = residuals
        return ({"x": np.clip(cotangent["y"] * 2 * x * k, -1.0, 1.0), "k": cotangent["y"] * x**2},)

    f.defvjp(forward, backward)
    return f


WRAPS = {
    "grad": lambda grad, vmap, f: grad(lambda x: f(x).sum()),
    "jit": lambda grad, vmap, f: jit(grad(lambda x: f(x).sum())),
    "vmap of grad": lambda grad, vmap, f: vmap(grad(f)),
    "grad of vmap": lambda grad, vmap, f: grad(lambda x: vmap(f)(x).sum()),
    "second": lambda grad, vmap, f: vmap(grad(grad(f))),
}


@pytest.mark.parametrize("wrap", WRAPS)
def test_custom_jvp_is_that_of_jax(wrap):
    jax, jnp = jax_and_numpy()
    ours, theirs = softplus(custom_jvp, np), softplus(jax.custom_jvp, jnp)
    make = WRAPS[wrap]
    found = make(grad, vmap, lambda x: ours(x, np.sin(x)))(X)
    expected = make(jax.grad, jax.vmap, lambda x: theirs(x, jnp.sin(x)))
    agree(found, (getattr(expected, "function", expected))(X))
    value, moved = jvp(ours, (X, X), (np.ones(5), X))
    agree((value, moved), jax.jvp(theirs, (X, X), (jnp.ones(5), X)))


@pytest.mark.parametrize("wrap", ["grad", "vmap of grad", "grad of vmap", "second"])
def test_custom_vjp_is_that_of_jax(wrap):
    jax, jnp = jax_and_numpy()
    ours, theirs = clipped(custom_vjp, np), clipped(jax.custom_vjp, jnp)
    make = WRAPS[wrap]
    found = make(grad, vmap, lambda x: ours({"x": x, "k": x + 1})["y"])(X)
    expected = make(jax.grad, jax.vmap, lambda x: theirs({"x": x, "k": x + 1})["y"])
    agree(found, expected(X))
    assert agree(jit(make(grad, vmap, lambda x: ours({"x": x, "k": x + 1})["y"]))(X), expected(X)) is None


def test_rules_may_use_arrays_of_their_own_and_one_program_serves_all_sizes():
    @custom_vjp
    def scaled(x):
        return x * SCALE

    scaled.defvjp(lambda x: (x * SCALE, None), lambda residuals, g: (g * SCALE * 10,))
    step = jit(vmap(grad(lambda x: np.sum(scaled(x)))))
    for rows in (3, 1, 4):
        assert np.array_equal(step(np.ones((rows, 5))), np.tile(10 * SCALE, (rows, 1)))
    assert step.cache_info().misses == 1


def test_outside_of_transforms_it_is_the_function():
    f = softplus(custom_jvp, np)
    assert f(0.0, 1.0) == np.log(2.0) and jit(f)(0.0, 1.0) == pytest.approx(np.log(2.0))
    assert f.__name__ == "f"


def test_an_implicit_function_by_its_own_rule():
    """The root of y**3 + y = x, by Newton's method; its derivative is 1 / (3 y**2 + 1), whatever the iterations."""

    @custom_vjp
    def root(x):
        return zenith.fori_loop(0, 30, lambda _, y: y - (y**3 + y - x) / (3 * y**2 + 1), x * 0.0)

    root.defvjp(lambda x: (root(x), root(x)), lambda y, g: (g / (3 * y**2 + 1),))
    y = root(X)
    np.testing.assert_allclose(jit(grad(lambda x: np.sum(root(x))))(X), 1 / (3 * y**2 + 1), rtol=1e-12)


# --- stop_gradient and checkpoint -----------------------------------------------------------------------------------


def test_stop_gradient():
    assert grad(lambda x: x * stop_gradient(x))(3.0) == 3
    assert jit(grad(lambda x: x * stop_gradient({"a": x})["a"]))(3.0) == 3
    assert np.array_equal(stop_gradient(X), X) and vmap(stop_gradient)(X).shape == (5,)
    assert jvp(stop_gradient, (2.0,), (1.0,)) == (2, 0)


def block(x, np):
    return np.tanh(np.sin(x) * np.exp(x)) + x


def test_checkpoint_changes_no_value():
    def chain(step):
        def run(x):
            for _ in range(3):
                x = step(x)
            return np.sum(x)

        return run

    plain, saving = chain(lambda x: block(x, np)), chain(checkpoint(lambda x: block(x, np)))
    assert saving(X) == plain(X)
    agree(grad(saving)(X), grad(plain)(X))
    agree(jit(grad(saving))(X), grad(plain)(X))
    agree(vmap(grad(saving))(np.stack([X, -X])), vmap(grad(plain))(np.stack([X, -X])))
    agree(hessian(saving)(X), hessian(plain)(X))
    agree(jvp(saving, (X,), (X,)), jvp(plain, (X,), (X,)))


def test_checkpoint_saves_memory():
    def deep(step, weights):
        def run(x):
            for weight in weights:
                x = step(x, weight)
            return np.sum(x)

        return run

    def layer(x, weight):
        for _ in range(4):
            x = np.tanh(x @ weight)
        return x

    weights = [np.eye(8) for _ in range(6)]
    peaks = []
    for step in (layer, checkpoint(layer)):
        lowered = jit(grad(deep(step, weights))).lower(zenith.ShapeDtypeStruct((512, 8), "float64"))
        peaks.append(lowered.memory_analysis().at(lowered.sizes).arena.static)
    assert peaks[1] < 0.6 * peaks[0]


# --- what is refused -----------------------------------------------------------------------------------------------


def no_rule():
    return grad(custom_jvp(lambda x: x))(1.0)


def wrong_rule(rule):
    f = custom_jvp(lambda x: x * 2)
    f.defjvp(rule)
    return grad(f)(1.0)


def wrong_backward(backward):
    f = custom_vjp(lambda x: x * 2)
    f.defvjp(lambda x: (x * 2, ()), backward)
    return grad(f)(1.0)


def wrong_forward(forward):
    f = custom_vjp(lambda x: x * 2)
    f.defvjp(forward, lambda residuals, g: (g,))
    return grad(f)(1.0)


def captures():
    def outer(s):
        f = custom_vjp(lambda x: x * s)
        f.defvjp(lambda x: (x * s, ()), lambda r, g: (g,))
        return f(2.0)

    return grad(outer)(3.0)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (no_rule, "has no rule"),
        (lambda: wrong_rule(lambda p, t: p[0]), "returns a pair"),
        (lambda: wrong_rule(lambda p, t: (p[0] * 2, np.stack([t[0], t[0]]))), "rule of lambda_ must be"),
        (lambda: wrong_backward(lambda r, g: g), "a tuple with a cotangent for each argument"),
        (lambda: wrong_backward(lambda r, g: (np.stack([g, g]),)), "backward rule must be f64"),
        (lambda: wrong_backward(lambda r, g: ((g, g),)), "another structure than its argument"),
        (
            lambda: wrong_forward(lambda x: x * 2),
            "forward rule of lambda_ returns a pair(.|\n)*fix: return result, residuals",
        ),
        (lambda: grad(custom_vjp(lambda x: x))(1.0), "has no rules"),
        (captures, r"none of its arguments(.|\n)*pass it as an argument"),
    ],
)
def test_refusals(call, text):
    with pytest.raises(TraceError, match=text):
        call()


@pytest.mark.parametrize(
    ("forward", "backward", "text"),
    [
        (lambda x: (x * 2, ()), lambda r, g: (g[:1],), r"backward rule must be f64\[x0\], not f64\[1\]"),
        (lambda x: (x[:1] * 2, ()), lambda r, g: (g,), "result of lambda_'s forward rule must be"),
    ],
)
def test_sizes_of_what_rules_return_are_checked_in_every_call(forward, backward, text):
    f = custom_vjp(lambda x: x * 2)
    f.defvjp(forward, backward)
    gradient = jit(grad(lambda x: f(x).sum()))
    for _ in range(2):
        with pytest.raises(ShapeError, match=text):
            gradient(np.ones(3))
        assert gradient(np.ones(1)) in (1, 2)


def test_forward_mode_of_custom_vjp_is_refused():
    with pytest.raises(ZenithError, match="no forward mode"):
        jvp(clipped(custom_vjp, np), ({"x": X, "k": X},), ({"x": X, "k": X},))


def test_results_that_nobody_reads_have_no_cotangent():
    """A branch of a switch, and a function with a rule; one of their two results is read."""

    @zenith.custom_jvp
    def both(x):
        return np.sin(x), np.cos(x)

    @both.defjvp
    def rule(primals, tangents):
        (x,), (dx,) = primals, tangents
        return both(x), (np.cos(x) * dx, -np.sin(x) * dx)

    def chosen(x):
        return zenith.cond(x > 0, lambda x: (x * x, x), lambda x: (x, x * x), x)

    for number in (0, 1):
        np.testing.assert_allclose(
            zenith.grad(lambda x, i=number: both(x)[i])(0.5), [np.cos(0.5), -np.sin(0.5)][number]
        )
        np.testing.assert_allclose(zenith.grad(lambda x, i=number: chosen(x)[i])(0.5), [1.0, 1.0][number])
        np.testing.assert_allclose(zenith.grad(lambda x, i=number: chosen(x)[i])(-0.5), [1.0, -1.0][number])
