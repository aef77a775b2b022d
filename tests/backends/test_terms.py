"""Named terms: written out again, the text is the plan's own; what repeats is written once."""

import re

import pytest

from tests.backends.running import plan_of
from tests.programs import STREAMS, random_program
from zenith.backends.terms import LONG, OFTEN, with_named_terms

TERM = "((n*m + 131)//132)"


def written_out(text):
    """The text with each name replaced by its term, from the last definition to the first."""
    lines = text.split("\n")
    names = [line for line in lines[1:] if re.match(r"  s_*\d+ = ", line)]
    text = "\n".join([lines[0], *lines[1 + len(names) :]])
    for line in reversed(names):
        name, term = line.strip().split(" = ", 1)
        text = re.sub(rf"\b{name}\b", lambda match, term=term: term, text)
    return text


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("seed", range(4))
def test_plans_of_random_programs_written_out_are_the_same(stream, seed):
    text = str(plan_of(random_program(seed, 40, stream=stream)[0]))
    named = with_named_terms(text)
    assert written_out(named) == text and len(named) <= len(text)


def test_a_term_that_repeats_is_written_once():
    text = "plan f: sizes n, m\n" + f"  launch k(p0=x) over max({TERM}, min({TERM}, 3))\n" * OFTEN + f"  {TERM}"
    named = with_named_terms(text)
    assert named.count(TERM) == 1 and named.count(" over s1\n") == OFTEN and written_out(named) == text
    assert named.startswith(f"plan f: sizes n, m\n  s0 = {TERM}\n  s1 = max(s0, min(s0, 3))\n")


def test_a_term_of_one_other_term_has_no_name():
    text = "plan f: sizes n\n" + f"  launch k() over max(1, {TERM})\n" * OFTEN
    assert with_named_terms(text).split("\n")[1] == f"  s0 = max(1, {TERM})"


@pytest.mark.parametrize("text", [
    "plan f: sizes n\n" + "  launch k(p0=x, out0=result0, q=(1)) over n\n" * 5,  # arguments are no term
    "plan f: sizes n\n" + "  launch k() over (n + 1)\n" * 5,  # it is short
    "plan f: sizes n\n" + f"  launch k() over {TERM}\n" * (OFTEN - 1),
    "", "plan f: sizes none", "plan (: n )",
])  # fmt: skip
def test_what_stays(text):
    assert with_named_terms(text) == text


def test_names_are_no_sizes():
    text = "plan f: sizes s0, s1\n" + "  launch k() over ((s0*s1 + 131)//132)\n" * OFTEN
    assert with_named_terms(text).split("\n")[1:3] == ["  s_0 = ((s0*s1 + 131)//132)", "  launch k() over s_0"]
    assert len(TERM) > LONG
