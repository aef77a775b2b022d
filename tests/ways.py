"""Every way of running a program: its text, the interpreter without each pass, backends, with operations fused or not.

Backends run it with symbolic sizes and with fixed ones. A program that fails by one of the ways is shrunk and printed
as a script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.backends.running import call, compiled, compiled_unfused
from tests.minimize import as_script, minimize
from tests.programs import random_program, reference_bounds, violations
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
    again = parse(str(graph), graph.constants)
    assert again == graph, "the text form does not parse back to the same program"
    return interpret(again, *args)


PASSES = tuple(dict.fromkeys(p.__name__ for p in PIPELINE))
WAYS: dict[str, Way] = {
    "text": _text,
    **{f"without {name}": _without(name) for name in ("none", *PASSES)},
    "lanes": _backend("lanes"),
    "cpu": _backend("cpu"),
    "cuda on lanes": _backend("cuda on lanes"),
    "lanes unfused": _unfused("lanes"),
    "cpu unfused": _unfused("cpu"),
}
STATIC_WAYS = ("lanes", "cpu", "cuda on lanes")
# One program in so many, as ways take turns: most groups of a GPU are the same kernels as on lanes, a pass that is
# needed shows in many programs, kernels of one operation are short and soon known, and kernels of fixed sizes are those
# of symbolic ones with numbers in them.
SHARES = {"cuda on lanes": 5, "cpu unfused": 8, **{f"without {name}": 8 for name in PASSES}}
STATIC_SHARE = 4  # of these turns, where sizes are fixed
_SCRIPT = """from tests.programs import reference_bounds, violations
from tests.ways import WAYS

print(*violations(WAYS[{way!r}](graph, args), reference_bounds(graph, args)), sep="\\n")"""


def complaint(way: str, graph: Graph, args: Sequence[Any]) -> str:
    """What is wrong with a program's results by one way; nothing when all is well."""
    try:
        results = WAYS[way](graph, list(args))
    except Exception as error:  # whatever it is, it is the finding
        return f"{type(error).__name__}: {error}"
    return "\n".join(violations(results, reference_bounds(graph, args)))


def report(way: str, graph: Graph, args: Sequence[Any]) -> str:
    """The complaint about the smallest program that still fails, and a script that shows it."""
    graph, args = minimize(graph, args, lambda g, a: bool(complaint(way, g, a)))
    return f"{way}: {complaint(way, graph, args)}\n\n{as_script(graph, args, _SCRIPT.format(way=way))}"


def _has_turn(way: str, seed: int, symbolic: bool) -> bool:
    share = SHARES.get(way, 1) * (1 if symbolic else STATIC_SHARE)
    return (seed + list(WAYS).index(way)) % share == 0


def turns(seed: int) -> dict[bool, list[str]]:
    """The ways that run a program, with symbolic sizes and with static ones."""
    ways = {True: tuple(WAYS), False: STATIC_WAYS}
    return {symbolic: [w for w in ways[symbolic] if _has_turn(w, seed, symbolic)] for symbolic in ways}


def check(seed: int, **options: Any) -> None:
    """Run a random program by all ways that have their turn, and fail with a report on one that disagrees."""
    for symbolic, ways in turns(seed).items():
        if not ways:
            continue
        graph, args = random_program(seed, symbolic=symbolic, **options)
        bounds = reference_bounds(graph, args)
        for way in ways:
            try:
                wrong = violations(WAYS[way](graph, args), bounds)
            except Exception as error:
                raise AssertionError(f"program {seed}: {report(way, graph, args)}") from error
            assert not wrong, f"program {seed}: {report(way, graph, args)}"
