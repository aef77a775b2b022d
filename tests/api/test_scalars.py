"""Results without axes are NumPy's scalars, whatever computed them; tensors stay tensors, arrays stay arrays."""

import importlib.util
import json
import sys

import ml_dtypes
import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from zenith.ir.types import DTYPES

X = np.array([1.0, 2.0])


@zenith.jit
def total(x):
    return x.sum()


def square(x):
    return (x * x).sum()


def as_scalar(value):
    """The value, which must be a NumPy scalar."""
    assert isinstance(value, np.generic), type(value)
    return value


def test_a_result_is_what_its_operators_and_pythons_functions_take_for_a_number():
    loss = first = total(X)
    loss += 1
    assert (first, loss) == (3, 4)
    assert round(first, 1) == 3 and json.dumps({"loss": first}) == '{"loss": 3.0}' and {first: 1}[3.0] == 1
    assert isinstance(first, float) and f"{first:>6.2f}" == "  3.00"
    best = zenith.jit(lambda x: x.argmax())(X)
    assert "a" * best == "a" and ["x", "y"][best] == "y"


@pytest.mark.parametrize("backend", ["cpu", "reference", "lanes"])
def test_every_backend_gives_what_numpy_gives_in_every_structure(backend):
    def f(x):
        return {"sum": x.sum(), "own": np.zeros_like(x, shape=()), "view": x[:1].reshape(())}, (x.max(), x), 3

    found, (largest, same), three = zenith.jit(f, backend=backend)(X)
    assert as_scalar(found["sum"]) == 3 and as_scalar(largest) == 2 and (type(three), three) == (int, 3)
    for array in (found["own"], found["view"], same):
        assert type(array) is np.ndarray
        array[...] = 7  # which is nobody else's
    assert X.tolist() == [1, 2]


def test_scalars_have_the_types_of_elements():
    f = zenith.jit(lambda *arrays: [x[1] for x in arrays])
    for found, dtype in zip(f(*(np.ones(3, t.numpy) for t in DTYPES)), DTYPES, strict=True):
        assert type(found) is dtype.numpy.type and found == 1
    assert {ml_dtypes.bfloat16, np.complex64, np.bool_} < {dtype.numpy.type for dtype in DTYPES}


def test_derivatives_without_axes_are_numbers():
    assert as_scalar(zenith.grad(np.tanh)(0.0)) == 1
    assert as_scalar(zenith.jit(zenith.grad(np.tanh))(0.0)) == 1
    value, gradient = zenith.value_and_grad(square)(X)
    assert as_scalar(value) == 5 and gradient.tolist() == [2, 4]
    (w, b), n = zenith.vjp(lambda w, b, n: (w * b, n), 2.0, np.array(3.0), 1)[1]((1.0, 0))[:2], 0
    assert (as_scalar(w), as_scalar(b), n) == (3, 2, 0)
    assert [as_scalar(v) for v in zenith.jvp(np.sin, (0.0,), (2.0,))] == [0, 2]
    value, push = zenith.linearize(np.sin, 0.0)
    assert as_scalar(value) == 0 and as_scalar(push(2.0)) == 2
    for transform in (zenith.jacfwd, zenith.jacrev, zenith.hessian):
        as_scalar(transform(lambda x: x * x)(3.0))
        as_scalar(zenith.jit(transform(lambda x: x * x))(3.0))
    params = {"w": X, "b": np.zeros(())}
    gradient = zenith.grad(lambda p: (X @ p["w"] + p["b"]) ** 2)(params)
    assert as_scalar(gradient["b"]) == 10 and gradient["w"].shape == (2,)


def test_what_is_computed_at_once_gives_numbers():
    key = zenith.random.key(0)
    assert as_scalar(zenith.fori_loop(0, 3, lambda i, c: c + 1.0, 0.0)) == 3
    assert as_scalar(zenith.cond(True, lambda x: x, lambda x: -x, 2.0)) == 2
    assert as_scalar(zenith.while_loop(lambda c: c < 5, lambda c: c + 1, 0)) == 5
    carry, steps = zenith.scan(lambda c, x: (c + x, c), 0.0, X)
    assert as_scalar(carry) == 3 and steps.shape == (2,)
    for name in ("uniform", "normal", "exponential", "gumbel"):
        as_scalar(getattr(zenith.random, name)(key))
    as_scalar(zenith.random.randint(key, (), 0, 5))
    as_scalar(zenith.random.bernoulli(key))
    as_scalar(zenith.random.categorical(key, np.zeros(3)))
    as_scalar(zenith.nn.mse_loss(X, X))
    as_scalar(zenith.pure_callback(np.sum, zenith.ShapeDtypeStruct((), float), X))
    as_scalar(zenith.stop_gradient(2.0))
    as_scalar(zenith.checkpoint(square)(X))
    with zenith.disable_jit():
        as_scalar(total(X))
    as_scalar(zenith.vmap(lambda x: x, in_axes=None, out_axes=None, axis_size=2)(1.0))


