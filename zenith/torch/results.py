"""What a translated module returns: flat to tracing, in the module's own structure to its caller.

New contents of buffers follow the results; they are written when these are built.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zenith.api.forms import Result
from zenith.errors import UnsupportedError
from zenith.torch.calls import as_tensor, result_of
from zenith.torch.export import Exported
from zenith.torch.weights import Weights


class Results:
    """The translated module as tracing wants it, and how its flat results become the module's own structure."""

    def __init__(self, exported: Exported, function: Callable[..., list[Any]], weights: Weights) -> None:
        self._function, self._writes, self._weights = function, exported.writes, weights
        self._out_spec = exported.program.call_spec.out_spec
        self._plain: list[tuple[bool, object]] = []

    def __call__(self, *tensors: object) -> list[Any]:
        found = self._function(*tensors)
        written, results = found[: len(self._writes)], found[len(self._writes) :]
        computed = [not isinstance(r, (bool, int, float, str, type(None))) for r in results]
        self._plain = [(c, None if c else r) for c, r in zip(computed, results, strict=True)]
        self._sizes = [c and not hasattr(r, "dtype") for c, r in zip(computed, results, strict=True)]
        return [r for c, r in zip(computed, results, strict=True) if c] + written

    def result(self) -> Result:
        """Tensors, sizes (as int) and constants in the module's structure."""
        result = result_of(self._out_spec, self._plain, self._sizes)
        if not self._writes:
            return result
        writes, weights = self._writes, self._weights

        def build(results: list[object]) -> object:
            own = len(results) - len(writes)
            weights.write(writes, [as_tensor(r) for r in results[own:]])
            return result.build(results[:own])

        return Result(build, _refuse_file, result.nested, converts=True)


def _refuse_file() -> object:
    raise UnsupportedError("the module writes to its buffers when it runs, and a file has no module",
                           fix="call module.eval() before it is compiled and saved")  # fmt: skip
