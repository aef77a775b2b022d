"""Dataclasses and other registered classes as arguments and results of jit, transforms, loops; what is static."""

from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import optree
import pytest

import zenith
from zenith.errors import ArgumentError, TraceError, UnsupportedError

X = np.arange(3.0)


@zenith.tree.register_dataclass
@dataclass
class Line:
    """A dataclass of arrays."""

    slope: np.ndarray
    offset: float = 0.0


@partial(zenith.tree.register_dataclass, data_fields=["line"], meta_fields=["power"])
@dataclass(frozen=True)
class Curve:
    """One with a static field, whose data is a dataclass."""

    line: Line
    power: object = 1


class Pair:
    """A class that is no dataclass."""

    def __init__(self, slope, offset):
        self.slope, self.offset = slope, offset


zenith.tree.register_dataclass(Pair, ["slope", "offset"], [])


class Point:
    """A class that optree knows, with data of its own."""

    def __init__(self, x, label):
        self.x, self.label = x, label


optree.register_pytree_node(Point, lambda p: ((p.x,), p.label), lambda label, x: Point(*x, label), namespace="zenith")


@dataclass
class Unknown:
    """A dataclass that is not registered."""

    x: object


class Other:
    """Another class that is not."""

    def __init__(self, x):
        self.x = x


def total(p):
    return (p.slope * p.offset).sum()


@pytest.fixture(params=[Line, Pair])
def made(request):
    return request.param


def test_arguments_and_results_of_jit(made):
    found = zenith.jit(lambda p, *, q: made(p.slope + q.slope, q.offset), backend="reference")(
        made(X, 1.0), q=made(X, 2.0)
    )
    assert type(found) is made and found.slope.tolist() == [0, 2, 4] and found.offset == 2


def test_names_of_fields_are_those_of_inputs():
    f = zenith.jit(lambda curve: curve.line.slope * curve.line.offset, backend="reference")
    f(Curve(Line(X, 1.0)))
    assert "curve_line_slope: f64[curve_line_slope0], curve_line_offset: f64" in f.show("graph")
    with pytest.raises(TraceError, match=r"curve\.line\.offset is a str"):
        f(Curve(Line(X, "a")))


def test_derivatives(made):
    p = made(X, 2.0)
    value, gradient = zenith.value_and_grad(total)(p)
    assert value == 6 and type(gradient) is made
    assert gradient.slope.tolist() == [2, 2, 2] and gradient.offset == 3
    assert zenith.jvp(total, (p,), (made(np.ones(3), 1.0),))[1] == 9
    result, backward = zenith.vjp(lambda p: made(p.slope * p.offset, p.offset), p)
    (found,) = backward(made(np.ones(3), 0.0))
    assert type(result) is made and found.slope.tolist() == [2, 2, 2] and found.offset == 3
    assert zenith.jacrev(lambda p: p.slope * p.offset)(p).slope.shape == (3, 3)
    assert zenith.hessian(total)(p).slope.offset.tolist() == [1, 1, 1]


def test_batches(made):
    rows = made(np.ones((4, 3)), np.arange(4.0))
    assert zenith.vmap(total)(rows).tolist() == [0, 3, 6, 9]
    assert zenith.vmap(total, in_axes=(made(0, None),))(made(rows.slope, 2.0)).tolist() == [6] * 4
    assert type(zenith.vmap(lambda p: made(p.offset, p.slope))(rows)) is made


def test_loops_and_branches(made):
    p, rows = made(X, 1.0), np.ones((2, 3))
    last, each = zenith.scan(lambda c, y: (made(c.slope + y, c.offset * 2), made(y, c.offset)), p, rows)
    assert last.slope.tolist() == [2, 3, 4] and last.offset == 4 and each.offset.tolist() == [1, 2]
    assert zenith.scan(lambda c, q: (c + q.offset, None), 0.0, made(rows, np.ones(2)))[0] == 2
    grown = zenith.while_loop(lambda p: p.offset < 10, lambda p: made(p.slope, p.offset * 3), p)
    assert grown.offset == 27
    assert zenith.cond(False, lambda p: p, lambda p: made(p.slope, -p.offset), p).offset == -1
    assert zenith.fori_loop(0, 3, lambda i, p: made(p.slope + i, p.offset), p).slope.tolist() == [3, 4, 5]


def test_training_and_shapes(made):
    rule, p = zenith.optim.sgd(0.5), made(X, 2.0)
    _, state = p, rule.init(p)
    updates, _ = rule.update(zenith.grad(total)(p), state, p)
    assert type(updates) is made and updates.offset == -1.5
    structs = zenith.eval_shape(lambda p: made(p.offset, p.slope), p)
    assert type(structs) is made and structs.offset.shape == (3,)


def test_static_fields_are_values_of_the_program():
    f = zenith.jit(lambda c: sum([c.line.slope] * c.power), backend="reference")
    assert [f(Curve(Line(X), n)).tolist() for n in (1, 3, 1, 3)] == [[0, 1, 2], [0, 3, 6]] * 2
    assert f.cache_info().misses == 2
    assert zenith.grad(lambda c: (c.line.slope**c.power).sum())(Curve(Line(X), 2)).power == 2


class Word(str):
    """A str of another class."""

    def __repr__(self):
        return f"Word({str(self)!r})"


SAME = [1, True, 1.0, np.float32(1), 1 + 0j], [0.0, -0.0, 0, False], ["a", Word("a")], [(1, 2), (True, 2), (1.0, 2)]


