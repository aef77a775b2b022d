"""What users can ask of the backend: ``torch.compile(model, backend="zenith", options={...})``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from zenith.backends.table import backend_of
from zenith.errors import ArgumentError, user_line, warn_at
from zenith.ir.numerics import Numerics
from zenith.torch.steps import warned

_MODES = ("default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")  # of torch.compile


def note_mode(mode: str) -> None:
    """Say once that a mode of ``torch.compile`` changes nothing; ArgumentError where there is none."""
    if mode not in _MODES:
        raise ArgumentError(f"torch.compile has no mode {mode!r}", fix="leave mode= out, or use options=")
    what = "modes are TorchInductor's, and Zenith compiles in one way"
    _say_once(f"mode={mode!r} changes nothing with the zenith backend: {what}")


def _note_inductors(names: Collection[str]) -> set[str]:
    """Say once that options change nothing which are TorchInductor's; return these."""
    from torch._inductor import list_options

    known = set(list_options())
    found = {name for name in names if name.replace("-", "_") in known}
    if found:
        names = ", ".join(sorted(found))
        _say_once(f"options {names} are TorchInductor's, and change nothing with the zenith backend")
    return found


def _say_once(text: str) -> None:
    """A warning at the user's line, once until ``torch.compiler.reset()``: every graph is compiled with its options."""
    if text not in warned:
        warn_at(user_line(), UserWarning(text))
        warned.add(text)


@dataclass(frozen=True)
class Options:
    """The options of one ``torch.compile``.

    Attributes
    ----------
    fallback: what is done with an operator that Zenith has no rule for: ``"pytorch"`` has PyTorch compute it, as a step
        of its own that warnings and :func:`zenith.torch.explain` name; ``"error"`` refuses the model.
    backend: where to compute. None is the tensors' device; ``"lanes"`` runs the CPU's kernels as NumPy code, and
        ``"reference"`` interprets the graph.
    repeatable, tf32, error_budget, precision: as for :func:`zenith.jit`.
    """

    fallback: str = "pytorch"
    backend: str | None = None
    repeatable: bool = True
    tf32: bool = False
    error_budget: float = 0.0
    precision: str = "exact"
    numerics: Numerics = field(init=False)

    def __post_init__(self) -> None:
        if self.fallback not in ("pytorch", "error"):
            raise ArgumentError(f"fallback={self.fallback!r} says nothing", fix='choose "pytorch" or "error"')
        if self.backend is not None:
            backend_of(self.backend)  # UnsupportedError where there is none
        object.__setattr__(self, "numerics", Numerics(self.repeatable, self.tf32, self.error_budget, self.precision))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """The options as ``torch.compile`` passes them; those of TorchInductor are noted.

        ArgumentError for one that neither has.
        """
        known = [f.name for f in fields(cls) if f.init]
        others = given.keys() - set(known)
        if others and (unknown := others - _note_inductors(others)):
            raise ArgumentError(f"the zenith backend has no option {', '.join(sorted(unknown))}",
                                fix=f"it has {', '.join(known)}")  # fmt: skip
        return cls(**{name: given[name] for name in known if name in given})
