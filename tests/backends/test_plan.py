"""The plan: memory is never in use twice, results share none, equal kernels are shared, constants are packed once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from tests.backends.running import call, check, compiled, plan_of
from tests.programs import random_program
from tests.rewrite import damaged
from zenith.backends import plan_builder
from zenith.backends import planner as planning
from zenith.backends.arena import Arena
from zenith.backends.cpu.link import linked_count
from zenith.backends.cpu.target import cpu_target
from zenith.backends.lower.engine_table import lower_group
from zenith.backends.outputs import own_outputs
from zenith.backends.plan import Plan
from zenith.backends.planner import Planner
from zenith.backends.steps import ALIGN, CallStep, LaunchStep, LoopStep, Slot, walk
from zenith.errors import OutOfBoundsError, SourceLine
from zenith.ir.dims import symbol
from zenith.ir.graph import Graph
from zenith.ir.interpret import bind_sizes
from zenith.ir.lowering import View
from zenith.ir.text import parse
from zenith.ir.types import float32
from zenith.passes.pipeline import run

PROGRAMS = range(40)


def test_a_slot_is_reused_for_what_surely_fits_and_is_not_much_shorter() -> None:
    n, arena = symbol("n"), Arena()
    long, short, other = (arena.allocate(size, float32) for size in (64 * n, 32 * n, 32 * symbol("m")))
    for slot in (long, short, other):
        arena.give_back(slot)
    assert arena.allocate(48 * n, float32) == long
    assert arena.allocate(16 * n, float32) == short
    assert arena.allocate(symbol("m"), float32) not in (long, short, other)


def test_a_slot_that_is_a_little_too_short_grows() -> None:
    n, arena = symbol("n"), Arena()
    first, second = arena.allocate(n * n * 64, float32), arena.allocate(n, float32)
    arena.give_back(first)
    arena.give_back(second)
    assert arena.allocate((n + 2) * (n + 2) * 64, float32) == first
    assert arena.allocate(n * n * 64, float32) not in (first, second)
    grown, _, other = arena.slots()
    assert (grown.length, other.length) == ((n + 2) * (n + 2) * 256, n * n * 256)
    assert other.offset.evaluate({"n": 5}) == 49 * 256 + 64


def _range(slot: Slot, sizes: Mapping[str, int]) -> range:
    start = slot.offset.evaluate(sizes)
    return range(start, start + slot.length.evaluate(sizes))


def _overlap(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


def _clobbered(plan: Plan, sizes: Mapping[str, int]) -> Iterator[str]:
    """Reads of arena memory that was overwritten since, found by running the steps on paper."""
    where = {slot.name: _range(slot, sizes) for slot in plan.slots}
    valid: set[str] = set()
    for step in plan.steps:
        reads, writes = _touched(step)
        yield from (f"{step} reads {name}" for name in reads if where[name] and name not in valid)
        for name in writes:
            valid = {other for other in valid if other == name or not _overlap(where[other], where[name])} | {name}
        together = [where[n] for n in dict.fromkeys([*reads, *writes]) if where[n]]
        ordered = sorted(together, key=lambda r: r.start)
        yield from (f"{step} has overlapping buffers" for a, b in pairwise(ordered) if _overlap(a, b))


def _touched(step: LaunchStep | CallStep) -> tuple[list[str], list[str]]:
    """The slots that a step reads, and those that it writes."""
    if isinstance(step, CallStep):
        first = len(step.allocations) - step.results
        both = step.allocations[:first], step.allocations[first:]
        return tuple([p.name for p in allocations if p.kind == "slot"] for allocations in both)
    slots = [(p.name, b.role) for p, b in zip(step.allocations, step.kernel.buffers, strict=True) if p.kind == "slot"]
    return [n for n, role in slots if role == "in"], [n for n, role in slots if role != "in"]


@cache
def _straight() -> list[tuple[int, Plan]]:
    """Plans without loops, whose steps are in the order in which they run, by the seed of their program."""
    plans = [(seed, plan_of(random_program(seed)[0])) for seed in PROGRAMS]
    found = [
        (seed, plan) for seed, plan in plans if all(isinstance(step, LaunchStep | CallStep) for step in plan.steps)
    ]
    assert len(found) > len(PROGRAMS) * 0.8
    return found


def test_memory_is_not_reused_while_it_is_needed() -> None:
    for seed, plan in _straight():
        given = bind_sizes(*random_program(seed), {})
        for sizes in (given, dict.fromkeys(given, 0), dict.fromkeys(given, 1), dict.fromkeys(given, 1000)):
            assert list(_clobbered(plan, sizes)) == [], f"program {seed} with {sizes}"
            _check_extents(plan, sizes)


def _lives(graph: Graph) -> dict[tuple[int, int], range]:
    """From the node that computes each value to the last that reads it, directly or through views."""
    lives = {}
    for number, node in graph.nodes():
        for output in range(len(node.types)):
            last, open_ = number, [(number, output)]
            while open_:
                source, result = open_.pop()
                for read, user, _ in graph.users(source):
                    if read == result and isinstance(graph.node(user).primitive.lowering, View):
                        open_.append((user, 0))
                    elif read == result:
                        last = max(last, user)
            lives[number, output] = range(number, last + 1)
    return lives


def test_values_that_live_at_the_same_time_have_slots_of_their_own() -> None:
    shared = 0
    for seed in PROGRAMS:
        graph = own_outputs(run(random_program(seed)[0])[0])
        planner = Planner(graph, cpu_target())
        planner.plan()
        lives = _lives(graph)
        lives |= {
            v: range(lives[v].start, lives[v].stop - 1) for v in planner.buffers.passed_on
        }  # its last reader writes there
        slots = [(p.name, lives[value]) for value, p in planner.buffers.at.items() if p.kind == "slot"]
        for (one, life), (other, while_) in combinations(slots, 2):
            assert one != other or not _overlap(life, while_), f"program {seed}: {one} is in use twice"
            shared += one == other
    assert shared > 5, "slots serve values that live one after another"


def _check_extents(plan: Plan, sizes: Mapping[str, int]) -> None:
    """Slots are aligned, inside the arena, and as long as the buffers in them."""
    arena, where = plan.arena.evaluate(sizes), {slot.name: _range(slot, sizes) for slot in plan.slots}
    assert all(r.start % ALIGN == 0 and r.stop <= arena for r in where.values())
    for step in plan.steps:
        if isinstance(step, LaunchStep):
            for allocation, buffer in zip(step.allocations, step.kernel.buffers, strict=True):
                if allocation.kind == "slot":
                    assert buffer.size.evaluate(sizes) * buffer.dtype.itemsize <= len(where[allocation.name])


def test_kernels_write_results_and_slots_only_and_read_what_they_do_not_write() -> None:
    for _, plan in _straight():
        for step in plan.steps:
            if not isinstance(step, LaunchStep):
                continue
            reads = {p for p, b in zip(step.allocations, step.kernel.buffers, strict=True) if b.role == "in"}
            writes = [p for p, b in zip(step.allocations, step.kernel.buffers, strict=True) if b.role != "in"]
            assert len(writes) == len(set(writes)) and not reads & set(writes)
            assert {p.kind for p in writes} <= {"slot", "output"}


_RETURNS = """
def f(x: f32[n, 3]) -> (f32[n, 3], f32[n, 3], f32[3*n], f32[n, 3], f32[n, 3], f32[3*n], f32[2], f32[2]):
    v1 = constant(id={id!r}, dtype=f32, shape=(2,))
    v2 = reshape(x, shape=(3*n,))
    v3 = exp(x)
    v4 = reshape(v3, shape=(3*n,))
    return (x, x, v2, v3, v3, v4, v1, v1)
