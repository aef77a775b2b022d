"""The pages of the primitives: each shows the record, and the engines that the planner chooses for its samples."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from zenith.backends.cpu.target import cpu_target
from zenith.backends.cuda.target import cuda_target
from zenith.backends.planner import plan
from zenith.ir.builder import Builder
from zenith.ir.dims import DimLike, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Elements, Fold, HostCall, Prefix, Scalar, Tile
from zenith.ir.primitive import NoRule, Primitive, Sample, all_primitives
from zenith.ir.types import DTYPES, ArrayType, DType, dtype_of, float64
from zenith.passes.pipeline import passes_for, run

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "primitives"
RULES = {"jvp": "Forward derivative", "vjp": "Reverse derivative", "batch": "Batching"}


def pages() -> dict[str, str]:
    """The text of every page by its path in the site."""
    return {f"{FOLDER}/{p.name}.md": page_of(p) for p in all_primitives()} | {f"{FOLDER}/index.md": index()}


def index() -> str:
    """A list of all primitives, by the file that defines them."""
    lines = ["# Primitives", "", "Every operation that a graph can contain, each one complete record.", ""]
    for file, members in grouped(all_primitives(), file_of).items():
        lines += [f"## {file}", "", *(f"- [{p.name}]({p.name}.md): {p.doc}" for p in members), ""]
    return "\n".join(lines)


def page_of(primitive: Primitive) -> str:
    """The page of a primitive."""
    sections = [f"# {primitive.name}", primitive.doc, facts(primitive), *examples(primitive), *rules(primitive)]
    return "\n\n".join(section for section in sections if section) + "\n"


def facts(primitive: Primitive) -> str:
    """The record's fields as a table."""
    types = [t.name for t in DTYPES if samples_of(primitive, t)]
    error = f"at most {primitive.ulp:g} units in the last place" if primitive.ulp else "none: exact, or rounded once"
    params = ", ".join(f"`{name}` ({kind})" for name, kind in primitive.params.items())
    rows = {
        "Defined in": f"`{file_of(primitive)}`",
        "Parameters": params or "none",
        "Element types": ", ".join(types) or "tests give it no samples of its own",
        "Kernels compute it as": form_of(primitive),
        "Error": error,
        "Order": "fixed, by tokens" if primitive.effect else "free",
        **{title: rule_of(getattr(primitive, rule)) for rule, title in RULES.items()},
        "Engines": engines_of(primitive),
    }
    lines = (f"| {name} | {text.replace('|', '&#124;')} |" for name, text in rows.items())
    return "\n".join(["| | |", "|---|---|", *lines])


def form_of(primitive: Primitive) -> str:
    """The lowering: its form and, where it is an expression or a tile kernel, which one."""
    lowering = primitive.lowering
    form = type(lowering).__name__
    match lowering:
        case Scalar(expression=str(text)):
            return f"{form}: `{text}`"
        case Scalar(expression=texts):
            return f"{form}: " + ", ".join(f"`{text}` for kind {kind}" for kind, text in texts.items())
        case Fold(combine=text) | Prefix(combine=text):
            return f"{form}: `{text}`"
        case Tile(kernel=kernel):
            return f"{form}: {kernel}"
        case Elements(computes=True):
            return f"{form}: elements at computed indices"
        case Elements(cheap=cheap):
            return f"{form}: an index map" + (", always fused" if cheap else "")
    return form


def rule_of(rule: Any) -> str:
    """Whether there is a rule, or why there is none."""
    return f"none: {rule.reason}" if isinstance(rule, NoRule) else "yes"


def examples(primitive: Primitive) -> Iterator[str]:
    """A few samples as lines of graphs."""
    if found := widest_samples(primitive)[:3]:
        yield "## Examples\n\n```python\n" + "\n".join(call_of(primitive, sample) for sample in found) + "\n```"


def call_of(primitive: Primitive, sample: Sample) -> str:
    """A sample as a line of a graph's text."""
    graph, results = graph_of(primitive, sample)
    line = str(graph).splitlines()[1].strip()
    return f"{line}    # {', '.join(str(r.type) for r in results)}"


def graph_of(primitive: Primitive, sample: Sample, symbolic: bool = False) -> tuple[Graph, tuple[Value, ...]]:
    """A graph of the primitive alone, with its results."""
    graph = Graph("example")
    args = [graph.add_input(type_of(v, symbolic), f"x{i}") for i, v in enumerate(sample.values)]
    results = graph.add(primitive, args, sample.params)
    graph.set_outputs(results)
    return graph, results


