"""What claims of a soak ask for: specs by name, and how often each is asked for.

In: nothing. Out: specs of claims, ResourceClaimTemplates. `fulfilment.py` reads the expressions used here, and no others.
"""

from collections.abc import Iterator
from typing import Any, Final

from testbed.api import Json

GPU, NPU = "gpu.apportion.dev", "npu.apportion.dev"
_MIG: Final = "mig.apportion.dev"
_RDMA: Final = "rdma.apportion.dev"
_CARD: Final = f"{GPU}/parentUUID"
_ALONE: Final = "!device.allowMultipleAllocations"
_SHARED: Final = "device.allowMultipleAllocations"


def exactly(name: str, device_class: str, expression: str = "", **more: Any) -> Json:
    """Return one request."""
    selectors = [{"cel": {"expression": expression}}] if expression else []
    return {"name": name, "exactly": {"deviceClassName": device_class, "selectors": selectors, **more}}


def first_of(name: str, *alternatives: Json) -> Json:
    """Return one request for the first of several, each as `exactly` returns it, that can be had."""
    return {
        "name": name,
        "firstAvailable": [{"name": each["name"], **each["exactly"]} for each in alternatives],
    }


def _whole(name: str, device_class: str, **more: Any) -> Json:
    """Return a request for whole devices that nobody shares."""
    return exactly(name, device_class, _ALONE, **more)


def _mig(name: str, profile: str, **more: Any) -> Json:
    return exactly(name, _MIG, f'device.attributes["{GPU}"].profile == "{profile}"', **more)


def _vnpu(name: str, template: str) -> Json:
    return exactly(name, "vnpu.apportion.dev", f'device.attributes["{NPU}"].template == "{template}"')


def _share(memory: str, **more: Any) -> Json:
    """Return a request for parts of shared GPUs."""
    return exactly("part", GPU, _SHARED, capacity={"requests": {"memory": memory}}, **more)


def _spec(*requests: Json, constraint: Json | None = None) -> Json:
    constraints = {"constraints": [constraint]} if constraint is not None else {}
    return {"devices": {"requests": [*requests], **constraints}}


SPECS: Final[dict[str, Json]] = {
    "1g10gb": _spec(_mig("gpu", "1g.10gb")),
    "1g20gb": _spec(_mig("gpu", "1g.20gb")),
    "2g20gb": _spec(_mig("gpu", "2g.20gb")),
    "3g40gb": _spec(_mig("gpu", "3g.40gb")),
    "gpu": _spec(_whole("whole", GPU)),
    "gpu-nic": _spec(
        _whole("whole", GPU),
        exactly("nic", _RDMA),
        constraint={"requests": ["whole", "nic"], "matchAttribute": "resource.kubernetes.io/pcieRoot"},
    ),
    "npu": _spec(_whole("whole", "npu.apportion.dev")),
    "quarter": _spec(_vnpu("npu", "vir05_1c_8g")),
    "share": _spec(_share("10Gi")),
    "shares": _spec(_share("20Gi", count=2)),
    "gpus": _spec(_whole("whole", GPU, count=2)),
    "gpu-or-npu": _spec(first_of("any", _whole("gpu", GPU), _whole("npu", "npu.apportion.dev"))),
    "any": _spec(
        first_of(
            "any", _whole("whole", GPU, count=2), _mig("half", "3g.40gb"), _mig("small", "1g.10gb", count=2)
        )
    ),
    "near": _spec(_mig("gpu", "1g.10gb", count=2), constraint={"matchAttribute": _CARD}),
    "apart": _spec(_mig("gpu", "1g.10gb", count=2), constraint={"distinctAttribute": _CARD}),
    "mixed": _spec(_mig("part", "2g.20gb"), _whole("whole", GPU)),
    "nics": _spec(exactly("nics", _RDMA, allocationMode="All")),
}
"""Claim templates by name."""
WEIGHTS: Final = {
    "gpu": 5, "1g10gb": 4, "1g20gb": 1, "2g20gb": 2, "3g40gb": 1, "gpu-nic": 1, "npu": 3, "quarter": 2, "share": 3,
    "shares": 1, "gpus": 1, "gpu-or-npu": 1, "any": 2, "near": 1, "apart": 1, "mixed": 1, "nics": 1,
}  # fmt: skip
"""How often a pod asks for each."""


def templates() -> Iterator[Json]:
    """Yield the ResourceClaimTemplates."""
    for name, spec in SPECS.items():
        yield {"metadata": {"name": name}, "spec": {"spec": spec}}
