"""What the stored measurements say, as sheets: a title, columns, rows of text. Every form of report prints these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import stats
from benchmarks.contenders import OWN, QUANTIZE, ZENITH_BF16

ABSENCES = ("missing", "refused", "failed")

Record = dict[str, Any]
Row = tuple[str, ...]


@dataclass(frozen=True)
class Sheet:
    """A table; the first ``labels`` columns are words, the others numbers."""

    title: str
    columns: Row
    rows: Sequence[Row]
    labels: int = 1


def markdown(sheet: Sheet) -> str:
    """A sheet under its title, for a document."""
    rule = tuple("---" if number < sheet.labels else "---:" for number in range(len(sheet.columns)))
    lines = "\n".join(f"| {' | '.join(line)} |" for line in [sheet.columns, rule, *sheet.rows])
    return f"**{sheet.title}**\n\n{lines}"


def duration(seconds: float) -> str:
    """Three significant digits and a fitting unit.

    >>> duration(0.00001234), duration(0.1), duration(2.5)
    ('12.3 us', '100 ms', '2.5 s')
    """
    for unit, scale in (("us", 1e6), ("ms", 1e3)):
        if seconds * scale < 999.5:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def everything(documents: Iterable[Record]) -> Sheet:
    """One row per workload and contender that took part or should have."""
    columns = (
        "workload",
        "contender",
        "median",
        "IQR",
        "speed-up (95 %)",
        "error",
        "import",
        "cold start",
        "warm start",
    )
    rows = [
        (document["workload"], name, *_measured(name, record, document))
        for document in documents
        for name, record in document["contenders"].items()
        if "declined" not in record
    ]
    return Sheet("Speed-up is over torch eager, by paired calls", columns, rows, labels=2)


def _measured(name: str, record: Record, document: Record) -> Row:
    if absence := _absence(record):
        return (absence, *[""] * 6)
    ratio = document["speedups"].get(name)
    warm = record.get("warm")
    return (
        duration(record["median_s"]),
        f"{(record['q3_s'] - record['q1_s']) / record['median_s']:.0%}",
        f"{ratio['median']:.2f}x ({ratio['low']:.2f}-{ratio['high']:.2f})" if ratio else "1x",
        f"{record['error']:.1e}",
        duration(record["cold"]["import_s"]),
        duration(record["cold"]["first_call_s"]),
        duration(warm["first_call_s"]) if warm else "",
    )


def _absence(record: Record) -> str | None:
    return next((absence for absence in ABSENCES if absence in record), None)


def times(documents: Sequence[Record]) -> Sheet:
    """Medians, a column for each contender."""
    return _matrix("Median of a pass", documents, lambda record: duration(record["median_s"]))


def starts(documents: Sequence[Record]) -> Sheet:
    """What the first call takes: where nothing is compiled yet, where all is, and where the program is a saved file."""

    def cell(record: Record) -> str:
        kinds = ("cold", "warm", "saved")
        return ", ".join(duration(record[kind]["first_call_s"]) for kind in kinds if kind in record)

    return _matrix("First call after the imports: cold, warm, from a saved file", documents, cell)


def _matrix(title: str, documents: Sequence[Record], cell: Callable[[Record], str]) -> Sheet:
    names = _present(documents)
    rows = [
        (d["workload"], *(_cell(d["contenders"].get(name, {"declined": ""}), cell) for name in names))
        for d in documents
    ]
    return Sheet(title, ("workload", *names), rows)


def _cell(record: Record, cell: Callable[[Record], str]) -> str:
    return "" if "declined" in record else _absence(record) or cell(record)


def _present(documents: Iterable[Record]) -> list[str]:
    """The contenders that took part somewhere, or should have."""
    names = (n for d in documents for n, record in d["contenders"].items() if "declined" not in record)
    return [*dict.fromkeys(names)]


def ratios(documents: Sequence[Record]) -> Sheet:
    """How many times faster than each peer Zenith is, for both of its front ends."""
    peers = [name for name in _present(documents) if name not in OWN]
    rows = [
        (d["workload"], own, *(_ratio(d["zenith_over"].get(peer, {}).get(own)) for peer in peers))
        for d in documents
        for own in OWN
        if any(own in faster for faster in d["zenith_over"].values())
    ]
    return Sheet("How many times faster than each peer, by paired calls", ("workload", "", *peers), rows, labels=2)


def quantised(documents: Iterable[Record]) -> Sheet:
    """Contenders in 8, 16 and 32 bits side by side: time, error, and how much faster Zenith in 8 and 16 bits is."""
    own = (QUANTIZE.name, ZENITH_BF16.name)
    columns = ("workload", "contender", "median", *(f"{name} is faster by" for name in own), "error")
    rows = [
        (d["workload"], name, duration(record["median_s"]),
         *(_ratio(d["zenith_over"].get(name, {}).get(mine)) for mine in own), f"{record['error']:.1e}")
        for d in documents
        for name, record in d["contenders"].items()
        if "median_s" in record
    ]  # fmt: skip
    return Sheet("In 8, 16 and 32 bits", columns, rows, labels=2)


def _ratio(ratio: Record | None) -> str:
    return "" if ratio is None else f"{ratio['median']:.2f}x"


def changing_sizes(documents: Iterable[Record]) -> Sheet:
    """What happens when every call has another size: compilations, pauses, and how linear latency is."""
    columns = ("workload", "contender", "compilations", "longest pause", "R2", "sentences/s")
    rows = [
        (document["workload"], name, *_changing(record, document))
        for document in documents
        for name, record in document["contenders"].items()
        if "calls" in record
    ]
    return Sheet("Changing sizes", columns, rows, labels=2)


def _changing(record: Record, document: Record) -> Iterator[str]:
    first, median = record["calls"]["first_s"], record["calls"]["median_s"]
    yield str(record["facts"].get("compilations", ""))
    yield duration(max(0.0, *(a - b for a, b in zip(first, median, strict=True))))
    yield f"{stats.linearity(document['sizes'], median):.4f}"
    yield f"{document['sentences'] / record['median_s']:.0f}" if document.get("sentences") else ""


def notes(documents: Sequence[Record]) -> list[str]:
    """Why a contender has no numbers, and the circumstances of the measurements; a line each."""
    return [*_reasons(documents), *dict.fromkeys(heading(document) for document in documents)]


def _reasons(documents: Iterable[Record]) -> list[str]:
    found: dict[tuple[str, str], list[str]] = {}
    for document in documents:
        for name, record in document["contenders"].items():
            for kind in ("declined", *ABSENCES):
                if kind in record:
                    reason = record[kind].splitlines()[0]
                    text = reason if kind == "declined" else f"{kind}: {reason}"
                    found.setdefault((name, text), []).append(document["workload"])
    return [f"{name}, {text} ({', '.join(where)})" for (name, text), where in found.items()]


def heading(document: Record) -> str:
    """The circumstances of a measurement, on one line."""
    box, versions = document["machine"], document["versions"]
    software = ", ".join(f"{name} {version or '(not installed)'}" for name, version in versions.items())
    hardware = f"{box['cpu']}, {box['memory_gib']} GiB, {box['system']}, {document['settings']['threads']} threads"
    return f"{hardware}; {software}; revision {document['revision']}, {document['date'][:10]}"
