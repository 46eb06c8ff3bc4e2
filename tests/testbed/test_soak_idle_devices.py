"""What a soak says of pods that wait beside free devices."""

from collections.abc import Sequence

import pytest

from testbed.api import Json
from testbed.soak.idledevices import IdleDevices
from testbed.soak.specs import GPU, SPECS
from testbed.violations import Devices

_SIZE = 7


def _device(name: str, kind: str, taken: int, card: int, **attributes: str) -> Json:
    attributes = {"type": kind, **attributes}
    return {
        "name": name,
        "attributes": {key: {"string": text} for key, text in attributes.items()},
        "consumesCounters": [{"counterSet": f"card-{card}", "counters": {"slices": {"value": str(taken)}}}],
    }


def _card(card: int) -> list[Json]:
    """Return a GPU with room for seven slices, three partitions of one and one of three."""
    parts = [
        _device(f"gpu-{card}-mig-{place}", "mig", 1, card, profile="1g.10gb", parentUUID=f"GPU-{card}")
        for place in range(3)
    ]
    half = _device(f"gpu-{card}-half", "mig", 3, card, profile="3g.40gb", parentUUID=f"GPU-{card}")
    return [_device(f"gpu-{card}", "gpu", _SIZE, card), *parts, half]


def _slices(*cards: int, tainted: str = "") -> list[Json]:
    """Return the slices of a node with these cards; one device has a taint."""
    devices = [device for card in cards for device in _card(card)]
    for device in devices:
        device["taints"] = [{"key": "apportion.dev/guard"}]
        if device["name"] == tainted:
            device["taints"] += [{"key": "example.com/sick"}]
    spec = {"driver": GPU, "pool": {"name": "one"}, "nodeName": "one"}
    sets = [{"name": f"card-{card}", "counters": {"slices": {"value": str(_SIZE)}}} for card in cards]
    return [{"spec": spec | {"sharedCounters": sets}}, {"spec": spec | {"devices": devices}}]


def _claim(name: str, *had: str) -> Json:
    results = [{"request": "r", "driver": GPU, "pool": "one", "device": device} for device in had]
    status = {"allocation": {"devices": {"results": results}}} if had else {}
    return {"metadata": {"namespace": "n", "name": name, "uid": name}, "spec": {}, "status": status}


def _pod(*templates: str, **labels: str) -> Json:
    """Return a pod that waits; its claims are called as its name and their number."""
    entries = [
        {"name": f"d{index}", "resourceClaimTemplateName": each} for index, each in enumerate(templates)
    ]
    made = [{"name": each["name"], "resourceClaimName": f"p-{each['name']}"} for each in entries]
    metadata = {"namespace": "n", "name": "p", "uid": "p", "labels": labels}
    return {
        "metadata": metadata,
        "spec": {"resourceClaims": entries},
        "status": {"resourceClaimStatuses": made},
    }


def _said(pod: Json, *had: str, cards: Sequence[int] = (0, 1), tainted: str = "") -> list[str]:
    slices = _slices(*cards, tainted=tainted)
    devices = Devices()
    for piece in slices:
        devices.learn(piece)
    claims = [_claim("other", *had), _claim("p-d0"), _claim("p-d1")]
    return [*IdleDevices(devices, slices, claims).beside([pod])]


@pytest.mark.parametrize("spec", ["gpu", "gpus", "1g10gb", "3g40gb", "near", "apart", "any"])
def test_all_is_free(spec: str) -> None:
    """The pod that waits is named."""
    [text] = _said(_pod(spec))
    assert f"pod n/p waits for ('{spec}',), and " in text


@pytest.mark.parametrize(
    ("specs", "had"),
    [
        (("gpu",), ("gpu-0", "gpu-1-mig-0")),
        (("gpus",), ("gpu-0",)),
        (("gpus",), ("gpu-0-mig-0",)),
        (("1g10gb",), ("gpu-0", "gpu-1")),
        (("near",), ("gpu-0", "gpu-1-mig-0", "gpu-1-mig-1")),
        (("apart",), ("gpu-0",)),
        (("gpu", "1g10gb"), ("gpu-0",)),
        (("any",), ("gpu-0", "gpu-1-half", "gpu-1-mig-0", "gpu-1-mig-1")),
        (("npu",), ()),
    ],
)
def test_what_waits_for_is_taken(specs: tuple[str, ...], had: Sequence[str]) -> None:
    """Nothing is said: the whole, another part of the card, or the node's other card is taken."""
    assert _said(_pod(*specs), *had) == []


def test_what_is_sick_is_not_free() -> None:
    """The taint of the guard does not count."""
    assert _said(_pod("gpu"), cards=[0], tainted="gpu-0") == []
    assert _said(_pod("1g10gb"), cards=[0], tainted="gpu-0")


def test_who_is_left_out() -> None:
    """Pods of groups, bound ones, those that end, and those that have devices."""
    bound, ending = _pod("gpu"), _pod("gpu")
    bound["spec"]["nodeName"] = "one"
    ending["metadata"]["deletionTimestamp"] = "now"
    assert _said(bound) == _said(ending) == _said(_pod("gpu", **{"apportion.dev/pod-group": "g"})) == []
    assert _said(_pod("share")) == []
    slices, devices = _slices(0, 1), Devices()
    for piece in slices:
        devices.learn(piece)
    assert [*IdleDevices(devices, slices, [_claim("p-d0", "gpu-0")]).beside([_pod("gpu")])] == []


def test_every_template_is_understood() -> None:
    """On an empty cluster too: no template has a form that is not read."""
    for name in SPECS:
        assert _said(_pod(name), "gpu-0", "gpu-1") == []
