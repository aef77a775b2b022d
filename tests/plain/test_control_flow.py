"""Each construct of Python's: results and arguments are Python's, or the first call is refused by name."""

import copy
import threading

import numpy as np
import pytest

import zenith
from tests.plain.constructs import conditions, containers, effects, loops, sharing, values, writing  # noqa: F401
from tests.plain.constructs.case import CASES, G

# What is refused, and words of the error. Each is an error at the first call, and never another result than Python's.
REFUSED = {
    "swapbuf_keep": "under a name that the loop gives to other arrays",
    "branch_alias": "to which a branch may have given the same array",
    "branch_view": "to which a branch may have given the same array",
    "swap_in_branch": "to which a branch may have given the same array",
    "alias_after": "to which a loop may have given the same array",
    "cond_expr_alias2": "to which a branch may have given the same array",
    "arg_cond_alias": "may be a view of the argument x",
    "resh_arg_f": "do not lie row by row",
    "valbounds": "i is read, and the loop that sets it may have no turn",
    "attr_branch": "changes a Thing of Python's",
    "global_write": "assigns the global name CNT",
    "global_write_branch": "assigns the global name CNT",
    "global_array": "writes into an array that it captures",
    "global_array_dyn": "writes into an array that it captures",
    "cond_lists_mismatch": r"makes it \[f64\[x0\], f64\[x0\]\], and the other \[f64\[x0\]\]",
    "early_write": "that a branch may have made one memory, and reads the other",
    "cond_def": "makes it function, and the other another one",
    "cond_def_traced": "makes it function, and the other another one",
    "inner_fn_alias": "to which a branch may have given the same array",
    "shape_behind_a_view": "shape of a traced array cannot be assigned",
    "shape_of_an_argument": "shape of a traced array cannot be assigned",
    "zerod": "writing into a number",
    "slicearg": "s is a slice",
}
# What raises an error of the user's own, which passes unchanged.
RAISING = {"raise_user": KeyError, "raise_user2": NameError}


def _named(select):
    return [
        pytest.param(f, args, id=f"{f.__name__}-{number}")
        for number, (f, args) in enumerate(CASES) if select(f.__name__)
    ]  # fmt: skip


def _same(found, expected):
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            _same(a, b)
    elif expected is None:
        assert found is None
    else:
        assert np.shape(found) == np.shape(expected)
        if isinstance(expected, (np.ndarray, np.generic)):
            assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, 1e-12)


@pytest.mark.filterwarnings("ignore:overflow encountered in scalar add:RuntimeWarning")
@pytest.mark.parametrize(("function", "args"), _named(lambda n: n not in REFUSED and n not in RAISING))
def test_it_is_as_in_python(function, args):
    own, plain = copy.deepcopy(args), copy.deepcopy(args)
    _same(zenith.jit(function, convert=True)(*own), function(*plain))
    _same(own, plain)


@pytest.mark.parametrize(("function", "args"), _named(REFUSED.__contains__))
def test_it_is_refused_by_name(function, args):
    given = copy.deepcopy(args)
    with pytest.raises(zenith.ZenithError, match=REFUSED[function.__name__]):
        zenith.jit(function, convert=True)(*given)
    _same([a for a in given if isinstance(a, np.ndarray)], [a for a in args if isinstance(a, np.ndarray)])
    assert not G.any(), "what the trace wrote is taken back"


@pytest.mark.parametrize(("function", "args"), _named(RAISING.__contains__))
def test_exceptions_of_the_user_pass_unchanged(function, args):
    with pytest.raises(RAISING[function.__name__]):
        zenith.jit(function, convert=True)(*args)


def test_names_that_nothing_has_set_are_named():
    def last(x, n):
        for i in range(n):
            found = x[i]
        return found

    assert zenith.jit(last, convert=True)(np.arange(4.0), 3) == 2
    with pytest.raises(zenith.ZenithError, match="found is read, and"):
        zenith.jit(last, convert=True)(np.arange(4.0), 0)


def _types_mixed(x, k):
    for i in range(len(x)):
        if k == 2:
            continue
        k = int(x[i])
    return k


def _member(x, k):
    if x[0] > 1:
        k = x[0]
    return x[0] + 1 if k in (2, 3) else x[0]


