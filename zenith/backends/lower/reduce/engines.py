"""The engines for reductions and prefixes."""

from __future__ import annotations

from zenith.backends.engines import Engine, Refusal, always, needs_threads
from zenith.backends.lower.reduce.column_prefix import lower_column_prefix
from zenith.backends.lower.reduce.columns import lower_columns
from zenith.backends.lower.reduce.long_row import lower_long_row
from zenith.backends.lower.reduce.row_group import RowGroup, is_walked_whole, one_row
from zenith.backends.lower.reduce.rows import lower_rows
from zenith.backends.lower.reduce.split_column_prefix import is_chained, lower_column_prefix_splits
from zenith.backends.lower.reduce.split_columns import lower_column_splits
from zenith.backends.target import Target
from zenith.ir.graph import Graph


def _whole_rows(body: Graph, target: Target) -> float | Refusal:
    if one_row(body) and not is_walked_whole(body):
        return Refusal("there is one row only, which one thread would walk")
    return 1.0


def _one_row(body: Graph, target: Target) -> float | Refusal:
    if not one_row(body):
        return Refusal("there are many rows, which threads share whole")
    return Refusal("the row is walked in order by one thread") if is_walked_whole(body) else 1.0


def _apart(body: Graph, target: Target) -> float | Refusal:
    return Refusal("a prefix needs the results of another one") if is_chained(body) else needs_threads(body, target)


ENGINES: tuple[Engine, ...] = (
    Engine("rows", ("rows",), "reductions of trailing axes, prefixes of the last, with epilogue: a row a task", 0,
           _whole_rows, lambda body, target, fixed: lower_rows(body, target)),
    Engine("long_row", ("rows",), "reductions of all axes, prefixes of the only one: a split of the row a task", 0,
           _one_row, lambda body, target, fixed: lower_long_row(RowGroup(body, split=True), target)),
    Engine("columns", ("columns",), "a reduction of leading or inner axes, with its prologue", 0,
           always, lambda body, target, fixed: lower_columns(body)),
    Engine("split_columns", ("columns",), "the same, split: a split of a column a task, whose results are joined", 0,
           needs_threads, lambda body, target, fixed: lower_column_splits(body, target.threads or 1)),
    Engine("column_prefix", ("prefix",), "prefixes of an axis but the last, with epilogue: a column a task", 0,
           always, lambda body, target, fixed: lower_column_prefix(body)),
    Engine("split_column_prefix", ("prefix",), "the same, split: a split of a column a task, twice", 0,
           _apart, lambda body, target, fixed: lower_column_prefix_splits(body, target.threads or 1)),
)  # fmt: skip
