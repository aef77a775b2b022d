"""Every record of the registry: complete, typed as it computes, printable, and honest about what it lacks."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

from tests.ir.cases import SUPPORTED, WITHOUT_SAMPLES, apply, named, same, start
from zenith.errors import ZenithError
from zenith.ir import lowering
from zenith.ir.builder import Builder
from zenith.ir.dims import Dim, dim
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.lowering import complex_error
from zenith.ir.params import KINDS
from zenith.ir.primitive import NoRule, Primitive, WithResiduals, all_primitives, get, register
from zenith.ir.retype import array_in_double
from zenith.ir.text import parse
from zenith.ir.types import TOKEN, ArrayType, DType, float32, int64, kind_of
from zenith.ir.verify import verify

EVERY = [pytest.param(p, id=p.name) for p in all_primitives()]
RULES = ("jvp", "vjp", "batch")


@pytest.mark.parametrize("primitive", EVERY)
def test_a_record_is_complete(primitive: Primitive) -> None:
    assert primitive.name.isidentifier()
    assert primitive.doc[0].strip() and primitive.doc.endswith("."), "the sentence ends with a full stop"
    assert set(primitive.params.values()) <= KINDS.keys()
    assert isinstance(primitive.lowering, lowering.Lowering)
    assert primitive.ulp >= 0 and isinstance(primitive.effect, bool)
    for field in ("typing", "evaluate", "samples", *RULES):
        rule = getattr(primitive, field)
        assert callable(rule) or isinstance(rule, WithResiduals), field
    assert get(primitive.name) is primitive


@pytest.mark.parametrize("primitive", EVERY)
def test_a_primitive_has_samples_or_a_reason(primitive: Primitive) -> None:
    supported = {p.name for p, _ in SUPPORTED}
    assert (primitive.name in supported) != (primitive.name in WITHOUT_SAMPLES)


ONE_MODE = {"custom_vjp": "its users write the backward pass only", "while_loop": "its steps are not known ahead"}


def test_jvp_and_vjp_exist_together() -> None:
    for primitive in all_primitives():
        together = isinstance(primitive.jvp, NoRule) == isinstance(primitive.vjp, NoRule)
        assert together != (primitive.name in ONE_MODE), primitive


@pytest.mark.parametrize("primitive", EVERY)
def test_a_missing_rule_raises_its_reason(primitive: Primitive) -> None:
    for rule in (getattr(primitive, r) for r in RULES):
        if isinstance(rule, NoRule):
            with pytest.raises(ZenithError) as error:
                rule(None, (), ())
            assert str(error.value) == f"no {rule.kind} rule: {rule.reason}"
            assert len(rule.reason) > 5


@pytest.mark.parametrize(("primitive", "dtype"), named(SUPPORTED))
def test_typing_and_text_agree_with_the_reference(primitive: Primitive, dtype: DType) -> None:
    for sample in primitive.samples(dtype.numpy):
        builder, inputs, arrays = start(sample)
        results = apply(builder, primitive, inputs, sample.params)
        builder.graph.set_outputs(results)
        outputs = interpret(verify(builder.graph), *arrays)
        for value, output in zip(results, outputs, strict=True):
            assert value.type == ArrayType(value.dtype, output.shape)
            assert output.dtype == value.dtype.numpy
        parsed = parse(str(builder.graph))
        assert parsed == builder.graph
        assert all(itertools.starmap(same, zip(interpret(parsed, *arrays), outputs, strict=True)))


@pytest.mark.parametrize(("primitive", "dtype"), named(SUPPORTED))
def test_typing_holds_for_symbolic_sizes(primitive: Primitive, dtype: DType) -> None:
    for sample in primitive.samples(dtype.numpy):
        builder, inputs, arrays = start(sample, symbolic=True)
        results = apply(builder, primitive, inputs, sample.params)
        builder.graph.set_outputs(results)
        sizes = {f"s{n}": n for a in arrays for n in a.shape}
        for value, output in zip(results, interpret(verify(builder.graph), *arrays), strict=True):
            assert tuple(s.evaluate(sizes) for s in value.shape) == output.shape
        assert parse(str(builder.graph)) == builder.graph


@pytest.mark.parametrize(("primitive", "dtype"), named(SUPPORTED))
def test_wrong_operands_are_an_error_of_zenith(primitive: Primitive, dtype: DType) -> None:
    for sample in primitive.samples(dtype.numpy):
        builder, inputs, _ = start(sample)
        graph = builder.graph
        token, other = graph.add_input(TOKEN, "t"), graph.add_input(ArrayType(float32, (7, 7, 7)), "w")
        wrong = [[token, *inputs[1:]], [*inputs, *inputs, *inputs]] if inputs else [[token]]
        if isinstance(primitive.lowering, lowering.Scalar):
            wrong += [inputs[1:]] + [[other, *inputs[1:]]] * (len(inputs) > 1)
        for args in wrong:
            if primitive.name in ("concat", "interleave") and args[0] is not token:
                continue  # it takes any number
            with pytest.raises(ZenithError):
                apply(builder, primitive, args, sample.params)


COMPOSITE = [(p, t) for p, t in SUPPORTED if isinstance(p.lowering, lowering.Composite)]


@pytest.mark.parametrize(("primitive", "dtype"), named(COMPOSITE))
def test_a_composite_expands_to_what_it_computes(primitive: Primitive, dtype: DType) -> None:
    assert isinstance(primitive.lowering, lowering.Composite)
    for sample in primitive.samples(dtype.numpy):
        builder, inputs, arrays = start(sample)
        builder.graph.set_outputs(primitive.lowering.expand(builder, inputs, sample.params))
        expected = primitive.evaluate(arrays, sample.params)
        pairs = list(zip(interpret(verify(builder.graph), *arrays), expected, strict=True))
        if complex_error(primitive.lowering, 0) and dtype.is_complex:
            for found, right in pairs:
                assert found.dtype == right.dtype
                unit = np.spacing(np.abs(right)) * 2 * complex_error(primitive.lowering, 0)
                assert (np.abs(found - right) <= unit).all()
        elif primitive.ulp and all(kind_of(np.asarray(e).dtype) == "f" for e in expected):
            for found, right in pairs:  # both may be off
                assert found.dtype == right.dtype
                if dtype.is_narrow:
                    unit = np.spacing(np.abs(right)).astype(np.float64)
                    assert (np.abs(array_in_double(found) - array_in_double(right)) <= 2 * primitive.ulp * unit).all()
                else:
                    np.testing.assert_array_max_ulp(found, right, 2 * primitive.ulp)
        else:
            assert all(itertools.starmap(same, pairs))


def test_argmax_expands_with_nan_and_ties() -> None:
    argmax = get("argmax")
    assert isinstance(argmax.lowering, lowering.Composite)
    x = np.array([[1.0, np.nan, np.nan], [2.0, 2.0, 1.0], [-np.inf, -np.inf, -np.inf]], np.float32)
    graph = Graph("f")
    value = graph.add_input(ArrayType(float32, (3, 3)), "x")
    graph.set_outputs(argmax.lowering.expand(Builder(graph), [value], {"axis": 1}))
    assert interpret(graph, x)[0].tolist() == [1, 0, 0] == argmax.evaluate([x], {"axis": 1})[0].tolist()


class _Numbers:
    """The ``k`` of an element rule, on plain numbers."""

    at_least = staticmethod(lambda a, b: dim(a).evaluate({}) >= dim(b).evaluate({}))
    equal = staticmethod(lambda a, b: dim(a) == dim(b))
    all = staticmethod(all)
    where = staticmethod(lambda c, x, y: x if c else y)
    choose = staticmethod(lambda c, x, y: x() if c else y())
    clamp = staticmethod(lambda i, size: dim(max(0, min(dim(i).evaluate({}), dim(size).evaluate({}) - 1))))

    @staticmethod
    def cast(index: Dim, dtype: DType) -> Any:
        return dtype.numpy.type(index.evaluate({}))

    position = cast

    @staticmethod
    def checked(value: Any, size: Dim) -> Dim:
        assert 0 <= int(value) < size.evaluate({})
        return dim(int(value))

    @staticmethod
    def wrapped(value: Any, size: Dim) -> Any:
        return np.int64(value) + (size.evaluate({}) if value < 0 else 0)

    @staticmethod
    def between(value: Any, last: Dim) -> Dim:
        return dim(max(0, min(int(value), last.evaluate({}))))

    @staticmethod
    def compare(text: str, x: Any, y: Any) -> bool:
        return bool(eval(text, {"x": x, "y": y}))

    @staticmethod
    def search(size: Dim, condition: Any) -> Dim:
        return dim(sum(bool(condition(dim(i))) for i in range(size.evaluate({}))))


def _reader(array: Any) -> Any:
    """Reads an element; where nothing can be read, as past an empty operand, any value will do."""
    return lambda *index: array[tuple(i.evaluate({}) for i in index)] if array.size else array.dtype.type(0)


ELEMENTS = [(p, t) for p, t in SUPPORTED if isinstance(p.lowering, lowering.Elements)]


@pytest.mark.parametrize(("primitive", "dtype"), named(ELEMENTS))
def test_an_element_rule_computes_every_element(primitive: Primitive, dtype: DType) -> None:
    assert isinstance(primitive.lowering, lowering.Elements)
    for sample in primitive.samples(dtype.numpy):
        builder, inputs, arrays = start(sample)
        (value,) = apply(builder, primitive, inputs, sample.params)
        (expected,) = primitive.evaluate(arrays, sample.params)
        readers, types = [_reader(a) for a in arrays], [v.type for v in inputs]
        params = builder.graph.node(value.node).params
        for coordinates in np.ndindex(np.shape(expected)):
            index = tuple(dim(i) for i in coordinates)
            element = primitive.lowering.element(_Numbers, index, readers, types, params)
            assert same(element, np.asarray(expected)[coordinates]), coordinates


FOLDS = [(p, t) for p, t in SUPPORTED if isinstance(p.lowering, lowering.Fold)]


@pytest.mark.parametrize(("primitive", "dtype"), named(FOLDS))
def test_the_identity_of_a_fold_changes_nothing(primitive: Primitive, dtype: DType) -> None:
    assert isinstance(primitive.lowering, lowering.Fold)
    identity = np.asarray(primitive.lowering.identity(dtype), dtype.numpy)
    names = {"maximum": np.maximum, "minimum": np.minimum}
    for value in np.asarray([0, 1, 3], dtype.numpy):
        with np.errstate(all="ignore"):
            assert eval(primitive.lowering.combine, names, {"x": identity, "y": value}) == value
    (nothing,) = primitive.evaluate([np.zeros((0,), dtype.numpy)], {"axes": (0,)})
    assert same(nothing, identity)


PREFIXES = [(p, t) for p, t in SUPPORTED if isinstance(p.lowering, lowering.Prefix)]


@pytest.mark.parametrize(("primitive", "dtype"), named(PREFIXES))
def test_the_identity_of_a_prefix_changes_nothing(primitive: Primitive, dtype: DType) -> None:
    assert isinstance(primitive.lowering, lowering.Prefix)
    identity = np.asarray(primitive.lowering.identity(dtype), dtype.numpy)[()]
    names = {"maximum": np.maximum, "minimum": np.minimum, "logaddexp": np.logaddexp}
    for value in np.asarray([0, 1, 3, -0.0], dtype.numpy):
        with np.errstate(all="ignore"):
            joined = eval(primitive.lowering.combine, names, {"x": identity, "y": value, "z": dtype.numpy.type(1)})
        assert joined == value
        signed = primitive.name not in ("recurrence", "cumlogsumexp") and not dtype.is_complex
        assert not signed or np.signbit(joined) == np.signbit(value)


def test_a_name_is_registered_once_and_must_be_an_identifier() -> None:
    with pytest.raises(ValueError, match="primitive 'add' is already registered"):
        register(dataclasses.replace(get("add")))
    with pytest.raises(ValueError, match="named by a Python identifier, not 'a b'"):
        register(dataclasses.replace(get("add"), name="a b"))
    assert repr(get("add")) == "<primitive add>"
    with pytest.raises(KeyError):
        get("no_such_thing")


@pytest.mark.parametrize(
    ("name", "values", "params", "expected"),
    [
        ("floor_divide", [np.int32([7, -7, 5, 0]), np.int32([2, 2, 0, 0])], {}, [3, -4, 0, 0]),
        ("remainder", [np.int64([7, -7, 5]), np.int64([3, 3, 0])], {}, [1, 2, 0]),
        ("shift_left", [np.int32([1, 1, -1]), np.int32([31, 32, 40])], {}, [-(2**31), 0, 0]),
        ("shift_right", [np.int32([-8, -8, 8]), np.int32([1, 40, 40])], {}, [-4, -1, 0]),
        ("power", [np.int32([2, -1, 1, 3]), np.int32([-1, -3, -9, 2])], {}, [0, -1, 1, 9]),
        ("maximum", [np.float32([1, np.nan]), np.float32([np.nan, 0])], {}, [np.nan, np.nan]),
        ("sigmoid", [np.float32([-1e4, 0, 1e4])], {}, [0, 0.5, 1]),
        ("reduce_max", [np.zeros((0,), np.float32)], {"axes": (0,)}, -np.inf),
        ("cast", [np.float32([1.9, -1.9])], {"dtype": int64}, [1, -1]),
    ],
)  # fmt: skip
def test_edges_are_as_documented(name: str, values: list[Any], params: dict[str, Any], expected: Any) -> None:
    np.testing.assert_array_equal(get(name).evaluate(values, params)[0], expected)