def test_a_state_that_comes_back_as_a_number_is_compiled_for_once():
    @zenith.jit
    def step(state, x):
        return {"mean": state["mean"] * 0.5 + x.mean(), "count": state["count"] + 1}

    state = {"mean": np.zeros(()), "count": np.int64(0)}
    for _ in range(3):
        state = step(state, X)
    assert as_scalar(state["count"]) == 3 and as_scalar(state["mean"]) == 1.5 * (1 + 0.5 + 0.25)
    assert step.cache_info().misses == 1
    assert as_scalar(step({"mean": np.array(1.0), "count": np.array(4)}, X)["count"]) == 5
    assert step.cache_info().misses == 1


def test_a_donated_array_without_axes_may_hold_a_number():
    given = np.array(3.0)
    f = zenith.jit(lambda x, y: (x + 1, x * y), donate_argnums=0)
    number, array = f(given, X)
    assert as_scalar(number) == 4 and array.tolist() == [3, 6]
    assert as_scalar(f(number, X)[0]) == 5 and number == 4  # a scalar's memory is nobody's to take


def test_saved_and_ejected_programs_give_numbers(tmp_path, monkeypatch):
    def f(x, s):
        return {"sum": x.sum() + s, "box": np.zeros_like(x, shape=()), "all": x}

    jitted = zenith.jit(f)
    jitted(X, 1.0)
    jitted.save(tmp_path / "f.zenith")
    jitted.save(tmp_path / "folder")
    jitted.eject(tmp_path / "ejected.py")
    spec = importlib.util.spec_from_file_location("ejected_numbers", tmp_path / "ejected.py")
    ejected = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, ejected)
    spec.loader.exec_module(ejected)
    for g in (zenith.load(tmp_path / "f.zenith"), zenith.load(tmp_path / "folder"), ejected.f):
        found = g(X, 1.0)
        assert as_scalar(found["sum"]) == 4
        assert type(found["box"]) is np.ndarray and type(found["all"]) is np.ndarray
    loaded = zenith.load(tmp_path / "f.zenith")
    assert as_scalar(loaded(X, 1.0)["sum"]) == 4


def test_a_saved_program_takes_scalars_and_arrays_without_axes(tmp_path):
    jitted = zenith.jit(lambda x, s: x * s)
    jitted(X, np.float64(2))
    jitted.save(tmp_path / "f.zenith")
    loaded = zenith.load(tmp_path / "f.zenith")
    assert loaded(X, np.float64(3)).tolist() == loaded(X, np.array(3.0)).tolist() == [3, 6]


def test_tensors_stay_tensors():
    torch = pytest.importorskip("torch")
    x = torch.ones(2)
    for found in (total(x), zenith.grad(square)(x).sum(), zenith.value_and_grad(square)(x)[0],
                  zenith.jit(lambda t, a: a.sum())(x, X), zenith.jit(lambda t: 3.0)(x)):  # fmt: skip
        assert isinstance(found, torch.Tensor) and found.shape == ()
    with zenith.disable_jit():
        assert isinstance(total(x), torch.Tensor)


def test_arrays_borrowed_through_dlpack_come_back_as_their_librarys():
    jax_numpy = pytest.importorskip("jax.numpy")
    found = total(jax_numpy.ones(2, "float32"))
    assert type(found) is type(jax_numpy.ones(()))


def test_callbacks_get_arrays():
    seen = []

    def note(x):
        seen.append(type(x))
        return x

    f = zenith.jit(lambda x: zenith.pure_callback(note, zenith.ShapeDtypeStruct((), float), x.sum()))
    assert as_scalar(f(X)) == 3 and seen == [np.ndarray]


def test_numbers_cost_what_has_axes_nothing():
    """The last step of a call is chosen when the program is linked: programs without numbers have no extra step."""
    plain, number = zenith.jit(lambda x: x + 1), zenith.jit(lambda x: x.sum())
    plain(X), number(X)
    (first,), (second,) = plain._specializer.specializations(), number._specializer.specializations()
    assert first.finish is first.origin.result.build
    assert second.finish is not second.origin.result.build


def test_eager_functions_and_programs_agree_on_types():
    for f in (np.sum, np.mean, np.vdot, np.linalg.norm, np.median, np.argmin, np.all):
        args = (X, X) if f is np.vdot else (X,)
        own = znp.linalg.norm if f is np.linalg.norm else getattr(znp, f.__name__)
        assert type(own(*args)) is type(zenith.jit(f)(*args)) is type(f(*args))
