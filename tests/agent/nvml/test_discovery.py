"""What the NVML backend says about GPUs, and where it has it from."""

import os
import subprocess
import sys
from ctypes.util import find_library
from pathlib import Path

import pynvml
import pytest

from apportion.agent.backends import backends
from apportion.agent.devices import models, pci
from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.devices.nvml.cards import numbers
from apportion.agent.devices.nvml.profiles import computed_name
from apportion.agent.devices.values import MIB, UNCUT, CardKind, Location
from apportion.agent.settings import AgentOptions
from apportion.agent.slices.compose import compose
from apportion.agent.slices.pool import pools
from apportion.dra.semver import Semver
from apportion.errors import BrokenInput, HardwareError, Lost
from testbed.fakes.nvml import layout
from tests.agent.nvml.nodes import Node, Nodes
from tests.agent.places import DRIVERS

GPUS = [name for name in models.names() if models.model(name).kind is CardKind.GPU]


def test_a_gpu_has_the_attributes_of_nvidias_driver(node: Node) -> None:
    """Names as in NVIDIA's DRA driver, versions as versions; the device's place comes from sysfs."""
    _, card = node.backend.devices()
    assert (card.name, card.kind, card.uuid[:4]) == ("gpu-1", CardKind.GPU, "GPU-")
    assert card.attributes == {
        "productName": "NVIDIA H100 80GB HBM3",
        "brand": "Nvidia",
        "architecture": "Hopper",
        "cudaComputeCapability": Semver.parse("9.0.0"),
        "driverVersion": Semver.parse("570.86.15"),
        "cudaDriverVersion": Semver.parse("12.8.0"),
        "addressingMode": "None",
    }
    assert card.location == Location("0000:19:00.0", "pci0000:10", 1)


@pytest.mark.parametrize("model", GPUS)
@pytest.mark.parametrize("old", [False, True], ids=["names told", "names computed"])
def test_profiles_are_what_the_driver_tells(node_with: Nodes, model: str, *, old: bool) -> None:
    """Ids, amounts and placements of every model of the table; a driver without names or versions changes nothing."""
    node = node_with([model], mig=True)
    if old:
        node.fake.fail("nvmlDeviceGetGpuInstanceProfileInfoV", 25, times=-1)
    (card,) = node.backend.devices()
    known = models.model(model)
    assert {row.number: row for row in card.profiles} == {row.number: row for row in known.profiles}
    assert (card.totals, card.slices) == (known.totals, known.slices)
    assert card.capacity == known.capacity


def test_counters_are_the_most_that_one_profile_has(node: Node) -> None:
    """The H100's 7g has 8 copy engines, which is more than seven times what a 1g has."""
    card, _ = node.backend.devices()
    assert card.totals == {
        "memory": 81152 * MIB,
        "multiprocessors": 132,
        "copy-engines": 8,
        "decoders": 7,
        "encoders": 0,
        "jpeg-engines": 7,
        "ofa-engines": 1,
    }


def test_a_model_never_seen_before_works(node_with: Nodes) -> None:
    """Twelve memory slices and a profile that no table has: the largest placement says how many slices there are."""
    node = node_with(["H100-80GB"])
    with node.fake.changing() as state:
        gpu = state.gpu[0]
        gpu.architecture, gpu.name = 99, b"NVIDIA New 900"
        gpu.profiles = 1
        gpu.profile[0] = layout.Profile(
            constant=17, id=77, most=2, multiprocessors=40, slices=3, size=6, places=2, memory_mb=40000, name=b"3g.40gb+gfx"
        )  # fmt: skip
        gpu.profile[0].starts[1] = 6
    (card,) = node.backend.devices()
    assert (card.slices, card.attributes["architecture"]) == (6, "Unknown")
    assert [(row.name, row.number, [place.start for place in row.placements]) for row in card.profiles] == [
        ("3g.40gb+gfx", 77, [0, 6])
    ]


