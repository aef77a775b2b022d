"""Loops and branches under derivatives and batching: against JAX, each other, and unrolled Python."""

import numpy as np
import pytest

import zenith
from tests.transforms.compare import agree, jax_and_numpy
from zenith import checkpoint, grad, hessian, jit, jvp, linearize, value_and_grad, vmap

RNG = np.random.default_rng(0)
W, U, B = 0.5 * RNG.standard_normal((4, 4)), RNG.standard_normal((3, 4)), RNG.standard_normal(4)
XS, H = RNG.standard_normal((6, 3)), RNG.standard_normal(4)


def recurrent(scan, np):
    """A recurrent network's last state and all states; captures weights, carries a state and a count."""

    def run(w, u, b, h, xs, reverse=False):
        def step(carry, x):
            state, count = carry
            state = np.tanh(state @ w + x @ u + b)
            return (state, count + 1), {"state": state, "count": count}

        return scan(step, (h, 0), xs, reverse=reverse)

    return run


def loss(scan, np, reverse=False):
    run = recurrent(scan, np)

    def number(*args):
        (last, _), given = run(*args, reverse=reverse)
        return np.sum(np.sin(given["state"])) + np.sum(last * last)

    return number


ARGS = (W, U, B, H, XS)
EVERY = tuple(range(5))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_gradients_of_scan_are_those_of_jax(wrap, reverse):
    jax, jnp = jax_and_numpy()
    found = wrap(value_and_grad(loss(zenith.scan, np, reverse), argnums=EVERY))(*ARGS)
    agree(found, jax.value_and_grad(loss(jax.lax.scan, jnp, reverse), argnums=EVERY)(*ARGS))


def test_tangents_of_scan_are_those_of_jax():
    jax, jnp = jax_and_numpy()
    moves = tuple(np.cos(a) for a in ARGS)
    found = jit(lambda *a: jvp(loss(zenith.scan, np), a, moves))(*ARGS)
    agree(found, jax.jvp(loss(jax.lax.scan, jnp), ARGS, moves))
    only = (ARGS[:3], lambda f: lambda *w: f(*w, H, XS))
    agree(jvp(only[1](loss(zenith.scan, np)), only[0], moves[:3]),
          jax.jvp(only[1](loss(jax.lax.scan, jnp)), only[0], moves[:3]))  # fmt: skip
    value, push = linearize(loss(zenith.scan, np), *ARGS)
    agree((value, push(*moves)), found)


def test_second_derivatives_through_scan():
    jax, jnp = jax_and_numpy()

    def of_state(make, np):
        return lambda h: make(W, U, B, h, XS)

    agree(jit(hessian(of_state(loss(zenith.scan, np), np)))(H),
          jax.hessian(of_state(loss(jax.lax.scan, jnp), jnp))(H), 1e-8)  # fmt: skip


def test_batches_of_scan_are_those_of_jax():
    jax, jnp = jax_and_numpy()
    states, inputs = RNG.standard_normal((5, 4)), RNG.standard_normal((5, 6, 3))
    weights = RNG.standard_normal((5, 4, 4))
    cases = [
        ((None, None, None, 0, None), (W, U, B, states, XS)),
        ((0, None, None, None, 0), (weights, U, B, H, inputs)),
    ]
    for axes, args in cases:
        found = jit(vmap(recurrent(zenith.scan, np), in_axes=axes))(*args)
        agree(found, jax.vmap(recurrent(jax.lax.scan, jnp), in_axes=axes)(*args))
        found = jit(vmap(grad(loss(zenith.scan, np), argnums=EVERY), in_axes=axes))(*args)
        agree(found, jax.vmap(jax.grad(loss(jax.lax.scan, jnp), argnums=EVERY), in_axes=axes)(*args))


def test_one_program_for_every_number_of_steps():
    step = jit(grad(loss(zenith.scan, np), argnums=EVERY))
    for steps in (6, 1, 4, 0):
        expected = grad(loss(zenith.scan, np), argnums=EVERY)(W, U, B, H, XS[:steps])
        agree(step(W, U, B, H, XS[:steps]), expected)
    assert step.cache_info().misses == 1


def test_a_checkpointed_step_changes_nothing():
    def run(wrap):
        def number(w):
            def step(h, x):
                h = wrap(lambda h: np.tanh(h @ w + x @ U))(h)
                return h, None

            return np.sum(zenith.scan(step, H, XS)[0])

        return jit(grad(number))(W)

    agree(run(checkpoint), run(lambda f: f))


