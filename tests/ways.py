"""Every way of running a program: its text, the interpreter without each pass, backends, with operations fused or not.

Backends run it with symbolic sizes and with fixed ones; ``scalar`` is the source of the compiled kernels as plain
Python, one element after the other, ``donating`` the same with results in the memory of arguments. A program that fails
in one of the ways is shrunk and printed as a script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.backends.running import call, compiled, compiled_unfused
from tests.minimize import as_script, minimize
from tests.programs import Bound, random_program, reference_bounds, violations
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.text import parse
from zenith.ir.verify import verify
from zenith.passes.pipeline import PIPELINE, run

Way = Callable[[Graph, list[Any]], list[Any]]


def _backend(name: str) -> Way:
    return lambda graph, args: call(compiled(graph, name), graph, args)


def _unfused(name: str) -> Way:
    return lambda graph, args: call(compiled_unfused(graph, name), graph, args)


def _without(name: str) -> Way:
    return lambda graph, args: interpret(verify(run(graph, disabled={name} - {"none"})[0]), *args)


def _text(graph: Graph, args: list[Any]) -> list[Any]:
    parsed = parse(str(graph), graph.constants)
    assert parsed == graph, "the text form does not parse back to the same program"
    return interpret(parsed, *args)


PASSES = tuple(dict.fromkeys(p.__name__ for p in PIPELINE))
WAYS: dict[str, Way] = {
    "text": _text,
    **{f"without {name}": _without(name) for name in ("none", *PASSES)},
    "lanes": _backend("lanes"),
    "cpu": _backend("cpu"),
    "scalar": _backend("scalar"),
    "donating": _backend("donating"),
    "cuda on lanes": _backend("cuda on lanes"),
    "lanes unfused": _unfused("lanes"),
    "cpu unfused": _unfused("cpu"),
}
STATIC_WAYS = ("lanes", "cpu", "cuda on lanes", "scalar", "donating")
# One program in so many, as ways take turns: most groups of a GPU are the same kernels as on lanes, a pass that is
# needed shows in many programs, kernels of one operation are short and soon known, and kernels of fixed sizes are those
# of symbolic ones with numbers in them.
SHARES = {"cuda on lanes": 5, "cpu unfused": 8, "scalar": 8, "donating": 8, **{f"without {name}": 8 for name in PASSES}}
STATIC_SHARE = 4  # of these turns, where sizes are fixed
# In the other streams long kernels are the point, which take seconds to compile and a fraction of one as plain Python.
_RARE = dict.fromkeys(WAYS, 16)
LONG_SHARES = {**_RARE, "scalar": 1, "donating": 3, "lanes": 4, "cuda on lanes": 8, "cpu": 8}
LONG_STATIC_SHARE = 1
_SCRIPT = """from tests.ways import complaint

print(complaint({way!r}, graph, args))"""


def complaint(way: str, graph: Graph, args: Sequence[Any]) -> str:
    """What is wrong with a program's results in one way; nothing when all is well."""
    try:
        return "\n".join(disagreements(way, graph, args, reference_bounds(graph, args)))
    except Exception as error:  # whatever it is, it is the finding
        return f"{type(error).__name__}: {error}"


def disagreements(way: str, graph: Graph, args: Sequence[Any], bounds: Sequence[Bound]) -> list[str]:
    """The results out of bounds, and the arguments that are not what they were before."""
    before = [np.array(a) for a in args]
    found = violations(WAYS[way](graph, list(args)), bounds)
    written = [
        i for i, (a, b) in enumerate(zip(args, before, strict=True)) if a is not None and a.tobytes() != b.tobytes()
    ]
    return found + [f"argument {i} was written" for i in written]


def report(way: str, graph: Graph, args: Sequence[Any]) -> str:
    """The complaint about the smallest program that still fails, and a script that shows it."""
    graph, args = minimize(graph, args, lambda g, a: bool(complaint(way, g, a)))
    return f"{way}: {complaint(way, graph, args)}\n\n{as_script(graph, args, _SCRIPT.format(way=way))}"


def turns(seed: int, stream: str = "any") -> dict[bool, list[str]]:
    """The ways that run a program, with symbolic sizes and with static ones."""
    long = stream not in ("any", "calls")
    shares, static = (LONG_SHARES, LONG_STATIC_SHARE) if long else (SHARES, STATIC_SHARE)

    def has_turn(way: str, symbolic: bool) -> bool:
        share = shares.get(way, 1) * (1 if symbolic else static)
        return (seed + list(WAYS).index(way) + long * (not symbolic)) % share == 0

    return {
        symbolic: [w for w in (WAYS if symbolic else STATIC_WAYS) if has_turn(w, symbolic)]
        for symbolic in (True, False)
    }


def check(seed: int, stream: str = "any", **options: Any) -> None:
    """Run a random program in all ways that have their turn, and fail with a report on one that disagrees."""
    bounds: list[Bound] = []
    for symbolic, ways in turns(seed, stream).items():
        if not ways:
            continue
        graph, args = random_program(seed, symbolic=symbolic, stream=stream, **options)
        bounds = bounds or reference_bounds(graph, args)  # sizes are the same: so is the reference
        for way in ways:
            try:
                wrong = disagreements(way, graph, args, bounds)
            except Exception as error:
                raise AssertionError(f"{stream} {seed}: {report(way, graph, args)}") from error
            assert not wrong, f"{stream} {seed}: {report(way, graph, args)}"
