"""The figures of a profile: its launches' times, their place below the machine's roof, and the arena over a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from zenith.api.profile import LaunchProfile, Profile

LIGHT, DARK, ROOF = "#d5dbe3", "#2f6db3", "#6b7280"
NAMED = 8  # kernels with a colour in the roofline: those with the most time
_COLORS = [*(f"C{i}" for i in range(NAMED)), LIGHT]
LARGEST = 400.0  # square points: a launch that takes the whole call


def bars(profile: Profile) -> Figure:
    """A bar for each launch, as long as its time, filled as far as the machine's limit."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 0.8 + 0.3 * len(profile.launches)), layout="constrained")
    axes = figure.add_subplot()
    names = [f"{i} {p.kernel}" for i, p in enumerate(profile.launches)]
    micro = [1e6 * p.seconds for p in profile.launches]
    axes.barh(names, micro, color=LIGHT, label="measured")
    limits = [t * min(1.0, p.share) for t, p in zip(micro, profile.launches, strict=True)]
    axes.barh(names, limits, color=DARK, label="the machine's limit")
    axes.invert_yaxis()
    axes.set_xlabel("microseconds")
    axes.set_title(profile.name)
    axes.legend()
    return figure


def roofline(profile: Profile) -> Figure:
    """Operations a second over operations a byte, below the roofs of each working set; a colour for each kernel."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5.5), layout="constrained")
    axes = figure.add_subplot()
    shown = [p for p in profile.launches if p.operations and p.bytes and p.seconds]
    peak, bandwidths = profile.roof.peak, profile.roof.bandwidths
    bends = [p.operations / p.bytes for p in shown] + [peak / speed for _, speed in bandwidths]
    span = np.geomspace(min(bends) / 4, max(bends) * 4, 200)
    for position, (size, speed) in enumerate(bandwidths):
        axes.plot(span, np.minimum(peak, speed * span) / 1e9, color=ROOF, linewidth=0.8, zorder=1)
        axes.annotate(
            f"{speed / 1e9:.3g} GB/s up to {_bytes(size)}",
            (span[20 * position], speed * span[20 * position] / 1e9),
            fontsize=7,
        )
    axes.annotate(f"{peak / 1e9:.3g} GFLOP/s", (span[-1], peak / 1e9), fontsize=7, ha="right", va="bottom")
    whole = sum(p.seconds for p in profile.launches)
    for color, (name, launches) in zip(_COLORS, _by_kernel(shown), strict=False):
        share = sum(p.seconds for p in launches) / whole
        sizes = [max(12.0, LARGEST * p.seconds / whole) for p in launches]
        axes.scatter([p.operations / p.bytes for p in launches], [p.gflops for p in launches], sizes, color=color,
                     alpha=0.7, label=f"{share:.0%} {name}")  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations a byte")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(f"{profile.name}{_left_out(len(profile.launches) - len(shown))}")
    if shown:
        figure.legend(title="of the time", fontsize=7, loc="outside lower center", ncols=3)
    return figure


def _by_kernel(launches: Sequence[LaunchProfile]) -> list[tuple[str, list[LaunchProfile]]]:
    """The launches of each kernel, the one with the most time first; those beyond ``NAMED`` together."""
    found: dict[str, list[LaunchProfile]] = {}
    for p in launches:
        found.setdefault(p.kernel, []).append(p)
    ordered = sorted(found.items(), key=lambda pair: -sum(p.seconds for p in pair[1]))
    rest = [p for _, own in ordered[NAMED:] for p in own]
    return [*ordered[:NAMED], *([("other kernels", rest)] if rest else [])]


def _left_out(count: int) -> str:
    """How many launches have no place where both axes are logarithms."""
    return f", without {count} launches that only move elements" if count else ""


def timeline(profile: Profile) -> Figure:
    """Values as rectangles, launches from left to right and the arena from below, over the bytes that are alive."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(8, 5), layout="constrained")
    arena, alive = figure.subplots(2, sharex=True, height_ratios=(3, 1))
    count, live = len(profile.launches), profile.live
    unit, scale = _unit(max((b.offset + b.bytes for b in profile.memory), default=0))
    slots = list(dict.fromkeys(block.slot for block in profile.memory))
    for block in profile.memory:
        corner = block.first - 0.5, block.offset / scale
        size = block.last - block.first + 1, block.bytes / scale
        arena.add_patch(
            Rectangle(corner, *size, facecolor=f"C{slots.index(block.slot) % 10}", alpha=0.6, edgecolor="white")
        )
        arena.annotate(
            block.slot, (block.first - 0.4, (block.offset + block.bytes / 2) / scale), fontsize=7, va="center"
        )
    top = max((b.offset + b.bytes for b in profile.memory), default=0)
    arena.set_xlim(-0.5, max(count, 1) - 0.5)
    arena.set_ylim(0, max(top / scale, 1e-9) * 1.02)
    arena.set_ylabel(f"the arena, {unit}")
    arena.set_title(
        f"{profile.name}: {_bytes(top)} of memory between launches, at most {_bytes(max(live, default=0))} alive"
    )
    alive.step(range(count), [bytes / scale for bytes in live], where="mid", color=DARK)
    alive.set_ylim(bottom=0)
    alive.set_ylabel(f"alive, {unit}")
    alive.set_xlabel("launch")
    return figure


def _unit(size: int) -> tuple[str, int]:
    """A unit in which a number of bytes is at least 1."""
    return next(
        ((name, 1 << shift) for name, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)) if size >> shift), ("bytes", 1)
    )


def _bytes(size: int) -> str:
    """A number of bytes in words.

    >>> _bytes(3 << 19), _bytes(12)
    ('1.5 MiB', '12 bytes')
    """
    unit, scale = _unit(size)
    return f"{size / scale:.3g} {unit}"
