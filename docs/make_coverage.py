"""Writes docs/coverage.md: the functions of the array API standard and of NumPy, PyTorch's core operators, and how
Zenith supports each.

The text is docs/coverage.in.md; the tables come from those in which functions are registered, for the versions
of NumPy and PyTorch that are installed.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "docs" / "coverage.in.md"
RESULT = ROOT / "docs" / "coverage.md"
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]  # run as a script, only docs/ would be there

import zenith.numpy as znp  # noqa: E402
from zenith.ir.primitive import all_primitives  # noqa: E402
from zenith.ir.types import DTYPES, DType  # noqa: E402
from zenith.numpy.assignment import WRITTEN_AT  # noqa: E402
from zenith.trace import dispatch  # noqa: E402
from zenith.trace.ufuncs import accumulations, reductions  # noqa: E402

# The standard's names by chapter: https://data-apis.org/array-api/2024.12/API_specification
STANDARD = {
    "constants": "e inf nan newaxis pi",
    "creation": (
        "arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril "
        "triu zeros zeros_like"
    ),
    "data types": (
        "astype can_cast finfo iinfo isdtype result_type bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
        "float32 float64 complex64 complex128"
    ),
    "elementwise": (
        "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or "
        "bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor "
        "floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p log2 log10 "
        "logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply negative nextafter "
        "not_equal positive pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract tan "
        "tanh trunc"
    ),
    "indexing": "take take_along_axis",
    "inspection": "__array_namespace_info__",
    "linear algebra": "matmul matrix_transpose tensordot vecdot",
    "manipulation": (
        "broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze "
        "stack tile unstack"
    ),
    "searching": "argmax argmin count_nonzero nonzero searchsorted where",
    "sets": "unique_all unique_counts unique_inverse unique_values",
    "sorting": "argsort sort",
    "statistics": "cumulative_prod cumulative_sum max mean min prod std sum var",
    "utility": "all any diff",
    "linalg": (
        "cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank "
        "matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm"
    ),
    "fft": "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift",
}
EXTENSIONS = ("linalg", "fft")

# NumPy's functions that programs on arrays do not use, and why.
OUTSIDE = {
    "they read and write files": "fromfile fromregex genfromtxt load loadtxt save savetxt savez savez_compressed",
    "they read buffers, texts and Python objects": (
        "asarray_chkfinite asmatrix bmat frombuffer fromiter fromstring frompyfunc iterable nested_iters require"
    ),
    "they print, or say how to": (
        "array2string array_repr array_str base_repr binary_repr format_float_positional format_float_scientific "
        "get_printoptions printoptions set_printoptions typename"
    ),
    "they are about dates": "busday_count busday_offset datetime_as_string datetime_data is_busday isnat",
    "they are about NumPy itself": (
        "get_include getbufsize geterr geterrcall info setbufsize seterr seterrcall show_config show_runtime test"
    ),
    "they are about memory, which traced arrays have none of": "isfortran may_share_memory shares_memory",
    "they are about types alone, and NumPy answers": "common_type isscalar issubdtype min_scalar_type mintypecode",
    "they plan, and compute nothing": "einsum_path",
    "NumPy will drop them, and until then they call another one, `vstack`": "row_stack",
}


# Functions of NumPy that need the values of their argument, unless `like=` names an array whose library converts it.
CONVERTERS = ("array", "asanyarray", "asarray", "ascontiguousarray")


def main() -> None:
    """Write the file."""
    RESULT.write_text(coverage(), encoding="utf-8")


def coverage() -> str:
    """The text of docs/coverage.md."""
    from make_architecture import fill

    text = fill(TEMPLATE.read_text(encoding="utf-8"), exhibits())
    made = "<!-- Made by docs/make_coverage.py (`make docs`) from docs/coverage.in.md. -->"
    return made + text[text.index("\n") :]


def exhibits() -> dict[str, str]:
    """Every table by name, as Markdown."""
    return {
        "standard": standard(), "conformance": conformance(), "functions": functions(), "outside": outside(),
        "ufuncs": ufuncs(), "beyond": beyond(), "special": special(), "aten": core_aten(),
        "aten_refused": core_aten_refused(), "architectures": architectures(), "dtypes": element_types(),
    }  # fmt: skip


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *map(list, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(names: Iterable[str]) -> str:
    """Names as code, in alphabetical order; a dash for none."""
    return ", ".join(f"`{name}`" for name in sorted(names)) or "-"


# --- the standard ----------------------------------------------------------------------------------------------


def conformance() -> str:
    """The outcome of the standard's own tests, which `make conformance` stored."""
    stored = json.loads((ROOT / "benchmarks" / "results" / "conformance.json").read_text())
    lines = ["| namespace | tests run | passed | of these tests of compiled calls |", "| --- | --- | --- | --- |"]
    for name, found in stored["results"].items():
        entered = f"{found['entered and passed']} of {found['entered']}" if found["entered"] else "-"
        lines.append(f"| {name} | {found['run']} | {found['passed']} | {entered} |")
    versions, suite = stored["machine"]["versions"], stored["suite"][:7]
    lines += ["", f"Suite {suite}, {stored['examples']} examples a test, NumPy {versions['numpy']}, "
                  f"{stored['machine']['date'][:10]}."]  # fmt: skip
    return "\n".join(lines)


