"""The page of limits: each says how one sees it, with reasons that Events have, and leads to a page that says more."""

import re

from tests.docs.blocks import ROOT
from tests.test_reasons import documented

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/limits.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| limit ")
]
REASON = re.compile(r"Events? ((?:`\w+`(?:, | and )?)+)")


def test_each_limit_says_how_one_sees_it_and_where_more_is_said() -> None:
    """A limit that nobody notices says `nothing`."""
    assert len(ROWS) > 15
    assert [
        row[0] for row in ROWS if len(row) != 3 or not row[1] or not re.search(r"\]\([\w-]+\.md", row[2])
    ] == []


def test_the_reasons_of_limits_are_those_of_events() -> None:
    """People look for the word that `kubectl describe` shows."""
    named = {word for row in ROWS for found in REASON.findall(row[1]) for word in re.findall(r"\w+", found)}
    assert {"ForeignPartition", "NodeRefused", "RefusedConfiguration"} <= named
    assert sorted(named - documented() - {"and"}) == []
