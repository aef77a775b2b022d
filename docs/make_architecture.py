"""Writes ARCHITECTURE.md: the text of docs/architecture.in.md with the present output of each stage of the compiler.

The text names its exhibits on lines of their own, ``{{ graph }}``; this script makes each of them by running the
stage. Everything printed is the same on every machine: the product's tile is that of AVX-512 whatever the processor,
nothing is compiled, and no times are shown.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "docs" / "architecture.in.md"
RESULT = ROOT / "ARCHITECTURE.md"
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]  # run as a script, only docs/ would be there

import example  # noqa: E402

import zenith  # noqa: E402
from tests import test_architecture as structure  # noqa: E402
from zenith.backends.cpu.product_schedule import choose  # noqa: E402
from zenith.backends.cpu.program import program_of  # noqa: E402
from zenith.backends.cpu.vectors import TABLE  # noqa: E402
from zenith.backends.emit import Printer  # noqa: E402
from zenith.backends.kernel import Kernel  # noqa: E402
from zenith.backends.lanes.emit import LanesPrinter  # noqa: E402
from zenith.backends.plan import Plan  # noqa: E402
from zenith.backends.planner import plan  # noqa: E402
from zenith.backends.steps import LaunchStep  # noqa: E402
from zenith.backends.target import Target  # noqa: E402
from zenith.ir.dims import Dim  # noqa: E402
from zenith.ir.graph import Graph  # noqa: E402
from zenith.ir.interpret import interpret  # noqa: E402
from zenith.ir.primitive import get  # noqa: E402
from zenith.ir.text import print_graph  # noqa: E402
from zenith.ir.types import DType  # noqa: E402
from zenith.passes.fuse import fuse  # noqa: E402
from zenith.passes.pipeline import PIPELINE  # noqa: E402

AVX512 = Target("cpu-avx512", lambda dtype, columns, stored=None: choose(dtype, TABLE["avx512"], columns, stored))


def main() -> None:
    """Write the file."""
    RESULT.write_text(architecture(), encoding="utf-8")


def architecture() -> str:
    """The text of ARCHITECTURE.md."""
    return fill(TEMPLATE.read_text(encoding="utf-8"), exhibits())


def fill(template: str, found: Mapping[str, str]) -> str:
    """The template with every ``{{ name }}`` replaced; KeyError for an unknown name, ValueError for an unused one."""
    used = re.findall(r"^\{\{ (\w+) \}\}$", template, re.MULTILINE)
    if missing := sorted(found.keys() - set(used)):
        raise ValueError(f"the text does not show {', '.join(missing)}")
    text = re.sub(r"^\{\{ (\w+) \}\}$", lambda match: found[match.group(1)].rstrip("\n"), template, flags=re.MULTILINE)
    return "<!-- Made by docs/make_architecture.py (`make docs`) from docs/architecture.in.md. -->\n\n" + text


def exhibits() -> dict[str, str]:
    """Every exhibit by name, as Markdown."""
    x = (np.arange(5 * 64) % 11 / 8).astype(np.float32).reshape(5, 64)
    traced = zenith.make_graph(example.classify)(x)
    graphs = list(accumulate(PIPELINE, lambda graph, step: step(graph), initial=traced))
    unfused, fused = graphs[PIPELINE.index(fuse)], graphs[-1]
    program = plan(fused, AVX512)
    product, rows = (s.kernel for s in program.steps if isinstance(s, LaunchStep))
    return {
        "layers": layers(),
        "rooms": rooms(),
        "program": python(inspect.getsource(example)),
        "graph": python(print_graph(traced, with_lines=True)),
        "primitive": primitive("exp"),
        "passes": passes(graphs),
        "unfused": python(str(unfused)),
        "fused": python(str(fused)),
        "plan": block(str(program)),
        "kernel_ir": block(tree(rows)),
        "rows_kernel": python(Printer().kernel(rows)),
        "lanes_kernel": python(LanesPrinter().kernel(rows)),
        "product_kernel": python(Printer().kernel(product)),
        "driver": driver(program),
        **calls(x, traced, fused),
    }


def block(text: str, language: str = "") -> str:
    """A fenced block."""
    return f"```{language}\n{text.rstrip()}\n```"


def python(text: str) -> str:
    """A block of Python."""
    return block(text, "python")


# --- the packages ---


def layers() -> str:
    """The layers that tests/test_architecture.py enforces, from the top."""
    return block("\n".join("  |  ".join(sorted(layer - {"__main__"})) for layer in structure.LAYERS))


def rooms() -> str:
    """A table of packages: the first sentence of each one's docstring, and which packages it imports."""
    imported: dict[str, set[str]] = {}
    ideas: dict[str, str] = {}
    for module, text in structure.ZENITH.items():
        here = structure.room(module)
        found = {structure.room(i.target) for i in structure.imports(module, text) if i.target.startswith("zenith.")}
        imported.setdefault(here, set()).update(found - {here, ""})
        if structure.plain(module) == f"zenith.{here}":
            ideas[here] = first_sentence(ast.get_docstring(ast.parse(text)) or "")
    order = [name for layer in structure.LAYERS for name in sorted(layer & ideas.keys() - {"__main__"})]
    lines = ["| Package | Purpose | Imports |", "|---|---|---|"]
    for name in order:
        below = ", ".join(r for r in order if r in imported[name])
        lines.append(f"| `{name}` | {ideas[name]} | {below} |")
    return "\n".join(lines)


