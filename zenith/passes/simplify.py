"""Algebraic simplification by the rules of :mod:`zenith.passes.rules`.

Rules are indexed by the primitive they rewrite. A rule looks at operands only, and the nodes it emits are simplified
too, so that one sweep reaches the fixpoint.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.passes.pattern import Bindings, Condition, NumberPattern, Operation, Rule, build, match_operation
from zenith.passes.rewrite import Rewriter, rebuild
from zenith.passes.rules import CONDITIONS, RULES

Heads = tuple[tuple[int, frozenset[str]], ...]
Index = Mapping[str, Sequence[tuple[Rule, Operation, Heads]]]


def simplify(graph: Graph) -> Graph:
    """The graph with every rule applied wherever it fits."""
    return apply_rules(graph, RULES_BY_ROOT)


def apply_rules(graph: Graph, index: Index) -> Graph:
    """The graph with the rules of an index applied."""

    def visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
        candidates = index.get(node.primitive.name)
        if not candidates:
            return None
        actual = [b.definition(a).primitive.name for a in args]
        for rule, pattern, heads in candidates:
            if any(actual[operand] not in wanted for operand, wanted in heads):
                continue
            result = _apply(b, rule, pattern, node, args)
            if result is not None:
                return (result,)
        return None

    return rebuild(graph, visit, revisit=True)


def index_rules(rules: Iterable[Rule]) -> Index:
    """Rules by root primitive, each with the primitives that must define some of its operands, by number."""
    index: dict[str, list[tuple[Rule, Operation, Heads]]] = defaultdict(list)
    for rule in rules:
        for pattern in rule.patterns:
            index[rule.root].append((rule, pattern, _heads(pattern)))
    return dict(index)


def _heads(pattern: Operation) -> Heads:
    heads: list[tuple[int, frozenset[str]]] = []
    for operand, arg in enumerate(pattern.args):
        match arg:
            case NumberPattern():
                heads.append((operand, frozenset(("literal", "broadcast"))))
            case Operation(name=name):
                heads.append((operand, frozenset((name,))))
    return tuple(heads)


def _apply(b: Rewriter, rule: Rule, pattern: Operation, node: Node, args: Sequence[Value]) -> Value | None:
    """The node's replacement by this rule, or None when it does not match."""
    found: Bindings = {}
    if not match_operation(b, pattern, args, node.params, found):
        return None
    model: Value = found["x"] if "x" in found else found["c"]
    if model.dtype.kind not in rule.kinds or not _is_true(rule.condition, found):
        return None
    like = Value(-1, 0, node.types[0])  # only its type is read
    result = build(b, rule.template, found, like)
    return result if result.type == node.types[0] else None


def _is_true(condition: Condition | None, found: Bindings) -> bool:
    return condition is None or CONDITIONS[condition.function](*(found[name] for name in condition.names))


RULES_BY_ROOT: Index = index_rules(RULES)