def standard() -> str:
    """A row for each chapter: how many names there are, and which are missing."""
    rows, there, total = [], 0, 0
    for chapter, text in STANDARD.items():
        names = text.split()
        namespace = getattr(znp, chapter, None) if chapter in EXTENSIONS else znp
        missing = [n for n in names if not isinstance(namespace, ModuleType) or not hasattr(namespace, n)]
        rows.append((chapter, f"{len(names) - len(missing)} of {len(names)}", code(missing)))
        there, total = there + len(names) - len(missing), total + len(names)
    return table(("chapter", "done", "missing"), [*rows, ("all", f"{there} of {total}", "")])


# --- NumPy -----------------------------------------------------------------------------------------------------


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """NumPy's public functions, under their own names."""
    for name in sorted(set(dir(np)) & set(np.__all__)):  # other libraries add functions of their own
        found = getattr(np, name)
        if name.startswith("_") or isinstance(found, (type, ModuleType)) or not callable(found):
            continue
        if isinstance(found, np.ufunc) or inspect.isroutine(found) or hasattr(found, "__wrapped__"):
            yield name, found


def state(name: str, function: Any) -> str:
    """The state of a function of NumPy, as docs/coverage.in.md defines it: ``done``, ``sized``, ``refused`` ..."""
    own = dispatch.registered(function)
    if own is not None and name not in CONVERTERS:
        return "sized" if "size" in inspect.signature(own).parameters and own.__name__ != "size" else "done"
    if dispatch.refused(function) is not None:
        return "refused"
    return "zenith.numpy" if hasattr(znp, name) else "absent"


def functions() -> str:
    """NumPy's functions by state."""
    left_out = {name for names in OUTSIDE.values() for name in names.split()}
    found: dict[str, list[str]] = {}
    for name, function in public_functions():
        if name not in left_out:
            found.setdefault(state(name, function), []).append(name)
    count = Counter({kind: len(names) for kind, names in found.items()})
    order = [kind for kind in ("done", "sized", "zenith.numpy", "refused", "absent") if kind in found]
    rows = [(kind, str(count[kind]), code(found[kind])) for kind in order if kind != "refused"]
    version = ".".join(np.__version__.split(".")[:2])
    lines = [f"NumPy {version} has {count.total()} functions.", "", table(("state", "number", "functions"), rows)]
    return "\n".join([*lines, "", "Refused:", "", refusals()])