def test_loops_with_a_known_number_of_steps():
    jax, jnp = jax_and_numpy()

    def number(fori_loop, np):
        return lambda x, n: fori_loop(0, n, lambda i, y: np.sin(y) * x + 0.1 * i, x).sum()

    ours = number(zenith.fori_loop, np)
    agree(jit(grad(lambda x: ours(x, 7)))(H), jax.grad(lambda x: number(jax.lax.fori_loop, jnp)(x, 7))(H))
    sized = jit(grad(lambda x, xs: ours(x, xs.shape[0])))
    for steps in (3, 5):
        agree(sized(H, XS[:steps]), jax.grad(lambda x, n=steps: number(jax.lax.fori_loop, jnp)(x, n))(H))
    assert sized.cache_info().misses == 1
    mapped = grad(lambda x: zenith.map(lambda a: np.sin(a) * a, x).sum())
    agree(mapped(H), np.cos(H) * H + np.sin(H))


def collatz(while_loop, np):
    """Halves and triples until 1, counting; moves a float along."""

    def run(n, x):
        def step(carry):
            n, x, count = carry
            even = n % 2 == 0
            return np.where(even, n // 2, 3 * n + 1), np.where(even, np.sin(x), x * 1.5), count + 1

        return while_loop(lambda carry: carry[0] > 1, step, (n, x, 0))

    return run


def test_while_loops_move_forward_and_in_batches():
    jax, jnp = jax_and_numpy()
    ours, theirs = collatz(zenith.while_loop, np), collatz(jax.lax.while_loop, jnp)
    agree(jvp(lambda x: ours(np.int64(6), x)[1], (0.7,), (1.0,)), jax.jvp(lambda x: theirs(6, x)[1], (0.7,), (1.0,)))
    starts, xs = np.array([1, 6, 7, 27]), RNG.standard_normal(4)
    agree(jit(vmap(ours))(starts, xs), jax.vmap(theirs)(starts, xs))
    agree(jit(vmap(lambda x: ours(np.int64(6), x)))(xs), jax.vmap(lambda x: theirs(6, x))(xs))


def test_reverse_mode_through_while_is_refused():
    with pytest.raises(zenith.ZenithError, match=r"unknown number of steps; use scan(.|\n)*test_control.py"):
        grad(lambda x: zenith.while_loop(lambda c: c < 10, lambda c: c * 2, x))(1.0)


def branches(cond, switch, np):
    def run(k, p, x):
        y = cond(p > 0, lambda x: np.sin(x) * p, lambda x: x * x, x)
        return switch(k, [lambda y: y, lambda y: y * 3 * p, lambda y: np.exp(y)], y)

    return run


@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize("p", [-0.5, 0.5])
def test_branches(k, p):
    jax, jnp = jax_and_numpy()
    ours = branches(zenith.cond, zenith.switch, np)
    theirs = branches(jax.lax.cond, jax.lax.switch, jnp)
    total = lambda f: lambda p, x: f(k, p, x).sum()  # noqa: E731
    agree(jit(grad(total(ours), argnums=(0, 1)))(p, H), jax.grad(total(theirs), argnums=(0, 1))(p, H))
    agree(jvp(total(ours), (p, H), (1.0, H)), jax.jvp(total(theirs), (p, H), (1.0, H)))
    ks, ps = np.array([0, 1, 2, 1]), np.array([-0.5, 0.5, 0.7, -0.1])
    agree(jit(vmap(ours, in_axes=(0, 0, None)))(ks, ps, H), jax.vmap(theirs, in_axes=(0, 0, None))(ks, ps, H))
    agree(jit(vmap(ours, in_axes=(None, None, 0)))(k, p, XS), jax.vmap(theirs, in_axes=(None, None, 0))(k, p, XS))


def test_leapfrog_conserves_energy_and_is_differentiable():
    """Two bodies on a circle: the symplectic integrator after Verlet, 1967, by ``fori_loop``."""

    def energy(q, v):
        return np.sum(v * v) / 2 - 1 / np.sqrt(np.sum(q * q))

    force = grad(lambda q: 1 / np.sqrt(np.sum(q * q)))

    def orbit(q, v, steps, dt):
        def step(i, state):
            q, v = state
            v = v + dt / 2 * force(q)
            q = q + dt * v
            return q, v + dt / 2 * force(q)

        return zenith.fori_loop(0, steps, step, (q, v))

    q, v = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    end = jit(lambda q, v: orbit(q, v, 200, 2 * np.pi / 200))(q, v)
    np.testing.assert_allclose(end[0], q, atol=5e-3)
    assert energy(*end) == pytest.approx(energy(q, v), abs=1e-6)
    sensitivity = jit(grad(lambda v: orbit(q, v, 200, 0.01)[0].sum()))(v)
    shifted = [sum(orbit(q, v + d, 200, 0.01)[0]) for d in (np.array([1e-5, 0]), np.array([-1e-5, 0]))]
    assert sensitivity[0] == pytest.approx((shifted[0] - shifted[1]) / 2e-5, rel=1e-5)
