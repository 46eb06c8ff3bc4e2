"""Rows of interfaces, and files beside them, of a later release: what cannot be read of one is that one's (ADR 38)."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from apportion.agent.devices.rdma.away import AwayFolder
from apportion.errors import NotReady
from testbed.hostnetwork import seen
from tests.agent.places import RDMA
from tests.agent.rdma.rails import NICS, Rails, rails_below

pytestmark = pytest.mark.usefixtures("interfaces")


def rewrite(rails: Rails, **columns: str) -> None:
    """Write these columns of the first NIC's row."""
    journal = rails.node.context.journal
    row = next(row for row in journal.networks() if row.device == NICS[0])
    journal.put_network(replace(row, **columns))


async def test_parameters_of_a_later_release_keep_no_other_interface_from_its_pod(tmp_path: Path) -> None:
    """The interface is not set up as its claim says, so it stays on the host; the answer names its device."""
    async with rails_below(tmp_path) as rails:
        row = next(row for row in rails.node.context.journal.networks() if row.device == NICS[0])
        rewrite(rails, wanted=json.dumps(json.loads(row.wanted) | {"queues": 8}))
        first, namespace = rails.sandbox("first")
        await rails.networks.compare([first])
        assert seen(rails.network.peer, namespace)
        with pytest.raises(NotReady, match=f"{NICS[0]}: its NetworkConfig cannot be read: queues"):
            await rails.networks.began(first)
        assert seen(rails.network.name)


async def test_an_interface_of_which_a_later_release_knew_more_comes_back(tmp_path: Path) -> None:
    """It comes back as this release knows it; one of which nothing can be read keeps its own claim only."""
    async with rails_below(tmp_path) as rails:
        before = rails.network.on_host()
        first, _ = rails.sandbox("first")
        await rails.networks.began(first)
        row = next(row for row in rails.node.context.journal.networks() if row.device == NICS[0])
        raw = json.loads(row.before)
        for each in (raw, *raw["addresses"], *raw["routes"]):
            each["later"] = 1
        rewrite(rails, before=json.dumps({"later": 1}))
        await rails.networks.recover()
        with pytest.raises(NotReady, match=f"{NICS[0]}: how its interface was on the host cannot be read"):
            await rails.networks.release("c", RDMA)
        rewrite(rails, before=json.dumps(raw))
        await rails.networks.release("c", RDMA)
        assert rails.network.on_host() == before


async def test_files_of_a_later_release_beside_the_journal_are_read_as_far_as_they_are_known(
    tmp_path: Path,
) -> None:
    """The journal was lost: one file has more than this release knows, the other less than it needs."""
    async with rails_below(tmp_path) as rails:
        first, _ = rails.sandbox("first")
        await rails.networks.began(first)
        rows = {row.device: row for row in rails.node.context.journal.networks()}
        for row in rows.values():
            rails.node.context.journal.drop_network(row)
        later, broken = (tmp_path / "away" / f"c-{name}.json" for name in NICS)
        raw = json.loads(later.read_text())
        for each in (raw["device"], raw["row"], *raw["device"]["ports"], *raw["device"]["files"]):
            each["later"] = "1"
        later.write_text(json.dumps(raw))
        broken.write_text(json.dumps({"device": {"ports": []}, "row": {"claim": "c"}}))
        await rails.networks.recover()
        (found,) = rails.node.context.journal.networks()
        assert (found.device, found.before) == (NICS[0], rows[NICS[0]].before)
        assert [device.name for device in AwayFolder(tmp_path / "away").devices()] == ["mlx5_0"]
        rails.node.context.journal.put_network(rows[NICS[1]])
        await rails.networks.release("c", RDMA)