def refusals() -> str:
    """The reasons for which functions are refused."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, function in public_functions():
        reason = dispatch.refused(function)
        if reason is not None and dispatch.registered(function) is None:
            reasons.setdefault(reason, []).append(name)
    return table(("functions", "why", "instead"), [(code(names), *map(escaped, why)) for why, names in reasons.items()])


def escaped(text: str) -> str:
    """A text as a cell of a Markdown table, which may contain no bare ``|``."""
    return text.replace("|", "\\|")


def outside() -> str:
    """The functions that are not counted, by reason."""
    return "\n".join(f"- {why}: {code(names.split())}" for why, names in OUTSIDE.items())


def ufuncs() -> str:
    """The methods of ufuncs, and the operations that record them."""
    every = "every ufunc of elements"
    rows = [
        ("reduce", code(reductions()), by_name(reductions())),
        ("reduce", "every other one of two operands", "`scan`"),
        ("accumulate", code(accumulations()), by_name(accumulations())),
        ("accumulate", "every other one of two operands", "`scan`"),
        ("outer", every, "the function of arrays that are broadcast"),
        ("at", f"{code(WRITTEN_AT)}; of truths also `logical_and`, `logical_or`", "an array with updates"),
        ("reduceat", "every ufunc of two operands", "`scan` of a loop; derivatives in forward mode"),
    ]
    return table(("method", "of", "recorded as"), [(f"`{method}`", *rest) for method, *rest in rows])


def by_name(functions: Mapping[str, str]) -> str:
    """The functions that record the methods of ufuncs, in the order of their names."""
    return ", ".join(f"`{functions[name]}`" for name in sorted(functions))


def beyond() -> str:
    """Functions of `zenith.numpy` that NumPy does not have, each with the first sentence of its docstring."""
    found = {name: getattr(znp, name) for name in dir(znp) if not name.startswith("_") and not hasattr(np, name)}
    functions = {name: f for name, f in found.items() if inspect.isroutine(f)}
    return table(("function", ""), [(f"`{name}`", first_sentence(f)) for name, f in functions.items()])


def first_sentence(function: Any) -> str:
    """The first sentence of a docstring, as a cell of a table."""
    text = " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())
    return escaped(text.partition(". ")[0].rstrip(".") + ".").replace("``", "`")


def special() -> str:
    """The names of ``zenith.numpy.special``."""
    chapter = getattr(znp, "special", None)
    return code(chapter.__all__ if chapter is not None else ())


# --- PyTorch ---------------------------------------------------------------------------------------------------


def name_of(operator: Any) -> str:
    """An operator's name as rules are registered, without `default`."""
    return str(operator).removeprefix("aten.").removesuffix(".default")


def core_aten() -> str:
    """The core operators with a rule, and how many there are of each kind."""
    import torch

    from zenith.torch import aten
    from zenith.torch.steps import draws

    operators = aten.core_operators()
    done = [o for o in operators if aten.find(o) is not None]
    drawn = [o for o in operators if aten.find(o) is None and draws(o)]
    left = [o for o in operators if aten.find(o) is None and aten.reason_of(o) is None and o not in drawn]
    version = torch.__version__.partition("+")[0]
    counts = f"PyTorch {version} has {len(operators)} core operators; {len(done)} have a rule"
    counts += f", and PyTorch itself draws {code(map(name_of, drawn))} while a program runs"
    counts += f", {len(left)} are not done yet: {code(map(name_of, left))}." if left else ", every other one a reason."
    return "\n".join([counts, "", code(map(name_of, done))])


def core_aten_refused() -> str:
    """The core operators that are refused, by reason."""
    from zenith.torch import aten

    reasons: dict[tuple[str, str], list[str]] = {}
    for operator in aten.core_operators():
        reason = aten.reason_of(operator)
        if reason is not None:
            reasons.setdefault(reason, []).append(name_of(operator))
    return table(("operators", "why", "instead"), [(code(names), *map(escaped, why)) for why, names in reasons.items()])


def architectures() -> str:
    """The tested models by kind; a star is for two programs, a dagger for none that is compiled."""
    from tests.torch.architectures import KINDS, UNCOMPILED

    rows, total = [], 0
    for kind, families in KINDS.items():
        marks = [("*" if f.programs > 1 else "") + ("†" if n in UNCOMPILED else "") for n, f in families.items()]
        names = [name + mark for name, mark in zip(families, marks, strict=True)]
        rows.append((kind, str(len(names)), ", ".join(names)))
        total += len(names)
    return table(("kind", "", "architectures"), [*rows, ("all", str(total), "")])


# --- element types ---------------------------------------------------------------------------------------------


def element_types() -> str:
    """How each backend computes with an element type, and how many primitives take it."""
    primitives = list(all_primitives())
    rows = []
    for dtype in DTYPES:
        count = sum(1 for p in primitives if list(p.samples(dtype.numpy)))
        rows.append((f"`{dtype.numpy}`", f"`{dtype}`", str(dtype.itemsize), *computed(dtype), str(count)))
    return table(("NumPy", "in texts", "bytes", "CPU computes in", "CUDA computes in", "primitives"), rows)


def computed(dtype: DType) -> tuple[str, str]:
    """The type of arithmetic on the CPU, and on CUDA, where products of 16-bit floats may have tensor cores."""
    if not dtype.is_narrow:
        return (f"`{dtype.numpy}`",) * 2
    return "`float32`", "`float32`; products on tensor cores"


if __name__ == "__main__":
    main()
