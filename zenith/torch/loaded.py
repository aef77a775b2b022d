"""Loaded modules: what ``save`` wrote of a module, called like it; torch is needed, the module's own code is not."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path

from zenith.api.forms import Result
from zenith.api.loading import Given, Loaded
from zenith.api.saving import SavedFunction, SavedProgram
from zenith.torch.caches import register_caches
from zenith.torch.calls import SignatureCalls, module_kinds, read_result


class LoadedModule(Loaded):
    """A module that :func:`zenith.from_torch` compiled and ``save`` wrote, with its weights of that moment."""

    def __init__(self, path: Path, saved: SavedFunction) -> None:
        super().__init__(path, saved)
        self._calls = SignatureCalls(self._signature)
        self._dynamic = list(dict.fromkeys(program.dynamic for program in saved.programs if program.dynamic))

    def _key_functions(self) -> Mapping[type, Callable[[object], Hashable]]:
        return module_kinds()

    def _given(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Sequence[Given]:
        first = self._calls.flatten(args, kwargs)
        calls = [first, *map(first.with_dynamic, self._dynamic)]
        return [Given(call.key(), call.tensors, call.check, call.describe) for call in calls]

    def _result(self, program: SavedProgram) -> Result:
        register_caches()
        return read_result(program.result)
