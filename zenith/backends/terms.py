"""Terms of sizes in texts: a long one that occurs often has a name, and is written, or computed, once.

Innermost brackets come first: one that repeats becomes a name, another one a mark, and what is around them is innermost
then. In the end marks are written out again, and names that are read once: so the longest terms that repeat stay.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

OFTEN, LONG = 3, 16  # occurrences and letters of a term that gets a name
_BRACKETS = re.compile(r"\w*\([^()]*\)")
_TERM = re.compile(r"(max|min)?\([\w\s+\-*/,\0]*\)")
_MARK = re.compile(r"\0(\d+)\0")


def with_named_terms(text: str) -> str:
    """A plan's text in which terms that repeat have names, which follow its first line.

    >>> print(with_named_terms("plan f: sizes n\\n" + "  launch k() over ((n + 131)//132)\\n" * 3))
    plan f: sizes n
      s0 = ((n + 131)//132)
      launch k() over s0
      launch k() over s0
      launch k() over s0
    <BLANKLINE>
    """
    head, line, rest = text.partition("\n")
    terms, (head, rest) = named_terms((head, rest))
    return "\n".join([head, *(f"  {name} = {term}" for name, term in terms.items())]) + line + rest


def named_terms(texts: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The terms that have names, each after those in it, and the texts with these names.

    >>> named_terms(["max(n//16384, 1) + 1", "n*max(n//16384, 1)", "-max(n//16384, 1)"])
    ({'s0': 'max(n//16384, 1)'}, ['s0 + 1', 'n*s0', '-s0'])
    """
    marks: list[str] = []  # the text of each, with marks in it
    numbers: dict[str, int] = {}
    shortened = list(texts)
    while found := Counter(words for text in shortened for words in _BRACKETS.findall(text)):
        for words in found:
            numbers.setdefault(words, len(numbers))
        marks += list(numbers)[len(marks) :]
        shortened = [_BRACKETS.sub(lambda match: f"\0{numbers[match[0]]}\0", text) for text in shortened]
    uses = Counter(int(number) for words in (*shortened, *marks) for number in _MARK.findall(words))
    named = _named(marks, uses)
    prefix = "s"
    while any(re.search(rf"\b{prefix}\d+\b", text) for text in texts):
        prefix += "_"
    names = {number: f"{prefix}{position}" for position, number in enumerate(named)}
    terms = {names[number]: _written(marks[number], marks, names) for number in named}
    return terms, [_written(text, marks, names) for text in shortened]


def _named(marks: list[str], uses: Counter[int]) -> list[int]:
    """The terms with names, inner ones first: not those that only one other term has, where they would be read once."""
    found = []
    inside = uses.copy()
    for number in reversed(range(len(marks))):
        if (
            _TERM.fullmatch(marks[number])
            and inside[number] >= OFTEN
            and len(_written(marks[number], marks, {})) >= LONG
        ):
            found.append(number)
        else:  # written out wherever it is read
            for inner in map(int, _MARK.findall(marks[number])):
                inside[inner] += inside[number] - 1
    return found[::-1]


def _written(text: str, marks: list[str], names: dict[int, str]) -> str:
    """A text with the names of terms, or what they stand for."""
    while _MARK.search(text):
        text = _MARK.sub(lambda match: names.get(int(match[1]), marks[int(match[1])]), text)
    return text
