"""docs/metrics.md is what the code has."""

from tests.metrics.monitoring import ROOT
from tests.metrics.reference import reference


def test_the_reference_is_what_the_code_has() -> None:
    """`make metrics` writes it anew."""
    assert (ROOT / "docs/metrics.md").read_text() == reference()
