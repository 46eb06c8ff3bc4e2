"""The documentation site: it builds without a warning, has every page in its navigation, and asks nobody for anything."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from docsite import examples, hook
from tests.docs.blocks import ROOT

_REMOTE = re.compile(
    r"""<(?:script|img|link|iframe|source|video)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^"'>\s]+"""
)
_ARTICLE = re.compile(r"<article.*?</article>", re.DOTALL)
_PARAGRAPH = re.compile(r"<p>(.*?)</p>", re.DOTALL)
_NOT_SHOWN = re.compile(r"^(\s*(-|\*|\d+\.) |\||    \S)", re.MULTILINE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does, without a network."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": "operator:.",
            "NO_MKDOCS_2_WARNING": "1",
            "https_proxy": "http://127.0.0.1:9",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    # Not --quiet: what is not said is not counted by --strict.
    assert (built.returncode, "WARNING" in built.stderr) == (0, False), built.stderr
    return folder


def _shown(site: Path) -> Iterator[tuple[str, str]]:
    """Yield the pages, and what stands on each below its title."""
    for path in sorted(site.rglob("*.html")):
        found = _ARTICLE.search(path.read_text())
        if found:
            yield path.relative_to(site).as_posix(), found[0]


@pytest.mark.slow
def test_pages_are_made_of_examples_kinds_and_commands(site: Path) -> None:
    """Each example, each kind and each command has its place."""
    shown = dict(_shown(site))
    for path in (ROOT / "examples").glob("*.yaml"):
        assert f"examples/{path.stem}.html" in shown
    assert "reserveAfter" in shown["reference/allocationpolicy.html"]
    for words, _ in hook.commands.commands():
        assert f"{' '.join(words)}<" in shown["reference/commands.html"]


def test_every_page_is_in_the_navigation() -> None:
    """Enter a new page in mkdocs.yml, under `nav`."""
    text = (ROOT / "mkdocs.yml").read_text()
    named = set(re.findall(r"[\w/-]+\.md", text.split("\nnav:\n")[1]))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    entered = {page for page in pages if page.startswith("adr/")}
    assert sorted(pages - named - entered) == []


@pytest.mark.slow
def test_nothing_is_fetched_from_others(site: Path) -> None:
    """The site is read offline, and nobody learns who reads it."""
    assert [
        (path.name, found) for path in site.rglob("*.html") for found in _REMOTE.findall(path.read_text())
    ] == []


@pytest.mark.slow
def test_lists_tables_and_blocks_are_shown_as_such(site: Path) -> None:
    """A list or block right behind a paragraph is one on GitHub and none here: leave a line free."""
    assert [
        (page, text[:80])
        for page, article in _shown(site)
        for text in _PARAGRAPH.findall(article)
        if _NOT_SHOWN.search(text)
    ] == []


def test_every_example_says_what_it_is_for() -> None:
    """Its page begins with that."""
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        words, expected = examples.said(path.read_text())
        assert len(words.split()) >= 8, path.name
        found: Any = yaml.safe_load(expected) if expected else {}
        assert isinstance(found, dict), path.name
