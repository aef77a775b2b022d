"""What converted functions call, by these names: loops, branches, expressions, lists, exceptions.

They run as Python's do where all is known while tracing, and become loops and branches of the program elsewhere.
"""

from __future__ import annotations

from zenith.convert.callees import callee, iterator
from zenith.convert.catching import Catching, entered
from zenith.convert.comparisons import compared
from zenith.convert.expressions import (
    all_of,
    and_,
    any_of,
    choose,
    compare,
    contains,
    identity,
    is_one,
    is_truth,
    known,
    not_,
    or_,
    read,
)
from zenith.convert.for_loops import for_, listed, named
from zenith.convert.lists import extended, list_
from zenith.convert.lookups import index_of, item
from zenith.convert.makers import brackets
from zenith.convert.optional import is_none
from zenith.convert.python_functions import class_of
from zenith.convert.raises import assertion_error, leaving, raises, raising, returned
from zenith.convert.sequences import lazily, next_of
from zenith.convert.statements import if_
from zenith.convert.texts import formatted
from zenith.convert.values import Unset
from zenith.convert.while_loops import while_
from zenith.errors import TraceError, user_line
from zenith.trace.recorder import current_recorder

__all__ = [
    "Catching", "all_of", "and_", "any_of", "assertion_error", "brackets", "callee", "choose", "class_of", "compare",
    "compared", "contains", "entered", "extended", "for_", "formatted", "global_", "identity", "if_", "index_of",
    "is_none", "is_one", "is_truth", "item", "iterator", "known", "lazily", "leaving", "list_", "listed", "named",
    "next_of", "not_", "or_", "raises", "raising", "read", "returned", "unset", "until_else", "while_",
]  # fmt: skip


def unset(name: str) -> Unset:
    """The value of a name before anything has set it."""
    return Unset(name)


def until_else(name: str) -> Unset:
    """The value of a name that is next read where a loop's ``break`` or ``else`` has set it."""
    return Unset(name, until_else=True)


def global_(name: str) -> None:
    """TraceError where a function assigns a global name while it is traced: it would happen once, not in each call."""
    if current_recorder() is not None:
        raise TraceError(
            f"the function assigns the global name {name}, which would happen once, and not in each call",
            where=user_line(), fix=f"return the value, and assign {name} where the function is called",
        )  # fmt: skip
