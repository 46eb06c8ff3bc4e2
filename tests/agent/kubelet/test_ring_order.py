"""The order of a request's GPUs in its metadata file: neighbours in it are near each other."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.agent.kubelet.metadata import DeviceDescription, MetadataFolder
from apportion.agent.kubelet.ringorder import ring_order
from apportion.agent.rows import Share
from apportion.dra.claim import Claim
from testbed.api import Json
from tests.agent.ascend.test_rank_tables import files
from tests.agent.places import GPU
from tests.agent.simulatednode import MakeNode

CLAIM = Claim("team", "mine", uid="7b0c5c5e-1111-4222-8333-444455556666")


def gpu(bus: int, *, group: str = "", numa: int | None = None, root: str = "", kind: str = "gpu") -> Json:
    """Return the attributes of a GPU."""
    known: Json = {
        "type": {"string": kind},
        "resource.kubernetes.io/pciBusID": {"string": f"0000:{bus:02x}:00.0"},
    }
    if group:
        known["nvlinkGroup"] = {"string": group}
    if numa is not None:
        known["resource.kubernetes.io/numaNode"] = {"int": numa}
    if root:
        known["resource.kubernetes.io/pcieRoot"] = {"string": root}
    return known


def test_gpus_of_one_nvlink_group_follow_each_other() -> None:
    """Groups in the order of their first GPU, GPUs by their place on the bus, whatever their names and the claim's order."""
    found = ring_order(
        {
            "gpu-9": gpu(3, group="b"),
            "gpu-1": gpu(2, group="a"),
            "gpu-0": gpu(4, group="a"),
            "gpu-2": gpu(1, group="b"),
        }
    )
    assert found == ("gpu-2", "gpu-9", "gpu-1", "gpu-0")


def test_without_nvlink_numa_nodes_and_pcie_roots_keep_them_together() -> None:
    """A ring crosses between sockets once and back."""
    found = ring_order(
        {
            "gpu-0": gpu(1, numa=1, root="pci0000:80"),
            "gpu-1": gpu(2, numa=0, root="pci0000:20"),
            "gpu-2": gpu(3, numa=1, root="pci0000:60"),
            "gpu-3": gpu(4, numa=0, root="pci0000:00"),
            "gpu-4": gpu(5, numa=0, root="pci0000:20"),
        }
    )
    assert found == ("gpu-3", "gpu-1", "gpu-4", "gpu-2", "gpu-0")


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "a", "b"]), st.sampled_from([None, 0, 1]), st.sampled_from(["", "x", "y"])
        ),
        min_size=2,
        max_size=8,
    ),
    st.randoms(use_true_random=False),
)
def test_each_group_is_one_stretch_of_the_ring_in_any_order_of_the_claim(
    drawn: list[tuple[str, int | None, str]], random: object
) -> None:
    """And the same devices have the same order, so that a file that is made anew says the same."""
    gpus = {f"gpu-{n}": gpu(n, group=g, numa=m, root=r) for n, (g, m, r) in enumerate(drawn)}
    found = ring_order(gpus)
    assert sorted(found) == sorted(gpus)
    groups = [gpus[name].get("nvlinkGroup", {}).get("string", name) for name in found]
    starts = [group for number, group in enumerate(groups) if number == 0 or groups[number - 1] != group]
    assert len(starts) == len({*groups})
    shuffled = list(gpus)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert ring_order({name: gpus[name] for name in shuffled}) == found


def described(device: str, attributes: Json, share: Share | None = None) -> DeviceDescription:
    """Return a device as prepare describes it."""
    return DeviceDescription(("r",), "n", device, attributes, share)


@pytest.mark.parametrize(
    "devices",
    [
        [described("gpu-0", gpu(1))],
        [described("gpu-0", gpu(1)), described("gpu-1-mig", gpu(2, kind="mig"))],
        [described("gpu-0", gpu(1), Share("s")), described("gpu-1", gpu(2))],
    ],
    ids=["one GPU", "a partition", "a share"],
)
def test_other_requests_have_no_ring(tmp_path: Path, devices: list[DeviceDescription]) -> None:
    """One GPU has no neighbours; partitions do not reach each other by NVLink; a share may be of the same GPU."""
    folder = MetadataFolder(tmp_path, GPU)
    folder.write(CLAIM, devices)
    (content,) = folder.read(CLAIM.uid)
    (request,) = content["requests"]
    assert [row["name"] for row in request["devices"]] == [each.device for each in devices]
    assert all("ringPosition" not in row["attributes"] for row in request["devices"])


async def test_a_container_finds_its_gpus_in_the_order_of_a_ring(make_node: MakeNode, namespace: str) -> None:
    """Each says its position, too, for programs that sort."""
    cards = [{"model": "H100-80GB", "count": 8}]
    async with make_node(cards=cards) as node, node.agent():
        made = await node.ask(namespace, "ring", 4)
        claim = await node.allocate(made, "gpu-6", "gpu-1", "gpu-4", "gpu-0", request="r0")
        assert await node.prepared(claim) == ""
        found = files(node)
        assert set(found) == {f"{GPU}-metadata.json"}
        devices = found[f"{GPU}-metadata.json"]["requests"][0]["devices"]
        assert [row["name"] for row in devices] == ["gpu-0", "gpu-1", "gpu-4", "gpu-6"]
        assert [row["attributes"]["ringPosition"] for row in devices] == [{"int": n} for n in range(4)]
