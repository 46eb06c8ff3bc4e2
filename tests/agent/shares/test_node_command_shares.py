"""`apportion node` on devices that several claims share, and on those of which only one may be in use."""

import json
from pathlib import Path

import pytest
import yaml

from testbed.api import Json
from testbed.fakes.fpga import FpgaHost
from tests.agent.generic.places import FIRST, FPGA, described
from tests.agent.test_node_commands import H100, Shell, logs_as_before

__all__ = ["logs_as_before"]
GIB = 2**30


def share(memory: str, cores: int = 0) -> Json:
    """Return what a share consumes."""
    return {"memory": memory, "shares": "1"} | ({"cores": str(cores)} if cores else {})


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """Give a shell on a node with two GPUs."""
    return Shell(tmp_path, cards=[H100 | {"count": 2}])


@pytest.mark.slow
def test_a_shared_device_lists_every_claim_that_has_a_share_of_it(shell: Shell) -> None:
    """With how much each has and what is left; a claim may have several shares of one device, and whole devices beside."""
    mine = shell.claim("gpu-0", "gpu-0", shares=[share("10Gi"), share("20Gi")])
    other = shell.claim("gpu-0", name="other", shares=[share("5Gi")])
    for file in (mine, other):
        shell.run("prepare", "--claim-file", str(file))
    shell.run("prepare", "--claim-file", str(shell.claim("gpu-1", name="whole")))

    listed = shell.json("partitions")
    (found,) = listed["shared"]
    ids = [
        result["shareID"]
        for file in (mine, other)
        for result in json.loads(file.read_text())["status"]["allocation"]["devices"]["results"]
    ]
    assert found["device"] == "gpu-0"
    assert [(row["claim"], row["memory"], row["cores"]) for row in found["shares"]] == [
        ("team/mine", 10 * GIB, 0),
        ("team/mine", 20 * GIB, 0),
        ("team/other", 5 * GIB, 0),
    ]
    assert [row["shareID"] for row in found["shares"]] == ids
    assert found["left"] == found["memory"] - 35 * GIB > 40 * GIB
    text = shell.run("partitions")
    rows = [line for line in text[text.index("Shared devices") :].splitlines() if "gpu-0" in line]
    assert [word in line for word, line in zip(("10Gi", "20Gi", "5Gi"), rows, strict=False)] == [True] * 3
    assert ["team/mine" in line for line in rows[:3]] == [True, True, False]
    assert "left" in rows[3]


@pytest.mark.slow
def test_a_share_with_cores_says_how_many(shell: Shell) -> None:
    """Its programs go through MPS, which keeps the limit."""
    file = shell.claim("gpu-1", shares=[share("10Gi", 30)])
    shell.run("prepare", "--claim-file", str(file))
    listed = shell.json("partitions")
    assert [row["cores"] for each in listed["shared"] for row in each["shares"]] == [30]
    assert [row["cores"] for each in listed["claims"] for row in each["shares"]] == [30]
    assert "30 %" in shell.run("partitions")


@pytest.mark.slow
def test_each_prepared_share_of_a_device_is_listed(shell: Shell) -> None:
    """Each has a CDI id of its own; freed is the device, once."""
    file = shell.claim("gpu-0", "gpu-0", shares=[share("10Gi"), share("20Gi")])
    found = shell.json("prepare", "--claim-file", str(file))
    assert [row["share"]["memory"] for row in found["devices"]] == [10 * GIB, 20 * GIB]
    assert len({row["cdi"] for row in found["devices"]}) == 2
    text = shell.run("prepare", "--claim-file", str(file))
    assert "10Gi" in text
    assert "20Gi" in text
    assert shell.run("unprepare", "--claim-file", str(file)).strip() == "free: gpu-0"


@pytest.mark.slow
def test_more_memory_than_is_left_is_not_given_by_hand(shell: Shell) -> None:
    """The holders are named, as to kubelet, and nothing of the claim stays."""
    shell.run("prepare", "--claim-file", str(shell.claim("gpu-0", shares=[share("60Gi")])))
    more = shell.claim("gpu-0", name="more", shares=[share("30Gi")])
    said = shell.run("prepare", "--claim-file", str(more), status=1)
    assert "of memory to share" in said
    assert "team/mine" in said
    assert [row["claim"] for row in shell.json("partitions")["claims"]] == ["team/mine"]


@pytest.mark.slow
def test_a_card_whose_part_is_in_use_is_not_given_by_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor a part of a card that is in use: the journal names the holder."""
    host = FpgaHost(tmp_path / "root")
    host.add(FIRST)
    host.divide(FIRST, "region0")
    devices = tmp_path / "devices.yaml"
    devices.write_text(yaml.safe_dump({"devices": [described()]}), encoding="utf-8")
    monkeypatch.setenv("GENERIC_DEVICES", str(devices))
    monkeypatch.setenv("HOST_ROOT", str(host.root))
    shell = Shell(tmp_path, cards=[H100])
    part = shell.claim("fpga-0-region-0", driver=FPGA)
    shell.run("prepare", "--claim-file", str(part))
    whole = shell.claim("fpga-0", name="whole", driver=FPGA)
    said = shell.run("prepare", "--claim-file", str(whole), status=1)
    assert "fpga-0 is held by ResourceClaim team/mine" in said
    shell.run("unprepare", "--claim-file", str(part))
    shell.run("prepare", "--claim-file", str(whole))
    assert "fpga-0-region-0 is held" in shell.run("prepare", "--claim-file", str(part), status=1)
