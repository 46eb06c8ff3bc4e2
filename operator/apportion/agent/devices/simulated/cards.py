"""The cards of a simulated node: names, places and attributes as real backends would discover them.

In: a simulation and the node's name. Out: cards, each with its model (NICs have none) and what a container needs for it.
"""

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from typing import TypeVar

from apportion.agent.devices.models import CardModel, model
from apportion.agent.devices.simulated.simulation import Cards, Nic, Simulation
from apportion.agent.devices.values import Card, CardKind, DeviceNode, Edits, Location
from apportion.dra.device import Scalar
from apportion.dra.semver import Semver

_NAMESPACE = uuid.UUID("6f2b7a4e-5a55-4a30-9d0c-0f6f1d1f6a01")
_LONGEST_TEXT = 64
"""Bytes of a string attribute (API `DeviceAttributeMaxValueLength`)."""
_T = TypeVar("_T")

GPU_COMMON = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
NPU_COMMON = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")

Made = tuple[tuple[Card, CardModel | None, Edits], ...]


def make(simulation: Simulation, node: str) -> Made:
    """Make the cards of a simulated node; raises BrokenInput for an unknown model or version."""
    made: list[tuple[Card, CardModel | None, Edits]] = []
    numbers = {CardKind.GPU: 0, CardKind.NPU: 0}
    for group in simulation.cards:
        kind = model(group.model).kind
        for position in range(group.count):
            made.append(_card(group, position, numbers[kind], node))
            numbers[kind] += 1
    made += [_nic(nic, index, node) for index, nic in enumerate(simulation.nics)]
    return tuple(made)


def partition_edits(card: Card, whole: Edits, instance: Mapping[str, str]) -> Edits:
    """Return what a container needs for a partition (vendors' CDI pages); device files only if the whole card has some."""
    files = bool(whole.nodes)
    if card.kind is CardKind.GPU:
        nodes = (*_files(GPU_COMMON), DeviceNode(f"/dev/nvidia{card.name.removeprefix('gpu-')}"))
        capability = DeviceNode(f"/dev/nvidia-caps/nvidia-cap{instance['gpuInstance']}")
        return Edits(_GPU_ENV, (*nodes, capability) if files else ())
    # The chip's own file stays out: a vNPU has a file of its own, renamed inside the container.
    own = DeviceNode(f"/dev/davinci{instance['vnpu']}", host_path=f"/dev/vdavinci{instance['vnpu']}")
    return Edits(_NPU_ENV, (*_files(NPU_COMMON), own) if files else ())


_GPU_ENV = (("NVIDIA_VISIBLE_DEVICES", "void"),)
"""Keeps the vendor's own container runtime from adding devices."""
_NPU_ENV = (("ASCEND_VISIBLE_DEVICES", "void"),)


def _card(group: Cards, position: int, number: int, node: str) -> tuple[Card, CardModel, Edits]:
    found = model(group.model)
    roots = group.pcie_roots or tuple(
        f"pci0000:{0x10 * (1 + index):02x}" for index in range((group.count + 1) // 2)
    )
    numa = _spread(group.numa_nodes or (0, 1), position, group.count)
    location = Location(
        pci_bus_id=f"0000:{(0x18 + number) if found.kind is CardKind.GPU else (0x58 + number):02x}:00.0",
        pcie_root=_spread(roots, position, group.count),
        numa_node=numa if numa >= 0 else None,
    )
    name = f"{found.kind}-{number}"
    is_gpu = found.kind is CardKind.GPU
    attributes = _gpu_attributes(found, group) if is_gpu else _npu_attributes(found, group, number, node)
    if group.sockets:
        attributes["socket"] = _spread(group.sockets, position, group.count)
    if group.nvlink and is_gpu:
        # As the nvml backend does: a group is named after its first card.
        first = number - position % group.nvlink
        attributes["nvlinkGroup"] = f"GPU-{_identity(node, f'gpu-{first}')}"
    env = _GPU_ENV if is_gpu else _NPU_ENV
    files = (*GPU_COMMON, f"/dev/nvidia{number}") if is_gpu else (*NPU_COMMON, f"/dev/davinci{number}")
    card = Card(
        name=name,
        kind=found.kind,
        uuid=f"{found.kind.upper()}-{_identity(node, name)}",
        location=location,
        attributes=attributes,
        capacity=found.capacity,
        totals=found.totals,
        slices=found.slices,
        profiles=found.profiles,
        # The driver's formula: phy id * 16 + 100 and up.
        instance_ids=tuple(range(number * 16 + 100, number * 16 + 100 + found.ids)),
    )
    return card, found, Edits(env, _files(files) if group.device_nodes else ())


def _identity(node: str, name: str) -> uuid.UUID:
    return uuid.uuid5(_NAMESPACE, f"{node}/{name}")


def _gpu_attributes(found: CardModel, group: Cards) -> dict[str, Scalar]:
    return {
        "productName": found.product,
        "brand": "Nvidia",
        "architecture": found.architecture,
        "cudaComputeCapability": Semver.parse(found.cuda),
        "driverVersion": Semver.parse(group.driver_version),
        "cudaDriverVersion": Semver.parse(group.cuda_driver_version),
    }


def _npu_attributes(found: CardModel, group: Cards, number: int, node: str) -> dict[str, Scalar]:
    attributes: dict[str, Scalar] = {
        "model": found.name,
        "cardId": number // group.chips_per_card,
        "moduleId": number,
        "driverVersion": Semver.parse(group.driver_version),
    }
    ring = found.ring if group.hccs is None else group.hccs
    if ring:
        attributes["hccsGroup"] = _short(node, f"/ring{number // ring}")
        attributes["hccsPosition"] = number % ring
    if group.addresses:
        network, host = divmod(_identity(node, "network").int % 2**16, 2**8)
        attributes["deviceIP"] = f"10.{network}.{host}.{number + 1}"
    return attributes


def _nic(nic: Nic, index: int, node: str) -> tuple[Card, None, Edits]:
    name = f"nic-{nic.name}"
    card = Card(
        name=name,
        kind=CardKind.NIC,
        uuid=f"NIC-{_identity(node, name)}",
        location=Location(
            pci_bus_id=f"0000:{0xA0 + index:02x}:00.0", pcie_root=nic.pcie_root, numa_node=nic.numa_node
        ),
        attributes={
            "rdma": nic.rdma,
            "rdmaDevice": nic.name.replace("-", "_"),
            "linkType": nic.link_type,
            **({} if nic.socket is None else {"socket": nic.socket}),
        },
    )
    return card, None, Edits((), _files((f"/dev/infiniband/uverbs{index}",)) if nic.device_nodes else ())


def _files(paths: Sequence[str]) -> tuple[DeviceNode, ...]:
    return tuple(DeviceNode(path) for path in paths)


def _spread(values: Sequence[_T], position: int, count: int) -> _T:
    """Return the value for a position; consecutive cards share one: 8 cards on 2 values are 4 and 4."""
    return values[position] if len(values) >= count else values[position * len(values) // count]


def _short(node: str, suffix: str) -> str:
    if len(node) + len(suffix) <= _LONGEST_TEXT:
        return node + suffix
    return hashlib.sha256(node.encode()).hexdigest()[:16] + suffix
