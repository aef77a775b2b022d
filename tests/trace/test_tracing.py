"""What tracing records: graphs, lines, weak numbers, constants, effects, dead and foreign values."""

import copy
import inspect
import operator

import numpy as np
import pytest

import zenith.debug
import zenith.numpy as znp
from tests.numpy.comparison import assert_same, specs_for, traced, values
from zenith.errors import DTypeError, TraceError, UnsupportedError
from zenith.ir.dims import dim, symbol
from zenith.ir.interpret import interpret
from zenith.ir.primitive import get
from zenith.ir.text import parse
from zenith.ir.types import bool_, float32, float64, int64
from zenith.ir.verify import verify
from zenith.trace import InputSpec, Tracer, current_recorder, dispatch, trace
from zenith.trace.bind import b, bind

F4 = np.dtype("f4")
N = symbol("n")
X = InputSpec("x", float32, (N,), (3,))


def number(dtype, name="s"):
    return InputSpec(name, dtype, (), (), weak=True)


def test_a_function_becomes_its_graph():
    found = trace(lambda x: [np.tanh(x) * 2 + x], [X], "step")
    assert str(found.graph) == "\n".join(
        [
            "def step(x: f32[n]) -> (f32[n]):",
            "    v1 = tanh(x)",
            "    v2 = literal(value=2.0, dtype=f32)",
            "    v3 = broadcast(v2, shape=(n,), axes=())",
            "    v4 = mul(v1, v3)",
            "    v5 = add(v4, x)",
            "    return (v5,)",
        ]
    )
    assert found.graph == parse(str(verify(found.graph)))
    assert (found.guards, found.specialized, found.outputs_weak, found.has_effects) == ((), (), (False,), False)


def test_nodes_carry_the_users_line():
    graph = traced(lambda x: x + 1, np.zeros(3)).graph
    lines = {node.line.code for _, node in graph.nodes() if node.line is not None}
    assert lines == {"graph = traced(lambda x: x + 1, np.zeros(3)).graph"}


@pytest.mark.parametrize(
    ("function", "dtype", "result", "weak"),
    [
        (lambda x, s: s * x, float64, "f32[n]", False),
        (lambda x, s: np.multiply(x, s), int64, "f32[n]", False),
        (lambda x, s: s + 1, int64, "i64", True),
        (lambda x, s: s / 2, int64, "f64", True),
        (lambda x, s: (s + 1) * x, float64, "f32[n]", False),
        (lambda x, s: -s, float64, "f64", True),
        (lambda x, s: s > 0, float64, "bool", True),
        (lambda x, s: np.sin(s), float64, "f64", False),
        (lambda x, s: s, int64, "i64", True),
        (lambda x, s: s, bool_, "bool", True),
        (lambda x, s: x.astype(np.int32) + s, float64, "f64[n]", False),
        (lambda x, s: znp.asarray(s) * x, float64, "f64[n]", False),
        (lambda x, s: s.astype(np.float64) * x, float64, "f64[n]", False),
    ],
)
def test_python_numbers_stay_weak(function, dtype, result, weak):
    found = trace(lambda x, s: [function(x, s)], [X, number(dtype)], "f")
    assert (str(found.graph.outputs[0].type), found.outputs_weak) == (result, (weak,))


def test_constants_are_snapshots_and_stored_once():
    weights = np.arange(3, dtype=np.float32)
    found = trace(lambda x: [x * weights + weights], [InputSpec("x", float32, (dim(3),), (3,))], "f")
    assert len(found.graph.constants) == 1
    weights[:] = 0
    assert_same(interpret(found.graph, np.ones(3, np.float32))[0], np.array([0, 2, 4], np.float32))


def test_outputs_may_be_inputs_constants_numbers_and_sizes():
    found = trace(lambda x: [x, np.arange(2), 3, 2.5, True, x.shape[0], x.shape[0] + 1], [X], "f")
    assert found.outputs_weak == (False, False, True, True, True, True, True)
    results = interpret(found.graph, np.ones(3, np.float32))
    assert [r.dtype.name for r in results[1:]] == ["int64", "int64", "float64", "bool", "int64", "int64"]
    assert [int(r) for r in results[2:]] == [3, 2, 1, 3, 4]


def test_computations_on_concrete_arrays_are_done_while_tracing():
    found = trace(lambda x: [x + znp.exp(np.zeros(3, np.float32))], [InputSpec("x", float32, (dim(3),), (3,))], "f")
    assert [node.primitive.name for _, node in found.graph.nodes()] == ["input", "constant", "add"]


