"""The fake NVML answers every call of the agent's as the real cards did whose answers are on record."""

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.fakes.nvml.library import PASSTHROUGH, FakeNvml
from tests.fakes import program

RECORDED = sorted((FakeNvml.sources / "recorded").glob("*.json"))
DIFFERENT = {
    # The fake is one of a later driver, which knows one more profile.
    "nvmlDeviceGetGpuInstanceProfileInfo(17, 2)": (2, 3),
    "nvmlDeviceGetGpuInstanceProfileInfo(17, 1)": (2, 3),
}
"""Refusals of the real card and of the fake where they differ on purpose; the agent takes both for the same."""
ASK = """
from testbed.realcard.answers import answers
answer = [each.to_json() for each in answers()]
"""


def comparable(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {row["call"]: row.get("value", ("refused", row.get("refused"))) for row in rows}


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_fake_answers_as_a_real_card_did(tmp_path: Path, path: Path) -> None:
    """Whole rows: profiles with names, sizes and engines, placements, links, events, and the code of each refusal."""
    record = json.loads(path.read_text(encoding="utf-8"))
    fake = FakeNvml.create(
        tmp_path / "nvml",
        [record["model"]],
        driver=record["driver"],
        cuda=record["cuda"],
        versioned_anytime=True,
        virtualization=PASSTHROUGH,
    )
    real, faked = comparable(record["answers"]), comparable(program.run(fake, ASK, 0))
    for call, (theirs, ours) in DIFFERENT.items():
        assert (real.pop(call), faked.pop(call)) == (("refused", theirs), ("refused", ours))
    assert len(real) > 60
    assert faked == real


def test_a_record_names_no_card() -> None:
    """Records are in the repository."""
    assert RECORDED
    for path in RECORDED:
        text = path.read_text(encoding="utf-8")
        assert "GPU-00000000-0000-0000-0000-000000000000" in text
        assert text.count("GPU-") == 2