"""


def _returns() -> Graph:
    holder = Graph("holder")
    holder.add_constant(np.float32([1, 2]))
    ((name, array),) = holder.constants.items()
    return parse(_RETURNS.strip().format(id=name), {name: array})


@pytest.mark.parametrize("backend", ["cpu", "lanes", "reference"])
def test_results_share_no_memory(backend: str) -> None:
    graph, x = _returns(), np.ones((4, 3), np.float32)
    executable = compiled(graph, backend)
    results = call(executable, graph, [x])
    for i, result in enumerate(results):
        assert not any(np.shares_memory(result, other) for other in [x, *graph.constants.values(), *results[:i]])
        result[...] = -7
    assert x.sum() == 12
    check(call(executable, graph, [x]), graph, [x], exact=backend == "reference")


def _layers(count: int) -> tuple[Graph, list[Any]]:
    """Equal layers with weights of their own, and an input."""
    rng = np.random.default_rng(0)
    holder, lines, value = Graph("holder"), [], "x"
    for i in range(count):
        holder.add_constant(rng.standard_normal((5, 5)).astype(np.float32))
        key = list(holder.constants)[-1]
        lines += [f"w{i} = constant(id={key!r}, dtype=f32, shape=(5, 5))", f"p{i} = matmul({value}, w{i})",
                  f"t{i} = tanh(p{i})"]  # fmt: skip
        value = f"t{i}"
    names = {old: f"v{k}" for k, old in enumerate((line.split(" = ")[0] for line in lines), 1)}
    text = "\n    ".join(["def f(x: f32[n, 5]) -> (f32[n, 5]):", *lines, f"return ({value},)"])
    for old in sorted(names, key=len, reverse=True):
        text = text.replace(f"{old} =", f"{names[old]} =").replace(f"{old})", f"{names[old]})")
        text = text.replace(f"{old},", f"{names[old]},")
    return parse(text, holder.constants), [rng.standard_normal((3, 5)).astype(np.float32)]


def test_equal_layers_share_their_kernels_and_pack_each_constant_once() -> None:
    graph, args = _layers(6)
    plan = plan_of(graph)
    launches = [s for s in plan.steps if isinstance(s, LaunchStep)]
    assert len(plan.prepared) == 6 and len({p.launch.kernel.name for p in plan.prepared}) == 1
    assert len(launches) == 6 and len({s.kernel.name for s in launches}) == 1
    before = linked_count()
    executable = compiled(graph, "cpu")
    assert linked_count() <= before + 3, "packing, the layer, the driver"
    check(call(executable, graph, args), graph, args)


def test_equal_groups_are_lowered_once_if_their_lines_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = []
    monkeypatch.setattr(plan_builder, "lower_group", lambda *args: lowered.append(args[0]) or lower_group(*args))
    graph, _ = _layers(6)
    whole = plan_of(graph)
    assert len(whole.groups) == 6 and len(lowered) == 1
    optimised, _ = run(graph)
    (*_, last) = (number for number, node in optimised.nodes() if node.primitive.name == "fused")
    body = damaged(optimised.node(last).params["body"], 2, line=SourceLine("model.py", 7, "step"))
    lowered.clear()
    other = planning.plan(damaged(optimised, last, params={**optimised.node(last).params, "body": body}), cpu_target())
    assert len(lowered) == 2 and lowered[1] is body and other.groups[-1].lines == (SourceLine("model.py", 7, "step"),)
    assert [group.kernels for group in other.groups] == [group.kernels for group in whole.groups]


def test_no_call_links_anything_whatever_its_sizes() -> None:
    graph, args = _layers(2)
    executable = compiled(graph, "cpu")
    before = linked_count()
    for rows in (3, 0, 1, 17, 400, 2):
        x = np.resize(args[0], (rows, 5))
        check(call(executable, graph, [x]), graph, [x])
    assert linked_count() == before


def test_the_plan_prints_every_step_and_slot() -> None:
    text = str(plan_of(_layers(2)[0]))
    assert text.startswith("plan f: sizes n\n") and text.endswith("return result0: f32[n, 5]")
    assert text.count("once launch") == 2 and text.count(" launch ") == 2 + 2 and "slot t0: " in text


PACKED = """
def f(a: f32[m, k], u: f32[k, k], xs: f32[n, k, k]) -> (f32[m, k]):
    def body0(u: f32[k, k], a: f32[m, k], x: f32[k, k]) -> (f32[m, k]):
        def body0(u: f32[k, k], w: f32[k, k], a: f32[m, k]) -> (f32[m, k]):
            v3 = matmul(a, u)
            v4 = matmul(v3, w)
            v5 = tanh(v4)
            return (v5,)
        v3 = add(x, u)
        v4 = scan(u, v3, a, body=body0, length=n, captured=2, carried=1, reverse=False, index='')
        return (v4,)
    v3 = scan(u, a, xs, body=body0, length=n, captured=1, carried=1, reverse=False, index='')
    return (v3,)