def _class(x, k):
    if x[0] > 1:
        k = x
    return x * (isinstance(k, np.ndarray) + 1)


def _type(x, k):
    if x[0] > 1:
        k = x
    return x * (type(k) is np.uint8)


def _attribute(x, k):
    if x[0] > 1:
        k = x
    return x * hasattr(k, "__len__")


def _falls_off(x, k):
    if k <= 2:
        return x, k
    for _ in x:
        return x, k


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize(
    "function",
    [_types_mixed, _member, _class, _type, _attribute, _falls_off],
    ids=lambda f: f.__name__,
)
def test_names_that_differ_in_kind_are_not_compared(function, backend):
    """Every question to them is refused, those too that ask for no number: equality, identity, class, attributes."""
    for first in (0.5, 9.0):
        refused = "one side of this branch makes it|values decide whether a name holds a number or None"
        with pytest.raises(zenith.ZenithError, match=refused):
            zenith.jit(function, backend=backend)(np.array([first, 2.0] * 5), np.uint8(4))


def _rest_of_an_iterator(x):
    pairs, s = enumerate(x), 0.0
    for i, v in pairs:
        s += v
        if i == 1:
            break
    for _, v in pairs:
        s += 10 * v
    return s


def _rest_of_a_list(x):
    numbers = iter([1, 2, 3, 4])
    for _ in numbers:
        break
    return x * len(list(numbers))


def _nested_in_one_iterator(x):
    s, numbers = x[0], iter(range(6))
    for i in numbers:
        for j in numbers:
            s += 10 * j
            break
        s += i
    return s


def _items_one_by_one(x):
    items = iter(x)

    def pull():
        for v in items:
            return v

    return pull() + 10 * pull() + 100 * pull()


@pytest.mark.parametrize(
    "function", [_rest_of_an_iterator, _rest_of_a_list, _nested_in_one_iterator, _items_one_by_one]
)
def test_an_iterator_is_left_where_python_leaves_it(function):
    _same(zenith.jit(function)(np.arange(1.0, 10.0)), function(np.arange(1.0, 10.0)))


def test_recursion_that_values_would_end():
    def power(x, n):
        if n == 0:
            return x
        return power(x * 2, n - 1)

    assert zenith.jit(power, static_argnames="n")(1.0, 3) == 8
    with pytest.raises(RecursionError, match="power needs more calls in each other") as found:
        zenith.jit(power)(1.0, 3)
    assert isinstance(found.value, zenith.ZenithError) and found.value.where.function == "power"


def test_values_do_not_decide_where_an_iterator_is_left():
    def first_large(x):
        items = iter(x)
        for v in items:
            if v > 1:
                break
        return next(items)

    with pytest.raises(zenith.ZenithError, match="values decide where a loop leaves an iterator"):
        zenith.jit(first_large)(np.arange(4.0))


def test_the_class_of_an_array():
    def doubled(x):
        return x * 2 if x.__class__ is np.ndarray else x * 3

    _same(zenith.jit(doubled)(np.ones(2)), doubled(np.ones(2)))


def _counted(u):
    s, c = 0.0, 0
    while (c := c + 1) < len(u):
        s += u[c]
    return s, c


def _counted_while_positive(u):
    s, c = 0.0, 0
    while (c := c + 1) < len(u) and u[c] > 0:
        s += u[c]
    return s, c


def _counted_in_steps(u):
    s, c = 0.0, 0
    while (c := c + 1) < len(u) % 6:
        s += u[c]
    return s, c


def _counted_by_a_function(u):
    c = 0

    def more():
        nonlocal c
        c += 1
        u[0] += 1.0
        return c < len(u)

    while more():
        u[-1] += c
    return u * 1.0, c


@pytest.mark.parametrize("sizes", [(1, 6, 2, 9), (6, 1, 9, 2)])
@pytest.mark.parametrize(
    "function",
    [_counted, _counted_while_positive, _counted_in_steps, _counted_by_a_function],
    ids=lambda f: f.__name__,
)
def test_conditions_that_assign_hold_for_every_size(function, sizes):
    """What a condition says of the first call's sizes is no part of the loop, whatever the condition has changed."""
    compiled = zenith.jit(function)
    for n in sizes:
        given, plain = np.arange(1.0, n + 1), np.arange(1.0, n + 1)
        _same(compiled(given), function(plain))
        np.testing.assert_array_equal(given, plain)


