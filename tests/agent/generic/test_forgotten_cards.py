"""`apportion node forget` of a generic card that left for good: the names of its parts are free with it."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from apportion.agent.devices.generic.backend import GenericBackend
from apportion.agent.devices.generic.kind import DeviceKind
from apportion.agent.journal import Journal
from apportion.agent.nodetools import NodeTools
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep
from apportion.agent.settings import AgentOptions
from apportion.errors import BrokenInput, NotReady
from testbed.fakes.fpga import FpgaHost
from tests.agent.generic.places import FIRST, FPGA, SECOND, described
from tests.agent.generic.test_generic_parts import REGION

NEW = "0000:c1:00.0"
KIND = described() | {"parts": [REGION]}


@pytest.fixture
def options(tmp_path: Path, host: FpgaHost) -> AgentOptions:
    """Give the options of a node whose two cards have two regions each, named in its journal."""
    for bus in (FIRST, SECOND):
        host.divide(bus, "region0", "region1")
    file = tmp_path / "devices.yaml"
    file.write_text(yaml.safe_dump({"devices": [KIND]}))
    made = AgentOptions(
        node="n1", backend="rdma", state_dir=tmp_path / "state", host_root=host.root, generic_devices=file,
        boot_id=tmp_path / "boot",
    )  # fmt: skip
    made.boot_id.write_text("boot")
    names(made)
    return made


def names(options: AgentOptions) -> Mapping[str, str]:
    """Return the UUIDs of what is there, by the names that an agent gives it."""
    with closing(Journal(options.state_dir / "journal.db", options.read_boot_id())) as journal:
        cards = GenericBackend(DeviceKind.from_json(KIND), options.host_root, journal).devices()
        return {card.name: card.uuid for card in cards}


def claimed(options: AgentOptions, device: str, uuid: str) -> None:
    """Note a claim that has a device prepared."""
    one = ClaimDevice(device, device, "n1", ("r",), "x", card_uuid=uuid)
    with closing(Journal(options.state_dir / "journal.db", options.read_boot_id())) as journal:
        journal.put_claim(ClaimRow("uid", FPGA, "team", "mine", ClaimStep.PREPARED, (one,)))


@pytest.mark.slow
async def test_parts_of_the_next_card_get_the_names_of_those_that_left(
    options: AgentOptions, host: FpgaHost
) -> None:
    """Parts of the cards that stay keep theirs."""
    before = names(options)
    host.remove(FIRST)
    found = await NodeTools(options).forget("fpga-1")
    assert found["uuid"] == before["fpga-1"]
    assert found["parts"] == ("fpga-1-region-0", "fpga-1-region-1")
    host.add(NEW, serial_number="XF-new")
    host.divide(NEW, "region0", "region1")
    after = names(options)
    assert after.keys() == before.keys()
    assert {name: uuid for name, uuid in after.items() if name.startswith("fpga-0")} == {
        name: uuid for name, uuid in before.items() if name.startswith("fpga-0")
    }
    assert after["fpga-1-region-1"] == f"{after['fpga-1']}/region/region1"


async def test_a_card_is_not_forgotten_while_a_claim_has_a_part_of_it(
    options: AgentOptions, host: FpgaHost
) -> None:
    """The name of the part would go to another one, and the claim with it."""
    before = names(options)
    claimed(options, "fpga-1-region-1", before["fpga-1-region-1"])
    host.remove(FIRST)
    with pytest.raises(NotReady, match=r"team/mine .* has a device of fpga-1 prepared"):
        await NodeTools(options).forget("fpga-1")


@pytest.mark.slow
async def test_a_part_that_left_is_forgotten_by_itself_and_nothing_that_is_there(
    options: AgentOptions, host: FpgaHost
) -> None:
    """Its card stays as it was."""
    host.join(FIRST, "region0")
    tools = NodeTools(replace(options))
    with pytest.raises(BrokenInput, match="no card of this name has left: fpga-1 is"):
        await tools.forget("fpga-1")
    assert (await tools.forget("fpga-1-region-0"))["parts"] == ()
    host.divide(FIRST, "region7")
    assert names(options)["fpga-1-region-0"].endswith("/region7")
