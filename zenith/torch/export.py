"""``torch.export`` for Zenith: every size dynamic where the module allows it, with the conditions that it rests on.

torch.export specialises example sizes 0 and 1, so an example gets larger sizes where it has such ones, and the export
runs in torch's size-oblivious mode: a symbol is treated as neither 0 nor 1, without a guard, where only strides or
broadcasting would differ. What the export assumes comes back as :class:`~zenith.api.binding.Condition` s: the ranges of
its symbols, sizes that it found equal or fixed, and the branches that the module's Python took on sizes. Outside them
the module is exported again, never run.

Operators that have a rule of their own stay whole. Others are decomposed into core ATen, and writes in place are made
results; where every operator has a rule, that second trace through the module is saved.
"""

from __future__ import annotations

import inspect
import logging
import re
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.fx.experimental import _config as symbolic_config
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree
from torch.utils._sympy.printers import PythonPrinter

from zenith.api.binding import Condition
from zenith.errors import UnsupportedError, ZenithError
from zenith.torch import aten
from zenith.torch.recurrent import KeptWhole

# Guards about strides, and those that an export's own checks of its arguments raise when it is decomposed.
_IRRELEVANT = (
    *("contiguous", "stride", "_reshape_view_helper_core_alg", "non_overlapping", "channels_last"),
    "in _call_impl",
)
_EXAMPLE_SIZES = (3, 5, 7, 11, 13, 17)  # by axis, so that batch axes of several arguments stay equal


@dataclass(frozen=True)
class Exported:
    """One export: core ATen operators, the user's tensors among its inputs, and what it rests on.

    ``sizes[i][axis]`` is the number to which the export fixed an axis of tensor ``i``, or None where any size goes that
    keeps ``conditions`` (written in the names that ``names[i][axis]`` gave).
    """

    program: Any
    sizes: tuple[tuple[int | None, ...], ...]
    conditions: tuple[Condition, ...]

    def fits(self, tensors: Sequence[torch.Tensor], names: Sequence[Sequence[str]]) -> bool:
        """Whether the export is valid for tensors of these sizes."""
        pairs = [(n, s) for own, t in zip(names, tensors, strict=True) for n, s in zip(own, t.shape, strict=True)]
        fixed = [(f, s) for own, t in zip(self.sizes, tensors, strict=True) for f, s in zip(own, t.shape, strict=True)]
        return all(f is None or f == s for f, s in fixed) and all(c.holds(dict(pairs)) for c in self.conditions)


def export(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    names: Sequence[Sequence[str]],
    dynamic_shapes: Any = None,
    keep_sizes: bool = False,
) -> Exported:
    """Export ``module``; ``names`` gives a name to every axis of every tensor argument, in order.

    With ``keep_sizes`` axes of size 0 and 1 are fixed (the export serves calls with exactly those); otherwise they are
    replaced by larger ones for the export, where the module accepts that. Raises ZenithError with torch's reason when
    the module cannot be exported, UnsupportedError when it changes its buffers or inputs.
    """
    leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    twin = _of_tensors(module, leaves, spec)
    if dynamic_shapes is not None:
        program = _export(twin, tensors, _by_tensor(module, args, kwargs, tensors, dynamic_shapes))
    else:
        program = _export(twin, tensors) if keep_sizes else _export_any_size(twin, tensors)
    _refuse_mutation(program)
    examples = [n.meta["val"] for n in _tensor_inputs(program)]
    sizes = tuple(tuple(_fixed(size) for size in e.shape) for e in examples)
    labels = [
        [label if size is None else str(size) for label, size in zip(own, fixed, strict=True)]
        for own, fixed in zip(names, sizes, strict=True)
    ]
    conditions = _conditions(program, examples, labels)
    return Exported(program, sizes, tuple(c for c in conditions if re.search("[A-Za-z]", c.source)))


