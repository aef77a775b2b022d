"""The engines for sorting, for the k best elements, for elements at ranks, and for the indices of true ones."""

from __future__ import annotations

from zenith.backends.engines import Engine, always, needs_threads
from zenith.backends.lower.order.compaction import lower_true_indices
from zenith.backends.lower.order.gpu import lower_shared_sort
from zenith.backends.lower.order.order_statistics import lower_order_statistics, lower_sorted_order_statistics
from zenith.backends.lower.order.sort import lower_sort
from zenith.backends.lower.order.top_k import accepts_few, lower_few, lower_sorted

ENGINES: tuple[Engine, ...] = (
    Engine("sort", ("sort",), "a sorting network, or a stable radix sort: a row a task, or a part of one", 0,
           always, lambda body, target, fixed: lower_sort(body)),
    Engine("shared_sort", ("sort",), "the same by blocks of threads, which order tiles in shared memory", 0,
           needs_threads, lambda body, target, fixed: lower_shared_sort(body)),
    Engine("top_k", ("top_k",), "few of the best elements, by insertion: no sort", 0,
           accepts_few, lambda body, target, fixed: lower_few(body)),
    Engine("sorted_top_k", ("top_k",), "the best elements, of rows that are sorted", 0,
           always, lambda body, target, fixed: lower_sorted(body, lower_sort)),
    Engine("shared_top_k", ("top_k",), "the same, sorted by blocks of threads", 0,
           needs_threads, lambda body, target, fixed: lower_sorted(body, lower_shared_sort)),
    Engine("order_statistics", ("order_statistics",), "elements at ranks: of sorted short rows, selected of others", 0,
           always, lambda body, target, fixed: lower_order_statistics(body)),
    Engine("shared_order_statistics", ("order_statistics",), "the same, of rows that blocks of threads sort", 0,
           needs_threads, lambda body, target, fixed: lower_sorted_order_statistics(body, lower_shared_sort)),
    Engine("true_indices", ("true_indices",), "the indices of true elements: a split of a row a task", 0,
           always, lambda body, target, fixed: lower_true_indices(body)),
)  # fmt: skip
