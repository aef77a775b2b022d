"""Where the boxes and edges of a small drawing lie: Sugiyama's layered method.

A box lies below all that it reads, in the first layer that is not yet as wide as a page. An edge that passes layers has
a place in each, as a box without width would; so no edge runs behind a box. Layers are ordered by the mean position
of neighbours in a few sweeps (the barycenter heuristic); then each box moves as near to its neighbours' mean as the
boxes beside it allow (least squares, by pooling adjacent violators).

Source of the method: Sugiyama, Tagawa, Toda, *Methods for visual understanding of hierarchical system structures*,
IEEE Transactions on Systems, Man, and Cybernetics 11 (1981).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

PAGE = 920.0  # pixels: a layer's width, if a box is not wider
ACROSS, DOWN = 18.0, 30.0  # pixels between boxes of a layer, and between layers
_SWEEPS = 8

Point = tuple[float, float]
Edge = tuple[int, int]  # from box to box, the lower number first
_Neighbour = tuple[int, float]  # a place, and where it is entered: the share of its width right of its middle


@dataclass(frozen=True, slots=True)
class Placement:
    """Upper left corners of the boxes, and the edges as cubic Bezier curves: a point, and three for each curve."""

    corners: list[Point]
    curves: list[list[Point]]
    width: float
    height: float


@dataclass(slots=True)
class _Place:
    """A box, or the place where edges pass a layer; ``x`` is its middle."""

    width: float
    height: float
    layer: int
    x: float = 0.0
    above: list[_Neighbour] = field(default_factory=list)
    below: list[_Neighbour] = field(default_factory=list)


def arrange(sizes: Sequence[Point], edges: Sequence[Edge], ordered: Sequence[bool]) -> Placement:
    """Places for boxes of these widths and heights; edges enter ``ordered`` boxes in order, others as they come.

    >>> arrange([(20, 10), (20, 10)], [(0, 1)], [True, True]).corners
    [(18.0, 18.0), (18.0, 58.0)]
    """
    places, chains = _places(sizes, edges, ordered)
    layers = _layers(places)
    _order(layers, places)
    _align(layers, places)
    left = min((p.x - p.width / 2 for p in places), default=0.0) - ACROSS
    for place in places:
        place.x -= left
    tops, bottoms = _heights(layers, places)
    corners = [(p.x - p.width / 2, tops[p.layer]) for p in places[: len(sizes)]]
    ends = _ends(edges, chains, places, ordered)
    curves = [_curve([places[n] for n in chain], end, tops, bottoms) for chain, end in zip(chains, ends, strict=True)]
    width = max((p.x + p.width / 2 for p in places), default=0.0) + ACROSS
    return Placement(corners, curves, width, (bottoms[-1] if bottoms else 0.0) + ACROSS)


def _places(
    sizes: Sequence[Point], edges: Sequence[Edge], ordered: Sequence[bool]
) -> tuple[list[_Place], list[list[int]]]:
    """The boxes and the places of passing edges, and each edge as the places that it joins."""
    layer_of = _assigned(sizes, edges)
    places = [_Place(w, h, layer) for (w, h), layer in zip(sizes, layer_of, strict=True)]
    passing: dict[tuple[int, int], int] = {}  # edges from one box pass a layer together
    chains = []
    for source, target in edges:
        chain = [source]
        for layer in range(layer_of[source] + 1, layer_of[target]):
            if (source, layer) not in passing:
                passing[source, layer] = len(places)
                places.append(_Place(0.0, 0.0, layer))
            chain.append(passing[source, layer])
        chains.append([*chain, target])
    shares = _shares(edges, range(len(edges)))
    for chain, share in zip(chains, shares, strict=True):
        for a, b in itertools.pairwise(chain):
            places[a].below.append((b, share if b == chain[-1] and ordered[b] else 0.0))
            places[b].above.append((a, 0.0))
    return places, chains


def _shares(edges: Sequence[Edge], order: Iterable[int]) -> list[float]:
    """Where edges enter their targets when they come in this order, spread over the width."""
    entering: dict[int, list[int]] = {}
    for number in order:
        entering.setdefault(edges[number][1], []).append(number)
    found = [0.0] * len(edges)
    for numbers in entering.values():
        for position, number in enumerate(numbers):
            found[number] = (position + 1) / (len(numbers) + 1) - 0.5
    return found


def _assigned(sizes: Sequence[Point], edges: Sequence[Edge]) -> list[int]:
    """The layer of each box: below what it reads, where there is room; what reads nothing is near its first reader."""
    sources: dict[int, list[int]] = {}
    readers: dict[int, list[int]] = {}
    for source, target in edges:
        sources.setdefault(target, []).append(source)
        readers.setdefault(source, []).append(target)
    widths: list[float] = []
    found: list[int] = []
    for box, (width, _) in enumerate(sizes):
        layer = max((found[s] + 1 for s in sources.get(box, ())), default=0)
        while layer < len(widths) and widths[layer] and widths[layer] + ACROSS + width > PAGE:
            layer += 1
        widths += [0.0] * (layer + 1 - len(widths))
        widths[layer] += width + ACROSS
        found.append(layer)
    for box, (width, _) in enumerate(sizes):
        if box not in sources and box in readers:
            nearest = min(found[r] for r in readers[box]) - 1
            fitting = (n for n in range(nearest, found[box], -1) if widths[n] + width <= PAGE)
            layer = next(fitting, found[box])
            widths[found[box]] -= width + ACROSS
            widths[layer] += width + ACROSS
            found[box] = layer
    used = {layer: position for position, layer in enumerate(sorted(set(found)))}
    return [used[layer] for layer in found]


def _layers(places: Sequence[_Place]) -> list[list[int]]:
    layers: list[list[int]] = [[] for _ in range(max((p.layer for p in places), default=-1) + 1)]
    for number, place in enumerate(places):
        layers[place.layer].append(number)
    return layers


def _order(layers: list[list[int]], places: Sequence[_Place]) -> None:
    """Sort each layer by the mean relative position of its neighbours above, then below, a few times."""
    rank = {n: (i + 0.5) / len(layer) for layer in layers for i, n in enumerate(layer)}
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            near = {n: (places[n].above if down else places[n].below) or [(n, 0.0)] for n in layer}
            means = {
                n: sum(rank[m] + share / len(layers[places[m].layer]) for m, share in near[n]) / len(near[n])
                for n in layer
            }
            layer.sort(key=lambda n: (means[n], rank[n]))
            rank.update({n: (i + 0.5) / len(layer) for i, n in enumerate(layer)})


def _align(layers: Sequence[Sequence[int]], places: Sequence[_Place]) -> None:
    """Give each place its middle: as near to those of its neighbours as the order of its layer allows."""
    for sweep in range(2 * _SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            near = [(places[n].above if down else places[n].below) or [(n, 0.0)] for n in layer]
            wanted = [sum(places[m].x + share * places[m].width for m, share in ms) / len(ms) for ms in near]
            for n, x in zip(layer, _spread(wanted, [places[n].width for n in layer]), strict=True):
                places[n].x = x


def _spread(wanted: Sequence[float], widths: Sequence[float]) -> list[float]:
    """The middles nearest to ``wanted``, in order, at which intervals of these widths keep apart.

    >>> _spread([0.0, 0.0], [10.0, 10.0])
    [-14.0, 14.0]
    """
    offsets = [0.0]
    for a, b in itertools.pairwise(widths):
        offsets.append(offsets[-1] + (a + b) / 2 + ACROSS)
    blocks: list[tuple[float, int]] = []  # means of neighbours that touch, and how many
    for want, offset in zip(wanted, offsets, strict=False):
        mean, count = want - offset, 1
        while blocks and blocks[-1][0] > mean:
            other, many = blocks.pop()
            mean, count = (mean * count + other * many) / (count + many), count + many
        blocks.append((mean, count))
    free = [mean for mean, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(free, offsets, strict=False)]


def _heights(layers: Sequence[Sequence[int]], places: Sequence[_Place]) -> tuple[list[float], list[float]]:
    """The upper and the lower end of each layer."""
    tops, bottoms, y = [], [], ACROSS
    for layer in layers:
        tops.append(y)
        bottoms.append(y + max(places[n].height for n in layer))
        y = bottoms[-1] + DOWN
    return tops, bottoms


def _ends(
    edges: Sequence[Edge], chains: Sequence[Sequence[int]], places: Sequence[_Place], ordered: Sequence[bool]
) -> list[float]:
    """Where each edge enters its target."""
    from_left = sorted(range(len(edges)), key=lambda n: 0.0 if ordered[edges[n][1]] else places[chains[n][-2]].x)
    shares = _shares(edges, from_left)
    return [places[target].x + places[target].width * share for (_, target), share in zip(edges, shares, strict=True)]


def _curve(chain: Sequence[_Place], end: float, tops: Sequence[float], bottoms: Sequence[float]) -> list[Point]:
    """Straight down beside the boxes of a layer, and a bend in the gap to the next one."""
    first, last = chain[0], chain[-1]
    points = [(first.x, tops[first.layer] + first.height)]
    for a, b in itertools.pairwise(chain):
        x, y = (end if b is last else b.x), tops[b.layer]
        low = bottoms[a.layer]
        points += _straight(points[-1], (a.x, low))
        points += [(a.x, (low + y) / 2), (x, (low + y) / 2), (x, y)]
    return points


def _straight(a: Point, b: Point) -> list[Point]:
    """A line as a curve; nothing where it has no length."""
    return (
        []
        if a == b
        else [((2 * a[0] + b[0]) / 3, (2 * a[1] + b[1]) / 3), ((a[0] + 2 * b[0]) / 3, (a[1] + 2 * b[1]) / 3), b]
    )