def _of_tensors(module: torch.nn.Module, leaves: Sequence[Any], spec: Any) -> torch.nn.Module:
    """The module, with the same weights, as a function of the tensors among ``leaves``; the other arguments are fixed.

    Keywords that a module collects in ``**kwargs`` are nothing that torch.export can give dynamic shapes to.
    """
    twin = object.__new__(type(module))
    twin.__dict__.update(module.__dict__)
    own = module.__dict__.get("forward") or partial(type(module).forward, twin)

    def forward(*tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        values = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        args, kwargs = pytree.tree_unflatten(values, spec)
        return own(*args, **kwargs)

    twin.__dict__["forward"] = forward
    return twin


def _by_tensor(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    tensors: Sequence[torch.Tensor],
    dynamic_shapes: Any,
) -> list[Any]:
    """The entry of ``dynamic_shapes`` for each tensor; they are given in the form of the module's arguments."""
    arguments = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    if hasattr(dynamic_shapes, "dynamic_shapes"):  # torch's ShapesCollection and AdditionalInputs
        dynamic_shapes = dynamic_shapes.dynamic_shapes(module, args, dict(kwargs))
    if not isinstance(dynamic_shapes, Mapping):
        dynamic_shapes = dict(zip(arguments, dynamic_shapes, strict=True))
    found: dict[int, Any] = {}
    try:
        pytree.tree_map(lambda leaf, entry: found.setdefault(id(leaf), entry), dict(arguments), dict(dynamic_shapes))
    except ValueError as error:
        raise ZenithError(
            f"dynamic_shapes has not the form of the arguments: {error}",
            fix=f"give an entry for each of {', '.join(arguments)}, None where sizes are fixed",
        ) from error
    return [found[id(tensor)] for tensor in tensors]


def _fixed(size: Any) -> int | None:
    """The number that a size is in every call of an export, or None."""
    if isinstance(size, int):
        return size
    expression = size.node.shape_env.replace(size.node.expr)
    return int(expression) if expression.is_number else None


def _export_any_size(module: torch.nn.Module, tensors: list[torch.Tensor]) -> Any:
    """Export with sizes 0 and 1 replaced on all axes, else on first axes only, else as they are."""
    for axes in (None, 1):
        larger = [_enlarged(tensor, axes) for tensor in tensors]
        if any(one is not other for one, other in zip(larger, tensors, strict=True)):
            try:
                return _export(module, larger)
            except ZenithError:
                continue  # the module needs these sizes; the last attempt reports what is wrong with the user's own
    return _export(module, tensors)


def _enlarged(tensor: torch.Tensor, axes: int | None) -> torch.Tensor:
    """The tensor, or one without sizes 0 and 1 on the first ``axes`` axes (on all for None)."""
    last = tensor.ndim if axes is None else axes
    sizes = [_EXAMPLE_SIZES[a % 6] if n < 2 and a < last else n for a, n in enumerate(tensor.shape)]
    return tensor if sizes == list(tensor.shape) else tensor.new_zeros(sizes)


def _export(module: torch.nn.Module, tensors: Sequence[torch.Tensor], shapes: Sequence[Any] | None = None) -> Any:
    """Export a module of tensors; sizes of 2 and more are free unless ``shapes`` says something else."""
    static, auto = torch.export.Dim.STATIC, torch.export.Dim.AUTO
    if shapes is None:
        shapes = [{a: static if n < 2 else auto for a, n in enumerate(t.shape)} for t in tensors]
    try:
        oblivious = symbolic_config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]
        with _quiet(), torch.no_grad(), oblivious, KeptWhole():
            program = torch.export.export(
                module, tuple(tensors), dynamic_shapes={"tensors": tuple(shapes)} if tensors else None, strict=False
            )
            return program if _is_whole(program) else program.run_decompositions(_decompositions())
    except Exception as error:
        sizes = ", ".join(str(tuple(t.shape)) for t in tensors)
        raise ZenithError(
            f"torch.export cannot export {type(module).__name__} for shapes {sizes}: {error}", fix=_export_fix(error)
        ) from error


def _export_fix(error: Exception) -> str:
    if _has_packed_sequence(error):
        return (
            "packed sequences are not supported: give the layer the padded tensor, and mask what stands behind an end"
        )
    if re.search(r"\w+Cache\b", str(error)):
        return "have the model return no cache: set model.config.use_cache = False, or pass use_cache=False"
    return "the module must run eagerly on such inputs, and must not branch on values"


def _has_packed_sequence(error: Exception) -> bool:
    """Whether a function that failed was given sequences of several lengths, whose sizes are values of a tensor."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(isinstance(value, PackedSequence) for frame in frames for value in frame.f_locals.values())


def _is_whole(program: Any) -> bool:
    """Whether there is a rule for every operator, which none that writes in place has."""
    nodes = [n for n in program.graph.nodes if n.op not in ("placeholder", "output")]
    return all(n.op == "call_function" and aten.find(n.target) is not None for n in nodes)


def _decompositions() -> dict[Any, Any]:
    """Core ATen's table without the operators that Zenith has a rule for: decomposed, they would only lose meaning."""
    return {op: how for op, how in torch.export.default_decompositions().items() if aten.find(op) is None}


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings that torch.export raises against itself, and logs of attempts that fail.

    Recurrent layers list their weights anew where an export replaces them, which it takes for state that gets lost.
    """
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.filterwarnings("ignore", r"The tensor attributes? .*_flat_weights", UserWarning)
            yield
    finally:
        logger.setLevel(level)


def _refuse_mutation(program: Any) -> None:
    signature = program.graph_signature
    buffers, inputs = signature.buffers_to_mutate.values(), signature.user_inputs_to_mutate.values()
    if buffers:
        raise UnsupportedError(
            f"the module writes to its buffers {', '.join(buffers)} when it runs",
            fix="call module.eval() before from_torch; return what the module should remember",
        )
    if inputs:
        raise UnsupportedError(
            f"the module writes to its arguments {', '.join(inputs)}",
            fix="work on a copy, x.clone(), or use the operation that makes a new tensor: x + 1 for x.add_(1)",
        )


def _tensor_inputs(program: Any) -> list[Any]:
    """The placeholders of the call's tensors, in order."""
    kinds = [spec.kind for spec in program.graph_signature.input_specs]
    placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
    user = torch.export.graph_signature.InputKind.USER_INPUT
    return [n for n, kind in zip(placeholders, kinds, strict=True) if kind == user]