def test_filled_arrays_are_recorded_as_rules():
    found = trace(lambda x: [znp.zeros((1000, 1000)), znp.arange(5)], [X], "f")
    assert found.graph.constants == {}


def test_prints_stay_in_order(capsys):
    def function(x):
        zenith.debug.print("first {}", x)
        zenith.debug.print("second {} and {:d}", x.sum(), 7)
        return [x + 1]

    found = trace(function, [X], "f")
    assert found.has_effects
    assert capsys.readouterr().out == ""
    assert [str(v.type) for v in verify(found.graph).outputs] == ["f32[n]", "token"]
    interpret(found.graph, np.ones(3, np.float32))
    assert capsys.readouterr().out == "first [1. 1. 1.]\nsecond 3.0 and 7\n"
    zenith.debug.print("now {}", np.arange(2))
    assert capsys.readouterr().out == "now [0 1]\n"


def test_traces_nest_and_end():
    def outer(x):
        inner = trace(lambda y: [y * 2], [X], "inner")
        assert len(inner.graph) == 4
        return [x + 1]

    assert len(trace(outer, [X], "outer").graph) == 4
    assert current_recorder() is None
    with pytest.raises(ZeroDivisionError):
        trace(lambda x: 1 // 0, [X], "f")
    assert current_recorder() is None


def test_values_do_not_leave_their_trace():
    leaked = []
    trace(lambda x: [leaked.append(x * 2) or x], [X], "f")
    with pytest.raises(
        TraceError, match=r"a value of the trace of f, made at .*x \* 2.*, was used after the trace had ended"
    ):
        leaked[0] + 1
    with pytest.raises(TraceError, match="after the trace had ended"):
        trace(lambda x: [x + leaked[0]], [X], "g")
    with pytest.raises(TraceError, match="inside another trace"):
        trace(lambda x: trace(lambda y: [x + y], [X], "inner") and [x], [X], "outer")
    with pytest.raises(TraceError, match=r"the size n\*n of the trace of outer was used inside another"):
        trace(lambda x: trace(lambda y: [y * x.shape[0] ** 2], [X], "inner") and [x], [X], "outer")
    with pytest.raises(TraceError, match="after the trace had ended"):
        trace(lambda x: leaked, [X], "g")
    with pytest.raises(TraceError, match="after the trace had ended"):
        bind(get("neg"), leaked[0])
    sizes = []
    trace(lambda x: [sizes.append(x.shape[0]) or x], [X], "f")
    for question in (lambda n: n == 3, lambda n: int(n), lambda n: n + 1 > 2, lambda n: znp.zeros(n)):
        with pytest.raises(TraceError, match="after the trace had ended"):
            question(sizes[0])


def test_every_attribute_of_an_ndarray_works_or_says_what_to_do():
    x = values(F4, (2, 3))

    def function(a):
        assert isinstance(a, Tracer)
        for name in dir(np.ndarray):
            if not name.startswith("__"):
                try:
                    getattr(a, name)
                except AttributeError as error:
                    assert "is not supported on traced arrays" in str(error)
        assert not hasattr(a, "nonsense")
        assert a.__array_namespace__() is znp
        return [a]

    trace(function, specs_for([x], False), "f")


def test_what_is_no_array_equals_no_element():
    x = values(F4, (2, 3))
    found = trace(lambda a: [a == None, a != None, a == "text", a[0, 0] == None], specs_for([x], True), "f")  # noqa: E711
    for actual, e in zip(interpret(found.graph, x), [x < x, x == x, x < x, np.False_], strict=True):
        assert_same(actual, e)


def rows_dispatcher(a):
    """A user's function, whatever NumPy calls those of its own that end in this word."""
    return [row * 2 for row in a]


def test_asking_for_an_iterator_is_no_loop():
    x = values(F4, (2, 3))
    assert trace(lambda a: [a + np.iterable(a) * 2 + np.iterable(a[0, 0])], specs_for([x], True), "f")
    assert not trace(lambda a: [a + np.iterable(a)], specs_for([x], True), "f").specialized


@pytest.mark.parametrize(
    "function",
    [
        rows_dispatcher,
        lambda a: [np.stack([row * 2 for row in a])],
        lambda a: [np.concatenate(list(a))],
        lambda a: [np.concatenate(list(map(np.negative, a)))],
        lambda a: [np.broadcast_arrays(*a)[0]],
        lambda a: [a * len(a), a[-1] + sum(a) + sum(row for row in reversed(a))],
        lambda a: [np.add(*a) + max(range(len(a)))],
        lambda a: [first - second for first, second in [a]],
        lambda a: [dict(enumerate(a))[1], next(zip(a, a[::-1], strict=True))[1]],
    ],
)
def test_what_asks_for_rows_or_their_number_is_compiled_for_the_size(function):
    x = values(F4, (2, 3))
    found = trace(function, specs_for([x], True), "f")
    assert [(str(size), line.function is not None) for size, line in found.specialized] == [("s0_0", True)]
    for actual, expected in zip(interpret(found.graph, x), function(x), strict=True):
        assert_same(actual, expected)


def test_an_array_given_for_a_sequence_is_found_by_numpy():
    x, keys = values(F4, (2, 3)), np.array([[3, 1, 2, 1], [1, 1, 0, 1]])
    for function, given in (
        (np.concatenate, x), (np.stack, x), (np.poly, x[0]), (np.lexsort, keys),
        (lambda a: np.concatenate(a, axis=0), x), (lambda a: np.poly(a), x[0]),
    ):  # fmt: skip
        fast = zenith.jit(function)
        np.testing.assert_allclose(fast(given), function(given), rtol=1e-6)


@pytest.mark.parametrize("name", ["shape", "dtype"])
def test_attributes_that_cannot_be_assigned(name):
    with pytest.raises(AttributeError, match=rf"ndarray\.{name} of a traced array cannot be assigned"):
        trace(lambda a: setattr(a, name, (6,)), specs_for([values(F4, (2, 3))], True), "f")


class _Own(np.ndarray):
    """An array with rules of its own."""


@pytest.mark.parametrize("array", [np.ma.array([1.0, 2], mask=[0, 1]), np.ones(2).view(_Own)], ids=["masked", "own"])
def test_arrays_with_rules_of_their_own_are_refused(array):
    for use in (lambda a: [a * array], lambda a: [znp.sum(array) + a], lambda a: [np.concatenate([a, array[None]])]):
        with pytest.raises(UnsupportedError, match=r"is a subclass of numpy\.ndarray with rules"):
            trace(use, specs_for([np.ones((1, 2))], True), "f")


def test_methods_are_numpys():
    x = values(F4, (2, 3))
    found = trace(
        lambda a: [
            a.T,
            a.mT,
            a.real,
            a.copy(),
            a.conj(),
            a.squeeze(),
            a.take([0, 1]),
            a.repeat(2),
            a.diagonal(),
            a.ptp(),
            a[:, 0].searchsorted(0.5),
            a.compress([False, True], axis=0),
        ],
        specs_for([x], True),
        "f",
    )
    expected = [x.T, x.mT, x, x, x, x, x.take([0, 1]), x.repeat(2), x.diagonal(), np.ptp(x)]
    expected += [x[:, 0].searchsorted(0.5), x.compress([False, True], axis=0)]
    for actual, e in zip(interpret(found.graph, x), expected, strict=True):
        assert_same(actual, e)


def test_tracing_takes_linear_time():
    def chain(count):
        def function(x):
            for _ in range(count):
                x = np.tanh(x * 2.0) + x
            return [x]

        return trace(function, [X], "f").graph

    assert len(chain(200)) - 1 == 2 * (len(chain(100)) - 1)


def test_a_copy_holds_the_same_value_and_a_tracer_says_its_type():
    def function(x):
        one, twice = copy.copy(x), copy.deepcopy([x, x, x.shape[0]])
        assert one is not x and one.value == x.value
        assert twice[0] is twice[1] is not x and twice[0].value == x.value
        assert copy.copy(x.shape[0]) == copy.deepcopy(x.shape[0])
        assert f"{x}" == repr(x) == "Tracer<f32[n]>"
        with pytest.raises(TypeError, match="len\\(\\) of unsized object"):
            len(x.sum())
        with pytest.raises(TypeError, match="iteration over a 0-d array"):
            list(x.sum())
        with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \*\* or pow\(\)"):
            pow(x, 2, 3)
        return [x]

    assert trace(function, [X], "f").guards == ()


def test_errors_of_primitives_name_the_users_line():
    with pytest.raises(DTypeError, match="bit_and needs a bool or signed integer") as caught:
        trace(lambda x: [b.bit_and(x, x)], [X], "f")
    assert caught.value.where.file == __file__
    with pytest.raises(AttributeError, match="no primitive 'nonsense'"):
        b.nonsense(1)


def test_equal_sizes_and_effects_together():
    def function(x, y):
        zenith.debug.print("{}", x + y)
        return [x * y]

    found = trace(function, [X, InputSpec("y", float32, (symbol("m"),), (3,))], "f")
    assert [str(v.type) for v in verify(found.graph).outputs] == ["f32[m]", "token"]


ARGUMENTS = {f: own for f, own in dispatch._BY_FUNCTION.items() if not isinstance(f, np.ufunc)}
# Arguments of NumPy's functions that Zenith does not have, and why.
WITHOUT = {np.array: {"ndmax": "an array of less axes than lists have levels is one of Python objects"}}
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@pytest.mark.parametrize("function", ARGUMENTS, ids=lambda f: f.__name__)
def test_arguments_have_the_positions_of_numpys(function):
    """Positional arguments mean what they mean in NumPy."""
    own = ARGUMENTS[function]
    names = dispatch.own_names(own.__wrapped__, (function,))
    for theirs, ours in zip(*map(dispatch._positional, (function, own)), strict=False):
        assert names.get(theirs, theirs) == ours


@pytest.mark.parametrize("function", ARGUMENTS, ids=lambda f: f.__name__)
def test_arguments_may_have_numpys_names(function):
    """Whatever NumPy lets be named is found under that name, in ``zenith.numpy`` as on traced arrays."""
    named = [p.name for p in inspect.signature(function).parameters.values() if p.kind in NAMED]
    names = dispatch.own_names(ARGUMENTS[function].__wrapped__, (function,))
    given = {names.get(name, name): None for name in named if name not in WITHOUT.get(function, {})}
    inspect.signature(ARGUMENTS[function]).bind_partial(**given)


def test_names_of_arguments_are_numpys_or_the_standards():
    x = values(F4, (2, 3))
    for xp in (np, znp):
        graph = trace(
            lambda a, xp=xp: [
                xp.sum(a=a, axis=0), xp.moveaxis(a=a, source=0, destination=1), xp.tile(A=a, reps=2),
                xp.linalg.solve(a=a[:, :2], b=a[:, 0]), znp.sum(x=a), znp.vstack(tup=(a, a)),
            ],
            specs_for([x], False), "f",
        )  # fmt: skip
        assert [o.type.rank for o in graph.graph.outputs] == [1, 2, 2, 1, 0, 2]
    assert znp.sum(a=x) == znp.sum(x=x)
    with pytest.raises(TypeError, match="multiple values for argument 'x'"):
        znp.sum(x, a=x)


@pytest.mark.parametrize("function", [np.array_equal, np.array_equiv])
def test_lists_of_traced_arrays_are_not_silently_different(function):
    """NumPy takes an error in its arguments for an answer."""
    x = np.array([1.0, 1.0])
    for lists in (lambda a: ([a[0]], [a[1]]), lambda a: ([a, a], [[1.0, 1.0], [1.0, 1.0]]), lambda a: ([a[0]], x[:1])):
        with pytest.raises(TraceError, match="comparing lists of traced arrays needs the values"):
            zenith.jit(lambda a: function(*lists(a)), convert=False)(x)  # noqa: B023
        assert zenith.jit(lambda a: function(*lists(a)))(x)  # noqa: B023
    assert not zenith.jit(lambda a: function([a[0]], [a[1]]))(np.array([1.0, 2.0]))
    ours = getattr(zenith.numpy, function.__name__)
    assert zenith.jit(lambda a: ours([a[0]], [a[1]]))(x) and zenith.jit(lambda a: function(a, a[::-1]))(x)


@pytest.mark.parametrize("ask", [float, int, bool, complex, operator.index, round, np.asarray, lambda x: {x: 1}[x]])
def test_what_needs_a_value_is_not_taken_for_an_answer(ask):
    """Code that tries a conversion and takes another branch must not do so because Zenith cannot answer."""

    def f(x):
        try:
            ask(x)
        except (ValueError, AttributeError, IndexError):
            return [x]
        except TypeError as error:  # no array has a hash
            assert "unhashable" in str(error)
            raise TraceError("hash") from None
        return [x]

    with pytest.raises(TraceError):
        trace(f, specs_for([np.array(2)], False), "f")
    assert not issubclass(TraceError, (TypeError, ValueError, AttributeError, IndexError))


def test_questions_that_arrays_and_tracers_answer_alike():
    x, n = values(F4, (2, 3)), np.float32(2)

    def answers(*given):
        return [(np.ndim(v), v.dtype, np.iterable(v), np.issubdtype(v.dtype, np.floating)) for v in given]

    def f(a, b):
        assert answers(a, b) == answers(x, n)
        return [a]

    trace(f, specs_for([x, np.asarray(n)], True), "f")