def test_lines_of_errors_are_the_users():
    def function(x):
        """Documented."""
        total = 0.0
        for v in x:
            if v > 1:
                total = total + v @ v
        return total

    with pytest.raises(zenith.ZenithError) as caught:
        zenith.jit(function, convert=True)(np.ones(20))
    assert caught.value.where.line == function.__code__.co_firstlineno + 5
    assert caught.value.where.code == "total = total + v @ v"


def decorated(function):
    return function


@decorated
@decorated
def below_decorators(x):
    for i in range(9):
        x = x.tobytes()
    return x


def test_lines_below_decorators_are_the_users():
    with pytest.raises(zenith.ZenithError) as caught:
        zenith.jit(below_decorators, convert=True)(np.ones(20))
    assert caught.value.where.code == "x = x.tobytes()"


def test_what_is_converted_keeps_what_a_function_has():
    from zenith.convert import convert

    def function(x: int, /, y: int = 3, *, z: int = 4) -> int:
        """Documented."""
        return x + y + z

    function.note = "kept"
    made = convert(function)
    assert (made.__name__, made.__qualname__, made.__doc__) == (function.__name__, function.__qualname__, "Documented.")
    assert made.__defaults__ == (3,) and made.__kwdefaults__ == {"z": 4} and made.note == "kept"
    assert made.__annotations__ == function.__annotations__
    assert made(1) == 8 and convert(made) is made


@zenith.jit(convert=True, static_argnames="n")
def with_static(x, n):
    for _ in range(n):
        x = x + n
    return x


def test_static_integers_stay_static():
    np.testing.assert_array_equal(with_static(np.zeros(2), 3), [9, 9])
    np.testing.assert_array_equal(with_static(np.zeros(2), n=10), [100, 100])


def test_disabled_compilation_runs_python():
    x = np.zeros(3)

    @zenith.jit(convert=True)
    def fill(x):
        for i in range(len(x)):
            assert type(i) is int
            x[i] = i

    with zenith.disable_jit():
        fill(x)
    np.testing.assert_array_equal(x, [0, 1, 2])


def steps(x, n):
    x = x.copy()
    for i in range(n):
        if x[0] > 0:
            x = x * 0.5 - x**2 * 0.01
        else:
            x[1] = x[1] * x[0]
    return x.sum()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_transforms_go_through_loops_branches_and_writes(sign):
    x, v = sign * np.array([0.5, 0.3, -0.2]), np.array([0.1, -0.7, 0.4])
    compiled = zenith.jit(steps, convert=True)
    before = x.copy()
    gradient = zenith.grad(lambda x: compiled(x, 12))(x)
    expected = (steps(x + 1e-6 * v, 12) - steps(x - 1e-6 * v, 12)) / 2e-6
    np.testing.assert_allclose(gradient @ v, expected, 1e-5)
    _, tangent = zenith.jvp(lambda x: compiled(x, 12), (x,), (v,))
    np.testing.assert_allclose(tangent, expected, 1e-5)
    np.testing.assert_array_equal(x, before, "arrays of transformed calls are left alone")


def test_batches_of_loops_with_values_in_their_conditions():
    def root(x):
        turns = 0
        while abs(x * x - 2) > 1e-9:
            x = 0.5 * (x + 2 / x)
            turns += 1
        return x, turns

    xs = np.array([1.0, 5.0, 100.0])
    found, turns = zenith.vmap(zenith.jit(root, convert=True))(xs)
    np.testing.assert_allclose(found, [root(x)[0] for x in xs])
    np.testing.assert_array_equal(turns, [root(x)[1] for x in xs])


def test_batches_of_writes_leave_the_callers_array_alone():
    def sort(x):
        for i in range(len(x)):
            for j in range(len(x) - 1 - i):
                if x[j] > x[j + 1]:
                    x[j], x[j + 1] = x[j + 1], x[j]
        return x

    xs = np.random.default_rng(0).random((4, 9))
    before = xs.copy()
    found = zenith.vmap(zenith.jit(sort, convert=True))(xs)
    np.testing.assert_array_equal(found, np.sort(before, axis=1))
    np.testing.assert_array_equal(xs, before)


