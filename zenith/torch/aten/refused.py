"""What ``from_torch`` refuses, and why: operators whose results no program of fixed shapes can give.

Draws of random numbers are PyTorch's (:mod:`zenith.torch.draws`). An operator neither here nor in the table of rules is
decomposed by ``torch.export`` into operators that are, or is not known yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from zenith.numpy.typing import Array

SHAPES = ("the shape of its result depends on values",
           "keep the shape: torch.where(mask, x, 0) for x[mask], a sum of the mask for a count")  # fmt: skip
_NUMBERS = ("it makes a Python number, on which sizes and branches depend, of a tensor's values",
            "compute with the tensor of one element itself, and choose with torch.where")  # fmt: skip
_STRIDES = ("it asks how a tensor's memory is laid out, and programs take arguments of any strides",
            "compute from sizes, x.shape")  # fmt: skip
_WRITES = ("it writes into its argument", "use the operator that makes a new tensor")
_STATE = ("it writes its running statistics, which a compiled program does not",
          "call module.eval() before from_torch; zenith.nn.batch_norm_training returns the new statistics")  # fmt: skip
_RESULTS = (
    "it writes into an argument: torch.export makes it atan2.default, which has a rule",
    "write torch.atan2(x, y)",
)
_FACTORS = ("factors of LU and of Householder's reflections are not computed",
            "use torch.linalg.solve, qr, cholesky or svd")  # fmt: skip
_COMPLEX = ("LAPACK's general eigenvalues are no part of programs",
            "use torch.linalg.eigh or eigvalsh, for symmetric and Hermitian matrices")  # fmt: skip

REFUSED: dict[str, tuple[str, str]] = {}

for _reason, _names in {
    SHAPES: "nonzero masked_select _unique unique_dim unique_consecutive _unique2 repeat_interleave.Tensor bincount",
    _NUMBERS: (
        "_local_scalar_dense item _assert_scalar sym_constrain_range sym_constrain_range_for_size equal allclose "
        "is_nonzero"
    ),
    _STRIDES: "sym_stride sym_storage_offset sym_is_contiguous",
    _WRITES: "resize_ resize",
    _RESULTS: "atan2.out",
    _STATE: "_native_batch_norm_legit.default",
    _FACTORS: (
        "linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve lu_solve lu_unpack linalg_ldl_factor "
        "linalg_ldl_factor_ex linalg_ldl_solve linalg_householder_product orgqr ormqr geqrf"
    ),
    _COMPLEX: "linalg_eig linalg_eigvals",
}.items():
    REFUSED.update(dict.fromkeys(_names.split(), _reason))


@dataclass(frozen=True)
class RefusedResult:
    """What a rule does not compute among several results; whoever reads it meets an UnsupportedError.

    ``why`` is the message, ``fix`` what to write instead.
    """

    why: str
    fix: str


@dataclass(frozen=True)
class Failed(RefusedResult):
    """An error code with fewer values than PyTorch's: ``code`` is 1 where there is no result and 0 elsewhere, int32."""

    code: Array


def reason_of(target: object) -> tuple[str, str] | None:
    """Why an operator is refused, and what to do; None when it has a rule or is unknown."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    packet = target._schema.name.partition("::")[2]
    return REFUSED.get(f"{packet}.{target._overloadname or 'default'}", REFUSED.get(packet))


def core_operators() -> list[torch._ops.OpOverload]:
    """Every operator that PyTorch tags as core ATen, by name: what ``torch.export`` decomposes others into."""
    found = []
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, full = name.partition("::")
        packet, _, overload = full.partition(".")
        if namespace == "aten":
            operator = getattr(getattr(torch.ops.aten, packet), overload or "default", None)
            if operator is not None and torch.Tag.core in operator.tags:
                found.append(operator)
    return found
