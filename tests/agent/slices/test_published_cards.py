"""What the node's slices tell about the names of cards, and about those who published them."""

from typing import Any

from apportion.agent.slices.publishedcards import formerly_ours, published_cards

GPU = "gpu.nvidia.com"


def slice_of(
    generation: int, *devices: dict[str, Any], driver: str = GPU, pool: str = "n1"
) -> dict[str, Any]:
    spec = {"driver": driver, "pool": {"name": pool, "generation": generation}, "devices": [*devices]}
    return {"spec": spec}


def gpu(name: str, uuid: str) -> dict[str, Any]:
    return {"name": name, "attributes": {"type": {"string": "gpu"}, "uuid": {"string": uuid}}}


def test_names_are_those_of_the_newest_generation() -> None:
    """While an agent publishes anew, slices of both are there."""
    found = [slice_of(2, gpu("gpu-0", "GPU-b")), slice_of(1, gpu("gpu-0", "GPU-a"), gpu("gpu-1", "GPU-c"))]
    assert published_cards(found, "n1", [GPU], ["gpu"]) == {"gpu-0": "GPU-b", "gpu-1": "GPU-c"}


def test_devices_of_others_tell_nothing_and_stop_nothing() -> None:
    """With the names of NVIDIA's driver its slices may be left on the node, and attributes are optional in the API."""
    found = [
        slice_of(1, {"name": "gpu-0"}, {"name": "gpu-1", "attributes": {"type": {"string": "gpu"}}}),
        slice_of(1, gpu("gpu-2", "GPU-c"), driver="other.example.com"),
        slice_of(1, gpu("gpu-3", "GPU-d"), pool="n2"),
        slice_of(1, {"name": "gpu-4", "attributes": {"type": {"int": 1}, "uuid": {"bool": True}}}),
        {"spec": {"driver": GPU, "pool": {"name": "n1", "generation": 1}, "sharedCounters": []}},
    ]
    assert published_cards(found, "n1", [GPU], ["gpu"]) == {}


def guarded(name: str, key: str = "apportion.dev/guard") -> dict[str, Any]:
    return {"name": name, "taints": [{"key": key, "effect": "NoSchedule"}]}


def test_slices_are_formerly_ours_only_if_every_device_has_the_guard() -> None:
    """Those of other vendors' drivers, of drivers that are served, and of other nodes' pools are left alone."""
    found = [
        slice_of(1, guarded("fpga-0"), guarded("fpga-1"), driver="fpga.example.com"),
        {
            "spec": {
                "driver": "fpga.example.com",
                "pool": {"name": "n1", "generation": 1},
                "sharedCounters": [],
            }
        },
        slice_of(1, guarded("gpu-0"), driver=GPU),
        slice_of(1, guarded("a"), {"name": "b"}, driver="mixed.example.com"),
        slice_of(1, guarded("a"), driver="split.example.com"),
        slice_of(1, {"name": "b"}, driver="split.example.com"),
        slice_of(1, guarded("a", "example.com/guard"), driver="other.example.com"),
        slice_of(1, driver="empty.example.com"),
        slice_of(1, guarded("a"), driver="elsewhere.example.com", pool="n2"),
    ]
    assert formerly_ours(found, "n1", [GPU]) == ["fpga.example.com"]