def test_a_while_loop_has_no_reverse_mode():
    def root(x):
        while abs(x * x - 2) > 1e-9:
            x = 0.5 * (x + 2 / x)
        return x

    with pytest.raises(zenith.ZenithError, match="while_loop"):
        zenith.grad(zenith.jit(root, convert=True))(1.0)
    _, tangent = zenith.jvp(zenith.jit(root, convert=True), (1.0,), (1.0,))
    assert abs(tangent) < 1e-4


# --- integers as sizes ---------------------------------------------------------------------------------------------


def table(n):
    t = np.zeros(n)
    for i in range(n):
        t[i] = i * n
    return t


def test_integers_are_sizes_of_one_program():
    compiled = zenith.jit(table, convert=True)
    for n in (5, 9, 1, 0, 30, np.int32(7), np.int64(8)):
        np.testing.assert_array_equal(compiled(n), table(n))
    assert compiled.cache_info().misses <= 4, compiled.cache_info()
    python = zenith.jit(table, convert=True)
    for n in (5, 9, 1, 30):
        python(n)
    assert python.cache_info().misses == 1


def test_negative_integers_are_no_sizes_and_truths_are_none():
    def count(n):
        total = 0
        for i in range(n):
            total += i
        return total + n

    compiled = zenith.jit(count, convert=True)
    for n in (-3, 4, -3, 0, 1, True, False, 12, -1):
        assert compiled(n) == count(n), n
    with pytest.raises((zenith.ZenithError, ValueError)):
        zenith.jit(table, convert=True)(-1)


# --- arguments that are written ------------------------------------------------------------------------------------


def scale(x, factor):
    for i in range(len(x)):
        x[i] *= factor


def test_written_views_change_what_they_show():
    for view in (np.s_[::2], np.s_[::-1], np.s_[2:7], np.s_[:0]):
        found, expected = np.arange(9.0), np.arange(9.0)
        zenith.jit(scale, convert=True)(found[view], 3.0)
        scale(expected[view], 3.0)
        np.testing.assert_array_equal(found, expected)


def test_written_columns_change_their_matrix():
    found, expected = np.arange(12.0).reshape(3, 4), np.arange(12.0).reshape(3, 4)
    compiled = zenith.jit(scale, convert=True)
    compiled(found[:, 1], 3.0)
    compiled(found.T[2:], 2.0)
    scale(expected[:, 1], 3.0)
    scale(expected.T[2:], 2.0)
    np.testing.assert_array_equal(found, expected)


def test_what_cannot_be_written_is_refused_by_name():
    compiled = zenith.jit(scale, convert=True)
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    with pytest.raises(zenith.ZenithError, match="into x, which is read-only"):
        compiled(frozen, 2.0)
    with pytest.raises(zenith.ZenithError, match="changes a list, dict or object among its arguments"):
        compiled([1.0, 2.0], 2.0)


def add_into(x, y):
    for i in range(len(x)):
        x[i] += y[i]


def test_overlapping_arguments_are_refused_where_one_is_written():
    compiled = zenith.jit(add_into, convert=True)
    x = np.arange(9.0)
    before = x.copy()
    for other in (x, x[::-1], np.concatenate([x, x])[:9]):
        if np.shares_memory(x, other):
            with pytest.raises(zenith.ZenithError, match="whose memory is also that of y"):
                compiled(x, other)
            np.testing.assert_array_equal(x, before)
    compiled(x[:4], x[4:8])
    np.testing.assert_array_equal(x, [4, 6, 8, 10, *before[4:]])


def test_arrays_of_other_elements_are_written_in_their_type():
    for dtype in (np.float32, np.int32, np.complex128):
        found, expected = np.arange(5).astype(dtype), np.arange(5).astype(dtype)
        zenith.jit(add_into, convert=True)(found, np.ones(5, dtype))
        add_into(expected, np.ones(5, dtype))
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == dtype


def test_written_tensors_change():
    torch = pytest.importorskip("torch")
    x = torch.arange(5.0, dtype=torch.float64)
    zenith.jit(scale, convert=True)(x, 2.0)
    assert x.tolist() == [0, 2, 4, 6, 8]


