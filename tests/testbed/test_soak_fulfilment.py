"""What a soak says of claims that have other devices than they ask for."""

from collections.abc import Sequence
from typing import Any

import pytest

from testbed.api import Json
from testbed.soak.fulfilment import Fulfilment
from testbed.soak.specs import GPU, SPECS

_NIC = "rdma.apportion.dev"


def _device(name: str, kind: str, *, shared: bool = False, **attributes: str) -> Json:
    attributes = {"type": kind, **attributes}
    found: Json = {
        "name": name,
        "attributes": {key: {"string": text} for key, text in attributes.items()},
        "allowMultipleAllocations": shared,
    }
    return found


def _slice(driver: str, node: str, *devices: Json) -> Json:
    return {"spec": {"driver": driver, "pool": {"name": node}, "nodeName": node, "devices": [*devices]}}


@pytest.fixture
def known() -> Fulfilment:
    """Two GPUs that are alone, one that is shared, partitions of two cards, and two NICs of one node."""
    found = Fulfilment()
    root = {"resource.kubernetes.io/pcieRoot": {"string": "pci0"}}
    gpus = [_device("gpu-0", "gpu"), _device("gpu-1", "gpu"), _device("gpu-2", "gpu", shared=True)]
    parts = [
        _device(f"gpu-{card}-mig-{place}", "mig", profile="1g.10gb", parentUUID=f"GPU-{card}")
        for card in (3, 4)
        for place in (0, 1)
    ]
    nics = [_device("nic-0", "nic"), _device("nic-1", "nic")]
    for each in (gpus[0], nics[0]):
        each["attributes"] |= root
    found.learn(_slice(GPU, "one", *gpus, *parts, _device("gpu-5-mig-0", "mig", profile="2g.20gb")))
    found.learn(_slice(_NIC, "one", *nics))
    return found


def _claim(spec: str, *had: tuple[str, str]) -> Json:
    """Return a claim of a template that has devices, each by its request and name."""
    results = [
        {
            "request": request,
            "driver": _NIC if device.startswith("nic") else GPU,
            "pool": "one",
            "device": device,
        }
        for request, device in had
    ]
    status: dict[str, Any] = {"allocation": {"devices": {"results": results}}} if had else {}
    return {"metadata": {"namespace": "n", "name": "c", "uid": "u"}, "spec": SPECS[spec], "status": status}


@pytest.mark.parametrize(
    ("spec", "had"),
    [
        ("gpu", []),
        ("gpu", [("whole", "gpu-0")]),
        ("gpus", [("whole", "gpu-0"), ("whole", "gpu-1")]),
        ("share", [("part", "gpu-2")]),
        ("1g10gb", [("gpu", "gpu-3-mig-0")]),
        ("any", [("any/small", "gpu-3-mig-0"), ("any/small", "gpu-4-mig-0")]),
        ("near", [("gpu", "gpu-3-mig-0"), ("gpu", "gpu-3-mig-1")]),
        ("apart", [("gpu", "gpu-3-mig-0"), ("gpu", "gpu-4-mig-1")]),
        ("gpu-nic", [("whole", "gpu-0"), ("nic", "nic-0")]),
        ("nics", [("nics", "nic-0"), ("nics", "nic-1")]),
    ],
)
def test_what_is_asked_for_is_right(known: Fulfilment, spec: str, had: Sequence[tuple[str, str]]) -> None:
    """Nothing is said."""
    assert [*known.unfulfilled(_claim(spec, *had))] == []


@pytest.mark.parametrize(
    ("spec", "had", "said"),
    [
        (
            "gpu",
            [("whole", "gpu-2")],
            "whole: gpu.apportion.dev/one/gpu-2 does not match !device.allowMultiple",
        ),
        ("gpu", [("whole", "gpu-3-mig-0")], "is none of class gpu.apportion.dev"),
        ("gpu", [("whole", "gpu-7")], "is none of class gpu.apportion.dev"),
        ("gpu", [("part", "gpu-0")], "has devices for ['part'], and asks for ['whole']"),
        ("gpus", [("whole", "gpu-0")], "1 devices instead of 2"),
        ("share", [("part", "gpu-0")], "does not match device.allowMultipleAllocations"),
        ("1g10gb", [("gpu", "gpu-5-mig-0")], "does not match device.attributes"),
        ("any", [("any/small", "gpu-3-mig-0")], "any/small: 1 devices instead of 2"),
        ("any", [("any", "gpu-0")], "has devices for ['any']"),
        ("near", [("gpu", "gpu-3-mig-0"), ("gpu", "gpu-4-mig-0")], "should be equal"),
        ("apart", [("gpu", "gpu-3-mig-0"), ("gpu", "gpu-3-mig-1")], "should be distinct"),
        ("gpu-nic", [("whole", "gpu-1"), ("nic", "nic-0")], "should be equal"),
        ("gpu-nic", [("whole", "gpu-0")], "and asks for ['nic', 'whole']"),
        ("nics", [("nics", "nic-0")], "1 devices instead of 2"),
    ],
)
def test_what_is_wrong_is_said(
    known: Fulfilment, spec: str, had: Sequence[tuple[str, str]], said: str
) -> None:
    """One text for it."""
    [text] = known.unfulfilled(_claim(spec, *had))
    assert said in text


def test_what_was_shared_may_be_kept(known: Fulfilment) -> None:
    """A claim keeps a device that is shared no more."""
    known.learn(_slice(GPU, "one", _device("gpu-2", "gpu")))
    assert [*known.unfulfilled(_claim("share", ("part", "gpu-2")))] == []