def test_names_are_computed_as_nvidia_does() -> None:
    """Eighths of the memory, rounded up, in GB of the whole."""
    assert computed_name(1, 4864, 40960 * MIB) == "1g.5gb"
    assert computed_name(3, 71168, 143771 * MIB) == "3g.71gb"
    assert computed_name(1, 5952, 24576 * MIB, "+me") == "1g.6gb+me"


def test_ampere_without_mig_mode_is_not_offered_in_parts(node_with: Nodes) -> None:
    """Switching would need a reset, so nobody could cut it when asked; after the reset it is."""
    node = node_with(["A100-40GB"])
    (card,) = node.backend.devices()
    assert (card.profiles, card.totals, card.slices) == ((), {}, 0)
    assert card.capacity == {"memory": 40960 * MIB}
    assert card.attributes[UNCUT] == "MIGModeNeedsReset"
    node.fake.set_mode(0, on=True)
    (card,) = node.backend.devices()
    assert len(card.profiles) == 7
    assert UNCUT not in card.attributes


def test_ampere_in_mig_mode_is_offered_in_parts_only(node_with: Nodes) -> None:
    """Using it whole would need a reset; on Hopper the mode is switched when somebody wants it."""
    for model, tainted in (("A100-40GB", True), ("H100-80GB", False)):
        (card,) = cards = node_with([model], mig=True).backend.devices()
        assert card.profiles
        (pool,) = pools(compose(cards, (), {}, (), {}), DRIVERS)
        rows = {row["name"]: row for content in pool.contents for row in content.rows}
        keys = {taint["key"] for taint in rows["gpu-0"]["taints"]}
        assert ("apportion.dev/parts-only" in keys) == tainted
        (part,) = (
            row for name, row in rows.items() if name.endswith("mig-7g40gb-0-0") or "mig-7g80gb" in name
        )
        assert [taint["key"] for taint in part["taints"]] == ["apportion.dev/guard"]


def test_a_driver_that_tells_no_profiles_without_mig_mode_leaves_the_gpu_whole(node: Node) -> None:
    """The 535 line: with MIG mode on it tells them."""
    node.fake.fail("nvmlDeviceGetGpuInstanceProfileInfoV", 3, times=-1, card=0)
    node.fake.fail("nvmlDeviceGetGpuInstanceProfileInfo", 3, times=-1, card=0)
    whole, other = node.backend.devices()
    assert (whole.profiles, whole.totals) == ((), {})
    assert whole.attributes[UNCUT] == "MIGProfilesUnknown"
    assert other.profiles
    node.fake.heal()
    assert node.backend.devices()[0].profiles


def test_a_gpu_that_cannot_be_cut_is_whole(node: Node) -> None:
    """NOT_SUPPORTED for the MIG mode means no MIG, not an error."""
    with node.fake.changing() as state:
        state.gpu[0].capable = 0
    whole, other = node.backend.devices()
    assert whole.profiles == ()
    assert other.profiles


def test_a_gpu_that_does_not_answer_keeps_no_other_from_being_found(node: Node) -> None:
    """The others keep their names."""
    node.fake.lose(0)
    assert [card.name for card in node.backend.devices()] == ["gpu-1"]
    # What is on it is not known, which is not nothing.
    with pytest.raises(Lost, match="nobody knows what is on it"):
        node.backend.partitions_of("gpu-0")
    assert node.backend.partitions_of("gpu-7") == ()


def test_a_gpu_without_memory_of_its_own_is_published_without_that_capacity(node: Node) -> None:
    """GB10 shares the system's memory; the attribute is that of NVIDIA's driver. It is well."""
    with node.fake.changing() as state:
        state.gpu[0].memory = state.gpu[0].capable = 0
    unified, other = node.backend.devices()
    assert (unified.capacity, unified.attributes["memoryType"]) == ({}, "unified")
    assert "memoryType" not in other.attributes
    assert node.backend.health() == {}


