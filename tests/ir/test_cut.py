"""The cheapest cut against all possible choices."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from zenith.ir.cut import cheapest_cut


@st.composite
def programs(draw):
    """Values 0, 1, ... with costs, each made of earlier ones or not to be made again, and those that are wanted."""
    count = draw(st.integers(1, 7))
    keep = {v: draw(st.integers(0, 9)) for v in range(count)}
    reads = {
        v: draw(st.lists(st.integers(0, v - 1), max_size=2, unique=True)) if v else []
        for v in range(count)
        if draw(st.booleans())
    }
    again = {v: draw(st.integers(0, 9)) for v in reads}
    return draw(st.sets(st.integers(0, count - 1))), keep, again, reads


def cost(kept, wanted, keep, again, reads):
    """What keeping exactly these values and computing the rest that is needed costs; None when that cannot be."""
    total, seen, pending = sum(keep[v] for v in kept), set(kept), list(wanted)
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        if value not in again:
            return None
        seen.add(value)
        total += again[value]
        pending += reads[value]
    return total


@given(programs())
def test_no_other_choice_is_cheaper(program):
    wanted, keep, again, reads = program
    found = cost(cheapest_cut(wanted, keep, again, reads), *program)
    choices = [cost(kept, *program) for size in range(len(keep) + 1) for kept in combinations(keep, size)]
    assert found is not None
    assert found == min(c for c in choices if c is not None)
