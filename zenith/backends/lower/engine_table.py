"""The table of engines, and the choice of one for a group.

Zenith's own engines are in ``OWN``; those that :func:`add_engine` adds are asked, too, for programs that are compiled
from then on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from zenith.backends.emit import named
from zenith.backends.engines import Choice, Engine, Refusal, RoutineCalls, choose, registered, set_registered
from zenith.backends.kernel import Buffer, Kernel
from zenith.backends.lower.attention import engines as attention
from zenith.backends.lower.convolution import engines as convolution
from zenith.backends.lower.order import engines as order
from zenith.backends.lower.pointwise import engines as pointwise
from zenith.backends.lower.pointwise.borders import border_kernels
from zenith.backends.lower.product import engines as product
from zenith.backends.lower.reduce import engines as reduce
from zenith.backends.lower.scatter import engines as scatter
from zenith.backends.routines import RoutineUse
from zenith.backends.table import brought_engines
from zenith.backends.target import Target
from zenith.backends.versions import verify
from zenith.config import ConfigError, config
from zenith.errors import ZenithError
from zenith.ir.dims import dim
from zenith.ir.graph import Graph
from zenith.ir.types import ArrayType

OWN: tuple[Engine, ...] = (
    *pointwise.ENGINES, *reduce.ENGINES, *scatter.ENGINES, *order.ENGINES, *product.ENGINES, *convolution.ENGINES,
    *attention.ENGINES,
)  # fmt: skip


def engines() -> tuple[Engine, ...]:
    """Every engine: Zenith's own, those that backends bring, those that were added."""
    return OWN + brought_engines() + registered()


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
class LoweredGroup:
    """A group's kernels in order of execution, the buffers that live only between them, and the choice of engines.

    ``calls`` of libraries replace the kernels where they are worth it.
    """

    kernels: tuple[Kernel, ...]
    temporaries: tuple[Buffer, ...]
    choice: Choice
    calls: RoutineCalls | None = None


def lower_group(
    body: Graph,
    kind: str,
    target: Target,
    fixed: Collection[str] = (),
    in_place: bool = False,
    by_libraries: bool = True,
) -> LoweredGroup:
    """The kernels of a fused body; their buffers are the body's inputs by name, ``out0`` ... and temporaries.

    ``fixed`` names the inputs that are the same in every call. ``in_place`` says that the result is in the memory of
    the first operand: then the kernel that would copy it, which only Zenith's own engines separate, is left out.
    """
    _check_wishes()
    asked = OWN if in_place else engines() if by_libraries else OWN + registered()
    engine, choice = choose(asked, body, kind, target, fixed)
    calls = engine.lower(body, target, fixed)
    if not isinstance(calls, RoutineCalls):
        return _lowered([*border_kernels(body), *calls[int(in_place) :]], choice)
    other, rest = choose([e for e in asked if not e.library], body, kind, target, fixed)
    kernels = other.lower(body, target, fixed)
    assert not isinstance(kernels, RoutineCalls), "engines that call a library name it"
    refused = tuple(pair for pair in choice.others if pair[0] != other.name)
    refused += ((f"all of it by {engine.name}", calls.why),) if calls.why else ()
    both = Choice(kind, engine.name, refused, rest.engine)
    return replace(_lowered([*border_kernels(body), *kernels], both), calls=_wished(engine, calls))


def lower_with_row_sums(
    body: Graph, target: Target, choice: Choice, name: str, sums: ArrayType
) -> RoutineCalls | Refusal:
    """A group that a library's engine computes, with the sums of an input's rows (a bias gradient) in addition."""
    engine = next(e for e in engines() if e.name == choice.engine)
    if engine.row_sums is None:
        return Refusal("it computes no row sums with products")
    calls = engine.row_sums(body, target, name, sums)
    return calls if isinstance(calls, Refusal) else _wished(engine, calls)


def _lowered(kernels: Sequence[Kernel], choice: Choice) -> LoweredGroup:
    kernels = tuple(map(_finished, kernels))
    return LoweredGroup(kernels, temporaries(kernels), choice)


def _finished(kernel: Kernel) -> Kernel:
    """The kernel under its name, once :func:`verify` has checked its reads."""
    verify(kernel)
    return named(kernel)


def temporaries(steps: Sequence[Kernel | RoutineUse]) -> tuple[Buffer, ...]:
    """The buffers that live only between the kernels and calls of a group."""
    return tuple({b.name: b for step in steps for b in step.buffers if b.role == "temporary"}.values())


def _wished(engine: Engine, calls: RoutineCalls) -> RoutineCalls:
    """The calls with their kernels named; always worth it where the user prefers the engine."""
    callees = tuple(_finished(step) if isinstance(step, Kernel) else step for step in calls.callees)
    if engine.name in config.engines:
        return replace(calls, callees=callees, gain=dim(0), least=0)
    return replace(calls, callees=callees)


def _check_wishes() -> None:
    known = {engine.name for engine in engines()}
    for name in config.engines:
        if name.removeprefix("-") not in known:
            raise ConfigError(f"ZENITH_ENGINES names an engine {name.removeprefix('-')!r}, and there is none",
                              fix="zenith.kernels.table() lists them")  # fmt: skip
