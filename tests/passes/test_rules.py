"""Every rule tests itself: its left side is built with every type, must fire, and must equal the right side."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import zenith.ir.ops  # noqa: F401  fills the registry
from zenith.ir.builder import Builder
from zenith.ir.dims import symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.interpret import interpret
from zenith.ir.types import DTYPES, ArrayType, bool_, float64, kind_of
from zenith.passes.cse import cse
from zenith.passes.dce import dce
from zenith.passes.pattern import NumberPattern, Variable, build, parse_rule
from zenith.passes.rules import CONDITIONS, RULES
from zenith.passes.simplify import apply_rules, index_rules, simplify

N = symbol("n")


def names_in(pattern, found=()):
    """The variables of a pattern: values, numbers and parameters."""
    if isinstance(pattern, Variable):
        return {pattern.name}
    if isinstance(pattern, NumberPattern):
        return {pattern.text} if pattern.bound else set()
    inner = set().union(*(names_in(a) for a in pattern.args)) if pattern.args else set()
    return inner | {v for _, v in pattern.params if v in ("s", "t")}


def edges(dtype):
    """Values of a type at which rewriting goes wrong first."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype.numpy)
        numbers = [info.min, info.max, 0, 1, 2, 3, 31, 32, 1000, info.max - 1, info.min + 1]
        return np.array([n for n in numbers if n <= info.max], dtype.numpy)
    info = ml_dtypes.finfo(dtype.numpy)
    numbers = [0.0, 1.0, 0.5, 2.0, 3.7, 1e-20, 90.0, 100.0, np.inf, info.max, info.tiny, info.smallest_subnormal]
    return np.array([*numbers, *(-v for v in numbers), np.nan], dtype.numpy)


def arrays(names, dtype):
    """One array for each value name: all combinations of edges, and random values."""
    rng = np.random.default_rng(len(names))
    columns = list(itertools.product(*(edges(bool_ if n == "c" else dtype) for n in names)))[:8000]
    out = []
    for i, name in enumerate(names):
        kind = bool_ if name == "c" else dtype
        random = rng.normal(0, 5, 200) if kind.is_float else rng.integers(0, 2 if kind.kind == "b" else 50, 200)
        out.append(np.concatenate([np.array([c[i] for c in columns], kind.numpy), random.astype(kind.numpy)]))
    return out


def choices(rule, dtype):
    """All bindings of number and parameter variables to try."""
    numbers = [1, 2, 4, 7] if not dtype.is_float else [1, 2, -4, 0.5, 0.1, 3, 2.0**-126, 2.0**127, -(2.0**-149)]
    found = sorted(names_in(rule.patterns[0]) & set("kmst"))
    with np.errstate(all="ignore"):
        options = [DTYPES if n in "st" else [dtype.numpy.type(v) for v in numbers] for n in found]
    for values in itertools.product(*options):
        yield dict(zip(found, values, strict=True))


def left_side(pattern, b, found, dtype):
    """The left side as nodes; a number takes the type of the values next to it, the condition of ``where`` is bool."""
    if isinstance(pattern, Variable):
        return found[pattern.name]
    values = [None if isinstance(a, NumberPattern) else left_side(a, b, found, dtype) for a in pattern.args]
    kinds = {v.dtype for v in values[1 if pattern.name == "where" else 0 :] if v is not None} or {bool_}
    for position, arg in enumerate(pattern.args):
        if isinstance(arg, NumberPattern):
            kind = bool_ if pattern.name == "where" and position == 0 else next(iter(kinds))
            values[position] = b.full(arg.value(kind, found), kind, (N,))
    return getattr(b, pattern.name)(*values, **{k: found[v] if v in ("s", "t") else v for k, v in pattern.params})


def two_sides(rule, pattern, dtype, chosen):
    """Graphs of the left and the right side, on the same inputs, and the inputs' names."""
    names = sorted(names_in(rule.patterns[0]) & set("xyzc"))
    graphs = []
    for side in ("left", "right"):
        graph = Graph("f")
        found = {n: graph.add_input(ArrayType(bool_ if n == "c" else dtype, (N,)), n) for n in names} | chosen
        if side == "left":
            result = left_side(pattern, Builder(graph), found, dtype)
        else:
            like = graphs[0].outputs[0]
            result = build(Builder(graph), rule.template, found, Value(-1, 0, like.type))
        graph.set_outputs([result])
        graphs.append(graph)
    return names, *graphs