def first_sentence(docstring: str) -> str:
    """A docstring's first paragraph in Markdown's marks, without the period."""
    text = " ".join(docstring.split("\n\n")[0].split())
    return re.sub(r":\w+:`([^`]*)`", r"`\1`", text).replace("``", "`").rstrip(".")


# --- the stages ---


def primitive(name: str) -> str:
    """A primitive's record, field by field."""
    record = get(name)
    lines = [f"{field.name:<12} {described(getattr(record, field.name))}" for field in fields(record) if field.init]
    return block("\n".join(lines))


def described(value: Any) -> str:
    """A field of a record; functions by their names in the code."""
    return f"a function, {value.__qualname__.split('.')[0]}" if inspect.isfunction(value) else str(value)


def passes(graphs: Sequence[Graph]) -> str:
    """All passes in order, and a table of those that changed something: nodes, and primitives added and removed."""
    lines = ["", "| Pass | Nodes | What changed here |", "|---|---|---|"]
    for step, (before, after) in zip(PIPELINE, pairwise(graphs), strict=True):
        if str(before) != str(after):
            lines.append(f"| `{step.__name__}` | {len(before)} -> {len(after)} | {difference(before, after)} |")
    names = ", ".join(f"`{step.__name__}`" for step in PIPELINE)
    return "\n".join([*textwrap.wrap(f"{names}. Those changed something here:", 120), *lines])


def difference(before: Graph, after: Graph) -> str:
    """The primitives that only one of two graphs has, counted: ``-1 div, +1 mul``."""
    old, new = (Counter(node.primitive.name for _, node in graph.nodes()) for graph in (before, after))
    gone = [f"-{count} {name}" for name, count in sorted((old - new).items())]
    come = [f"+{count} {name}" for name, count in sorted((new - old).items())]
    return ", ".join(gone + come) or "order or operands"


def tree(kernel: Kernel) -> str:
    """A kernel of the kernel IR, one line a statement, nested statements indented."""
    head = f"Kernel {kernel.name}: {kernel.tasks} tasks, about {kernel.cost} operations each"
    return "\n".join([head, *(line for s in kernel.body for line in nested(s, 1))])


def nested(statement: Any, depth: int) -> list[str]:
    """A statement's own fields on one line, then its nested statements."""
    inside = getattr(statement, "body", ())
    own = [f"{f.name}={short(getattr(statement, f.name))}" for f in fields(statement) if f.name not in ("body", "line")]
    head = "  " * depth + f"{type(statement).__name__}({', '.join(own)})"
    return [head, *(line for s in inside for line in nested(s, depth + 1))]


def short(value: Any) -> str:
    """A field of the kernel IR; element types by their short names."""
    if isinstance(value, DType | Dim):
        return str(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(short, value))}]"
    if is_dataclass(value):
        return f"{type(value).__name__}({', '.join(short(getattr(value, f.name)) for f in fields(value))})"
    return repr(value)


def driver(program: Plan) -> str:
    """The step table that the driver walks for a program."""
    return block(str(program_of(program)))


# --- calls ---


def calls(x: np.ndarray[Any, Any], traced: Graph, optimized: Graph) -> dict[str, str]:
    """Exhibits of calls: the binding, the counters, two errors, on backends that compile nothing."""
    function = zenith.jit(example.classify, backend="lanes")
    expected = example.classify(x)
    for graph in (traced, optimized):
        np.testing.assert_allclose(interpret(graph, x)[0], expected, rtol=1e-6)
    np.testing.assert_allclose(function(x), expected, rtol=1e-6)
    for size in (1, 0, 100):
        assert function(np.ones((size, 64), np.float32)).shape == (size, 10)
    (specialization,) = function.explain().specializations
    return {
        "binding": python(specialization.binding.source),
        "cache_info": block(str(function.cache_info())),
        "shape_error": block(message(lambda: function(np.ones((5, 65), np.float32)))),
    }


def message(call: Callable[[], object]) -> str:
    """The text of the error that a call raises, with paths from the project's root."""
    try:
        call()
    except zenith.ZenithError as error:
        return f"{type(error).__name__}: {error}".replace(f"{ROOT}/", "")
    raise AssertionError("no error was raised")


if __name__ == "__main__":
    main()
