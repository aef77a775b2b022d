"""Drawings: the boxes and edges of one level of an outline, and panels: a drawing with those that open from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from zenith.ir.graph import Graph, Value
from zenith.ir.pictures.layout import Edge
from zenith.ir.pictures.outline import MANY, Item, Outline, Repeat, Step, numbers_of, outline
from zenith.ir.pictures.words import COLORS, aside, cut, operation, quoted

_NAMED = 6  # of them, in that box
_LINES = 8  # of the user's, in a hint


@dataclass(slots=True)
class Box:
    """A rectangle with lines of text. ``opens`` are positions of panels. A ``single`` one is an operation or a value,
    which edges enter in the order of its arguments.
    """

    name: str
    lines: list[str]
    color: str = "#ffffff"
    hint: str = ""
    opens: tuple[int, ...] = ()
    single: bool = True


@dataclass(slots=True)
class Panel:
    """A drawing under a title, with the panels that its boxes open. An edge leads to a box further on in the list."""

    title: str
    boxes: list[Box] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)


def panel_of(graph: Graph, title: str = "") -> Panel:
    """The drawing of a graph with all that opens from it."""
    found = outline(graph)
    return _Drawer(graph, found).panel(title or graph.name, found.items, inside=False)


class _Drawer:
    """Draws the levels of one graph's outline."""

    def __init__(self, graph: Graph, found: Outline) -> None:
        self.graph = graph
        self.aside_nodes = found.asides
        self.asides = {v for n in found.asides for v in graph.results(n)}
        self.returned = {(v.node, v.output) for v in graph.outputs}

    def panel(self, title: str, items: Sequence[Item], inside: bool) -> Panel:
        """The drawing of all of the graph, or of what is ``inside`` of an item."""
        made = Panel(title)
        drawn = [item for item in items if not isinstance(item, Step) or item.number not in self.aside_nodes]
        members = [list(numbers_of(item)) for item in drawn]
        where: dict[int, int] = {}  # the box of a node
        outside = self._outside([n for numbers in members for n in numbers]) if inside else self._inputs()
        found: dict[Value, int] = {}  # the box of a value from outside
        for value in outside:
            found[value] = len(made.boxes)
            made.boxes.append(self._source(value))
        if not inside and len(self.graph.inputs) > MANY:
            found |= dict.fromkeys(self.graph.inputs, len(made.boxes))
            made.boxes.append(self._many_inputs())
        for item, numbers in zip(drawn, members, strict=True):
            where |= dict.fromkeys(numbers, len(made.boxes))
            args = [arg for n in numbers for arg in self.graph.args(n)]
            self._add(made, self._box(item, numbers, made), self._sources(args, found, where))
        results = self._read(where) if inside else list(self.graph.outputs)
        self._add(made, self._end(results), self._sources(results, found, where))
        return made

    def _sources(self, values: Iterable[Value], outside: Mapping[Value, int], where: Mapping[int, int]) -> list[int]:
        """The boxes that values come from; none for those that stand as text where they are read."""
        drawn = (v for v in values if v in outside or v not in self.asides)
        return [outside[v] if v in outside else where[v.node] for v in drawn]

    def _add(self, panel: Panel, box: Box, sources: Sequence[int]) -> None:
        """Append a box and its edges, one for each argument of an operation; between others one for all values."""
        target = len(panel.boxes)
        panel.boxes.append(box)
        found: list[int] = []
        for source in sources:
            if source != target and (source not in found or (box.single and panel.boxes[source].single)):
                found.append(source)
        panel.edges += [(source, target) for source in found]

    def _inputs(self) -> list[Value]:
        return [v for v in self.graph.inputs if v not in self.asides]

    def _outside(self, numbers: Sequence[int]) -> list[Value]:
        """What operations read of others, in order of first use."""
        inside = set(numbers)
        args = (arg for n in numbers for arg in self.graph.args(n))
        return list(dict.fromkeys(arg for arg in args if arg.node not in inside and arg not in self.asides))

    def _read(self, numbers: Iterable[int]) -> list[Value]:
        """What others read of operations, or the program returns."""
        inside = set(numbers)
        read = {(n, output) for n in inside for output, user, _ in self.graph.users(n) if user not in inside}
        return [v for n in sorted(inside) for v in self.graph.results(n) if (n, v.output) in read | self.returned]

    def _source(self, value: Value) -> Box:
        """A value that comes from outside of the drawing."""
        node = self.graph.node(value.node)
        if node.primitive.name == "input":
            return Box(f"node{value.node}", [cut(f"{node.params['name']}: {value.type}")], COLORS["input"])
        module = "" if node.line is None else node.line.module
        words = f"{node.primitive.name} in {module}" if module else node.primitive.name
        return Box("outside", [cut(words), cut(str(value.type))], COLORS["outside"], self._hint([value.node]))

    def _many_inputs(self) -> Box:
        names = [f"{self.graph.node(v.node).params['name']}: {v.type}" for v in self.graph.inputs]
        lines = [f"{len(names)} inputs", *map(cut, names[:_NAMED]), f"... {len(names) - _NAMED} more"]
        return Box("inputs", lines, COLORS["input"], "\n".join(names), single=False)

    def _end(self, values: Sequence[Value]) -> Box:
        """What leaves the drawing."""
        stored = [cut(aside(self.graph, v)) for v in values if v in self.asides]
        return Box("output", ["output", *stored], COLORS["output"])

    def _box(self, item: Item, numbers: Sequence[int], parent: Panel) -> Box:
        """The box of an item; what it opens is added to the panels of its ``parent``."""
        first = len(parent.panels)
        if isinstance(item, Step):
            node = self.graph.node(item.number)
            where = node.primitive.name if node.line is None else f"{node.primitive.name} ({node.line})"
            parent.panels += [panel_of(body, f"{where}: {body.name}") for body in node.bodies]
            name, kind, lines = f"node{item.number}", "step", operation(self.graph, item.number, self.asides)
        else:
            kind, name = ("repeat", "repeat") if isinstance(item, Repeat) else ("part", "part")
            lines, title = self._summary(item, numbers)
            parent.panels.append(self.panel(title, item.items, inside=True))
        opens = tuple(range(first, len(parent.panels)))
        return Box(name, lines, COLORS.get(kind, "#ffffff"), self._hint(numbers), opens, kind == "step")

    def _summary(self, item: Item, numbers: Sequence[int]) -> tuple[list[str], str]:
        """The lines of what folds operations, and the title of what it opens."""
        assert not isinstance(item, Step)
        types = [cut(str(v.type)) for v in self._read(numbers)]
        results = list(dict.fromkeys(types))
        results = results if len(results) <= 2 else [*results[:1], f"and {len(results) - 1} other types"]
        shown = item.runs[0] if isinstance(item, Repeat) else numbers
        what = _count(sum(n not in self.aside_nodes for n in shown), "operation")
        if not isinstance(item, Repeat):
            return [cut(item.title), what, *results], f"{item.title}: {what}"
        what += " each" + (f", {item.stored}" if item.stored else "")
        title = f"{item.title}: the first of {len(item.runs)} that are the same computation; {what}"
        return [cut(item.title), f"x {len(item.runs)}", what, *results], title

    def _hint(self, numbers: Iterable[int]) -> str:
        """The user's lines, the first ones of many."""
        lines = [quoted(line) for n in numbers if (line := self.graph.node(n).line) is not None]
        return "\n".join(list(dict.fromkeys(lines))[:_LINES])


def _count(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")