def _conditions(program: Any, examples: Sequence[torch.Tensor], labels: Sequence[Sequence[str]]) -> Iterator[Condition]:
    """Ranges and equalities of the export's symbols, and the guards of the module's branches, as assumptions.

    ``labels`` has the name of every axis that is free and the number of every one that is fixed.
    """
    symbols: dict[str, str] = {}
    axes = [(n, s) for own, e in zip(labels, examples, strict=True) for n, s in zip(own, e.shape, strict=True)]
    for name, size in axes:
        if _fixed(size) is None and str(size).isidentifier():
            symbols.setdefault(str(size), name)
    for name, size in axes:
        if _fixed(size) is None and symbols.get(str(size)) != name:  # a repeated symbol, or a formula of others
            yield Condition(f"{name} == {_renamed(str(size), symbols)}", False, "found equal by torch.export")
    for symbol, bounds in program.range_constraints.items():
        if str(symbol) in symbols:
            yield from _range(symbols[str(symbol)], bounds)
    for kept in _kept_by_squeeze(program):
        yield Condition(f"{_renamed(kept, symbols)} != 1", False, "torch.squeeze would remove the axis")
    branches = _branches(program, symbols)
    for source in _all_guards(program, labels) if branches is None else branches:
        yield Condition(source, False, "the module branches on it, or torch.export does")


def _branches(program: Any, symbols: Mapping[str, str]) -> list[str] | None:
    """The guards of the export that matter to results, in the names of sizes; None when one names something else.

    PyTorch also branches on sizes to choose strides, which Zenith does not have: those guards would only cost exports.
    """
    example = next((n.meta["val"] for n in _tensor_inputs(program)), None)
    environment = getattr(getattr(example, "fake_mode", None), "shape_env", None)
    if environment is None:
        return None
    found: dict[str, None] = {}
    for guard in environment.guards:
        if any(word in str(guard.sloc) for word in _IRRELEVANT):
            continue
        expression = environment.replace(guard.expr)
        if expression == True:  # noqa: E712  sympy's own truth: the export fixed the sizes in it
            continue
        text = PythonPrinter().doprint(expression)
        if not set(re.findall(r"\b[a-z]+\d+\b", text)) <= symbols.keys():
            return None
        found[_renamed(text, symbols)] = None
    return list(found)


def _all_guards(program: Any, labels: Sequence[Sequence[str]]) -> list[str]:
    """Every guard about sizes that torch.export wrote down (``L['tensors'][0].size()[1] != 1``), in our names."""
    size = re.compile(r"L\['tensors'\]\[(\d+)\]\.size\(\)\[(\d+)\]")
    sources = [size.sub(lambda m: labels[int(m[1])][int(m[2])], guard) for guard in program._guards_code]
    return [s.replace("Max(", "max(").replace("Min(", "min(") for s in sources if "L[" not in s]


def _kept_by_squeeze(program: Any) -> Iterator[str]:
    """The free sizes of axes that a squeeze was asked to remove: the export takes it that they are not 1."""
    for node in program.graph.nodes:
        if getattr(node.target, "overloadpacket", None) in (torch.ops.aten.squeeze, torch.ops.aten.squeeze_copy):
            shape = node.args[0].meta["val"].shape
            axes = node.args[1] if len(node.args) > 1 else range(len(shape))
            asked = [shape[a] for a in ([axes] if isinstance(axes, int) else axes) if shape]
            yield from (str(size) for size in asked if _fixed(size) is None)


def _range(name: str, bounds: Any) -> Iterator[Condition]:
    if bounds.lower > 0:
        yield Condition(f"{name} >= {int(bounds.lower)}", False, "the range of torch.export")
    if bounds.upper < 2**62:
        yield Condition(f"{name} <= {int(bounds.upper)}", False, "the range of torch.export")


def _renamed(text: str, symbols: Mapping[str, str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda m: symbols.get(m[0], {"Max": "max", "Min": "min"}.get(m[0], m[0])), text)