def test_written_arguments_in_trees_change():
    def update(state, gradient):
        for name in state:
            state[name] -= 0.5 * gradient[name]

    state = {"w": np.ones(3), "b": np.zeros(1)}
    zenith.jit(update, convert=True)(state, {"w": np.ones(3), "b": np.ones(1)})
    np.testing.assert_array_equal(state["w"], [0.5, 0.5, 0.5])
    np.testing.assert_array_equal(state["b"], [-0.5])


def test_the_second_call_writes_as_the_first_does():
    compiled = zenith.jit(add_into, convert=True)
    x = np.zeros(4)
    for turn in range(1, 6):
        compiled(x, np.ones(4))
        np.testing.assert_array_equal(x, turn)


def test_a_call_that_fails_leaves_arguments_or_raises_as_numpy_does():
    def beyond(x, n):
        for i in range(n):
            x[i] = 1.0

    x = np.zeros(4)
    with pytest.raises(IndexError):
        zenith.jit(beyond, convert=True)(x, 9)
    assert x.size == 4


def test_other_jitted_functions_are_called_with_their_writes():
    inner = zenith.jit(scale, convert=True)

    @zenith.jit(convert=True)
    def outer(x, n):
        for _ in range(n):
            inner(x, 2.0)

    x = np.ones(3)
    outer(x, 10)
    np.testing.assert_array_equal(x, 1024.0)


def test_threads_call_at_once():
    compiled = zenith.jit(add_into, convert=True)
    arrays = [np.zeros(50) for _ in range(8)]
    failures = []

    def work(x):
        try:
            for _ in range(20):
                compiled(x, np.ones(50))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    np.testing.assert_array_equal(arrays, 20.0)


def test_programs_that_write_arguments_are_not_saved(tmp_path):
    compiled = zenith.jit(scale, convert=True)
    compiled(np.ones(3), 2.0)
    with pytest.raises(zenith.ZenithError, match="writes"):
        compiled.save(tmp_path / "scale.zenith")
    with pytest.raises(zenith.ZenithError, match="writes"):
        compiled.eject(tmp_path / "scale")


def test_names_of_pythons_that_the_user_gives_another_meaning():
    def own(x):
        def abs(v):
            return v * 10

        def min(a, b):
            return a + b

        total = 0.0
        for v in x:
            total = min(total, abs(v))
        return total

    x = np.arange(9.0)
    assert zenith.jit(own, convert=True)(x) == own(x)


def test_functions_without_source_are_traced_as_before():
    scope = {}
    exec("def f(x):\n    for i in range(3):\n        x = x + i\n    return x", scope)
    np.testing.assert_array_equal(zenith.jit(scope["f"], convert=True)(np.zeros(2)), [3, 3])


def test_the_number_of_turns_is_no_part_of_the_program():
    def halve(x, n):
        for _ in range(n):
            x = x * 0.5 if x[0] > 1 else x + 1
        return x

    compiled = zenith.jit(halve, convert=True)
    compiled(np.ones(3), 10)
    nodes = len(compiled.graph)
    compiled(np.ones(3), 10_000)
    assert compiled.cache_info().misses == 1 and len(compiled.graph) == nodes


def test_integers_of_python_stay_what_they_are_beside_narrow_ones():
    """What uint8 cannot hold is refused, not wrapped: to NumPy the name is now one, now the other."""

    def fits(image, least):
        k = 0
        for i in range(len(image)):
            if image[i] > least:
                k = max(k, image[i])
        return k

    def negative(image, least):
        k = -1
        for i in range(len(image)):
            if image[i] > least:
                k = image[i]
        return k

    def computed(image, least):
        k = image[0]
        for i in range(len(image)):
            if image[i] > least:
                k = i
        return k

    def converted(image, least):
        k = -1
        for i in range(len(image)):
            if image[i] > least:
                k = int(image[i])
        return k

    image = np.arange(300).astype(np.uint8)
    for function in (fits, converted):
        assert zenith.jit(function)(image, 5) == function(image, 5)
    for function in (negative, computed):
        with pytest.raises(zenith.errors.TraceError, match="need not hold|before a turn of the loop"):
            zenith.jit(function)(image, 5)
