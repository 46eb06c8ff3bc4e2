"""A MIG mode that cannot be switched now leaves the GPU as it was, also for its next reset."""

from pathlib import Path

import pynvml
import pytest

from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.devices.nvml.knownprofiles import KnownProfiles
from apportion.agent.devices.values import UNCUT, Card, PartitionPlace, Placement
from apportion.errors import Busy, Unsupported
from tests.agent.nvml.nodes import Node

WANTED = PartitionPlace("gpu-0", "3g.40gb", Placement(4, 4))
PID = 4711
IN_MIG_MODE = 2
"""What the fake has for a GPU whose driver names profiles in MIG mode only."""


def virtualize(node: Node, mode: int) -> None:
    """Give the first GPU to a virtual machine, in which the agent runs."""
    with node.fake.changing() as state:
        state.gpu[0].virtualization = mode


def test_a_mode_that_waits_for_a_reset_is_taken_back(node: Node) -> None:
    """Passed through to a virtual machine: with a mode left pending, the GPU is of no use until the machine reboots."""
    virtualize(node, pynvml.NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH)
    with pytest.raises(Unsupported, match="gpu-0: the driver wants a reset before MIG mode is on"):
        node.backend.create(WANTED)
    assert node.fake.mode(0) == (False, False)
    assert node.backend.edits("gpu-0").nodes


@pytest.mark.parametrize("on", [False, True])
def test_a_mode_that_programs_keep_from_changing_is_taken_back(node: Node, *, on: bool) -> None:
    """Else it would change at the next reset, when nobody asks for it any more."""
    node.fake.set_mode(0, on=on)
    node.fake.occupy_gpu(0, PID)
    act = (lambda: node.backend.make_whole("gpu-0")) if on else (lambda: node.backend.create(WANTED))
    with pytest.raises(Busy, match="while programs use the GPU"):
        act()
    assert node.fake.mode(0) == (on, on)


def test_a_mode_that_cannot_be_taken_back_is_refused_with_the_same_reason(node: Node) -> None:
    """The second refusal is logged; the first one says what is to be done."""
    virtualize(node, pynvml.NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH)
    node.fake.fail("nvmlDeviceSetMigMode", 999, skip=1)
    with pytest.raises(Unsupported, match="wants a reset"):
        node.backend.create(WANTED)


def test_a_virtual_gpu_is_published_whole(node: Node) -> None:
    """Its host cuts, the guest cannot; the attribute says why."""
    virtualize(node, pynvml.NVML_GPU_VIRTUALIZATION_MODE_VGPU)
    virtual, other = node.backend.devices()
    assert (virtual.profiles, virtual.attributes[UNCUT]) == ((), "VirtualGPU")
    assert other.profiles


def test_a_driver_that_does_not_know_of_virtualization_has_none(node: Node) -> None:
    """Older ones lack the function."""
    node.fake.fail("nvmlDeviceGetVirtualizationMode", 13, times=-1)
    assert all(card.profiles for card in node.backend.devices())


def test_a_gpu_whose_driver_names_no_profiles_without_mig_mode_stays_in_it(node: Node) -> None:
    """The 535 line: the next agent would publish it as one that cannot be cut, and a claim for a part would wait for ever."""
    with node.fake.changing() as state:
        state.gpu[0].capable = IN_MIG_MODE
    node.fake.set_mode(0, on=True)
    before = node.backend.devices()
    for _ in range(2):
        node.backend.destroy(node.backend.create(WANTED))
        assert node.fake.mode(0) == (True, True)
    assert NvmlBackend(node.root).devices() == before
    node.backend.make_whole("gpu-0")
    assert node.fake.mode(0) == (False, False)
    node.backend.create(WANTED)


def whole_after_parts(node: Node, folder: Path) -> tuple[Card, ...]:
    """Have a claim with the first GPU whole, whose driver names no profiles while the mode is off; return what was there before."""
    with node.fake.changing() as state:
        state.gpu[0].capable = IN_MIG_MODE
    node.fake.set_mode(0, on=True)
    backend = NvmlBackend(node.root, profiles=KnownProfiles(folder))
    before = backend.devices()
    backend.make_whole("gpu-0")
    assert node.fake.mode(0) == (False, False)
    assert backend.devices() == before
    return before


