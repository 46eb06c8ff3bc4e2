"""A card does not answer when what a claim had set up is taken back: its pod ends all the same, and the card gets its defaults once it answers."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apportion.agent.cdi import CdiFolder
from apportion.agent.devices.cardcalls import CardCalls
from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.devices.sharing import ControlDaemon, TimeSlice
from apportion.agent.rows import SharedDevice, SharingRow
from apportion.agent.sharing import daemonfolder
from apportion.agent.sharing.setups import Setups
from apportion.errors import Lost
from testbed.eventually import eventually
from testbed.fakes.systemd import REFUSED
from tests.agent.journal.smalldisk import small_disk
from tests.agent.lifecycle.onecard import OneCard, one_card
from tests.agent.nvml.nodes import Node, Nodes
from tests.agent.nvml.sharinghost import systemd_on
from tests.agent.places import GPU, H100, MakeBackend


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Give a folder with a short name: the path of a socket has 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="apportion-") as folder:
        yield Path(folder)


def setups_of(folder: Path, node: OneCard) -> Setups:
    """Return the node's setups."""
    return Setups(node.context, folder, folder / "run", CdiFolder(folder / "cdi"))


def left(folder: Path) -> dict[str, Any]:
    """Return what is set up on the simulated hardware."""
    (file,) = folder.glob("*.state.json")
    found: dict[str, Any] = json.loads(file.read_text()).get("sharing", {})
    return found


async def left_on(gpu: Node, node: OneCard) -> list[object]:
    """Return compute mode and time slice of the GPU, where they are not the defaults, and the control daemons."""
    return [*filter(None, gpu.fake.shared(0)), *await node.context.hardware.daemons()]


def rows(node: OneCard) -> list[SharingRow]:
    """Return a time slice and the use of a control daemon by one claim each."""
    uuid = node.context.hardware.cards["gpu-0"].uuid
    return [
        SharingRow("a", GPU, (SharedDevice("gpu-0", uuid, uuid, TimeSlice.LONG),)),
        SharingRow("a", GPU, (SharedDevice("gpu-0", uuid, uuid, mps=True),)),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [0, 1], ids=["time slice", "daemon"])
async def test_a_card_that_is_silent_for_a_while_gets_its_defaults_when_it_answers(
    tmp_path: Path, make_gpus: Nodes, kind: int
) -> None:
    """The next claim would compute in turns that another one asked for, or be the only process that may."""
    gpu = make_gpus()
    async with systemd_on(gpu.root, gpu.fake), one_card(tmp_path, gpu.backend, patience=1.0) as node:
        setups, row = setups_of(tmp_path, node), rows(node)[kind]
        await setups.set_up(row, 10.0)
        gpu.fake.hang("*", card=0)
        await node.context.hardware.health()
        await setups.end("a", GPU)
        assert await left_on(gpu, node) != []
        await setups.keep()
        assert setups.failing == {}
        gpu.fake.drop_rules()

        async def kept() -> tuple[SharingRow, ...]:
            await setups.keep()
            return node.context.journal.sharing()

        assert await eventually(kept, lambda found: found == ()) == ()
        assert await left_on(gpu, node) == []


@pytest.mark.slow
async def test_a_claim_is_not_set_up_otherwise_before_the_former_setup_is_taken_back(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """Its row says what is to be taken back, and has room for one setup; the card may be one that has not answered the next agent yet."""
    gpu = make_gpus()
    async with systemd_on(gpu.root, gpu.fake):
        async with one_card(tmp_path, gpu.backend) as node:
            first, second = rows(node)
            await setups_of(tmp_path, node).set_up(first, 10.0)
        gpu.backend.close()
        gpu.fake.hang("*", card=0)
        gpu.backend = NvmlBackend(gpu.root, calls=CardCalls(0.2))
        async with one_card(tmp_path, gpu.backend) as node:
            setups = setups_of(tmp_path, node)
            assert node.context.hardware.cards == {}
            with pytest.raises(Lost, match="claim a: a card"):
                await setups.set_up(second, 10.0)
            assert gpu.fake.shared(0)[1] == int(TimeSlice.LONG)
            gpu.fake.drop_rules()
            await eventually(node.context.hardware.discover)
            await setups.set_up(second, 10.0)
            mode, time_slice = gpu.fake.shared(0)
            assert (bool(mode), time_slice) == (True, 0)
            await setups.end("a", GPU)
            assert await left_on(gpu, node) == []


async def test_a_claim_ends_on_a_full_disk_although_its_card_does_not_answer(
    tmp_path: Path, make_gpus: Nodes
) -> None:
    """Its pod may have filled the disk, and kubelet removes what it has written after its claims are unprepared."""
    gpu = make_gpus()
    with small_disk(tmp_path / "disk") as disk:
        async with (
            systemd_on(gpu.root, gpu.fake),
            one_card(disk.folder, gpu.backend, patience=1.0) as node,
        ):
            setups, row = setups_of(tmp_path, node), rows(node)[0]
            await setups.set_up(row, 10.0)
            gpu.fake.hang("*", card=0)
            await node.context.hardware.health()
            disk.fill()
            await setups.end("a", GPU)
            (kept,) = node.context.journal.sharing()
            assert not kept.done
            gpu.fake.drop_rules()


async def test_a_card_that_has_left_has_nothing_to_take_back(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Its row would stay for ever, and its name in the log."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        setups, row = setups_of(tmp_path, node), rows(node)[0]
        await setups.set_up(row, 5.0)
        node.context.hardware.cards = {}
        await setups.end("a", GPU)
        assert node.context.journal.sharing() == ()


async def test_an_orphaned_daemon_leaves_a_card_as_it_is_that_another_claim_has_set_up(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """A daemon for more cards than the former one has another name, and its cards are for its server alone."""
    backend = make_backend(cards=[H100 | {"count": 2}])
    async with one_card(tmp_path, backend) as node:
        setups = setups_of(tmp_path, node)
        first, second = (
            SharedDevice(card.name, card.uuid, card.uuid, mps=True)
            for card in node.context.hardware.cards.values()
        )
        await setups.set_up(SharingRow("a", GPU, (first,)), 5.0)
        orphan = node.context.journal.sharing()[0].daemon
        node.context.journal.drop_sharing("a", GPU)
        (tmp_path / "run/setups").joinpath(f"{GPU}_a.json").unlink()
        node.prepared("b", "gpu-0")
        await setups.set_up(SharingRow("b", GPU, (first, second)), 5.0)
        await setups.keep()
        assert orphan not in left(tmp_path)["daemons"]
        assert set(left(tmp_path)["exclusive"]) == {"gpu-0", "gpu-1"}


@pytest.mark.slow
@pytest.mark.parametrize("refused", ["a", "b", "c"])
async def test_a_daemon_that_cannot_be_ended_keeps_no_other_from_being_ended(
    tmp_path: Path, make_gpus: Nodes, refused: str
) -> None:
    """Daemons of a lost journal keep their cards for themselves: one that stays would keep all cards of the node."""
    gpu = make_gpus()
    environment = {REFUSED: f"apportion-mps-{refused}.service"}
    async with (
        systemd_on(gpu.root, gpu.fake, environment),
        one_card(tmp_path, gpu.backend) as node,
    ):
        uuid = node.context.hardware.cards["gpu-0"].uuid
        for name in ("a", "b", "c"):
            folder = tmp_path / "mps" / name
            daemonfolder.make(folder, [uuid])
            gpu.backend.sharing.start_daemon(ControlDaemon(name, folder, ()), 10.0)
        await setups_of(tmp_path, node).keep()
        assert set(await node.context.hardware.daemons()) == {refused}