def type_of(array: Any, symbolic: bool) -> ArrayType:
    """The type of a sample's array; ``symbolic`` makes sizes above 1 symbols, equal ones the same."""
    sizes: list[DimLike] = [symbol(f"n{n}") if symbolic and n > 1 else n for n in array.shape]
    dtype = dtype_of(array.dtype)
    assert dtype is not None
    return ArrayType(dtype, sizes)


def samples_of(primitive: Primitive, dtype: DType) -> list[Sample]:
    """The samples of an element type; none for primitives that tests cannot run alone."""
    return list(primitive.samples(dtype.numpy))


def widest_samples(primitive: Primitive) -> list[Sample]:
    """The samples of the widest real element type that has any; complex ones only of primitives that take no others."""
    types = [t for complex_ones in (False, True) for t in reversed(DTYPES) if t.is_complex == complex_ones]
    return next((found for t in types if (found := samples_of(primitive, t))), [])


def engines_of(primitive: Primitive) -> str:
    """The engines that compute a sample with symbolic sizes on either target."""
    found = widest_samples(primitive)
    if not found:
        return "those of its body"
    named = {}
    for name, target in (("CPU", cpu_target()), ("CUDA", cuda_target())):
        graph, _ = run(graph_of(primitive, found[0], symbolic=True)[0], passes_for(target))
        chosen = dict.fromkeys(group.choice.engine for group in plan(graph, target).groups)
        called = "a call of Python" if isinstance(primitive.lowering, HostCall) else "no kernel"
        named[name] = ", ".join(chosen) or called
    return "; ".join(f"{name}: {chosen}" for name, chosen in named.items())


def rules(primitive: Primitive) -> Iterator[str]:
    """The source of rules that are functions of their own, and the graphs of derivatives."""
    for name, title in {"evaluate": "Reference", "typing": "Types", **RULES}.items():
        if text := source_of(getattr(primitive, name)):
            yield f"## {title}\n\n```python\n{text}\n```"
        elif name in ("jvp", "vjp") and (graph := derivative(primitive, name)):
            yield f"## {title}\n\n```python\n{graph}\n```"


def source_of(rule: Any) -> str:
    """The source of a function of the project; nothing for lambdas and closures."""
    if not inspect.isfunction(rule) or "<" in rule.__qualname__:
        return ""
    return textwrap.dedent(inspect.getsource(rule)).rstrip()


def derivative(primitive: Primitive, name: str) -> Graph | None:
    """The graph that a derivative rule gives for a sample with axes, where it has one."""
    rule = getattr(primitive, name)
    found = [s for s in samples_of(primitive, float64) if any(v.ndim for v in s.values)]
    if not inspect.isfunction(rule) or not found:
        return None
    graph, outputs = graph_of(primitive, found[0], symbolic=True)
    primals = tuple(graph.inputs)
    tangents = [graph.add_input(v.type, f"d{i}") for i, v in enumerate(primals if name == "jvp" else outputs)]
    builder = Builder(graph)
    if name == "jvp":
        results = rule(builder, primals, tangents, outputs, found[0].params)
    else:
        results = rule(builder, primals, outputs, tangents, found[0].params)
    graph.set_outputs([r for r in results if r is not None])
    return graph


def file_of(primitive: Primitive) -> str:
    """The file that registers a primitive."""
    return _files()[primitive.name]


@cache
def _files() -> dict[str, str]:
    """For every primitive the file where a statement of the module, outside of functions, registers it."""
    names, found = {p.name for p in all_primitives()}, dict[str, str]()
    for path in sorted((ROOT / "zenith" / "ir" / "ops").glob("*.py")):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            found |= dict.fromkeys(names.intersection(_registered(statement)), str(path.relative_to(ROOT)))
    return found


def _registered(statement: ast.stmt) -> list[Any]:
    """What ``register(Primitive(name="x", ...))``, ``unary("x", ...)``, or a loop over such names, may register."""
    if isinstance(statement, ast.For):
        return [n.value for n in ast.walk(statement.iter) if isinstance(n, ast.Constant)]
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return []
    call = statement.value
    call = call.args[0] if call.args and isinstance(call.args[0], ast.Call) else call
    said = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "name")]
    return [n.value for n in said if isinstance(n, ast.Constant)]


def grouped(items: Iterable[Primitive], key: Callable[[Primitive], str]) -> dict[str, list[Primitive]]:
    """Items in lists by key; keys and items keep their order."""
    found: dict[str, list[Primitive]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found
