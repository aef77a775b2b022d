"""How compiled kernels keep variables: in places that are written and read, and nothing else.

Numba's own lowering reads a variable before it is written again and overwrites it after its last use, since what it
holds may be counted references. Kernels hold numbers and pointers: LLVM would only find those instructions superfluous.
"""

from __future__ import annotations

from typing import Any

from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering


class KernelLower(Lower):
    """Writes a kernel's LLVM instructions."""

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Write a variable."""
        if argidx is not None or name in self._singly_assigned_vars:
            super().storevar(value, name, argidx)
        else:
            self._alloca_var(name, self.typeof(name))
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        """The end of a variable; one that ends before the block that assigns it is needed in another turn of a loop."""
        if name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelLowering(NativeLowering):
    """From typed byte code to LLVM's language."""

    _name = "kernel_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        """What writes the instructions."""
        return KernelLower
