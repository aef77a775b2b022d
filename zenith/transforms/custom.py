"""Derivatives that users write: ``custom_jvp``, ``custom_vjp``, ``stop_gradient``, and ``checkpoint``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

import zenith.numpy as znp
from zenith import tree
from zenith.errors import TraceError, user_line
from zenith.ir.graph import Graph, Value
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType, has_derivative
from zenith.numpy.operands import require
from zenith.numpy.typing import Array
from zenith.trace.bind import b, bind
from zenith.trace.bodies import Body, close, trace_body
from zenith.trace.memory import ARGUMENT, KEPT
from zenith.trace.nested import NestedRecorder
from zenith.trace.recorder import Recorder, current_recorder
from zenith.trace.results import own_memory
from zenith.trace.tracer import Tracer
from zenith.transforms.calls import FlatResults, TreeArguments, name_of, positional
from zenith.transforms.policies import Policy, marked

_tracing_rules: ContextVar[tuple[object, ...]] = ContextVar("zenith_tracing_rules", default=())
P = ParamSpec("P")
R = TypeVar("R")
Values = TypeVar("Values")
Rule = TypeVar("Rule", bound=Callable[..., object])
_CONSTANT_IF_OPERANDS_ARE = frozenset({"broadcast", "reshape", "cast", "transpose"})


def stop_gradient(x: Values) -> Values:
    """A tree of arrays that derivatives treat as constants.

    >>> import zenith
    >>> zenith.grad(lambda x: x * stop_gradient(x))(3.0)
    np.float64(3.0)
    """
    leaves, treedef = tree.flatten(x)
    arrays = [znp.asarray(leaf) for leaf in leaves]
    result: Values = tree.unflatten(treedef, own_memory(map(b.stop_gradient, arrays), arrays))
    return result


class custom_jvp(Generic[P, R]):
    """A function whose derivative is a rule of yours: ``rule(primals, tangents) -> (result, its tangent)``.

    The rule must be linear in the tangents; reverse mode uses its transpose. Inside its rule the function is a plain
    one, so that second derivatives are those of what the rule computes. Rules get all arguments by position.

    >>> import numpy as np, zenith
    >>> @custom_jvp
    ... def f(x):
    ...     return np.log1p(np.exp(x))
    >>> @f.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (dx,) = primals, tangents
    ...     return f(x), dx / (1 + np.exp(-x))
    >>> zenith.grad(f)(0.0)
    np.float64(0.5)
    """

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self._function: Callable[..., Any] = function
        self._rule: Callable[..., object] | None = None

    def defjvp(self, rule: Rule) -> Rule:
        """Give the rule; returns it, so that this is a decorator."""
        self._rule = rule
        return rule

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function's result, with the rule attached where a transform can see it."""
        result: R = self._of_positional(*positional(self._function, args, kwargs))
        return result

    def _of_positional(self, *args: object) -> Any:
        arguments = TreeArguments((args, {}), function=self._function)
        if current_recorder() is None or self in _tracing_rules.get():
            return self._function(*args)
        rule = self._rule
        if rule is None:
            raise TraceError(f"{name_of(self)} has no rule", where=user_line(), fix="give it one: @f.defjvp")
        moving = [has_derivative(t) for t in arguments.types]

        def flat_rule(*leaves: Array) -> list[Array]:
            primals, given = leaves[: len(moving)], iter(leaves[len(moving) :])
            tangents = [next(given) if m else znp.zeros_like(p) for m, p in zip(moving, primals, strict=True)]
            found = rule(arguments.rebuild(primals)[0], arguments.rebuild(tangents)[0])
            return result_and_tangents(found, name_of(self))

        own = FlatResults(self._function)
        body = _traced(_of_leaves(own, arguments), arguments.types, arguments.weak, name_of(self))
        types = [t for t, m in zip(arguments.types, moving, strict=True) if m]
        weak = [*arguments.weak, *[False] * len(types)]
        with _rules_of(self):
            traced = _traced(flat_rule, [*arguments.types, *types], weak, f"{name_of(self)}_rule")
        _require_like(traced.outputs, _and_tangents(body.outputs), f"the rule of {name_of(self)}")
        return _bound("custom_jvp", arguments, own, {"body": body, "rule": traced})


