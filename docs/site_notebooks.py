"""The notebooks as pages, with the outputs that are stored in them; pictures become files beside the pages."""

from __future__ import annotations

from pathlib import Path

from nbconvert import MarkdownExporter

FOLDER = "notebooks"


def pages(root: Path) -> dict[str, str | bytes]:
    """The text of every page, and every picture, by its path in the site."""
    found: dict[str, str | bytes] = {}
    for path in sorted((root / FOLDER).glob("*.ipynb")):
        pictures = {"unique_key": path.stem, "output_files_dir": f"{path.stem}_files"}
        text, resources = MarkdownExporter().from_filename(str(path), pictures)
        found[f"{FOLDER}/{path.stem}.md"] = text
        found |= {f"{FOLDER}/{name}": picture for name, picture in resources["outputs"].items()}
    return found
