"""Transforms: functions made of functions, by making graphs of graphs: derivatives and batched versions.

A transform traces its function into a graph of its own, derives another graph from it by the rules in the primitives'
records, and replays the result: at once on arrays, or inside the trace around it. So transforms compose with ``jit``
and with each other in any order.
"""

from zenith.transforms import policies as checkpoint_policies
from zenith.transforms.custom import checkpoint, custom_jvp, custom_vjp, stop_gradient
from zenith.transforms.gradients import grad, value_and_grad
from zenith.transforms.jacobian_products import jvp, linearize, vjp
from zenith.transforms.jacobians import hessian, jacfwd, jacrev
from zenith.transforms.policies import checkpoint_name
from zenith.transforms.vectorize import vmap

__all__ = [
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "custom_jvp",
    "custom_vjp",
    "grad",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stop_gradient",
    "value_and_grad",
    "vjp",
    "vmap",
]


def __dir__() -> list[str]:
    return __all__
