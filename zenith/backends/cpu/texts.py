"""Kernels as texts: what their machine code follows from, and the Python functions that texts define.

A text is a kernel's source without names, comments and lines, and with sizes as arguments (:mod:`hoisting`), so that
equal layers share one.
"""

from __future__ import annotations

import hashlib
import linecache
import re
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from zenith.backends.cpu.emit import CpuPrinter
from zenith.backends.cpu.foreign import call_native
from zenith.backends.cpu.hoisting import HoistingPrinter
from zenith.backends.cpu.loop_tails import with_tails
from zenith.backends.cpu.online_softmax import softmax_tile
from zenith.backends.cpu.prefix_scan import RUNNING_FUNCTIONS
from zenith.backends.cpu.scaled_tile import scaled_tile
from zenith.backends.cpu.sorting_network import merge_lanes, merge_words, sort_words, transpose_words
from zenith.backends.cpu.tile import gathered_tile, pack_panel, product_tile
from zenith.backends.cpu.ufuncs import inner_loop
from zenith.backends.cpu.vectors import select
from zenith.backends.kernel import Kernel
from zenith.backends.scalars import NAMESPACE
from zenith.backends.shared_product import shared_product, tf32_product
from zenith.backends.tensor_core_references import register_product, stage_tile

TILE_FUNCTIONS = {
    "product_tile": product_tile, "gathered_tile": gathered_tile, "scaled_tile": scaled_tile,
    "pack_panel": pack_panel, "shared_product": shared_product,
    "stage_tile": stage_tile, "register_product": register_product,
    "tf32_product": tf32_product,
    "softmax_tile": softmax_tile, "call_native": call_native, "inner_loop": inner_loop,
    "sort_words": sort_words, "merge_words": merge_words, "merge_lanes": merge_lanes,
    "transpose_words": transpose_words, **RUNNING_FUNCTIONS,
}  # fmt: skip
_COMMENT = re.compile(r"\s+#.*")
_WORD = re.compile(r"\b[^\W\d]\w*")


def kernel_text(kernel: Kernel) -> tuple[str, tuple[str, ...]]:
    """What a kernel's machine code follows from, and the sizes that it takes: expressions of the program's, in order.

    What depends on sizes alone is one argument, however it is computed: strides, trip counts, terms of an index. So
    kernels of layers that a program runs at different depths are one, and their code is short.
    """
    stem = "size"
    while True:
        printer = HoistingPrinter(kernel.sizes, stem)
        plain = replace(kernel, name="kernel", doc="", sizes=())
        source = _source(printer, plain)
        arguments = dict.fromkeys(printer.arguments.values())
        if all(word in arguments or not re.fullmatch(rf"{stem}\d+", word) for word in _WORD.findall(source)):
            return _source(printer, replace(plain, sizes=tuple(arguments))), tuple(map(str, printer.arguments))
        stem += "_"


def _source(printer: CpuPrinter, kernel: Kernel) -> str:
    """A kernel's source without comments and documentation."""
    lines = printer.kernel(kernel).splitlines()
    return "\n".join(_COMMENT.sub("", line) for line in lines if line.strip() != '"""."""') + "\n"


def kernel_function(text: str) -> Callable[..., None]:
    """The Python function of a kernel's text, which compiled code gives its meaning."""
    from zenith.backends.cpu import compiler
    from zenith.backends.cpu.ranges import tail

    names = {**NAMESPACE, **TILE_FUNCTIONS, **compiler.INDEX_FUNCTIONS, "tail": tail}
    function: Callable[..., None] = define(with_tails(text) if select().has_masks else text, "kernel", names)
    return function


def define(source: str, name: str, namespace: Mapping[str, object]) -> Any:
    """The Python function that a source defines; tracebacks and debuggers can show its text while there is one."""
    short = hashlib.sha256(source.encode()).hexdigest()[:8]
    filename = f"<zenith {name} {short}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    scope = dict(namespace)
    exec(compile(source, filename, "exec"), scope)
    weakref.finalize(scope[name], linecache.cache.pop, filename, None).atexit = False
    return scope[name]