def test_nvlinks_make_groups(node_with: Nodes) -> None:
    """Pairs are told apart, a switch joins all that reach it, and who has no neighbour has no group."""
    node = node_with(["A100-80GB"] * 7)
    node.fake.nvlink([(0, 1)])
    node.fake.nvswitch([3, 4, 5])
    cards = {card.name: card for card in node.backend.devices()}
    first, board = cards["gpu-0"].uuid, cards["gpu-3"].uuid
    assert [card.attributes.get("nvlinkGroup") for card in cards.values()] == [
        first, first, None, board, board, board, None,
    ]  # fmt: skip


def test_a_driver_version_with_leading_zeros_is_a_version() -> None:
    """Semantic versions allow none."""
    assert str(numbers("535.104.05")) == "535.104.5"
    assert str(numbers("550.90")) == "550.90.0"


def test_a_bus_id_is_written_as_the_kernel_does(tmp_path: Path) -> None:
    """NVML has eight digits of domain, in capitals."""
    assert pci.bus_id("00000001:9D:00.0") == "0001:9d:00.0"
    with pytest.raises(BrokenInput, match="no PCI bus id"):
        pci.bus_id("nonsense")
    assert pci.locate("00000000:9D:00.0", tmp_path) == Location("0000:9d:00.0", "")


def test_numa_node_minus_one_is_unknown(node: Node) -> None:
    """Publishing node 0 would say something that nobody knows."""
    file = node.root / "sys/bus/pci/devices/0000:18:00.0/numa_node"
    file.write_text("-1\n", encoding="ascii")
    card, _ = node.backend.devices()
    assert card.location == Location("0000:18:00.0", "pci0000:10")


def test_without_a_driver_the_reason_is_clear(node: Node) -> None:
    """And when the driver comes, the same backend goes on."""
    node.fake.unload()
    with pytest.raises(
        HardwareError, match=r"nvmlInitWithFlags: Driver Not Loaded \(is the NVIDIA kernel module loaded"
    ):
        node.backend.devices()
    node.fake.unload(loaded=True)
    assert len(node.backend.devices()) == 2


def test_one_session_and_one_look_up_serve_every_call(node: Node) -> None:
    """Handles are looked up at discovery only: on busy nodes that takes seconds."""
    node.backend.devices()
    for _ in range(5):
        node.backend.partitions()
        node.backend.health()
    calls = node.fake.calls()
    assert calls["nvmlDeviceGetHandleByIndex_v2"] == 2
    assert "nvmlDeviceGetHandleByUUID" not in calls


def test_a_lost_session_is_reopened(node: Node) -> None:
    """UNINITIALIZED fails one call; the next has a new session and new handles."""
    node.backend.devices()
    pynvml.nvmlShutdown()
    with pytest.raises(HardwareError, match="Uninitialized"):
        node.backend.partitions_of("gpu-0")
    assert node.backend.partitions() == ()
    assert node.fake.calls()["nvmlDeviceGetHandleByUUID"] == 2


def test_the_agent_takes_the_backend_by_name(node: Node) -> None:
    """`--backend nvml` is this one, with the host's root from the options."""
    (backend,) = backends(AgentOptions(node="n", backend="nvml", host_root=node.root))
    assert isinstance(backend, NvmlBackend)
    assert [card.location.pcie_root for card in backend.devices()] == ["pci0000:10"] * 2
    with pytest.raises(BrokenInput, match="known are auto, nvml, ascend, rdma, simulated"):
        backends(AgentOptions(node="n", backend="nonsense"))


@pytest.mark.slow
@pytest.mark.skipif(find_library("nvidia-ml") is not None, reason="this machine has NVIDIA's library")
def test_auto_takes_a_node_without_the_library_for_one_without_gpus(tmp_path: Path) -> None:
    """As on every control-plane node; in a process that has no other library."""
    options = f"AgentOptions(node='n', host_root=Path({str(tmp_path)!r}))"
    script = f"from pathlib import Path; from apportion.agent.backends import backends; from apportion.agent.agent import *; print(backends({options}))"
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    paths = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment | {"PYTHONPATH": paths}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "()"
