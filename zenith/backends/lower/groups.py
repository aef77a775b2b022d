"""The table of engines, and the choice of one for a group.

Zenith's own engines stand in ``OWN``; what :func:`add_engine` adds is asked beside them, for programs that are compiled
from then on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from zenith.backends.cuda.libraries import LIBRARY_ENGINES
from zenith.backends.emit import named
from zenith.backends.engines import Calls, Choice, Engine, Refusal, choose, registered, set_registered
from zenith.backends.kernel import Buffer, Kernel
from zenith.backends.lower.attention import tensor_cores as attention_cores
from zenith.backends.lower.attention.cpu import lower_attention
from zenith.backends.lower.attention.cpu_vjp import lower_attention_vjp
from zenith.backends.lower.attention.delta import with_delta
from zenith.backends.lower.attention.gpu import lower_shared_attention
from zenith.backends.lower.attention.gpu_vjp import lower_shared_attention_vjp
from zenith.backends.lower.convolution.cpu import lower_convolution
from zenith.backends.lower.convolution.direct import lower_direct_convolution, lower_direct_weights
from zenith.backends.lower.convolution.gpu import lower_shared_convolution, product_shape
from zenith.backends.lower.convolution.weight_gradient import known_cut, lower_convolution_weights
from zenith.backends.lower.convolution.winograd import lower_winograd
from zenith.backends.lower.convolution.winograd_cost import few_places, winograd_cost
from zenith.backends.lower.nest import tile_result
from zenith.backends.lower.order.gpu import lower_shared_sort
from zenith.backends.lower.order.split_radix_sort import lower_sort
from zenith.backends.lower.order.top_k import accepts_few, lower_few, lower_sorted
from zenith.backends.lower.pointwise.borders import border_kernels
from zenith.backends.lower.pointwise.loops import lower_loops
from zenith.backends.lower.pointwise.overwrite import lower_overwrite
from zenith.backends.lower.product import tensor_cores
from zenith.backends.lower.product.cpu import lower_product
from zenith.backends.lower.product.gpu import lower_shared_product
from zenith.backends.lower.reduce.column_prefix import lower_column_prefix
from zenith.backends.lower.reduce.columns import lower_columns
from zenith.backends.lower.reduce.long_row import lower_long_row
from zenith.backends.lower.reduce.row_group import RowGroup, is_walked_whole, one_row
from zenith.backends.lower.reduce.rows import lower_rows
from zenith.backends.lower.reduce.split_column_prefix import is_chained, lower_column_prefix_parts
from zenith.backends.lower.reduce.split_columns import lower_column_parts
from zenith.backends.lower.scatter.atomic import lower_atomic_scatter
from zenith.backends.lower.scatter.cpu import lower_scatter, own_axes
from zenith.backends.lower.scatter.owner_computes import lower_owned_scatter
from zenith.backends.routines import Use
from zenith.backends.versions import verify
from zenith.config import ConfigError, config
from zenith.errors import ZenithError
from zenith.ir.dims import dim
from zenith.ir.graph import Graph
from zenith.ir.lowering import Scatter
from zenith.ir.target import GuardedTile, Target
from zenith.ir.types import ArrayType


def _always(body: Graph, target: Target) -> float | Refusal:
    return 1.0


def _whole_rows(body: Graph, target: Target) -> float | Refusal:
    if one_row(body) and not is_walked_whole(body):
        return Refusal("there is one row only, which one thread would walk")
    return 1.0


def _one_row(body: Graph, target: Target) -> float | Refusal:
    if not one_row(body):
        return Refusal("there are many rows, which threads share whole")
    return Refusal("the row is walked in order by one thread") if is_walked_whole(body) else 1.0


def _thousands(body: Graph, target: Target) -> float | Refusal:
    return Refusal(f"{target.name} has no thousands of threads") if target.threads is None else 0.5


def _many_places(body: Graph, target: Target) -> float | Refusal:
    if own_axes(body):
        return Refusal("rows of the updates have places of their own, which nobody has to look for")
    return _thousands(body, target)


def _apart(body: Graph, target: Target) -> float | Refusal:
    return Refusal("a prefix needs the results of another one") if is_chained(body) else _thousands(body, target)


def _by_atomics(body: Graph, target: Target) -> float | Refusal:
    dtype, lowering = body.outputs[0].dtype, body.node(body.outputs[0].node).primitive.lowering
    if not isinstance(lowering, Scatter) or lowering.combine != "x + y":
        return Refusal("there are atomic additions only")
    if not target.atomics:
        return Refusal("results have to repeat bit for bit; repeatable=False allows a GPU another order")
    return 0.25 if dtype in target.atomics else Refusal(f"{target.name} has no atomic addition of {dtype}")


def _lower_product(body: Graph, target: Target, fixed: Collection[str]) -> list[Kernel]:
    result = tile_result(body)
    rows, columns = (n.static for n in result.shape[-2:])
    tile = target.product_tile(result.dtype, columns)
    if isinstance(tile, GuardedTile):
        once = len(fixed) == len(body.inputs)
        return lower_shared_product(body, tile.fitting(rows, columns), once)
    return lower_product(body, tile, fixed)


def _in_tiles(body: Graph, target: Target) -> float | Refusal:
    result = tile_result(body)
    x, _ = body.args(result.node)
    if isinstance(target.product_tile(result.dtype, None), GuardedTile):
        return Refusal(f"{target.name} has no register tiles that gather their terms")
    if not result.dtype.is_float and result.dtype.bits < 32:
        return Refusal(f"register tiles do not sum {result.dtype}")
    return Refusal("how many channels a block has is not known") if x.shape[-1].static is None else 1.0


def _lower_convolution(body: Graph, target: Target, fixed: Collection[str]) -> list[Kernel]:
    tile = target.product_tile(tile_result(body).dtype, None)
    assert not isinstance(tile, GuardedTile)
    return lower_convolution(body, tile, fixed)


def _on_guarded_tiles(body: Graph, target: Target) -> float | Refusal:
    result = tile_result(body)
    if not isinstance(target.product_tile(result.dtype, None), GuardedTile):
        return Refusal(f"{target.name} has no tiles that teams of threads compute")
    return 1.0


def _lower_shared_convolution(body: Graph, target: Target, fixed: Collection[str]) -> list[Kernel]:
    result = tile_result(body)
    _, rows, columns, _ = product_shape(result.shape, result.shape[-1])
    tile = target.product_tile(result.dtype, columns)
    assert isinstance(tile, GuardedTile)
    return lower_shared_convolution(body, tile.fitting(rows, columns), len(fixed) == len(body.inputs))


def _weights_in_tiles(body: Graph, target: Target) -> float | Refusal:
    result = tile_result(body)
    refused = _in_tiles(body, target)
    if isinstance(refused, Refusal):
        return refused
    x, y = (value.shape for value in body.args(result.node))
    if not known_cut(x, y, body.node(result.node).params["window"]):
        return Refusal("how many channels there are is not known")
    return 1.0


def _lower_weights(body: Graph, target: Target, fixed: Collection[str]) -> list[Kernel]:
    tile = target.product_tile(tile_result(body).dtype, None)
    assert not isinstance(tile, GuardedTile)
    return lower_convolution_weights(body, tile)


def _lower_attention(body: Graph, target: Target, fixed: Collection[str]) -> list[Kernel]:
    result = tile_result(body)
    tile = target.product_tile(result.dtype, None)
    if isinstance(tile, GuardedTile):
        return lower_shared_attention(body, tile.fitting(None, result.shape[-1].static))
    return lower_attention(body, tile)


def _lower_attention_vjp(body: Graph, target: Target, fixed: Collection[str]) -> list[Kernel]:
    result = tile_result(body)
    tile = target.product_tile(result.dtype, None)
    if isinstance(tile, GuardedTile):
        cut = tile.fitting(None, result.shape[-1].static)
        return with_delta(body, target, lambda rest: lower_shared_attention_vjp(rest, cut))
    return with_delta(body, target, lambda rest: lower_attention_vjp(rest, tile))


OWN: tuple[Engine, ...] = (
    Engine("loops", ("loops",), "elementwise operations of one shape, with the index maps that they read through", 0,
           _always, lambda body, target, fixed: lower_loops(body, in_rows=target.threads is None)),
    Engine("rows", ("rows",), "reductions of trailing axes, prefixes of the last, with what is around: a row a task", 0,
           _whole_rows, lambda body, target, fixed: lower_rows(body, target)),
    Engine("long_row", ("rows",), "reductions of all axes, prefixes of the only one: parts of the row a task", 0,
           _one_row, lambda body, target, fixed: lower_long_row(RowGroup(body, in_parts=True), target)),
    Engine("columns", ("columns",), "a reduction of leading or inner axes, with what is in front", 0,
           _always, lambda body, target, fixed: lower_columns(body)),
    Engine("column_parts", ("columns",), "the same in parts of columns, a part a task, and what joins them", 0,
           _thousands, lambda body, target, fixed: lower_column_parts(body, target.threads or 1)),
    Engine("column_prefix", ("prefix",), "prefixes of an axis but the last, with what is around: a column a task", 0,
           _always, lambda body, target, fixed: lower_column_prefix(body)),
    Engine("column_prefix_parts", ("prefix",), "the same in parts of columns: a part a task, twice", 0,
           _apart, lambda body, target, fixed: lower_column_prefix_parts(body, target.threads or 1)),
    Engine("scatter", ("scatter",), "a scatter: an element of all updates a task, which joins them in index order", 0,
           _always, lambda body, target, fixed: lower_scatter(body)),
    Engine("owned_scatter", ("scatter",), "a scatter: a range of places a task, which looks for what belongs there", 0,
           _many_places, lambda body, target, fixed: lower_owned_scatter(body, target.threads or 1)),
    Engine("atomic_scatter", ("scatter",), "a scatter in any order: an element of the updates a task", 0,
           _by_atomics, lambda body, target, fixed: lower_atomic_scatter(body)),
    Engine("overwrite", ("update",), "a part of an array written over, in place where nobody needs the array", 0,
           _always, lambda body, target, fixed: lower_overwrite(body)),
    Engine("sort", ("sort",), "a stable sort by digits: a short row a task, of a long one a part", 0,
           _always, lambda body, target, fixed: lower_sort(body)),
    Engine("shared_sort", ("sort",), "the same by blocks of threads, which order tiles in shared memory", 0,
           _thousands, lambda body, target, fixed: lower_shared_sort(body)),
    Engine("top_k", ("top_k",), "few of the best elements, which are kept while others are passed by", 0,
           accepts_few, lambda body, target, fixed: lower_few(body)),
    Engine("sorted_top_k", ("top_k",), "the best elements, of rows that are sorted", 0,
           _always, lambda body, target, fixed: lower_sorted(body, lower_sort)),
    Engine("shared_top_k", ("top_k",), "the same, sorted by blocks of threads", 0,
           _thousands, lambda body, target, fixed: lower_sorted(body, lower_shared_sort)),
    Engine("product", ("product",), "matrix products in tiles, with the elementwise operations behind", 0,
           _always, _lower_product),
    Engine("tensor_cores", ("product",), "products of 16-bit floats, by option of float32, on a GPU's tensor cores", 0,
           tensor_cores.accepts, tensor_cores.lower),
    Engine("convolution", ("convolution",), "convolutions in tiles, with the elementwise operations behind", 0,
           _in_tiles, _lower_convolution),
    Engine("winograd", ("convolution",), "convolutions of 3x3 neighbours by transforms of tiles and of weights", 0,
           winograd_cost, lower_winograd, refuses=few_places),
    Engine("shared_convolution", ("convolution",), "the same as products whose rows are windows, on a GPU", 0,
           _on_guarded_tiles, _lower_shared_convolution),
    Engine("convolution_cores", ("convolution",), "the same on a GPU's tensor cores", 0,
           tensor_cores.accepts_convolution, tensor_cores.lower_convolution),
    Engine("direct_convolution", ("convolution",), "convolutions as they are defined: a sum a task", 0,
           lambda body, target: 4.0, lambda body, target, fixed: lower_direct_convolution(body)),
    Engine("convolution_weights", ("convolution_weights",), "gradients of convolutions by their weights, in tiles", 0,
           _weights_in_tiles, _lower_weights),
    Engine("direct_weights", ("convolution_weights",), "the same as they are defined: a sum a task", 0,
           lambda body, target: 4.0, lambda body, target, fixed: lower_direct_weights(body)),
    Engine("attention", ("attention",), "flash attention: an online softmax, the scores are never written to memory", 0,
           _always, _lower_attention),
    Engine("attention_cores", ("attention",), "flash attention on 16-bit floats, on a GPU's tensor cores", 0,
           attention_cores.accepts_forward, attention_cores.lower_forward),
    Engine("attention_vjp", ("attention_vjp",), "flash attention's way back: weights are made again, not kept", 0,
           _always, _lower_attention_vjp),
    Engine("attention_vjp_cores", ("attention_vjp",), "flash attention's way back, on a GPU's tensor cores", 0,
           attention_cores.accepts_backward, attention_cores.lower_backward),
)  # fmt: skip


def engines() -> tuple[Engine, ...]:
    """Every engine: Zenith's own, those that call libraries, those that were added."""
    return OWN + LIBRARY_ENGINES + registered()


