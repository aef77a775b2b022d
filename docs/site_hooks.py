"""The site's pages beside those of docs/, as hooks of MkDocs: documents of the project's root, notebooks, what is made.

``mkdocs build --strict`` makes the site in build/site, without a network, and ``mkdocs serve`` shows it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import site_notebooks
import site_primitives
import site_reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = {
    "README.md": "index.md", "ARCHITECTURE.md": "ARCHITECTURE.md", "CONTRIBUTING.md": "CONTRIBUTING.md",
    "GLOSSARY.md": "GLOSSARY.md",
}  # fmt: skip
LINK = re.compile(r"\[([^\]]*)\]\((?!https?://|#)([^)#\s]+)([^)]*)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages; an entry of the navigation that ends in a slash becomes the pages of that folder."""
    for source, page in DOCUMENTS.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    made = site_reference.pages() | site_primitives.pages() | site_notebooks.pages(ROOT)
    for page, content in made.items():
        files.append(File.generated(config, page, content=content))
    config.nav = expanded(config.nav, list(made))
    return files


def expanded(nav: list, pages: list[str]) -> list:
    """A navigation whose entries ``folder/`` are replaced by the folder's pages."""
    found: list = []
    for entry in nav:
        if isinstance(entry, dict):
            found.append({title: expanded(of, pages) if isinstance(of, list) else of for title, of in entry.items()})
        else:
            found += [p for p in pages if p.startswith(entry) and p.endswith(".md")] if entry[-1] == "/" else [entry]
    return found


def on_page_markdown(markdown: str, page: Page, files: Files, **_: object) -> str:
    """Links to files of the project lead to their pages; links to files without one become their text."""
    moved = {source: file.src_uri for file in files if (source := source_of(file))}
    own, folder = source_of(page.file), posixpath.dirname(page.file.src_uri)

    def target(match: re.Match[str]) -> str:
        path = own.parent.joinpath(match[2]).resolve()
        if posixpath.normpath(posixpath.join(folder, match[2])) in files.src_uris:
            return match[0]
        return f"[{match[1]}]({posixpath.relpath(moved[path], folder)}{match[3]})" if path in moved else match[1]

    return LINK.sub(target, markdown) if own else markdown


def source_of(file: File) -> Path | None:
    """The file of the project that a page shows; none for a page that is made of code."""
    notebook = (ROOT / file.src_uri).with_suffix(".ipynb")
    if file.abs_src_path:
        return Path(file.abs_src_path)
    return notebook if notebook.exists() else None
