"""What is computed at once has memory of its own: writing into arguments or results changes nothing else."""

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from zenith import cond, fori_loop, grad, jacfwd, jacrev, jit, jvp, linearize, scan, tree, value_and_grad, vjp, vmap
from zenith.trace.results import own_memory

X = np.arange(1.0, 4.0)


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_an_argument_may_be_written_between_two_backward_passes(wrap):
    a = X.copy()
    _, pull = vjp(wrap(lambda a: (a * a).sum()), a)
    _, push = linearize(wrap(lambda a: a.reshape(3, 1) * a), a)
    first, moved = pull(1.0)[0], push(np.ones(3))
    a -= 1
    assert np.array_equal(first, 2 * X) and np.array_equal(pull(1.0)[0], first)
    assert np.array_equal(push(np.ones(3)), moved)


def test_a_tensor_may_be_written_between_two_backward_passes():
    torch = pytest.importorskip("torch")
    a = torch.tensor(X)
    _, pull = vjp(lambda a: (a * a).sum(), a)
    a -= 1
    assert np.array_equal(pull(1.0)[0], 2 * X)


def test_the_value_may_be_written_before_the_backward_pass():
    value, pull = vjp(np.exp, np.zeros(3))
    value *= 5
    assert np.array_equal(pull(np.ones(3))[0], np.ones(3))


def test_two_cotangents_are_two_arrays():
    given = np.ones(3)
    da, db = vjp(lambda a, b: a + b, X, X)[1](given)
    da *= 10
    assert np.array_equal(db, np.ones(3)) and np.array_equal(given, np.ones(3))


def test_each_call_of_a_linear_function_gives_new_zeros():
    _, push = linearize(lambda a: (a, np.ones(3), np.arange(3)), X)
    for number in (1, 2):
        push(X)[number][...] = 7
        assert not push(X)[number].any()
    _, pull = vjp(lambda a, b: a, X, X)
    pull(X)[1][...] = 7
    assert not pull(X)[1].any()


def first_of_each(x):
    """Returns its argument twice: two results that are one array."""
    return x, x


AT_ONCE = {
    "jvp": lambda x: jvp(first_of_each, (x,), (x,)),
    "linearize": lambda x: linearize(first_of_each, x)[0],
    "vjp": lambda x: vjp(first_of_each, x)[0],
    "grad": lambda x: grad(lambda x: x.sum())(x),
    "aux": lambda x: value_and_grad(lambda x: (x.sum(), x), has_aux=True)(x),
    "vmap": lambda x: vmap(first_of_each)(x),
    "unmapped": lambda x: vmap(lambda n, x: (1.0, x), in_axes=(0, None), out_axes=(0, 1))(np.arange(2), x),
    "shared": lambda x: vmap(lambda x: x, in_axes=None, out_axes=None, axis_size=2)(x),
    "jacfwd": lambda x: jacfwd(first_of_each)(x),
    "jacrev": lambda x: jacrev(first_of_each)(x),
    "fori_loop": lambda x: fori_loop(0, 0, lambda i, s: 2.0 * s, x),
    "scan": lambda x: scan(lambda c, row: (c, c), x, length=2),
    "cond": lambda x: cond(True, first_of_each, first_of_each, x),
    "stop_gradient": lambda x: zenith.stop_gradient((x, x)),
    "checkpoint_name": lambda x: zenith.checkpoint_name((x, x), "x"),
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_results_may_be_written_and_nothing_else_changes(name):
    x = X.copy()
    results = tree.flatten(AT_ONCE[name](x))[0]
    for number, result in enumerate(results):
        others = [np.copy(r) for i, r in enumerate(results) if i != number]
        result += 100
        assert np.array_equal(x, X)
        after = [r for i, r in enumerate(results) if i != number]
        assert all(map(np.array_equal, after, others))


def test_what_shares_nothing_is_not_copied():
    fresh, x = np.ones((2, 3)), X.copy()
    column = fresh.T
    assert own_memory([column, None], [x])[0] is column
    assert own_memory([fresh, column, x[1:]], [x])[0] is fresh
    assert not any(np.shares_memory(a, b) for a, b in [own_memory([fresh, column]), own_memory([fresh, fresh])])


def test_read_only_memory_is_copied():
    for frozen in (np.broadcast_to(1.0, (3,)), np.frombuffer(b"12345678")):
        (found,) = own_memory([frozen])
        found += 1
        assert np.array_equal(found, frozen + 1)


def test_values_of_a_trace_stay():
    assert np.array_equal(jit(lambda x: grad(lambda a: znp.sum(a * own_memory([a], [a])[0]))(x))(X), 2 * X)