def test_a_gpu_that_a_claim_had_whole_can_be_cut_by_the_next_agent(node: Node, tmp_path: Path) -> None:
    """The 535 line, which names no profiles while the mode is off: the claim had switched it off, and nobody switched it on again."""
    before = whole_after_parts(node, tmp_path)
    after = NvmlBackend(node.root, profiles=KnownProfiles(tmp_path))
    assert after.devices() == before
    after.destroy(after.create(WANTED))
    assert after.devices() == before


@pytest.mark.parametrize("damage", [("570.86.15", "570.86.16"), ('"amounts"', '"a"'), ("{", "")])
def test_profiles_that_are_not_those_of_this_driver_are_not_known(
    node: Node, tmp_path: Path, damage: tuple[str, str]
) -> None:
    """Another one may have others; nor are those of a file that cannot be read."""
    whole_after_parts(node, tmp_path)
    for path in tmp_path.glob("*.json"):
        path.write_text(path.read_text().replace(*damage))
    whole, _ = NvmlBackend(node.root, profiles=KnownProfiles(tmp_path)).devices()
    assert (whole.profiles, whole.attributes[UNCUT]) == ((), "MIGProfilesUnknown")


def test_a_gpu_whose_driver_names_profiles_without_mig_mode_is_whole_after_its_last_part(node: Node) -> None:
    """Programs on a whole GPU need it off."""
    node.backend.destroy(node.backend.create(WANTED))
    assert node.fake.mode(0) == (False, False)


async def named_none(node: Node) -> Hardware:
    """Return the cards of a node whose driver names no profiles without MIG mode, when somebody has switched that on as the log says."""
    with node.fake.changing() as state:
        state.gpu[0].capable = IN_MIG_MODE
    hardware = Hardware([node.backend])
    await hardware.discover()
    assert hardware.cards["gpu-0"].attributes[UNCUT] == "MIGProfilesUnknown"
    assert not await hardware.look()
    node.fake.set_mode(0, on=True)
    return hardware


async def test_a_gpu_whose_mode_somebody_has_switched_on_is_taken_up(node: Node) -> None:
    """The 535 line: pods for its parts waited until the agent was started anew, and the next claim for the whole GPU switched the mode off."""
    hardware = await named_none(node)
    assert await hardware.look()
    cards = await hardware.discover()
    assert cards["gpu-0"].profiles
    assert UNCUT not in cards["gpu-0"].attributes
    assert not await hardware.look()
    assert (await hardware.create(WANTED)).complete


async def test_what_a_person_cuts_of_a_gpu_before_it_is_taken_up_is_there(node: Node) -> None:
    """Published as a whole GPU, it was refused to the claim that got it, and nobody was told why."""
    hardware = await named_none(node)
    made = NvmlBackend(node.root).create(WANTED)
    (found,) = await hardware.partitions_of("gpu-0")
    assert (found.place, found.uuid) == (WANTED, made.uuid)
    with pytest.raises(Busy, match="it is cut"):
        await hardware.make_whole("gpu-0")
    assert node.fake.mode(0) == (True, True)


async def test_a_gpu_that_has_no_profiles_in_mig_mode_either_causes_no_further_discovery(node: Node) -> None:
    """Each look would be a discovery of all cards."""
    hardware = await named_none(node)
    for function in ("nvmlDeviceGetGpuInstanceProfileInfoV", "nvmlDeviceGetGpuInstanceProfileInfo"):
        node.fake.fail(function, pynvml.NVML_ERROR_NOT_SUPPORTED, times=-1, card=0)
    cards = await hardware.discover()
    assert cards["gpu-0"].attributes[UNCUT] == "MIGProfilesUnknown"
    assert not await hardware.look()


async def test_a_gpu_whose_mode_cannot_be_asked_causes_no_discovery(node: Node) -> None:
    """That it does not answer is a question of its health."""
    hardware = await named_none(node)
    node.fake.fail("nvmlDeviceGetMigMode", pynvml.NVML_ERROR_GPU_IS_LOST, times=-1, card=0)
    assert not await hardware.look()
