"""The instruction sets: how wide a vector is, how many registers there are, what one operation is called.

The CPU backend knows instruction sets by this table alone. Tile intrinsics ask it for lanes and for
the name of the multiply-add, schedules ask it for registers, and everything else is written in terms of those. LLVM is
given the same: a process that ``ZENITH_ISA`` forces to a narrower row compiles all its code as for a processor without
the features of wider ones.

>>> TABLE["avx2"].lanes(8)
4
>>> select("portable").name
'portable'
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from zenith.errors import ZenithError
from zenith.forking import hold_over_fork

hold_over_fork("llvm", ffi.lib._lock._lock)  # before anything is asked of LLVM: all that does imports this module
VARIABLE = "ZENITH_ISA"  # the environment variable that overrides detection


class UnknownInstructionSet(ZenithError, ValueError):
    """An instruction set was asked for that is not in the table or that this processor lacks."""


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """One row of the table.

    ``width`` is the bytes of a vector, ``registers`` the number of vector registers, ``multiply_add`` the LLVM
    intrinsic of ``x * y + z`` on floating-point vectors, ``requires`` the processor features (LLVM's names) without
    which the row is not used, ``excludes`` a feature that it does without, and with it everything that builds on that.
    """

    name: str
    width: int
    registers: int
    multiply_add: str
    requires: frozenset[str]
    excludes: str | None

    def lanes(self, itemsize: int) -> int:
        """How many elements of ``itemsize`` bytes one vector holds."""
        return self.width // itemsize

    @property
    def has_masks(self) -> bool:
        """Whether operations, loads and stores of all types can leave out lanes."""
        return self.name == "avx512"

    @property
    def multiplies_pairs(self) -> bool:
        """Whether this processor adds products of pairs of bfloat16 to vectors of float32."""
        return self.name == "avx512" and host_features().get("avx512bf16", False)

    @property
    def multiplies_bytes(self) -> bool:
        """Whether this processor adds products of four bytes, u8 by s8, to vectors of int32 in one instruction."""
        return host_features().get({"avx512": "avx512vnni", "avx2": "avxvnni"}.get(self.name, ""), False)

    def runs_on(self, features: Mapping[str, bool]) -> bool:
        """Whether a processor with these features executes this instruction set."""
        return all(features.get(feature, False) for feature in self.requires)


# Widest first: detection takes the first row that the processor executes. ``llvm.fma`` must fuse, and becomes a library
# call on a processor that cannot; ``llvm.fmuladd`` fuses where the target does and multiplies, then adds, elsewhere.
TABLE: dict[str, InstructionSet] = {
    row.name: row
    for row in (
        InstructionSet("avx512", 64, 32, "llvm.fma", frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl"}), None),
        InstructionSet("avx2", 32, 16, "llvm.fma", frozenset({"avx2", "fma"}), "avx512f"),
        InstructionSet("portable", 16, 16, "llvm.fmuladd", frozenset(), "avx"),
    )
}


@cache
def host_features() -> Mapping[str, bool]:
    """The features of this processor, by LLVM's names; empty where LLVM does not know them."""
    return dict(llvm.get_host_cpu_features())


@cache
def converts_float16() -> bool:
    """Whether code of this process may leave conversions of float16 to the processor."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return True
    return bool(host_features().get("f16c", False)) and select().excludes != "avx"  # without AVX there is no F16C


def code_features() -> str:
    """The features that code of this process may use, as LLVM reads them."""
    features = [f"{'+' if on else '-'}{name}" for name, on in sorted(host_features().items())]
    excluded = select().excludes
    return ",".join([*features, f"-{excluded}"] if host_features().get(excluded or "") else features)


def select(name: str | None = None) -> InstructionSet:
    """The instruction set ``name``; without a name that of the variable ``ZENITH_ISA``; without it the widest here.

    Raises UnknownInstructionSet for a name that is not in the table, and for one that this processor lacks.
    """
    name = name or os.environ.get(VARIABLE) or None
    if name is None:
        return next(row for row in TABLE.values() if row.runs_on(host_features()))
    if name not in TABLE:
        raise UnknownInstructionSet(f"there is no instruction set {name!r}", fix=f"choose one of {', '.join(TABLE)}")
    row = TABLE[name]
    if not row.runs_on(host_features()):
        missing = ", ".join(sorted(f for f in row.requires if not host_features().get(f, False)))
        raise UnknownInstructionSet(
            f"this processor does not execute {name} (it lacks {missing})", fix=f"unset {VARIABLE} or choose 'portable'"
        )
    return row


def multiply_add_of_width(width: int) -> str:
    """The LLVM intrinsic that multiplies and adds vectors of ``width`` bytes.

    The width alone decides, so that the text of a kernel, with its literal lanes, says everything about its code.
    """
    names = {row.width: row.multiply_add for row in TABLE.values()}
    return names.get(width, "llvm.fmuladd")
