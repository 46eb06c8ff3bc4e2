"""The metadata file that a container reads (KEP-5304): its place, its content, its end."""

import json
from pathlib import Path

import pytest

from apportion.agent.kubelet.metadata import DeviceDescription, MetadataFolder, content, inside
from apportion.dra.claim import Claim
from testbed.api import Json
from testbed.eventually import eventually
from tests.agent.places import GPU, H100
from tests.agent.simulatednode import MakeNode, holder

BASE = "/var/run/kubernetes.io/dra-device-attributes"
CLAIM = Claim("team", "mine", uid="7b0c5c5e-1111-4222-8333-444455556666")
FROM_TEMPLATE = Claim(
    "team", "mine-x7", uid="u", annotations={"resource.kubernetes.io/pod-claim-name": "gpu"}
)


def stream(text: str) -> list[Json]:
    """Decode a stream of JSON objects as any reader would, one after the other."""
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text.rstrip()):
        one, end = decoder.raw_decode(text, at)
        found.append(one)
        at = end + len(text[end:]) - len(text[end:].lstrip())
    return found


def file_content(mount: Json) -> list[Json]:
    """Return what the mounted file says."""
    return stream(Path(mount["hostPath"]).read_text())


async def test_a_container_reads_what_its_device_is(make_node: MakeNode, namespace: str) -> None:
    """The mount is at the documented place; the attributes are the slice's, and the UUID that came with the cut."""
    device = "gpu-0-mig-1g10gb-19-3"
    async with make_node(cards=[H100]) as node, node.agent():
        claim = await node.claim(namespace, "mine", device)
        await node.partition(device, "1g.10gb", holder=holder(claim))
        assert await node.prepared(claim) == ""
        (cdi,) = node.cdi().values()
        (mount,) = cdi["devices"][0]["containerEdits"]["mounts"]
        assert mount["containerPath"] == f"{BASE}/resourceclaims/mine/r0/{GPU}-metadata.json"
        assert mount["options"] == ["ro", "bind"]
        newest, older = file_content(mount)
        assert newest["apiVersion"] == "metadata.resource.k8s.io/v1beta1"
        assert older == newest | {"apiVersion": "metadata.resource.k8s.io/v1alpha1"}
        assert newest["metadata"]["uid"] == claim["metadata"]["uid"]
        ((request),) = newest["requests"]
        (row,) = request["devices"]
        published = (await eventually(node.devices))[device]["attributes"]
        assert (row["driver"], row["pool"], row["name"]) == (GPU, node.name, device)
        assert row["attributes"] == published | {"uuid": {"string": node.hardware()[0]["uuid"]}}
        await node.unprepare(claim)
        with pytest.raises(FileNotFoundError):
            file_content(mount)


async def test_a_static_partition_says_its_layout(make_node: MakeNode, namespace: str) -> None:
    """As its slice does: readers of both see one thing."""
    device = "gpu-0-mig-1g10gb-19-0-static"
    layout = {"kind": "PartitionLayout", "name": "nightly", "uid": "layout-uid"}
    async with make_node(cards=[H100]) as node, node.agent():
        await node.partition(device, "1g.10gb", holder=layout, origin="Layout")
        devices = await eventually(node.devices, lambda found: device in found)
        claim = await node.claim(namespace, "static", device)
        assert await node.prepared(claim) == ""
        (cdi,) = node.cdi().values()
        (mount,) = cdi["devices"][0]["containerEdits"]["mounts"]
        attributes = file_content(mount)[0]["requests"][0]["devices"][0]["attributes"]
        assert attributes == devices[device]["attributes"]
        assert attributes["layout"] == {"string": "nightly"}
        # As NVIDIA's driver names what a static partition has.
        assert devices[device]["capacity"]["memorySlice0"] == {"value": "1"}


@pytest.mark.parametrize(
    ("claim", "folder"), [(CLAIM, "resourceclaims/mine"), (FROM_TEMPLATE, "resourceclaimtemplates/gpu")]
)
def test_the_place_is_one_that_the_pods_author_can_know(claim: Claim, folder: str) -> None:
    """Claims made from a template have generated names: the name in the pod stands for them."""
    assert inside(claim, "d.example", "r") == f"{BASE}/{folder}/r/d.example-metadata.json"


def test_a_request_of_a_prioritized_list_is_named_in_full() -> None:
    """In the content with its subrequest, in the path without."""
    (first, *_) = stream(
        content(FROM_TEMPLATE, "d", "r/best", [DeviceDescription(("r/best",), "p", "gpu-0", {})])
    )
    assert first["requests"][0]["name"] == "r/best"
    assert first["podClaimName"] == "gpu"
    assert first["kind"] == "DeviceMetadata"


def test_the_path_of_a_subrequest_leaves_it_out(tmp_path: Path) -> None:
    """A consumer knows the request from the claim's spec, not which alternative was taken."""
    folder = MetadataFolder(tmp_path, "d")
    mounts = folder.write(CLAIM, [DeviceDescription(("r/best",), "p", "gpu-0", {})])
    (mount,) = mounts["r"]
    assert mount.container_path == f"{BASE}/resourceclaims/mine/r/d-metadata.json"
    assert Path(mount.host_path).is_file()
    assert folder.claims() == {CLAIM.uid}


def test_folders_of_others_are_not_ours(tmp_path: Path) -> None:
    """The plugin's folder may have been another driver's before; its files have other names."""
    folder = MetadataFolder(tmp_path, "d")
    (tmp_path / "dra-device-metadata/team_mine/r").mkdir(parents=True)
    assert folder.claims() == set()