def add_engine(engine: Engine) -> None:
    """Ask one more engine from now on; ZenithError when its name is taken."""
    if any(e.name == engine.name for e in engines()):
        raise ZenithError(f"there is an engine {engine.name!r} already", fix="unregister it, or choose another name")
    set_registered((*registered(), engine))


def remove_engine(name: str) -> None:
    """Ask an added engine no longer; ZenithError when there is none of that name."""
    if all(e.name != name for e in registered()):
        raise ZenithError(f"no engine {name!r} was registered", fix="zenith.kernels.table() lists them")
    set_registered(tuple(e for e in registered() if e.name != name))


@dataclass(frozen=True, slots=True)
class Lowered:
    """A group's kernels in order of execution, the buffers that live only between them, and whose work they are.

    ``calls`` of libraries take the kernels' place where they are worth it.
    """

    kernels: tuple[Kernel, ...]
    temporaries: tuple[Buffer, ...]
    choice: Choice
    calls: Calls | None = None


def lower_group(
    body: Graph,
    kind: str,
    target: Target,
    fixed: Collection[str] = (),
    in_place: bool = False,
    by_libraries: bool = True,
) -> Lowered:
    """The kernels of a fused body; their buffers are the body's inputs by name, ``out0`` ... and temporaries.

    ``fixed`` names the inputs that are the same in every call. ``in_place`` says that the result stands where the first
    operand does: then the kernel that would copy it, which only Zenith's own engines keep apart, is left out.
    """
    _check_wishes()
    asked = OWN if in_place else engines() if by_libraries else OWN + registered()
    engine, choice = choose(asked, body, kind, target, fixed)
    calls = engine.lower(body, target, fixed)
    if not isinstance(calls, Calls):
        return _lowered([*border_kernels(body), *calls[int(in_place) :]], choice)
    other, rest = choose([e for e in asked if not e.library], body, kind, target, fixed)
    kernels = other.lower(body, target, fixed)
    assert not isinstance(kernels, Calls), "engines that call a library name it"
    refused = tuple(pair for pair in choice.others if pair[0] != other.name)
    refused += ((f"all of it by {engine.name}", calls.why),) if calls.why else ()
    both = Choice(kind, engine.name, refused, rest.engine)
    return replace(_lowered([*border_kernels(body), *kernels], both), calls=_wished(engine, calls))


