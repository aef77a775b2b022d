"""What Python's own tools say of compiled and transformed functions: as of the function that was written."""

import inspect

import numpy as np
import pytest

import zenith


def scaled(x, by=2.0, *, plus=0.0):
    """A line."""
    return np.sum(x * by + plus)


WRAPPERS = {
    "jit": zenith.jit,
    "jit with options": zenith.jit(tf32=True),
    "grad": zenith.grad,
    "value_and_grad": zenith.value_and_grad,
    "vmap": zenith.vmap,
    "jacfwd": zenith.jacfwd,
    "jacrev": zenith.jacrev,
    "hessian": zenith.hessian,
    "checkpoint": zenith.checkpoint,
    "checkpoint with a policy": zenith.checkpoint(policy=zenith.checkpoint_policies.dots_saveable),
    "custom_jvp": zenith.custom_jvp,
    "custom_vjp": zenith.custom_vjp,
    "custom_op": zenith.custom_op(result=lambda x, **_: x),
    "make_graph": zenith.make_graph,
    "jit of grad": lambda f: zenith.jit(zenith.grad(f)),
    "grad of jit": lambda f: zenith.grad(zenith.jit(f)),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_functions_keep_what_was_written(name):
    made = WRAPPERS[name](scaled)
    assert inspect.signature(made) == inspect.signature(scaled)
    assert (made.__name__, made.__doc__) == ("scaled", "A line.")
    assert inspect.unwrap(made) is scaled


class Model:
    def __init__(self, by):
        self.by = by

    @zenith.jit
    def forward(self, x, plus=0.0):
        """A method."""
        return self.by * x + plus

    @zenith.jit(static_argnames="k")
    def power(self, x, k):
        return x**k * self.by

    @staticmethod
    @zenith.grad
    def slope(x):
        return x * x

    @zenith.checkpoint
    def kept(self, x: float):
        """Kept."""
        return x


def test_methods_keep_what_was_written():
    model = Model(3.0)
    assert str(inspect.signature(model.forward)) == "(x, plus=0.0)"
    assert str(inspect.signature(model.forward.jitted)) == "(x, plus=0.0)"
    assert str(inspect.signature(Model.forward)) == "(self, x, plus=0.0)"
    assert (model.forward.__name__, model.forward.__doc__) == ("forward", "A method.")
    assert zenith.api.methods.JittedMethod.__doc__.startswith("A jitted method")
    assert model.forward.__wrapped__(2.0, plus=1.0) == 7.0  # Python itself, bound to the instance
    assert model.forward(2.0, plus=1.0) == 7.0 and model.power(2.0, k=3) == 24.0
    assert "self.by * x" in inspect.getsource(model.forward)
    assert Model.slope(3.0) == 6.0 and str(inspect.signature(Model.slope)) == "(x)"
    assert str(inspect.signature(model.kept)) == "(x: float)" and model.kept.__doc__ == "Kept."


def test_jitted_types_can_be_written():
    assert zenith.Jitted[[float], float].__origin__ is zenith.Jitted


def test_rules_get_keywords_by_position():
    @zenith.custom_jvp
    def product(x, by=2.0):
        return x * by

    @product.defjvp
    def rule(primals, tangents):
        (x, by), (dx, _) = primals, tangents
        return x * by, 10 * by * dx

    assert product(3.0, by=4.0) == 12.0
    assert zenith.grad(lambda x: product(by=4.0, x=x))(3.0) == 40.0

    @zenith.custom_vjp
    def named(x, *, by):
        return x * by

    with pytest.raises(zenith.errors.ArgumentError, match="named has rules for positional arguments, and by is none"):
        named(1.0, by=2.0)
