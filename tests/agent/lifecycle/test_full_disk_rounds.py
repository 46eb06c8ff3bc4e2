"""The agent's disk is full: what cannot be removed without the journal keeps no other partition of its card from its answer."""

from pathlib import Path

from tests.agent.journal.smalldisk import small_disk
from tests.agent.lifecycle.onecard import one_card
from tests.agent.places import H100, MakeBackend

OTHER = "gpu-0-mig-1g10gb-19-0"


async def test_a_removal_that_cannot_be_written_down_holds_up_no_other_partition(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """The other one's pod waited behind its gate for as long as the disk was full, and was given no other node."""
    backend = make_backend(cards=[H100])
    with small_disk(tmp_path / "disk") as disk:
        async with one_card(disk.folder, backend) as node:
            item = node.partition("p1")
            await node.work()
            node.delete(item)
            other = node.partition("p2", OTHER, profile="1g.10gb")
            disk.fill()
            await node.work()
            conditions = {each["type"]: each["reason"] for each in node.status(other)["conditions"]}
            assert conditions == {"Ready": "NoJournal", "Failed": "NoJournal"}
            (condition,) = node.status(item)["conditions"]
            assert (node.status(item)["phase"], condition["reason"]) == ("Releasing", "NoJournal")
            disk.free()
            await node.work()
            assert [row.uid for row in node.context.journal.partitions().values()] == ["p2"]
            assert [live.profile for live in await node.live()] == ["1g.10gb"]


async def test_what_a_lost_journal_knew_holds_up_no_other_partition_either(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Nor does its object go before its row can be written: the partition would be nobody's."""
    backend = make_backend(cards=[H100])
    with small_disk(tmp_path / "disk") as disk:
        async with one_card(disk.folder, backend) as former:
            item = former.partition("p1")
            await former.work()
            former.delete(item)
            seen = former.items
        async with one_card(disk.folder, backend, "lost", seen=seen) as node:
            other = node.partition("p2", OTHER, profile="1g.10gb")
            disk.fill()
            await node.work()
            assert node.status(other)["conditions"][0]["reason"] == "NoJournal"
            assert item["metadata"]["name"] in node.items
            disk.free()
            await node.work()
            assert [*node.items] == [other["metadata"]["name"]]
            assert [live.profile for live in await node.live()] == ["1g.10gb"]
