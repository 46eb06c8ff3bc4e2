"""The report about real cards, on a fake driver: it names nobody, finds what the agent would stumble over, and leaves nothing."""

import json
import os
import stat
from pathlib import Path

import pytest

from apportion.agent.devices.hostfs import HostFiles
from apportion.agent.settings import AgentOptions
from testbed.realcard.cutting import candidate, cut_and_remove
from testbed.realcard.look import Found, look
from testbed.realcard.report import Report, Verdict
from tests.agent.nvml.nodes import Node, Nodes

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device files")


def looked(node: Node) -> tuple[Report, tuple[Found, ...]]:
    return look(AgentOptions(node="n", backend="nvml", host_root=node.root, state_dir=node.root / "state"))


def device_file(path: Path, major: int, minor: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))


def bad(report: Report) -> dict[str, str]:
    return {check.name: check.said for check in report.checks if check.verdict is Verdict.BAD}


def test_a_report_names_no_card_unless_it_is_asked_to(node: Node) -> None:
    """It goes to strangers; equal UUIDs stay equal in it."""
    report, found = looked(node)
    uuids = [each.card.uuid for each in found]
    assert len(uuids) == 2
    text = json.dumps(report.to_json())
    assert not any(uuid in text for uuid in uuids)
    named = json.dumps(report.to_json(names=True))
    assert all(uuid in named for uuid in uuids)
    cards = report.to_json()["backends"][0]["cards"]
    assert len({card["uuid"] for card in cards}) == 2
    assert cards[0]["profiles"]


@needs_root
def test_a_device_file_with_another_number_is_found(node: Node) -> None:
    """A container would get what the driver numbers so, which is not what the host calls so."""
    _, (first, _) = looked(node)
    wanted = next(each for each in first.edits.nodes if each.path == "/dev/nvidia-uvm")
    assert wanted.major is not None
    device_file(node.root / "dev/nvidia-uvm", wanted.major + 1, 0)
    report, _ = looked(node)
    said = f"/dev/nvidia-uvm is {wanted.major + 1}:0, not {wanted.major}:{wanted.minor}"
    assert said in bad(report)[f"{first.card.name}: device files"]
    assert not report.fine


def test_a_gpu_that_fails_is_in_the_report_beside_the_others(node: Node) -> None:
    """The report is for nodes where something is wrong."""
    node.fake.fail("nvmlDeviceGetUUID", 999, times=100, card=0)
    report, found = looked(node)
    assert [each.card.name for each in found] == ["gpu-1"]
    assert report.backends[0].present


@pytest.mark.parametrize("mig", [False, True])
def test_a_cut_leaves_the_card_as_it_was(node_with: Nodes, *, mig: bool) -> None:
    """No instance stays, and the MIG mode is the one before."""
    node = node_with(["H100-80GB"], mig=mig)
    _, found = looked(node)
    chosen = candidate(found)
    assert chosen is not None
    checks = list(cut_and_remove(chosen, HostFiles(node.root)))
    verdicts = {check.name: check.verdict for check in checks}
    assert (verdicts["gpu-0: cut 1g.10gb"], verdicts["gpu-0: remove it"]) == (Verdict.OK, Verdict.OK), checks
    assert node.fake.instances() == ()
    assert node.fake.mode(0) == (mig, mig)


@pytest.mark.parametrize(
    "symbol", ["nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlGpuInstanceCreateComputeInstance"]
)
def test_a_cut_that_the_driver_refuses_is_said_and_leaves_nothing(node_with: Nodes, symbol: str) -> None:
    """Also where it breaks off between the two instances."""
    node = node_with(["H100-80GB"], mig=True)
    _, found = looked(node)
    chosen = candidate(found)
    assert chosen is not None
    node.fake.fail(symbol, 999, times=100)
    first, *_ = cut_and_remove(chosen, HostFiles(node.root))
    assert first.verdict is Verdict.BAD
    node.fake.drop_rules()
    assert node.fake.instances() == ()


def test_only_a_card_that_is_idle_and_empty_is_cut(node: Node) -> None:
    """What runs or is cut belongs to somebody."""
    node.fake.occupy_gpu(0, os.getpid())
    _, found = looked(node)
    chosen = candidate(found)
    assert chosen is not None
    assert chosen.card.name == "gpu-1"
    node.fake.occupy_gpu(1, os.getpid())
    assert candidate(found) is None


def test_a_driver_that_does_not_answer_is_in_the_report(node: Node) -> None:
    """Its library is there: that is what the report is asked for."""
    node.fake.unload()
    report, found = looked(node)
    assert found == ()
    assert report.backends[0].error
    assert "nvml: discovery" in bad(report)
