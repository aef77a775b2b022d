"""Loaded modules: what ``save`` wrote of a module, called like it; torch is needed, the module's own code is not."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from zenith.api.forms import Json, Result
from zenith.api.loading import Given, Loaded
from zenith.backends.archive import Archive
from zenith.torch.caches import register_caches
from zenith.torch.calls import Calls, module_kinds, read_result


class LoadedModule(Loaded):
    """A module that :func:`zenith.from_torch` compiled and ``save`` wrote, with its weights of that moment."""

    def __init__(self, archive: Archive) -> None:
        super().__init__(archive)
        forms = [program["form"] or {} for program in archive.content["programs"]]
        self._calls = Calls(self._signature)
        self._dynamic = list(dict.fromkeys(tuple(form["dynamic"]) for form in forms if "dynamic" in form))

    def _key_functions(self) -> Mapping[type, Callable[[Any], Hashable]]:
        return module_kinds()

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Given]:
        first = self._calls.flatten(args, kwargs)
        calls = [first, *map(first.with_dynamic, self._dynamic)]
        return [Given(call.key(), call.tensors, call.check, call.describe) for call in calls]

    def _result(self, spelled: Json, numbers: Sequence[int]) -> Result:
        register_caches()
        return read_result(spelled)