"""


def test_loop_invariants_are_hoisted() -> None:
    """The matrix of the program is packed once, that of the outer step once in each, whatever the inner loop does."""
    plan = plan_of(parse(PACKED))
    names = [step.kernel.name.partition("_")[0] if isinstance(step, LaunchStep) else "loop" for step in plan.steps]
    assert names == ["pack", "loop"]
    outer = plan.steps[1]
    assert isinstance(outer, LoopStep)
    inside = [step.kernel.name.partition("_")[0] if isinstance(step, LaunchStep) else "loop" for step in outer.steps]
    assert inside == ["add", "pack", "loop"]
    once = plan.steps[0].allocations[-1]
    assert all(once not in step.allocations[:-1] for step in walk(outer.steps) if isinstance(step, LaunchStep))


@pytest.mark.parametrize("backend", ["lanes", "cpu"])
def test_hoisted_values_stay_until_the_loop_ends(backend: str) -> None:
    graph = parse(PACKED)
    rng = np.random.default_rng(3)
    executable = compiled(graph, backend)
    for m, k, n in ((2, 5, 3), (1, 40, 2), (3, 4, 0)):
        shapes = (m, k), (k, k), (n, k, k)
        args = [rng.standard_normal(s).astype(np.float32) / k for s in shapes]
        check(call(executable, graph, args), graph, args)


@pytest.mark.parametrize("backend", ["lanes", "cpu"])
def test_the_result_of_hoisted_work_is_there_in_every_step(backend: str) -> None:
    """Its last reader in a step frees no memory: the next step reads it, too."""
    graph = parse("""