def lower_with_row_sums(body: Graph, target: Target, choice: Choice, name: str, sums: ArrayType) -> Calls | Refusal:
    """A group that was given to a library's engine, with the sums of an input's rows beside it."""
    engine = next(e for e in engines() if e.name == choice.engine)
    if engine.row_sums is None:
        return Refusal("it has no sums beside products")
    calls = engine.row_sums(body, target, name, sums)
    return calls if isinstance(calls, Refusal) else _wished(engine, calls)


def _lowered(kernels: Sequence[Kernel], choice: Choice) -> Lowered:
    kernels = tuple(map(_finished, kernels))
    return Lowered(kernels, temporaries(kernels), choice)


def _finished(kernel: Kernel) -> Kernel:
    """The kernel under its name, once it is proven that it reads what it was meant to read."""
    verify(kernel)
    return named(kernel)


def temporaries(parts: Sequence[Kernel | Use]) -> tuple[Buffer, ...]:
    """The buffers that live only between the parts of a group."""
    return tuple({b.name: b for part in parts for b in part.buffers if b.role == "temporary"}.values())


def _wished(engine: Engine, calls: Calls) -> Calls:
    """The calls with their kernels named; always worth it where the user prefers the engine."""
    parts = tuple(_finished(part) if isinstance(part, Kernel) else part for part in calls.parts)
    if engine.name in config.engines:
        return replace(calls, parts=parts, gain=dim(0), least=0)
    return replace(calls, parts=parts)


def _check_wishes() -> None:
    known = {engine.name for engine in engines()}
    for name in config.engines:
        if name.removeprefix("-") not in known:
            raise ConfigError(f"ZENITH_ENGINES names an engine {name.removeprefix('-')!r}, and there is none",
                              fix="zenith.kernels.table() lists them")  # fmt: skip