class custom_vjp(Generic[P, R]):
    """A function whose derivative is a pair of yours: ``forward(*args) -> (result, residuals)``, any tree of arrays,
    and ``backward(residuals, cotangent) -> (a cotangent for each argument)``, with None for zero.

    Reverse mode only. Rules get all arguments by position.

    >>> import numpy as np, zenith
    >>> @custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, ()), lambda residuals, g: (np.clip(g, -1.0, 1.0),))
    >>> zenith.grad(lambda x: 5.0 * clip_gradient(x))(2.0)
    np.float64(1.0)
    """

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self._function: Callable[..., Any] = function
        self._rules: tuple[Callable[..., object], Callable[..., object]] | None = None

    def defvjp(self, forward: Callable[..., object], backward: Callable[..., object]) -> None:
        """Give the pair of rules."""
        self._rules = forward, backward

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function's result, with the rules attached where a transform can see them."""
        result: R = self._of_positional(*positional(self._function, args, kwargs))
        return result

    def _of_positional(self, *args: object) -> Any:
        arguments = TreeArguments((args, {}), function=self._function)
        if current_recorder() is None or self in _tracing_rules.get():
            return self._function(*args)
        name = name_of(self)
        if self._rules is None:
            raise TraceError(f"{name} has no rules", where=user_line(), fix="give them: f.defvjp(forward, backward)")
        forward, backward = self._rules
        own, whole = FlatResults(self._function), FlatResults(forward, forward_of=name)
        body = _traced(_of_leaves(own, arguments), arguments.types, arguments.weak, name)
        with _rules_of(self):
            forward_body = _traced(_of_leaves(whole, arguments), arguments.types, arguments.weak, f"{name}_forward")
        _require_like(forward_body.outputs[: own.count], body.outputs, f"the result of {name}'s forward rule")
        residuals = forward_body.outputs[own.count :]
        moving = [v for v in body.outputs if has_derivative(v.type)]

        def flat_backward(*leaves: Array) -> list[Array]:
            given = iter(leaves[len(residuals) :])
            cotangents = [next(given) if has_derivative(v.type) else znp.zeros(v.shape) for v in body.outputs]
            found = backward(
                tree.unflatten(whole.aux_treedef, leaves[: len(residuals)]), tree.unflatten(own.treedef, cotangents)
            )
            return gradients_of(found, args, arguments.types, name)

        types = [v.type for v in (*residuals, *moving) if isinstance(v.type, ArrayType)]
        with _rules_of(self):
            backward_body = _traced(flat_backward, types, [False] * len(types), f"{name}_backward")
        wanted = [t for t in arguments.types if has_derivative(t)]
        require_types(backward_body.outputs, wanted, f"the cotangents of {name}'s backward rule")
        return _bound("custom_vjp", arguments, own, {"body": body, "forward": forward_body, "backward": backward_body})


