"""Runs the notebooks and stores in them what they show; what libraries say to stderr, and when cells ran, is left out.

The one about GPUs is left as it is: a GPU fills its tables.
"""

from __future__ import annotations

import base64
import io
import os
import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
GPU = "04_gpu.ipynb"
INLINE = "module://matplotlib_inline.backend_inline"


def main() -> None:
    """Renew all notebooks that need no GPU, each in a process of its own."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if path.name != GPU:
            notebook = nbformat.read(path, as_version=4)
            executed(notebook)
            nbformat.write(notebook, path)


def executed(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The cells of code with their outputs, after a run from the top in the folder of notebooks."""
    resources = {"metadata": {"path": str(NOTEBOOKS)}}
    client = NotebookClient(notebook, timeout=600, record_timing=False, resources=resources)
    client.execute(env={**os.environ, "MPLBACKEND": INLINE})
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in cells:
        cell.outputs = [output for output in cell.outputs if is_shown(output)]
        for output in cell.outputs:
            without_paths(output)
            if picture := output.get("data", {}).get("image/png"):
                output["data"]["image/png"] = small(picture)
    return cells


def without_paths(output: nbformat.NotebookNode) -> None:
    """Leave out of what is shown where this process keeps its cells."""
    for part in (output, output.get("data", {})):
        for kind, text in part.items():
            if isinstance(text, str):
                part[kind] = re.sub(r"/tmp/ipykernel_\d+/\d+(\.py)?", "<cell>", text)


def is_shown(output: nbformat.NotebookNode) -> bool:
    """Whether an output is the program's, and not a library's word to stderr or a bar of progress that is gone."""
    data = output.get("data")
    return output.get("name") != "stderr" and (data is None or any(data.values()))


def small(picture: str) -> str:
    """A picture in 256 colours, a third of its size."""
    made = io.BytesIO()
    Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB").quantize(256).save(made, "PNG", optimize=True)
    return base64.b64encode(made.getvalue()).decode()


if __name__ == "__main__":
    main()
