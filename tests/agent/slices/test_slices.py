"""Slices say exactly what the hardware can do, within the API's limits."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apportion.agent.devices.models import names
from apportion.agent.devices.simulated.backend import SimulatedBackend
from apportion.agent.devices.values import Health, PartitionPlace, Placement
from apportion.agent.slices.naming import partition_device, partition_devices
from apportion.agent.slices.nodeinventory import NodeInventory, StaticPartition, held_for
from apportion.agent.slices.pool import pools
from apportion.dra.quantity import Quantity
from apportion.errors import NoRoom
from tests.agent.places import DRIVERS, H100, MakeBackend, partition_place

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
NICS = [
    {"name": f"mlx5-{n}", "pcieRoot": f"pci0000:{0x10 * (1 + n // 2):02x}", "numaNode": n // 4}
    for n in range(8)
]


def published(backend: SimulatedBackend, **inventory: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Every device and counter set of a node, by name, as the API server would get them."""
    made = pools(NodeInventory(cards=backend.devices(), **inventory), DRIVERS)
    rows = [(content.field, row) for pool in made for content in pool.contents for row in content.rows]
    devices = {row["name"]: row for field, row in rows if field == "devices"}
    counters = {row["name"]: row["counters"] for field, row in rows if field == "sharedCounters"}
    return devices, counters


def fits(chosen: Sequence[Mapping[str, Any]], counters: Mapping[str, Any]) -> bool:
    """Whether devices fit the counters together: upstream's rule, nothing below zero."""
    left = {(s, c): Quantity.parse(v["value"]).nano for s, row in counters.items() for c, v in row.items()}
    for device in chosen:
        for consumed in device.get("consumesCounters", ()):
            for name, value in consumed["counters"].items():
                left[consumed["counterSet"], name] -= Quantity.parse(value["value"]).nano
    return min(left.values(), default=0) >= 0


@pytest.mark.slow
@pytest.mark.parametrize("model", names())
@pytest.mark.parametrize("count", [1, 8, 16])
def test_every_model_stays_within_the_limits_of_the_api(
    make_backend: MakeBackend, model: str, count: int
) -> None:
    """Limits of resource.k8s.io/v1: 64 devices, 8 sets, 32 counters, 32 attributes and capacities, short ids."""
    node = "n" * 63
    backend = make_backend(node, cards=[{"model": model, "count": count}], nics=NICS)
    made = pools(NodeInventory(cards=backend.devices()), DRIVERS)
    for pool in made:
        assert len({content.key for content in pool.contents}) == len(pool.contents)
        seen = Counter(row["name"] for content in pool.contents for row in content.rows)
        assert max(seen.values()) == 1
        for content in pool.contents:
            if content.field == "sharedCounters":
                assert 1 <= len(content.rows) <= 8
                assert all(1 <= len(row["counters"]) <= 32 for row in content.rows)
                continue
            assert 1 <= len(content.rows) <= 64
            for row in content.rows:
                assert LABEL.fullmatch(row["name"])
                assert len(row["name"]) <= 63
                assert len(row["attributes"]) + len(row.get("capacity", {})) <= 32
                assert len(row.get("consumesCounters", [])) <= 2
                assert all(len(name.rpartition("/")[2]) <= 32 for name in row["attributes"])
                texts = [v.get("string", "") for v in row["attributes"].values()]
                assert max(len(text.encode()) for text in texts) <= 64


@pytest.mark.parametrize("model", names())
def test_devices_consume_only_counters_that_exist(make_backend: MakeBackend, model: str) -> None:
    """An unknown counter would make the whole pool invalid for every allocator."""
    devices, counters = published(make_backend(cards=[{"model": model, "count": 2}]))
    for device in devices.values():
        for consumed in device["consumesCounters"]:
            assert consumed["counters"].keys() <= counters[consumed["counterSet"]].keys()
        assert fits([device], counters)


def test_eight_h100_with_eight_nics_are_17_slices_and_216_devices(make_backend: MakeBackend) -> None:
    """One slice per GPU, one for the counters, one for the NICs."""
    backend = make_backend(cards=[{"model": "H100-80GB", "count": 8}], nics=NICS)
    gpu, nic = pools(NodeInventory(cards=backend.devices()), DRIVERS)
    assert [content.field for content in gpu.contents] == ["sharedCounters"] + ["devices"] * 8
    assert sum(len(content.rows) for content in gpu.contents if content.field == "devices") == 208
    assert len(nic.contents) == 1
    assert len(nic.contents[0].rows) == 8


