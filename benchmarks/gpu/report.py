"""What stored measurements on a GPU say, as sheets for a terminal and for documents, and as a plot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import sheets
from benchmarks.gpu.contenders import BY_LIBRARIES, CEILINGS, COPY, EAGER, KERNELS, OWN, PREFIX
from benchmarks.gpu.session import fastest_peer
from benchmarks.sheets import Sheet, duration

NOTHING = "No measurement on a GPU is stored yet: `make gpu` makes them on a machine that has one."

Record = dict[str, Any]
Row = tuple[str, ...]


def short(name: str) -> str:
    """A name without what all names here begin with.

    >>> short("gpu torch eager"), short("gpu_chain")
    ('torch eager', 'chain')
    """
    return name.removeprefix(PREFIX).removeprefix("gpu_")


def times(documents: Sequence[Record]) -> Sheet:
    """A row for each workload and contender: time, spread, error, and what it reaches of the ceilings."""
    columns = ("workload", "contender", "median", "IQR", "over torch eager (95 %)", "error", "GB/s", "TFLOP/s")
    rows = [
        (short(d["workload"]), short(name), *_measured(name, record, d))
        for d in documents
        for name, record in d["contenders"].items()
        if "declined" not in record
    ]
    return Sheet("Times on the GPU; shares are of the copy and of torch.mm in the same run", columns, rows, labels=2)


def _measured(name: str, record: Record, document: Record) -> Row:
    if "median_s" not in record:
        return (next(kind for kind in sheets.ABSENCES if kind in record), *[""] * 5)
    ratio = document["speedups"].get(name)
    spread = (record["q3_s"] - record["q1_s"]) / record["median_s"]
    faster = f"{ratio['median']:.2f}x ({ratio['low']:.2f}-{ratio['high']:.2f})" if ratio else ""
    error = "" if name in CEILINGS else f"{record['error']:.1e}"
    return (duration(record["median_s"]), f"{spread:.0%}", faster, error, *_reached(name, record, document))


def _reached(name: str, record: Record, document: Record) -> Iterator[str]:
    ceilings = document["ceilings"]
    for kind, rate, unit in (("bytes", "bytes_per_s", 1e9), ("flops", "flops_per_s", 1e12)):
        if not document[kind]:
            yield ""
        elif name in CEILINGS:
            own = (name == COPY.name) == (kind == "bytes")
            yield f"{ceilings[rate] / unit:.4g}" if own and rate in ceilings else ""
        else:
            reached = document[kind] / record["median_s"]
            yield f"{reached / unit:.4g}" + (f" ({reached / ceilings[rate]:.0%})" if rate in ceilings else "")


def best_peers(documents: Sequence[Record]) -> Sheet:
    """Zenith against the fastest of all others, workload by workload, and against the copy, with bounds."""
    rows = []
    for d in documents:
        best = fastest_peer(d)
        for own in OWN:
            if "median_s" in d["contenders"].get(own, {}):
                over = d["zenith_over"]
                ratios = (_ratio(over.get(best, {}).get(own)), _ratio(over.get(COPY.name, {}).get(own)))
                rows.append((short(d["workload"]), short(own), short(best or ""), *ratios))
    columns = ("workload", "", "fastest peer", "Zenith over it (95 %)", "of the copy's speed (95 %)")
    return Sheet("Zenith against the fastest peer", columns, rows, labels=3)


def beside_libraries(documents: Sequence[Record]) -> Sheet:
    """What Zenith's own kernels reach of the speed that cuBLASLt and cuDNN have in the same programs."""
    rows = []
    for d in documents:
        kernels, libraries = (d["contenders"].get(name, {}) for name in (KERNELS.name, BY_LIBRARIES.name))
        if "median_s" in kernels and "median_s" in libraries:
            share = libraries["median_s"] / kernels["median_s"]
            rows.append((short(d["workload"]), duration(kernels["median_s"]), duration(libraries["median_s"]),
                         f"{share:.0%}"))  # fmt: skip
    columns = ("workload", "Zenith's kernels", "by libraries", "share of their speed")
    return Sheet("Zenith's own kernels beside cuBLASLt and cuDNN", columns, rows, labels=1)


def _ratio(ratio: Record | None) -> str:
    return "" if ratio is None else f"{ratio['median']:.2f} ({ratio['low']:.2f}-{ratio['high']:.2f})"


def pool(counters: Record | None) -> str:
    """The memory pool's counters in W2, as a sentence."""
    if counters is None:
        return "W2 was not measured."
    if "failed" in counters:
        return f"W2 failed: {counters['failed']}"
    return (
        f"W2: {counters['products']} products of 1024x1024: {counters['allocations']} allocations, {counters['hits']} "
        f"hits, {counters['returns']} returns, {counters['reserved_bytes'] / 1e6:.1f} MB reserved, hit rate "
        f"{counters['hit_rate']:.1%}"
    )


def notes(documents: Sequence[Record]) -> list[str]:
    """Who has no numbers and why, and the circumstances; a line each."""
    found: dict[str, None] = {}
    for d in documents:
        for name, record in d["contenders"].items():
            for kind in sheets.ABSENCES:
                if kind in record:
                    found[f"{short(d['workload'])}, {short(name)}, {kind}: {str(record[kind]).splitlines()[0]}"] = None
    for d in documents:
        versions = ", ".join(f"{name} {v}" for name, v in d["gpu"]["versions"].items() if v)
        found[
            f"{d['gpu']['gpu']}; Python {d['gpu']['python']}; {versions}; revision {d['revision']}, {d['date'][:10]}"
        ] = None
    return [*found]


def document(documents: Sequence[Record], counters: Record | None) -> str:
    """Everything as Markdown."""
    if not documents:
        return f"# Measurements on a GPU\n\n{NOTHING}\n"
    descriptions = "\n".join(f"- **{short(d['workload'])}**: {d['description']}" for d in documents)
    found = [best_peers(documents), beside_libraries(documents), sheets.changing_sizes(documents), times(documents)]
    sections = [*(sheets.markdown(sheet) for sheet in found if sheet.rows), pool(counters), descriptions]
    return "\n\n".join(["# Measurements on a GPU", *sections, *notes(documents)]) + "\n"


def plot(documents: Sequence[Record], path: Path) -> None:
    """Bars of how many times faster than torch eager each is, with bounds, in the format that the ending names."""
    from matplotlib.figure import Figure

    bars = [(d["workload"], name, r) for d in documents for name, r in d["speedups"].items() if name not in CEILINGS]
    figure = Figure(figsize=(8, 0.8 + 0.3 * len(bars)), layout="constrained")
    axes = figure.subplots()
    spread = [
        [max(0.0, r["median"] - r["low"]) for *_, r in bars],
        [max(0.0, r["high"] - r["median"]) for *_, r in bars],
    ]
    colours = ["tab:orange" if name in OWN else "tab:gray" for _, name, _ in bars]
    axes.barh(range(len(bars)), [r["median"] for *_, r in bars], xerr=spread, color=colours)
    axes.set_yticks(range(len(bars)), [f"{short(w)}  {short(name)}" for w, name, _ in bars])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_xlabel(f"times as fast as {short(EAGER.name)}")
    figure.savefig(path)
