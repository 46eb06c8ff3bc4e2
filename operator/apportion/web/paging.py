"""Paging: which of many rows a page shows.

In: how many rows there are, the number of a page. Out: the slice of rows, and the pages before and after it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Paging:
    """One page of many."""

    page: int
    """From 1."""
    pages: int
    """At least 1."""
    rows: int
    """On all pages."""
    start: int
    """Index of the first row."""
    end: int
    """Index after the last row."""


def paging(rows: int, size: int, page: int) -> Paging:
    """Return the page of this number, the last one where there are fewer."""
    pages = max(1, -(-rows // size))
    page = min(max(1, page), pages)
    return Paging(page, pages, rows, (page - 1) * size, min(page * size, rows))