def test_a_node_with_more_than_eight_chips_needs_a_second_slice_of_counters(
    make_backend: MakeBackend,
) -> None:
    """A slice holds eight counter sets at most."""
    backend = make_backend(cards=[{"model": "910B4", "count": 16}])
    (npu,) = pools(NodeInventory(cards=backend.devices()), DRIVERS)
    assert [content.field for content in npu.contents][:3] == ["sharedCounters", "sharedCounters", "devices"]


def test_the_gpu_and_its_partition_look_like_those_of_nvidias_driver(make_backend: MakeBackend) -> None:
    """Names, attributes and counters that existing manifests and selectors rely on."""
    backend = make_backend(
        cards=[
            {
                "model": "H100-80GB",
                "count": 2,
                "pcieRoots": ["pci0000:9a"],
                "numaNodes": [1],
                "driverVersion": "550.90.7",
            }
        ]
    )
    devices, counters = published(backend)
    gpu, mig = devices["gpu-1"], devices["gpu-1-mig-1g10gb-19-3"]
    shared = {
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": "Hopper"},
        "cudaComputeCapability": {"version": "9.0.0"},
        "driverVersion": {"version": "550.90.7"},
        "cudaDriverVersion": {"version": "12.4.0"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:19:00.0"},
        "resource.kubernetes.io/pcieRoot": {"string": "pci0000:9a"},
        "resource.kubernetes.io/numaNode": {"int": 1},
    }
    uuid = gpu["attributes"]["uuid"]
    assert gpu["attributes"] == {"type": {"string": "gpu"}, "uuid": uuid, **shared}
    assert mig["attributes"] == {
        "type": {"string": "mig"},
        "parentUUID": uuid,
        "profile": {"string": "1g.10gb"},
        **shared,
    }
    assert gpu["capacity"]["memory"] == {"value": "81559Mi"}
    assert mig["capacity"] == {
        "memory": {"value": "9984Mi"},
        "multiprocessors": {"value": "16"},
        "copyEngines": {"value": "1"},
        "decoders": {"value": "1"},
        "encoders": {"value": "0"},
        "jpegEngines": {"value": "1"},
        "ofaEngines": {"value": "0"},
    }
    (consumed,) = mig["consumesCounters"]
    assert consumed == {
        "counterSet": "gpu-1-counter-set",
        "counters": {
            "memory": {"value": "9984Mi"},
            "multiprocessors": {"value": "16"},
            "copy-engines": {"value": "1"},
            "decoders": {"value": "1"},
            "jpeg-engines": {"value": "1"},
            "memory-slice-3": {"value": "1"},
        },
    }
    assert counters["gpu-1-counter-set"].keys() >= {"ofa-engines", "memory-slice-0", "memory-slice-7"}
    assert devices["gpu-1"]["taints"] == [{"key": "apportion.dev/guard", "effect": "NoSchedule"}]


def test_an_npu_offers_as_many_copies_of_a_template_as_fit_at_once(make_backend: MakeBackend) -> None:
    """Copies are interchangeable, so more than fit at once would only cost bytes."""
    devices, _ = published(make_backend(cards=[{"model": "910B4"}]))
    copies = [name for name in devices if name.startswith("npu-0-vir05-1c-8g-")]
    assert copies == [f"npu-0-vir05-1c-8g-{n}" for n in range(4)]
    assert [name for name in devices if "16g-m" in name] == ["npu-0-vir10-4c-16g-m-0"]
    first = devices["npu-0-vir05-1c-8g-0"]
    assert first["attributes"]["template"] == {"string": "vir05_1c_8g"}
    assert first["attributes"]["model"] == {"string": "910B4"}
    assert devices["npu-0"]["attributes"]["hccsGroup"] == {"string": "node-a/ring0"}


def test_an_unknown_numa_node_is_left_out(make_backend: MakeBackend) -> None:
    """Sysfs says -1; publishing 0 would be a lie (KEP-6072)."""
    devices, _ = published(make_backend(cards=[{"model": "H100-80GB", "numaNodes": [-1]}]))
    assert not any("numaNode" in name for name in devices["gpu-0"]["attributes"])


def test_every_device_name_leads_back_to_its_profile_and_place(make_backend: MakeBackend) -> None:
    """The agent acts on names; a name that it cannot read back would be a dead device."""
    for model in names():
        for card in make_backend(cards=[{"model": model}]).devices():
            for part in partition_devices(card):
                assert partition_device(card, part.name) == part
                assert partition_device(card, f"{part.name}-static") == part
            assert partition_device(card, card.name) is None


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    model=st.sampled_from(["H100-80GB", "A30-24GB", "910B4", "310P", "A100-40GB"]),
    data=st.data(),
)
def test_counters_admit_exactly_what_the_hardware_admits(
    make_backend: MakeBackend, model: str, data: st.DataObject
) -> None:
    """A set of devices fits the counters if and only if the hardware's own rule cuts all of them."""
    backend = make_backend(cards=[{"model": model}])
    (card,) = backend.devices()
    devices, counters = published(backend)
    offered = list(partition_devices(card))
    chosen = data.draw(st.lists(st.sampled_from(offered), unique_by=lambda part: part.name, max_size=8))
    ids = iter(card.instance_ids)
    refused = False
    for part in chosen:
        try:
            backend.create(
                PartitionPlace(card.name, part.profile.name, part.placement or Placement(next(ids), 1))
            )
        except NoRoom:
            refused = True
            break
    assert fits([devices[part.name] for part in chosen], counters) is not refused


