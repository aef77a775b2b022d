"""Policies of checkpoint: what is saved and what is recomputed, and that values are those of JAX."""

import numpy as np
import pytest

import zenith
from tests.transforms.compare import agree, jax_and_numpy
from zenith import checkpoint, checkpoint_name, checkpoint_policies, grad, hessian, jit, jvp, value_and_grad, vjp, vmap
from zenith.errors import TraceError
from zenith.passes.pipeline import run

RNG = np.random.default_rng(7)
X, V, W = (RNG.standard_normal((6, 6)) for _ in range(3))
POLICIES = {
    "nothing": lambda p: p.nothing_saveable,
    "dots": lambda p: p.dots_saveable,
    "everything": lambda p: p.everything_saveable,
    "hidden": lambda p: p.save_only_these_names("hidden"),
    "others": lambda p: p.save_any_names_but_these("hidden"),
    "both": lambda p: p.save_from_both_policies(p.dots_saveable, p.save_only_these_names("hidden")),
    "matrices": lambda p: p.dots_with_no_batch_dims_saveable,
}


def layers(v, w, np, name):
    hidden = name(np.tanh(X @ v), "hidden")
    return np.sin(hidden @ w)


def counts(function, *args):
    """How often the program computes products, tanh and sin."""
    graph, _ = run(zenith.make_graph(function)(*args))
    names = [node.primitive.name for node in graph.walk()]
    return names.count("matmul"), names.count("tanh"), names.count("sin")


def ours(policy, prepare=lambda f: f):
    step = checkpoint(lambda v, w: layers(v, w, np, checkpoint_name), policy=policy)
    return prepare(lambda v, w: step(v, w).sum())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (None, (7, 2, 1)), ("nothing", (7, 2, 1)), ("dots", (5, 2, 1)), ("everything", (5, 1, 1)),
        ("hidden", (6, 1, 1)), ("others", (7, 2, 1)), ("both", (5, 1, 1)), ("matrices", (5, 2, 1)),
    ],
)  # fmt: skip
def test_what_the_backward_pass_recomputes(name, expected):
    """Five products are what a gradient takes, two of them forward; the last sine is the value's alone."""
    policy = None if name is None else POLICIES[name](checkpoint_policies)
    assert counts(value_and_grad(ours(policy), (0, 1)), V, W) == expected
    assert counts(jit(value_and_grad(ours(policy), (0, 1))), V, W) == expected
    assert counts(ours(policy), V, W) == (2, 1, 1)  # without a derivative nothing is left of it


def test_products_of_batches_are_not_those_of_matrices():
    """The last product is the result itself, which is there."""

    def step(x):
        return np.tanh(x @ np.swapaxes(x, -1, -2)) @ V

    batch = np.stack([X, W])
    for policy, products in (("dots", 5), ("matrices", 6), ("nothing", 6)):
        saving = checkpoint(step, policy=POLICIES[policy](checkpoint_policies))
        assert counts(value_and_grad(lambda x, f=saving: np.sin(f(x)).sum()), batch)[0] == products


@pytest.mark.parametrize("name", POLICIES)
def test_values_and_gradients_are_those_of_jax(name):
    jax, jnp = jax_and_numpy()
    from jax.ad_checkpoint import checkpoint_name as named

    theirs = jax.checkpoint(lambda v, w: layers(v, w, jnp, named), policy=POLICIES[name](jax.checkpoint_policies))
    expected = jax.value_and_grad(lambda v, w: theirs(v, w).sum(), (0, 1))(V, W)
    step = ours(POLICIES[name](checkpoint_policies))
    agree(jit(value_and_grad(step, (0, 1)))(V, W), expected)
    value, back = vjp(step, V, W)
    agree((value, back(np.float64(1))), expected)
    batched = jax.vmap(jax.grad(lambda v, w: theirs(v, w).sum()), in_axes=(0, None))(np.stack([V, W]), W)
    agree(jit(vmap(grad(step), in_axes=(0, None)))(np.stack([V, W]), W), batched)


def test_forward_mode_and_second_derivatives():
    step = checkpoint(lambda x: np.tanh(checkpoint_name(x * x, "square")).sum(),
                      policy=checkpoint_policies.save_only_these_names("square"))  # fmt: skip

    def plain(x):
        return np.tanh(x * x).sum()

    agree(jit(hessian(step))(X[0]), hessian(plain)(X[0]))
    agree(jvp(step, (X,), (V,)), jvp(plain, (X,), (V,)))
    agree(jit(lambda x: jvp(grad(step), (x,), (V,)))(X), jvp(grad(plain), (X,), (V,)))


def rnn(wrap):
    def loss(w):
        def step(h, x):
            def inner(h):
                for _ in range(3):
                    h = np.tanh(np.sort(h @ w) + x)
                return h

            return wrap(inner)(h), None

        return zenith.scan(step, X[0], X)[0].sum()

    return loss


def stacked(function):
    """How many arrays the scan of the forward pass stacks for the backward pass."""
    graph, _ = run(zenith.make_graph(function)(V))
    scan = next(node for node in graph.walk() if node.primitive.name == "scan")
    return len(scan.types) - scan.params["carried"]


def test_a_checkpointed_step_of_a_loop_saves_what_its_policy_says():
    expected = grad(rnn(lambda f: f))(V)
    found = {}
    for name in ("nothing", "dots"):
        wrap = checkpoint(policy=POLICIES[name](checkpoint_policies))
        agree(jit(grad(rnn(wrap)))(V), expected)
        agree(vjp(rnn(wrap), V)[1](np.float64(1))[0], expected)
        found[name] = stacked(grad(rnn(wrap)))
    assert found == {"nothing": 1, "dots": 4}  # what the step begins with; and its three products
    assert stacked(grad(rnn(lambda f: f))) > 4


def test_a_policy_is_a_function_of_an_operation():
    asked = []

    def policy(name, types, params):
        asked.append((name, [t.rank for t in types]))
        return name == "exp"

    step = checkpoint(policy=policy)(lambda x: np.sin(np.exp(x) @ V).sum())
    graph, _ = run(zenith.make_graph(grad(step))(X))
    assert [n.primitive.name for n in graph.walk()].count("exp") == 1
    assert ("matmul", [2, 2]) in asked and ("exp", [2]) in asked and "literal" not in [name for name, _ in asked]
    with pytest.raises(TraceError, match="answered <function") as caught:
        jit(grad(checkpoint(lambda x: x.sum(), policy=lambda *names: checkpoint_policies.save_only_these_names)))(X)
    assert caught.value.where.file == __file__ and "save_only_these_names" in caught.value.fix


def test_names_are_texts_and_pass_through_trees():
    assert checkpoint_name({"a": 1.0, "b": (X,)}, "all")["b"][0] is not None
    np.testing.assert_array_equal(jit(vmap(lambda x: checkpoint_name(x, "row") * 2))(X), 2 * X)
    with pytest.raises(TraceError, match="checkpoint_name needs a text"):
        checkpoint_name(X, X)
