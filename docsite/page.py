"""A page of the site, and what its makers share. In: texts. Out: values for the hook of mkdocs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Page:
    """A page that is made at build time."""

    uri: str
    """Where it is on the site, from the root: `examples/mig.md`."""
    title: str
    """Its entry in the navigation."""
    text: str
    """Markdown."""
    source: str = ""
    """The file of the repository that it stands for, from the root; links to that file lead to this page. Empty: none."""


def cell(text: str) -> str:
    """Return a text as it can stand in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
