"""The table of what the fake NVML believes stays in step with what it does."""

import re

import pytest

from testbed.fakes.nvml.facts import FACTS, Fact
from testbed.fakes.nvml.library import FakeNvml

CODE = "".join(path.read_text(encoding="utf-8") for path in sorted(FakeNvml.sources.glob("*.[ch]")))


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: f"{fact.where}: {fact.says}")
def test_every_belief_names_what_has_it_and_where_it_is_from(fact: Fact) -> None:
    """A function of the C files or a method of the fake; a source, or the word that there is none."""
    assert re.search(rf"\b{fact.where}\b", CODE) or hasattr(FakeNvml, fact.where)
    assert re.match(r"(NVML|OGK|DRV|MIG|H200|NVIDIA/|delete_module|none)\b", fact.source)


def test_every_remark_of_a_missing_source_is_in_the_table() -> None:
    """A belief without a source is one that a real card may not share."""
    remarks = re.findall(r"source: none", CODE)
    assert remarks
    assert len([fact for fact in FACTS if fact.source.startswith("none")]) >= len(remarks)