@overload
def checkpoint(function: np.ufunc, *, policy: Policy | None = None) -> Callable[..., Any]: ...
@overload
def checkpoint(function: Callable[P, R], *, policy: Policy | None = None) -> Callable[P, R]: ...
@overload
def checkpoint(
    function: None = None, *, policy: Policy | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def checkpoint(function: Callable[..., object] | None = None, *, policy: Policy | None = None) -> Callable[..., Any]:
    """``function``, whose inner values are recomputed for its derivative instead of being saved until then.

    It costs time and saves memory: a chain of checkpointed layers saves only the values between them. After
    A. Griewank and A. Walther, Algorithm 799: revolve, 2000; T. Chen et al., Training deep nets with sublinear memory
    cost, 2016.

    Parameters
    ----------
    policy: says which inner values are saved all the same: one of ``zenith.checkpoint_policies``, such as
        ``dots_saveable`` (matrix products are saved, cheap operations recomputed), or a function of an operation
        (:mod:`zenith.transforms.policies`). Without ``function``, ``checkpoint`` is a decorator.

    >>> import numpy as np, zenith
    >>> zenith.grad(checkpoint(lambda x: np.sin(np.sin(x))))(0.0)
    np.float64(1.0)
    >>> @checkpoint(policy=zenith.checkpoint_policies.dots_saveable)
    ... def layer(x, w):
    ...     return np.tanh(x @ w)
    """
    if function is None:
        return functools.partial(checkpoint, policy=policy)

    @functools.wraps(function)
    def wrapped(*args: object, **kwargs: object) -> object:
        if current_recorder() is None:
            return function(*args, **kwargs)
        arguments, own = TreeArguments((args, kwargs), function=function), FlatResults(function)
        flat = _of_leaves(own, arguments)
        recorder = current_recorder()
        assert recorder is not None
        body = trace_body(name_of(function), flat, arguments.types, arguments.weak, runs_alone=False)
        captured = [Tracer(recorder, value) for value in body.captured]
        graph = close(body, body.captured)
        graph = graph if policy is None else marked(graph, policy)
        found = bind(get("checkpoint"), *captured, *arguments.arrays, body=graph)
        return tree.unflatten(own.treedef, found if isinstance(found, tuple) else [found])

    return wrapped


def _of_leaves(function: FlatResults, arguments: TreeArguments) -> Callable[..., list[Array]]:
    """The function of the leaves of its arguments, which it does not write: its caller's arrays would not change."""

    def flat(*leaves: Array) -> list[Array]:
        for leaf in leaves:
            if isinstance(leaf, Tracer) and leaf.memory.access == ARGUMENT:
                leaf.memory.access = KEPT
        args, kwargs = arguments.rebuild(leaves)
        return function(*args, **kwargs)

    return flat


@contextmanager
def _rules_of(function: object) -> Iterator[None]:
    """Within this context ``function`` has no rules of its own: a rule may call it."""
    token = _tracing_rules.set((*_tracing_rules.get(), function))
    try:
        yield
    finally:
        _tracing_rules.reset(token)


def _traced(function: Callable[..., list[Array]], types: Sequence[ArrayType], weak: Sequence[bool], name: str) -> Body:
    """The body of a function with rules; TraceError when it takes more than constants from the trace around it."""
    body = trace_body(name, function, types, weak, runs_alone=False)
    recorder = current_recorder()
    assert recorder is not None
    for value in body.captured:
        if not _is_constant(recorder, value):
            raise TraceError(
                f"{name} uses a traced value that is none of its arguments: its rules could not give its derivative",
                where=user_line(),
                types=(value.type,),
                fix="pass it as an argument",
            )
    return body


def _is_constant(recorder: Recorder, value: Value) -> bool:
    """Whether a value of a trace in progress is a constant, literal, size or iota, or a cast or movement of those."""
    node = recorder.graph.node(value.node)
    if node.primitive.name in _CONSTANT_IF_OPERANDS_ARE:
        return all(_is_constant(recorder, a) for a in recorder.graph.args(value.node))
    if isinstance(recorder, NestedRecorder) and node.primitive.name == "input":
        outer = next((o for o, inner in recorder.captured.items() if inner == value), None)
        return outer is not None and recorder.parent is not None and _is_constant(recorder.parent, outer)
    return node.primitive.name in ("constant", "literal", "size", "iota")


def _bound(primitive: str, arguments: TreeArguments, own: FlatResults, bodies: dict[str, Body]) -> object:
    """Add the node of the bodies, all with the same captured operands in front; returns the function's results."""
    recorder = current_recorder()
    assert recorder is not None
    captured = list(dict.fromkeys(value for body in bodies.values() for value in body.captured))
    graphs: dict[str, Graph] = {name: close(body, captured) for name, body in bodies.items()}
    operands = [*(Tracer(recorder, value) for value in captured), *arguments.arrays]
    found = bind(get(primitive), *operands, **graphs, captured=len(captured))
    return tree.unflatten(own.treedef, found if isinstance(found, tuple) else [found])


def result_and_tangents(found: object, name: str) -> list[Array]:
    """Result and tangent as flat arrays; tangents of results without derivative are left out."""
    if not (isinstance(found, tuple) and len(found) == 2):
        raise TraceError(f"the rule of {name} returns a pair: the result and its tangent", where=user_line(),
                         fix="return result, tangent")  # fmt: skip
    results, tangents = (TreeArguments(f, "a result") for f in found)
    moved = [t for t, type in zip(tangents.arrays, results.types, strict=False) if has_derivative(type)]
    return [*results.arrays, *moved]


def gradients_of(found: object, args: tuple[object, ...], types: Sequence[ArrayType], name: str) -> list[Array]:
    """Cotangents of those leaves of ``args`` that have a derivative, zeros for None."""
    if not isinstance(found, tuple) or len(found) != len(args):
        raise TraceError(f"the backward rule of {name} returns a tuple with a cotangent for each argument",
                         where=user_line(), fix="return (g,) for one argument, None for zero")  # fmt: skip
    flat: list[Array | None] = []
    alike = True
    for cotangent, arg in zip(found, args, strict=True):
        leaves, structure = tree.flatten(arg)
        given, treedef = ([None] * len(leaves), structure) if cotangent is None else tree.flatten(cotangent)
        flat += given
        alike = alike and treedef == structure
    if len(flat) != len(types) or not alike:
        raise TraceError(f"a cotangent of {name}'s backward rule has another structure than its argument",
                         where=user_line(), fix="give arrays in its structure, or None for all of it")  # fmt: skip
    return [
        b.full(0, t.dtype, t.shape) if c is None else znp.asarray(c)
        for c, t in zip(flat, types, strict=True) if has_derivative(t)
    ]  # fmt: skip


def _and_tangents(outputs: Sequence[Value]) -> list[Value]:
    return [*outputs, *(v for v in outputs if has_derivative(v.type))]


def _require_like(given: Sequence[Value], wanted: Sequence[Value], what: str) -> None:
    require_types(given, [v.type for v in wanted], what)


def require_types(given: Sequence[Value], wanted: Sequence[Any], what: str) -> None:
    """An error unless values have these types, and in every call these sizes."""
    types = [v.type for v in given if isinstance(v.type, ArrayType)]
    wrong = f"{what} must be {', '.join(map(str, wanted))}, not {', '.join(map(str, types))}"
    if [(t.dtype, t.rank) for t in types] != [(t.dtype, t.rank) for t in wanted]:
        raise TraceError(wrong, where=user_line(), fix="return arrays of those types")
    for found, declared in zip(types, wanted, strict=True):
        for m, n in zip(found.shape, declared.shape, strict=True):
            require(m, "==", n, wrong)
