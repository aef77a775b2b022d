"""``torch.export`` for Zenith: every size dynamic where the module allows it, with the conditions that it assumes.

torch.export specialises example sizes 0 and 1, so an example gets larger sizes where it has such ones, and the export
runs in torch's size-oblivious mode: a symbol is treated as neither 0 nor 1, without a guard, where only strides or
broadcasting would differ. What the export assumes comes back as :class:`~zenith.api.binding.SourceGuard` s: the ranges
of its symbols, sizes that it found equal or fixed, and the branches that the module's Python took on sizes. Outside
them the module is exported again, never run.

Operators that have a rule of their own stay whole. Others are decomposed into core ATen, and writes in place become
results; where every operator has a rule, that second trace through the module is saved.

For training the module is exported with gradients recorded: what it computes inside ``torch.no_grad()`` then reads
detached tensors (:mod:`zenith.torch.recorded`).
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Container, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch.fx.experimental import _config as symbolic_config

from zenith.api.binding import SourceGuard
from zenith.errors import UnsupportedError, ZenithError
from zenith.torch import aten
from zenith.torch.calls import ModuleCall
from zenith.torch.conditions import conditions_of, fixed_size, tensor_inputs
from zenith.torch.draws import decompose_attention, draws_numbers, is_one_draw
from zenith.torch.dynamic_numbers import caught_errors_refused, read_numbers
from zenith.torch.examples import Examples, enlarged
from zenith.torch.float_sizes import recorded_with_floats
from zenith.torch.frozen import Reads, observed
from zenith.torch.gradient_states import noted_states
from zenith.torch.recorded import detach_unrecorded, recorded
from zenith.torch.recurrent import Undecomposed
from zenith.torch.unchecked import Unchecked, cumulative_batch_norms
from zenith.torch.undecomposed import without_early_decompositions
from zenith.torch.unexportable import explained, first_of_unknown_size, of_module

_SYMBOLIC = ("fx.experimental.symbolic_shapes", "fx.experimental.recording")


def exclusive() -> AbstractContextManager[bool]:
    """TorchDynamo's lock: exports and compilations replace state of the process, and the weights of modules meanwhile.

    While a thread holds the lock, it sees the modules' own.
    """
    from torch._dynamo.convert_frame import compile_lock

    lock: AbstractContextManager[bool] = compile_lock
    return lock


@dataclass(frozen=True)
class Exported:
    """One export: core ATen operators, the user's tensors among its inputs, and what it assumes.

    ``sizes[i][axis]`` is the number to which the export fixed an axis of tensor ``i``, or None where any size is
    valid that satisfies ``conditions`` (written in the names that ``names[i][axis]`` gave). ``writes`` are the buffers
    whose new contents are the program's first results. A ``differentiable`` one records through what gradients flow.
    ``reads`` are the attributes whose values are constants in it, and ``asked`` the states of gradients that are.
    """

    program: torch.export.ExportedProgram
    sizes: tuple[tuple[int | None, ...], ...]
    conditions: tuple[SourceGuard, ...]
    writes: tuple[str, ...]
    differentiable: bool
    reads: Reads
    asked: frozenset[str]

    def fits(self, tensors: Sequence[torch.Tensor], names: Sequence[Sequence[str]]) -> bool:
        """Whether the export is valid for tensors of these sizes."""
        pairs = [(n, s) for own, t in zip(names, tensors, strict=True) for n, s in zip(own, t.shape, strict=True)]
        fixed = [(f, s) for own, t in zip(self.sizes, tensors, strict=True) for f, s in zip(own, t.shape, strict=True)]
        return all(f is None or f == s for f, s in fixed) and all(c.holds(dict(pairs)) for c in self.conditions)


def export(
    module: torch.nn.Module,
    call: ModuleCall,
    dynamic_shapes: object = None,
    keep_sizes: bool = False,
    differentiable: bool = False,
) -> Exported:
    """Export ``module`` for calls like this one, in whose names for sizes conditions are written.

    With ``keep_sizes`` axes of size 0 and 1 are fixed (the export serves calls with exactly those); otherwise they are
    replaced by larger ones for the export, where the module accepts that. A ``differentiable`` export records
    through what gradients flow. Raises ZenithError with torch's reason when the module cannot be exported,
    UnsupportedError when it changes its inputs or parameters, does in Python what no program can follow, or has
    derivatives of its own that are asked for.
    """
    examples = Examples(call.args, call.kwargs, dict(zip(call.leaf_indices, call.tensors, strict=True)))
    twin = examples.as_arguments(module)
    with (
        exclusive(), noted_states(differentiable) as asked, observed(module, twin) as reads, caught_errors_refused(call)
    ):  # fmt: skip
        if dynamic_shapes is not None:
            program = _export(twin, examples.tensors, differentiable, examples.dynamic(module, dynamic_shapes))
        else:
            attempt = _export if keep_sizes else partial(_export_any_size, numbers=call.numbers)
            program = attempt(twin, examples.tensors, differentiable)
            if not keep_sizes and _lasting_writes(program):  # an argument may be written for its stand-in's size alone
                program = _export(twin, examples.tensors, differentiable)
    read_numbers(program, call.numbers)
    _refuse_lasting_writes(program)
    inputs = [n.meta["val"] for n in tensor_inputs(program)]
    sizes = tuple(tuple(fixed_size(size) for size in e.shape) for e in inputs)
    labels = [
        [label if size is None else str(size) for label, size in zip(own, fixed, strict=True)]
        for own, fixed in zip(call.size_names(), sizes, strict=True)
    ]
    conditions = conditions_of(program, inputs, labels)
    on_sizes = tuple(c for c in conditions if re.search(r"[^\W\d]", c.source))
    writes = tuple(program.graph_signature.buffers_to_mutate.values())
    return Exported(program, sizes, on_sizes, writes, differentiable, reads(), frozenset(asked))


def _export_any_size(
    module: torch.nn.Module, tensors: list[torch.Tensor], differentiable: bool, numbers: Container[int]
) -> Any:
    """Export with sizes 0 and 1 replaced on all axes, else on first axes only, else as they are.

    Tensors that carry ``numbers``, which are their indices, stay as they are.
    """
    for axes in (None, 1):
        larger = [t if index in numbers else enlarged(t, axes) for index, t in enumerate(tensors)]
        if any(one is not other for one, other in zip(larger, tensors, strict=True)):
            try:
                return _export(module, larger, differentiable)
            except ZenithError:
                continue  # the module needs these sizes; the last attempt reports what is wrong with the user's own
    return _export(module, tensors, differentiable)


def _export(
    module: torch.nn.Module,
    tensors: Sequence[torch.Tensor],
    differentiable: bool,
    shapes: Sequence[object] | None = None,
    oblivious: bool = True,
) -> Any:
    """Export a module of tensors; sizes of 2 and more are free unless ``shapes`` says something else.

    An ``oblivious`` one leaves open whether ``x[:, -k:]`` begins before the end, and what it gives has an unknown size.
    """
    static, auto = torch.export.Dim.STATIC, torch.export.Dim.AUTO
    if shapes is None:
        shapes = [{a: static if n < 2 else auto for a, n in enumerate(t.shape)} for t in tensors]
    try:
        mode = symbolic_config.patch(backed_size_oblivious=oblivious)  # type: ignore[attr-defined]
        with _quiet(), recorded(differentiable), mode, _written():
            dynamic = {"tensors": tuple(shapes)} if tensors else None
            program = recorded_with_floats(module, tensors, dynamic)
            if not (oblivious and _leaves_a_size_open(program)):
                if differentiable:
                    detach_unrecorded(program)
                decompose_attention(program)
                return program if _is_whole(program) else program.run_decompositions(_decompositions())
    except UnsupportedError as error:
        raise error.with_traceback(None) from error.__cause__  # without PyTorch's functions in between
    except Exception as error:
        raise explained(error, type(module).__name__, tensors) from of_module(error)
    return _export(module, tensors, differentiable, shapes, oblivious=False)


def _leaves_a_size_open(program: torch.export.ExportedProgram) -> bool:
    """Whether the first unknown size is that of a slice, which is known once the export asks where it begins."""
    first = first_of_unknown_size(program.graph)
    return first is not None and first.target in (torch.ops.aten.slice.Tensor, torch.ops.aten.narrow.default)


def _is_whole(program: torch.export.ExportedProgram) -> bool:
    """Whether every operator has a rule, which excludes writes in place, and none draws or updates statistics."""
    nodes = [n for n in program.graph.nodes if n.op not in ("placeholder", "output")]
    with_rule = all(n.op == "call_function" and aten.find(n.target) is not None for n in nodes)
    return with_rule and not any(draws_numbers(n) or _updates_statistics(n) for n in nodes)


def _updates_statistics(node: torch.fx.Node) -> bool:
    """Whether a batch norm writes its running mean."""
    own = torch.ops.aten.batch_norm.default
    return node.target is own and node.args[3] is not None and bool(node.args[5])


def _decompositions() -> dict[object, object]:
    """Core ATen's table without the operators that Zenith has a rule for: decomposed, they would only lose meaning.

    What draws as one operator of PyTorch stays one, too, so that it draws the same numbers.
    """
    table = torch.export.default_decompositions()
    return {op: how for op, how in table.items() if aten.find(op) is None and not is_one_draw(op)}


@contextmanager
def _written() -> Iterator[None]:
    """With functions of PyTorch written in operators that have rules, where PyTorch writes them in others.

    The user's hooks on saved tensors, those of checkpointing too, are for the call, and do not see the export's.
    """
    unseen = torch.autograd.graph.saved_tensors_hooks(_itself, _itself)
    with Undecomposed(), Unchecked(), without_early_decompositions(), cumulative_batch_norms(), unseen:
        yield


def _itself(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings that torch.export raises against itself, and logs of attempts that fail.

    Attributes to which tensors are assigned are refused by name, and recurrent layers list their weights anew where an
    export replaces them, which it takes for state that gets lost.
    """
    from torch.export import _trace

    loggers = [logging.getLogger(f"torch.{name}") for name in ("_subclasses.fake_tensor", "export", *_SYMBOLIC)]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), patch.object(_trace, "print", _nothing, create=True):
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.filterwarnings("ignore", r"The tensor attributes? .*", UserWarning)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _nothing(*args: object, **kwargs: object) -> None:
    """Instead of ``print``, by which torch.export would write the graph of an attempt that fails to stderr."""


def _lasting_writes(program: torch.export.ExportedProgram) -> list[str]:
    return list(program.graph_signature.user_inputs_to_mutate.values())


def _refuse_lasting_writes(program: torch.export.ExportedProgram) -> None:
    """Writes to arguments and parameters; those to buffers are results that the caller writes back."""
    inputs = _lasting_writes(program)
    if inputs:
        raise UnsupportedError(
            f"the module writes to its arguments {', '.join(inputs)}",
            fix="work on a copy, x.clone(), or use the operation that makes a new tensor: x + 1 for x.add_(1)",
        )
    parameters = program.graph_signature.parameters_to_mutate.values()
    if parameters:
        raise UnsupportedError(
            f"the module writes to its parameters {', '.join(parameters)}",
            fix="call it once before where it does so on the first call only, or keep what changes in a buffer",
        )
