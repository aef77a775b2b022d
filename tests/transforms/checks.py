"""Identities between the transforms of any function of arrays in float64.

Forward against reverse mode, examples together against each alone, and second derivatives in every order of the modes,
with ``jit`` anywhere in between.

Each check takes ``function`` of arrays, which returns a list of arrays, the arguments, and a generator of random
numbers. It says how much it compared: infinities and nan leave nothing to compare.
"""

import numpy as np

from zenith import grad, jit, jvp, vjp, vmap

EXAMPLES = 3
ROUNDED = 8  # times that arguments are moved
NUDGE = 4 * np.finfo(np.float64).eps  # of each of them


def scale(*arrays):
    """The sum of all magnitudes, or None: infinities and nan leave nothing to compare."""
    total = sum(float(np.abs(a).sum()) for a in arrays)
    return total if np.isfinite(total) else None


def moved_by_rounding(function, args, bound, rng):
    """Where results differ when arguments move by a few units: at a corner or a jump, the last bit decides."""
    plain = function(*args)
    moved = [np.zeros(np.shape(p), bool) for p in plain]
    for _ in range(ROUNDED):
        nudged = [a * (1 + NUDGE * rng.uniform(-1, 1, a.shape)) for a in args]
        moved = [m | ~np.isclose(x, p, **bound) for m, x, p in zip(moved, function(*nudged), plain, strict=True)]
    return moved


def require_close(found, expected, bound, ill_conditioned):
    """Equal within a bound, except where the last bit of the arguments decides: ``ill_conditioned`` finds these."""
    if not all(np.allclose(f, e, **bound) for f, e in zip(found, expected, strict=True)):
        found = [np.where(c, e, f) for c, f, e in zip(ill_conditioned(), found, expected, strict=True)]
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, e, **bound)


def check_forward_against_reverse(function, args, rng):
    directions = [rng.uniform(-1, 1, a.shape) for a in args]
    values, moved = jvp(function, args, directions)
    weights = [rng.uniform(-1, 1, v.shape) for v in values]
    _, back = vjp(function, *args)
    pulled = back(weights)
    left = [w * m for w, m in zip(weights, moved, strict=True)]
    right = [g * d for g, d in zip(pulled, directions, strict=True)]
    size = scale(*left, *right)
    if size is None:
        return 0
    difference = sum(float(a.sum()) for a in left) - sum(float(a.sum()) for a in right)
    assert abs(difference) <= 1e-9 * max(size, 1.0)
    return 1


def check_gradients(function, args, rng):
    """jit(grad), vmap(grad) and grad(vmap) against grad."""

    def loss(*floats):
        return sum(np.sum(np.tanh(r)) for r in function(*floats)) + 0.0

    every = tuple(range(len(args)))
    alone = grad(loss, argnums=every)
    plain, compiled = alone(*args), jit(alone, backend=rng.choice(["lanes", "cpu"]))(*args)
    if scale(*plain) is None:
        return 0
    bound = {"rtol": 1e-6, "atol": 1e-9 * max(1.0, scale(*plain))}
    require_close(compiled, plain, bound, lambda: moved_by_rounding(alone, args, bound, rng))
    stacked = [np.stack([a * (1 + 0.1 * i) for i in range(EXAMPLES)]) for a in args]
    each = [alone(*(s[i] for s in stacked)) for i in range(EXAMPLES)]
    together = vmap(alone)(*stacked)
    total = grad(lambda *s: np.sum(vmap(loss)(*s)), argnums=every)(*stacked)
    for number in every:
        expected = np.stack([e[number] for e in each])
        if np.isfinite(expected).all():
            bound = {"rtol": 1e-9, "atol": 1e-9 * max(1.0, float(np.abs(expected).max(initial=0)))}
            np.testing.assert_allclose(together[number], expected, **bound)
            np.testing.assert_allclose(total[number], expected, **bound)
    return 1


def compiled_or_not(rng):
    """Wraps some functions in ``jit`` and leaves others; most are compiled to NumPy, which takes no time."""

    def wrap(function):
        backend = rng.choice(["none", "lanes", "cpu"], p=[0.4, 0.5, 0.1])
        return function if backend == "none" else jit(function, backend=backend)

    return wrap


def along(gradients, direction):
    """The derivative along a direction."""
    return sum(np.sum(g * d) for g, d in zip(gradients, direction, strict=True)) + 0.0


def hessian_vector_products(number, wrap):
    """Functions of (a list of arrays, a direction): the Hessian-vector product by each order of the two modes."""

    def slope(floats, direction):
        return jvp(wrap(number), (floats,), (direction,))[1]

    def forward_of_reverse(floats, direction):
        return jvp(wrap(grad(wrap(number))), (floats,), (direction,))[1]

    def reverse_of_forward(floats, direction):
        return grad(wrap(lambda f: slope(f, direction)))(floats)

    def reverse_of_reverse(floats, direction):
        return grad(lambda f: along(wrap(grad(wrap(number)))(f), direction))(floats)

    def forward_of_forward(floats, direction):
        """One component at a time would be the Hessian; all together, by reverse mode over the second direction."""
        return grad(wrap(lambda d: jvp(wrap(lambda f: slope(f, direction)), (floats,), (d,))[1]))(direction)

    return [wrap(f) for f in (forward_of_reverse, reverse_of_forward, reverse_of_reverse, forward_of_forward)]


def check_second_derivatives(function, args, rng):
    """Hessian-vector products by all four orders of modes, for one direction and for many; the Hessian is symmetric."""

    def number(floats):
        return sum(np.sum(np.tanh(r)) for r in function(*floats)) + 0.0

    wrap = compiled_or_not(rng)
    products = hessian_vector_products(number, wrap)
    directions = [[rng.uniform(-1, 1, a.shape) for a in args] for _ in range(2)]
    plain = hessian_vector_products(number, lambda f: f)[0]
    expected = [plain(args, d) for d in directions]
    size = scale(*expected[0], *expected[1])
    if size is None:
        return 0
    bound = {"rtol": 1e-6, "atol": 1e-8 * max(size, 1.0)}
    stacked = [np.stack(pair) for pair in zip(*directions, strict=True)]

    def ill_conditioned_along(direction):
        return moved_by_rounding(lambda *floats: plain(list(floats), direction), args, bound, rng)

    for product in products:
        require_close(product(args, directions[0]), expected[0], bound, lambda: ill_conditioned_along(directions[0]))
        together = wrap(vmap(product, in_axes=(None, 0)))(args, stacked)
        for index, direction in enumerate(directions):
            found = [t[index] for t in together]
            require_close(found, expected[index], bound, lambda d=direction: ill_conditioned_along(d))
    symmetric = along(expected[0], directions[1]) - along(expected[1], directions[0])
    assert abs(symmetric) <= 1e-8 * max(size, 1.0)
    return 1