def holds(rule, dtype, chosen):
    """Whether the rule's condition is true for these bindings."""
    if rule.condition is None:
        return True
    found = {"x": Value(-1, 0, ArrayType(dtype, (N,)))} | chosen
    return CONDITIONS[rule.condition.function](*(found[name] for name in rule.condition.names))


def assert_within(rule, a, b):
    """The declared exactness: equal bits (all nans alike), or a number of ulps, subnormal results as zero."""
    assert a.dtype == b.dtype and a.shape == b.shape
    if kind_of(a.dtype) != "f":
        np.testing.assert_array_equal(a, b)
        return
    nan = np.isnan(a)
    np.testing.assert_array_equal(nan, np.isnan(b))
    a, b = a[~nan], b[~nan]
    if rule.ulp == 0:
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b))
        return
    tiny = ml_dtypes.finfo(a.dtype).tiny
    with np.errstate(all="ignore"):
        unit = np.maximum(np.spacing(np.maximum(abs(a), abs(b))), ml_dtypes.finfo(a.dtype).smallest_subnormal)
        near = (a == b) | (abs(a - b) <= rule.ulp * unit) | ((abs(a) < tiny) & (abs(b) < tiny))
    assert near.all(), (rule.text, a[~near][:5], b[~near][:5])


def check_rule(rule, dtype):
    """How often the rule fires on one element type; raises when it does not, or when values are further off."""
    index, fired = index_rules([rule]), 0
    for chosen, pattern in itertools.product(choices(rule, dtype), rule.patterns):
        names, left, right = two_sides(rule, pattern, dtype, chosen)
        simplified = cse(dce(apply_rules(left, index)))
        if not holds(rule, dtype, chosen):
            assert simplified == cse(dce(left)), f"{rule.name} fired although its condition is false"
            continue
        fired += 1
        assert simplified != cse(dce(left)), f"{rule.name} did not fire"
        if pattern is rule.patterns[0]:  # other orders may give the operands in another order
            assert simplified == cse(dce(apply_rules(right, index)))
        values = arrays(names, dtype)
        assert_within(rule, interpret(left, *values)[0], interpret(simplified, *values)[0])
    return fired


@pytest.mark.parametrize("rule", RULES, ids=[r.name for r in RULES])
def test_rule(rule):
    assert sum(check_rule(rule, dtype) for dtype in DTYPES if dtype.kind in rule.kinds)


def test_names_are_unique_and_every_condition_is_used():
    names = [r.name for r in RULES]
    assert len(set(names)) == len(names)
    assert {r.condition.function for r in RULES if r.condition is not None} == set(CONDITIONS)


@pytest.mark.parametrize(
    "text",
    [
        "no rule",
        "a: x => x  for f, exact",
        "a: add(x, 0) => x  for q, exact",
        "a: add(x, 0) => x  for f, about",
        "a: cast(x) => x  for f, exact",
        "a: add(x, 0) => x  for f, exact when k",
    ],
)
def test_a_text_that_is_no_rule_is_refused(text):
    with pytest.raises(ValueError):
        parse_rule(text)


def test_a_wrong_rule_is_found():
    rule = parse_rule("wrong: add(x, 0) => x  for f, exact")
    dtype = float64
    names, left, right = two_sides(rule, rule.patterns[0], dtype, {})
    values = arrays(names, dtype)
    with pytest.raises(AssertionError):
        assert_within(rule, interpret(left, *values)[0], interpret(right, *values)[0])


def test_rules_chain_in_one_sweep():
    graph = Graph("f")
    x = graph.add_input(ArrayType(float64, (N,)), "x")
    b = Builder(graph)
    sigmoid = b.power(b.add(b.exp(b.mul(x, -1.0)), 1.0), -1.0)
    graph.set_outputs([b.neg(b.neg(b.div(b.mul(sigmoid, -1.0), -1.0)))])
    once = dce(simplify(graph))
    assert [n.primitive.name for _, n in once.nodes()] == ["input", "sigmoid"]
    assert dce(simplify(once)) == once