@pytest.mark.parametrize("model", ["H100-80GB", "910B4", "310P"])
def test_a_split_card_cannot_be_used_whole(make_backend: MakeBackend, model: str) -> None:
    """Any partition takes something, and the whole card wants everything."""
    backend = make_backend(cards=[{"model": model}])
    (card,) = backend.devices()
    devices, counters = published(backend)
    for part in partition_devices(card):
        assert not fits([devices[card.name], devices[part.name]], counters)


def test_what_a_foreign_partition_takes_is_gone_from_the_counters(make_backend: MakeBackend) -> None:
    """What remains is what the hardware still cuts beside it."""
    backend = make_backend(cards=[H100], foreign=[{"card": "gpu-0", "profile": "3g.40gb", "start": 4}])
    (foreign,) = backend.partitions()
    devices, counters = published(backend, occupied=(foreign.place,))
    (card,) = backend.devices()
    for part in partition_devices(card):
        try:
            backend.destroy(backend.create(PartitionPlace("gpu-0", part.profile.name, part.placement)))
            free = True
        except NoRoom:
            free = False
        assert fits([devices[part.name]], counters) is free, part.name
    assert not fits([devices["gpu-0"]], counters)


def test_a_layouts_partition_is_a_device_of_its_own(make_backend: MakeBackend) -> None:
    """It has a UUID and a layout and shares no counters; its place is subtracted by the caller's `occupied`."""
    backend = make_backend(cards=[{"model": "910B4"}])
    place = partition_place(backend, "npu-0", "vir05_1c_8g", 100)
    made = StaticPartition("npu-0-vir05-1c-8g-0-static", "npu-0", "vir05_1c_8g", None, "VNPU-1", "nightly")
    devices, counters = published(backend, static=(made,), occupied=(place,))
    static = devices["npu-0-vir05-1c-8g-0-static"]
    assert static["attributes"]["layout"] == {"string": "nightly"}
    assert static["attributes"]["type"] == {"string": "vnpu"}
    assert static["attributes"]["uuid"] == {"string": "VNPU-1"}
    assert "consumesCounters" not in static
    assert counters["npu-0-counter-set"]["aicore"] == {"value": "15"}
    copies = [devices[f"npu-0-vir05-1c-8g-{n}"] for n in range(4)]
    assert fits(copies[:3], counters)
    assert not fits(copies, counters)


def test_a_sick_card_taints_all_its_devices_and_a_held_device_only_itself(make_backend: MakeBackend) -> None:
    """Health is the card's, being held the device's."""
    backend = make_backend(cards=[{"model": "H100-80GB", "count": 2}])
    devices, _ = published(
        backend, health={"gpu-1": Health.SICK}, taints={"gpu-0-mig-1g10gb-19-0": (held_for("a-claim"),)}
    )
    keys = {name: [taint["key"] for taint in device["taints"]] for name, device in devices.items()}
    assert keys["gpu-1"] == keys["gpu-1-mig-7g80gb-0-0"] == ["apportion.dev/guard", "apportion.dev/unhealthy"]
    assert keys["gpu-0"] == ["apportion.dev/guard"]
    assert keys["gpu-0-mig-1g10gb-19-0"] == ["apportion.dev/guard", "apportion.dev/held"]


def test_a_lost_card_evicts(make_backend: MakeBackend) -> None:
    """Work on it is lost, so nothing is gained by waiting."""
    devices, _ = published(make_backend(cards=[{"model": "310P"}]), health={"npu-0": Health.LOST})
    assert devices["npu-0-vir01-0"]["taints"][1] == {
        "key": "apportion.dev/unhealthy",
        "value": "lost",
        "effect": "NoExecute",
    }


def test_the_same_inventory_gives_the_same_slices(make_backend: MakeBackend) -> None:
    """Stable order: no difference, no write."""
    backend = make_backend(cards=[{"model": "910B4", "count": 9}], nics=NICS)
    inventory = NodeInventory(cards=backend.devices())
    assert pools(inventory, DRIVERS) == pools(inventory, DRIVERS)