@pytest.mark.parametrize("values", SAME)
@pytest.mark.parametrize("make", [lambda v: Curve(Line(X), v), lambda v: Point(X, v)], ids=["dataclass", "optree"])
def test_static_values_that_are_equal_are_not_the_same(make, values):
    """A program of one would compute with the other."""
    seen = []
    f = zenith.jit(lambda c: seen.append(c.power if isinstance(c, Curve) else c.label), backend="reference")
    g = zenith.jit(lambda c: c, backend="reference")
    results = [g(make(v)) for v in values * 2]
    for value in values * 2:
        f(make(value))
    assert list(map(repr, seen)) == list(map(repr, values))
    found = [r.power if isinstance(r, Curve) else r.label for r in results]
    assert list(map(repr, found)) == list(map(repr, values * 2))


@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_keys_that_are_equal_are_not_the_same(kind):
    f = zenith.jit(lambda d: {k: v * 2 for k, v in d.items()}, backend="reference")
    for key in (1, True, 1.0, 0.0, -0.0):
        assert repr(list(f(kind({key: X})))) == repr([key])


@pytest.mark.parametrize("first", [0, 1])
def test_names_of_another_class_are_not_the_same(first):
    """Of one dict with a single name, too, whichever of equal ones comes first."""
    f = zenith.jit(lambda d: {k: v * 2 for k, v in d.items()}, backend="reference")
    keys = [f"name{first}", Word(f"name{first}")]
    for key in keys[first:] + keys[:first]:
        assert repr(list(f({key: X}))) == repr([key])


def test_a_class_is_made_by_its_constructor():
    @zenith.tree.register_dataclass
    @dataclass
    class Sides:
        a: object
        b: object = field(metadata={"static": True})
        area: object = field(init=False)

        def __post_init__(self):
            self.area = self.a * self.b

    assert zenith.jit(lambda s: s.area, backend="reference")(Sides(X, 3)).tolist() == [0, 3, 6]
    assert zenith.tree.flatten(Sides(1, 3))[0] == [1]


def test_fields_that_are_dropped_have_their_defaults():
    @dataclass
    class Cached:
        x: object
        memo: object = None

    zenith.tree.register_dataclass(Cached, ["x"], [], drop_fields=["memo"])
    found = zenith.jit(lambda c: c, backend="reference")(Cached(X, "a"))
    assert found.memo is None and found.x.tolist() == X.tolist()


def test_objects_that_the_function_changes_are_refused():
    """They are copies of the caller's."""

    def move(p):
        p.offset = p.offset + 1.0
        return p.slope

    with pytest.raises(TraceError, match="changes a list, dict or object"):
        zenith.jit(move)(Line(X, 1.0))


def test_writes_into_their_arrays_are_the_callers():
    def double(p):
        p.slope[...] *= 2

    line = Line(X.copy(), 1.0)
    zenith.jit(double)(line)
    assert line.slope.tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    "call",
    [
        lambda v: zenith.jit(lambda p: p.x)(v),
        lambda v: zenith.jit(lambda x: v)(X),
        lambda v: zenith.grad(lambda p: p.x.sum())(v),
        lambda v: zenith.vmap(lambda p: p.x)(v),
        lambda v: zenith.scan(lambda c, x: (c, None), v, X),
        lambda v: zenith.scan(lambda c, x: (c, v), X, X),
        lambda v: zenith.cond(True, lambda p: p, lambda p: p, v),
        lambda v: zenith.eval_shape(lambda p: p.x, v),
        lambda v: zenith.optim.sgd(0.1, momentum=0.9).init(v),
    ],
)
@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Unknown(X), "zenith.tree.register_dataclass(Unknown)"),
        (Other(X), "zenith.tree.register_dataclass(Other, data_fields=[...], meta_fields=[...])"),
    ],
)
def test_what_to_write_for_an_unregistered_class(call, value, written):
    with pytest.raises(TraceError) as caught:
        call(value)
    assert type(value).__name__ in caught.value.what and f"register its class once: {written}" in caught.value.fix


@pytest.mark.parametrize("value", ["a", object(), {1, 2}, print, Unknown])
def test_what_is_no_structure_is_not_to_be_registered(value):
    with pytest.raises(TraceError) as caught:
        zenith.jit(lambda p: X)(value)
    assert "register" not in caught.value.fix


@pytest.mark.parametrize("value", [{1}, np.ones(2), {}])
def test_static_fields_can_be_hashed(value):
    with pytest.raises(TraceError, match="a static field of Curve cannot be a key") as caught:
        zenith.jit(lambda c: c.line.slope)(Curve(Line(X), value))
    assert "data_fields" in caught.value.fix and caught.value.where.file == __file__
    for _ in range(2):
        with pytest.raises(TraceError, match="a node whose own data cannot be a key"):
            zenith.jit(lambda c: c.x)(Point(X, value))


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ((Other,), "Other is no dataclass"),
        ((Unknown, ["x"]), "one of data_fields and meta_fields is missing"),
        ((Unknown, ["x"], ["x"]), "fields are named twice: x"),
        ((Unknown, [], []), "named or left out: x"),
        ((Unknown, ["x", "y"], []), "named or left out: y"),
        ((Unknown, [], [], ["x"]), "fields without defaults are dropped: x"),
        ((Line,), "Line is a node of structures already"),
    ],
)
def test_fields_that_do_not_fit_are_refused(given, what):
    with pytest.raises(ArgumentError, match=what) as caught:
        zenith.tree.register_dataclass(*given)
    assert caught.value.where.file == __file__ and caught.value.fix


def test_files_hold_plain_structures(tmp_path):
    f = zenith.jit(lambda p: p.slope)
    f(Line(X))
    with pytest.raises(UnsupportedError, match="a file cannot hold a Line"):
        f.save(tmp_path / "f.zenith")
