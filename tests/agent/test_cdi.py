"""CDI files say what a container gets, and are never seen unfinished."""

import json
import uuid
from dataclasses import replace
from pathlib import Path

from apportion.agent.cdi import CdiFolder, Injection, device_id, spec
from apportion.agent.devices.values import DeviceNode, Edits, Hook, Mount

DRIVER = "gpu.apportion.dev"
VOID = (("NVIDIA_VISIBLE_DEVICES", "void"),)


def injection(device: str, request: str = "r", **fields: object) -> Injection:
    """Return one device of a claim."""
    values = {"uuid": f"MIG-{device}", "partition": True, "edits": Edits(VOID)} | fields
    return Injection(device=device, requests=(request,), **values)  # type: ignore[arg-type]


def test_a_container_finds_its_devices_by_the_name_of_the_request() -> None:
    """Each device carries all of its request, so that the order in which they are applied plays no part."""
    made = spec(DRIVER, "uid", [injection("a", "my-gpu"), injection("b", "my-gpu"), injection("c", "nic")])
    environment = [set(device["containerEdits"]["env"]) for device in made["devices"]]
    both = {"NVIDIA_VISIBLE_DEVICES=void", "APPORTION_MY_GPU=a,b", "APPORTION_MY_GPU_UUID=MIG-a,MIG-b"}
    assert environment == [
        both,
        both,
        {"NVIDIA_VISIBLE_DEVICES=void", "APPORTION_NIC=c", "APPORTION_NIC_UUID=MIG-c"},
    ]
    assert made["containerEdits"]["env"] == [
        "APPORTION_DEVICES=a,b,c",
        "APPORTION_PARTITION_UUID=MIG-a,MIG-b,MIG-c",
    ]


def test_the_ids_that_kubelet_passes_on_are_those_of_the_file() -> None:
    """`vendor/class=name`, with the claim's UID in the name: unique on the node."""
    made = spec(DRIVER, "uid", [injection("gpu-0")])
    assert device_id(DRIVER, "uid", "gpu-0") == f"{made['kind']}={made['devices'][0]['name']}"


def test_a_device_file_may_have_another_name_on_the_host() -> None:
    """A vNPU is /dev/vdavinci<id> outside and /dev/davinci<id> inside."""
    edits = Edits(
        nodes=(
            DeviceNode("/dev/davinci100", host_path="/dev/vdavinci100"),
            DeviceNode("/dev/x", major=1, minor=2),
        )
    )
    made = spec(DRIVER, "uid", [injection("npu-0", edits=edits)])
    assert made["devices"][0]["containerEdits"]["deviceNodes"] == [
        {"path": "/dev/davinci100", "hostPath": "/dev/vdavinci100"},
        {"path": "/dev/x", "type": "c", "major": 1, "minor": 2},
    ]


def test_a_damaged_or_missing_file_is_rewritten(tmp_path: Path) -> None:
    """Every prepare verifies it; one that is right is not touched."""
    folder = CdiFolder(tmp_path / "cdi")
    folder.write(DRIVER, "uid", [injection("gpu-0")])
    path = folder.path(DRIVER, "uid")
    right, touched = path.read_text(), path.stat().st_mtime_ns
    folder.write(DRIVER, "uid", [injection("gpu-0")])
    assert path.stat().st_mtime_ns == touched
    for damage in (lambda: path.write_text(right[:20]), path.unlink):
        damage()
        folder.write(DRIVER, "uid", [injection("gpu-0")])
        assert path.read_text() == right
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_removing_is_fine_twice_and_leaves_other_claims(tmp_path: Path) -> None:
    """One file per claim and driver."""
    folder = CdiFolder(tmp_path)
    one, two = str(uuid.uuid4()), str(uuid.uuid4())
    folder.write(DRIVER, one, [injection("gpu-0")])
    folder.write(DRIVER, two, [injection("gpu-1")])
    folder.remove(DRIVER, one)
    folder.remove(DRIVER, one)
    assert folder.claims(DRIVER) == {two}
    assert json.loads(folder.path(DRIVER, two).read_text())["cdiVersion"] == "0.5.0"


def test_only_files_of_our_name_and_kind_count_as_ours(tmp_path: Path) -> None:
    """Others' files may begin with our driver's name; half written ones of ours cannot say whose they are."""
    folder = CdiFolder(tmp_path)
    ours, damaged, unfinished, theirs = (str(uuid.uuid4()) for _ in range(4))
    folder.write(DRIVER, ours, [injection("gpu-0")])
    (tmp_path / f"{DRIVER}_{damaged}.json").write_text('{"kind": "gpu.app')
    (tmp_path / f"{DRIVER}_{unfinished}.new").write_text("")
    (tmp_path / f"{DRIVER}_{theirs}.json").write_text('{"kind": "vendor.example/gpu", "devices": []}')
    (tmp_path / f"{DRIVER}_nvidia.json").write_text("{}")
    (tmp_path / f"k8s.{DRIVER}_{theirs}.json").write_text("{}")
    assert folder.claims(DRIVER) == {ours, damaged, unfinished}
    assert folder.is_intact(DRIVER, ours)
    assert not folder.is_intact(DRIVER, damaged)


def test_a_file_that_gives_containers_something_else_does_not_show_the_edits(tmp_path: Path) -> None:
    """Another number, another device of that number, a mount or hook less, a device less, or a content that nobody can read."""
    folder, uid = CdiFolder(tmp_path), str(uuid.uuid4())
    node, mount = DeviceNode("/dev/nvidia0", major=195, minor=0), Mount("/lib/a", "/lib/a")
    hook = Hook("/usr/bin/h", ("h", "links"))
    now = Edits(nodes=(node,), mounts=(mount,), hooks=(hook,))
    here, beside = injection("gpu-0", edits=now), injection("gpu-1")
    folder.write(DRIVER, uid, [here, beside])
    assert folder.shows(DRIVER, uid, [here, beside])
    assert folder.shows(DRIVER, uid, [])
    for other in (
        replace(now, nodes=(replace(node, minor=1),)),
        replace(now, nodes=()),
        replace(now, mounts=(mount, Mount("/lib/b", "/lib/b"))),
        replace(now, hooks=(replace(hook, path="/usr/local/bin/h"),)),
    ):
        assert not folder.shows(DRIVER, uid, [replace(here, edits=other)])
    assert not folder.shows(DRIVER, uid, [replace(here, uuid="MIG-anew"), beside])
    assert not folder.shows(DRIVER, uid, [replace(here, device="gpu-2")])
    path = folder.path(DRIVER, uid)
    for text in ('{"kind": "%s/claim"}', '{"kind": "%s/claim", "devices": [1], "containerEdits": {}}', "{"):
        path.write_text(text.replace("%s", DRIVER))
        assert not folder.shows(DRIVER, uid, [])
