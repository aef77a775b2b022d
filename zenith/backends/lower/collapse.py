"""Collapsing axes: neighbouring ones become one loop where every access allows it.

An access is an address in loop variables. Axes k and k+1 of sizes s and t are one axis of size s*t when in every
address the step along k is t times the step along k+1; then the position along both is one variable.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.ir.dims import Dim, dim, product


def step(address: Dim, variable: str) -> Dim | None:
    """By how much an address grows with a variable; None when it does not grow linearly."""
    grown: dict[tuple[object, ...], int] = {}
    for monomial, coefficient in address.terms:
        rest = [a for a in monomial if a != variable]
        if len(monomial) - len(rest) > 1 or any(
            variable in a.left.symbols() | a.right.symbols() for a in rest if not isinstance(a, str)
        ):
            return None
        if len(rest) < len(monomial):
            grown[tuple(rest)] = coefficient
    return Dim(grown)  # type: ignore[arg-type]


def collapse(space: Sequence[Dim], variables: Sequence[str], uses: Sequence[Dim]) -> list[list[int]]:
    """Groups of neighbouring axes that can be one loop; axes of size 1 are in no group.

    ``variables[k]`` names the loop variable of axis k in ``uses``, all addresses of the kernel.
    """
    steps = {k: [step(use, v) for use in uses] for k, v in enumerate(variables)}
    groups: list[list[int]] = []
    for axis, size in enumerate(space):
        if size == 1:
            continue
        previous = groups[-1][-1] if groups else None
        if previous is not None and all(
            a is not None and b is not None and a == b * size for a, b in zip(steps[previous], steps[axis], strict=True)
        ):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups


def spread(groups: Sequence[Sequence[int]], rank: int, variables: Sequence[Dim]) -> tuple[Dim, ...]:
    """The index of every axis from one variable a group: a group's last axis carries the variable, the others are 0.

    The last axis then runs past its size; an address stays right because the group's steps agree.
    """
    index = [dim(0)] * rank
    for group, variable in zip(groups, variables, strict=True):
        index[group[-1]] = variable
    return tuple(index)


def sizes(space: Sequence[Dim], groups: Sequence[Sequence[int]]) -> list[Dim]:
    """The size of each group's loop."""
    return [product(space[a] for a in group) for group in groups]