def f(c: f32[m], h: f32[m], xs: f32[n]) -> (f32[m]):
    def body0(c: f32[m], h: f32[m], x: f32) -> (f32[m]):
        v3, _ = sort(c, descending=False)
        v4 = add(h, v3)
        v5, _ = sort(v4, descending=False)
        v6 = reverse(v5, axes=(0,))
        v7, _ = sort(v6, descending=False)
        return (v7,)
    v3 = scan(c, h, xs, body=body0, length=n, captured=1, carried=1, reverse=False, index='')
    return (v3,)
""")
    args = [np.array([3, 1, 2], np.float32), np.array([0, 20, 10], np.float32), np.zeros(4, np.float32)]
    assert call(compiled(graph, backend), graph, args)[0].tolist() == [4, 19, 31]


@pytest.mark.parametrize("backend", ["reference", "lanes", "cpu"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_of_fewer_steps_than_none_ends(backend: str, reverse: bool) -> None:
    """Traces guard the length; a graph that says nothing of it has to end, too."""
    graph = parse(f"""
def f(h: f64, x: f64[n]) -> (f64):
    def body0(h: f64) -> (f64):
        v1 = add(h, h)
        return (v1,)
    v2 = scan(h, body=body0, length=n - 4, captured=0, carried=1, reverse={reverse}, index='')
    return (v2,)
""")
    executable = compiled(graph, backend)
    for size, found in ((1, 1), (3, 1), (4, 1), (6, 4)):
        assert call(executable, graph, [np.ones(()), np.ones(size)]) == [found]


def test_work_that_may_fail_is_not_hoisted() -> None:
    """There may be no step in which it would be done."""
    graph = parse("""
def f(table: f32[m], i: i64, x: f32, n: f32[k]) -> (f32):
    def body0(table: f32[m], i: i64, x: f32) -> (f32):
        v3 = take(table, i, axis=0)
        v4 = add(x, v3)
        return (v4,)
    v4 = scan(table, i, x, body=body0, length=k, captured=2, carried=1, reverse=False, index='')
    return (v4,)
""")
    executable = compiled(graph, "cpu")
    args = [np.ones(3, np.float32), np.array(9), np.array(2, np.float32), np.zeros(0, np.float32)]
    assert call(executable, graph, args) == [2]
    with pytest.raises(OutOfBoundsError):
        call(executable, graph, [*args[:3], np.zeros(1, np.float32)])


def test_an_unrolled_loop_that_reads_values_twice_is_written_once() -> None:
    """Each value of the chain is read twice: written out from the end, the last one would have 2**40 terms."""
    chain = "\n".join(f"    v{i + 1} = mul(v{i}, v{i})" for i in range(1, 41))
    graph = parse(f"def f(x: f64[n]) -> (f64[n]):\n    v1 = mul(x, x)\n{chain}\n    return (v41,)")
    args = [np.array([1.0, -1.0, 0.5])]
    check(call(compiled(graph, "cpu"), graph, args), graph, args)
