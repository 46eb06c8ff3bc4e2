"""The hook of mkdocs (mkdocs.yml). In: its events. Out: the pages that are made of other files, and links that hold on the site."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page as SitePage

from docsite import commands, examples, kinds
from docsite.links import rewritten
from docsite.page import Page

ROOT = Path(__file__).parents[1]
READ = {
    "CONTRIBUTING.md": "Working on apportion",
    "CHANGELOG.md": "Changes",
    "bench/README.md": "Benchmarks",
    "testbed/README.md": "The testbed",
    "manifests/policies/README.md": "Policies to choose from",
}
"""Files of the repository that are pages as they are, with their titles."""
_SECTIONS = {"Examples": "examples/", "Reference": "reference/", "Repository": "repository/"}
"""Sections of the navigation that get the pages below an address."""


def pages() -> Iterator[Page]:
    """Yield all pages that are made."""
    yield Page("index.md", "apportion", (ROOT / "README.md").read_text(), "README.md")
    yield from examples.pages(ROOT)
    yield from kinds.pages()
    yield commands.page()
    for source, title in READ.items():
        name = source.removesuffix("/README.md").removesuffix(".md").replace("/", "-").lower()
        yield Page(f"repository/{name}.md", title, (ROOT / source).read_text(), source)


_PAGES = {page.uri: page for page in pages()}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Enter the made pages and the decisions in the navigation."""
    for section in config.nav or ():
        for title, entries in section.items():
            if title in _SECTIONS:
                made = [page for uri, page in _PAGES.items() if uri.startswith(_SECTIONS[title])]
                entries.extend({page.title: page.uri} for page in made)
            if title == "Decisions":
                found = sorted((ROOT / "docs/adr").glob("[0-9]*.md"))
                entries.extend(f"adr/{path.name}" for path in found)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the made pages."""
    for page in _PAGES.values():
        files.append(File.generated(config, page.uri, content=page.text))
    return files


def on_page_markdown(markdown: str, *, page: SitePage, **_: Any) -> str:
    """Lead the links of a page to where their targets are on the site."""
    uri = page.file.src_uri
    made = _PAGES.get(uri)
    source = f"docs/{uri}" if made is None else made.source
    targets = {each.source: each.uri for each in _PAGES.values() if each.source}
    return rewritten(markdown, source, uri, targets) if source else markdown
