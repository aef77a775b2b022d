"""Writing the statements of a task of attention, forward or backward: scalars, loops, workspaces, the task loop.

A task is a block of one head's rows. Its own memory changes while it runs, so that expressions are bound where they are
written and not, as elsewhere, in the outermost loop that defines their operands.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from zenith.backends.expressions import Apply, Expr, Load, Name, Number
from zenith.backends.kernel import Buffer, Kernel, Let, Scratch, Store, TaskLoop
from zenith.backends.lower.loops import block_length, loop
from zenith.backends.lower.nest import KernelInterface, bind, decode_into, tile_result, with_used_buffers
from zenith.backends.lower.operand import OperandAccess
from zenith.backends.lower.task_grid import quotient_up
from zenith.ir.dims import Dim, DimLike, dim, product, symbol
from zenith.ir.graph import Graph
from zenith.ir.types import DType

STACK = 16384  # elements of a scratch buffer of a core; larger ones are slices of a temporary buffer


@dataclass(frozen=True, slots=True)
class Workspace:
    """A task's own memory: element i is at position ``at + i`` of ``buffer``."""

    buffer: str
    at: Dim


class TaskWriter(ABC):
    """The statements of a task of a tile kernel, whose sums have the type of its first result.

    A new writer is inside of the loop over tasks: task t is block ``t % blocks`` of at most ``width`` of the rows of
    head ``t // blocks``, ``count`` of them from row ``first`` on.
    """

    def __init__(self, body: Graph, batch: Sequence[Dim], rows: Dim, width: int) -> None:
        self.body, self.face = body, KernelInterface.of(body)
        self.result = tile_result(body)
        self.dtype, self.params = self.result.dtype, body.node(self.result.node).params
        self.width, blocks = width, quotient_up(rows, width)
        self.tasks = product(batch) * blocks
        self.temporaries: list[Buffer] = []
        self.e = e = self.face.builder()
        self.task = e.fresh("t")
        e.open(self.task)
        block, head = bind(e, "block", symbol(self.task) % blocks), bind(e, "head", symbol(self.task) // blocks)
        self.index = tuple(decode_into(e, head, list(batch))) if batch else ()
        self.first = bind(e, "first", block * width)
        self.count = block_length(e, "count", self.first, width, rows)

    # --- writing statements ---

    def put(self, expr: Expr, stem: str = "v") -> Name:
        """Bind an expression here: a task's own memory changes, so its loads must not move."""
        name = self.e.fresh(stem)
        self.e.level_of[name] = len(self.e.levels) - 1
        self.e.append(Let(name, expr))
        return Name(name, expr.dtype)

    def apply(self, text: str, *args: Expr) -> Name:
        """Bind a scalar expression here."""
        return self.put(Apply(text, args, self.dtype))

    def load(self, workspace: Workspace, at: Dim) -> Name:
        """Bind an element of a workspace here."""
        return self.put(Load(workspace.buffer, workspace.at + at, self.dtype))

    def read(self, operand: OperandAccess, at: Dim) -> Name:
        """Bind an operand's element, at a position of its buffer, widened from 16-bit floats."""
        element = self.put(Load(operand.buffer, at, operand.dtype))
        return element if operand.dtype == self.dtype else self.apply("x", element)

    def store(self, workspace: Workspace, at: Dim, value: Expr) -> None:
        """Write an element of a workspace."""
        self.e.append(Store(workspace.buffer, workspace.at + at, value))

    def number(self, value: float) -> Number:
        """A literal of the scores' type."""
        return Number(value, self.dtype)

    def loop(self, stem: str, start: DimLike, stop: DimLike, lanes: bool = False) -> AbstractContextManager[Dim]:
        """A loop around the statements that are written meanwhile."""
        return loop(self.e, stem, start, stop, lanes)

    @abstractmethod
    def fits(self, length: int) -> bool:
        """Whether so many elements can be one more scratch buffer; else they are a slice of a temporary one."""

    def workspace(self, stem: str, length: Dim | int, dtype: DType | None = None) -> Workspace:
        """Memory for a task, of the sums' type: a scratch buffer, or its slice of a temporary buffer."""
        name, length, dtype = self.e.fresh(stem), dim(length), dtype or self.dtype
        if length.static is not None and self.fits(length.static):
            self.e.levels[0].statements.append(Scratch(name, dtype, max(1, length.static)))
            return Workspace(name, dim(0))
        self.temporaries.append(Buffer(name, dtype, length * self.tasks, "temporary"))
        return Workspace(name, bind(self.e, f"{stem}_at", symbol(self.task) * length))

    # --- the kernel ---

    def close_tasks(self, cost: Dim) -> Kernel:
        """The kernel, once the statements of a task are written, on the buffers that these access."""
        self.e.append(TaskLoop(self.task, self.tasks, None, (), self.e.close(), False))
        made = self.face.kernel(self.tasks, cost, self.e)
        return with_used_buffers(replace(made, buffers=(*self.face.buffers, *self.temporaries)))
