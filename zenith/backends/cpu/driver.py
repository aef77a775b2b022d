"""The driver: one generated function that runs a whole program, launch after launch, without Python.

A call hands it a *frame*, a block of 64-bit words: the fixed words, the addresses of inputs, outputs and constants,
the sizes, the kernels' addresses, and for each launch room for its argument block. No address stands in the code.
Host calls cut a program into *segments*, one driver function each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zenith.backends.kernel import Kernel
from zenith.backends.plan import Call, Launch, Place, Plan

STATUS, TEAM, ARENA, SELF = 0, 1, 2, 3  # the fixed words of a frame; STATUS holds the address of the status words
FIXED = 4
CHUNK_COST = 400_000  # simple operations in a chunk of a launch: about ten microseconds of vectorised work
CHUNK_STEP = 512  # chunks of elements are whole strips (see ``emit``)


@dataclass(frozen=True, slots=True)
class Frame:
    """Which word of a frame holds what."""

    words: dict[str, int]
    blocks: tuple[int, ...]
    length: int

    @classmethod
    def of(cls, plan: Plan) -> Frame:
        """The layout for a plan; the names are those that the driver's source uses."""
        names = [
            *plan.inputs,
            *(n for n, _ in plan.outputs),
            *plan.constants,
            *plan.weights,
            *(name for p in plan.prepared for name, _, _ in p.results),
        ]
        words = {f"a_{n}": FIXED + i for i, n in enumerate(names)}
        words.update({n: FIXED + len(words) + i for i, n in enumerate(plan.symbols)})
        position = FIXED + len(words)
        launches = [s for s in plan.steps if isinstance(s, Launch)]
        for name in dict.fromkeys(f"k_{s.kernel.name}" for s in launches):
            words[name] = position
            position += 1
        blocks = []
        for step in launches:
            blocks.append(position)
            position += 1 + len(step.kernel.buffers) + len(step.kernel.sizes)
        return cls(words, tuple(blocks), position)


def segments(plan: Plan) -> list[list[Launch | Call]]:
    """The steps between host calls: each segment is a list of launches or one call."""
    parts: list[list[Launch | Call]] = []
    for step in plan.steps:
        if isinstance(step, Call) or not parts or isinstance(parts[-1][-1], Call):
            parts.append([])
        parts[-1].append(step)
    return parts


def driver_source(plan: Plan, frame: Frame, steps: Sequence[Launch | Call], first: int, name: str) -> str:
    """The source of one segment's driver; ``first`` is the number of its first launch in the plan."""
    lines = [f"def {name}(frame):", f'    """Segment of {plan.name}."""']
    body = [f"{word} = frame[{at}]" for word, at in frame.words.items() if word in plan.symbols]
    for number, step in enumerate(steps, first):
        assert isinstance(step, Launch)
        body += _launch_lines(plan, frame, step, number)
    return "\n".join(lines + ["    " + line for line in body]) + "\n"


def _launch_lines(plan: Plan, frame: Frame, step: Launch, number: int) -> list[str]:
    kernel, block = step.kernel, frame.blocks[number]
    words = [f"frame[{STATUS}] + {8 * number}", *(address(plan, frame, p) for p in step.places), *kernel.sizes]
    lines = [f"frame[{block + i}] = {word}" for i, word in enumerate(words)]
    grain = _grain(kernel)
    code = f"frame[{frame.words[f'k_{kernel.name}']}]"
    where = f"frame[{SELF}] + {8 * block}"
    comment = ", ".join(dict.fromkeys(str(line) for line in step.lines))
    lines.append(f"launch(frame[{TEAM}], {code}, {kernel.tasks}, {grain}, {where})  # {kernel.name} {comment}".rstrip())
    return lines


def _grain(kernel: Kernel) -> str:
    """How many tasks make a chunk: a constant, or an expression of the sizes that a task's cost depends on."""
    cost = kernel.cost.static
    return f"max(1, {CHUNK_COST} // max(1, {kernel.cost}))" if cost is None else str(grain_of(cost))


def grain_of(cost: int) -> int:
    """How many tasks of a known cost make a chunk."""
    grain = max(1, CHUNK_COST // max(1, cost))
    return grain if grain < CHUNK_STEP else -(-grain // CHUNK_STEP) * CHUNK_STEP


def address(plan: Plan, frame: Frame, place: Place) -> str:
    """The source of a place's address."""
    if place.kind == "slot":
        slot = next(s for s in plan.slots if s.name == place.name)
        return f"frame[{ARENA}] + {slot.offset}"
    return f"frame[{frame.words[f'a_{place.name}']}]"
