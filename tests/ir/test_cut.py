"""The cheapest cut against all possible choices."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from zenith.ir.cut import cheapest_cut


@st.composite
def programs(draw):
    """Wanted values of 0, 1, ...; costs of saving and of recomputing each (some cannot be), from which earlier ones."""
    count = draw(st.integers(1, 7))
    saving = {v: draw(st.integers(0, 9)) for v in range(count)}
    reads = {
        v: draw(st.lists(st.integers(0, v - 1), max_size=2, unique=True)) if v else []
        for v in range(count)
        if draw(st.booleans())
    }
    recomputing = {v: draw(st.integers(0, 9)) for v in reads}
    return draw(st.sets(st.integers(0, count - 1))), saving, recomputing, reads


def cost(saved, wanted, saving, recomputing, reads):
    """The cost of saving exactly these values and recomputing what else is needed; None where that is impossible."""
    total, seen, pending = sum(saving[v] for v in saved), set(saved), list(wanted)
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        if value not in recomputing:
            return None
        seen.add(value)
        total += recomputing[value]
        pending += reads[value]
    return total


@given(programs())
def test_no_other_choice_is_cheaper(program):
    wanted, saving, recomputing, reads = program
    found = cost(cheapest_cut(wanted, saving, recomputing, reads), *program)
    choices = [cost(saved, *program) for size in range(len(saving) + 1) for saved in combinations(saving, size)]
    assert found is not None
    assert found == min(c for c in choices if c is not None)
