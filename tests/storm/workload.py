"""The storm's nodes, pods and claims: numbers in, objects out. Everything fits, with a little slack.

15 nodes of 4 H100 (60 cards of 8 memory slices) take 32 whole GPUs and MIG partitions of 168 slices on the other 28 cards;
5 nodes of 16 Ascend 910B4 (80 chips) take 73 whole NPUs and 6 quarters of one.
"""

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

from testbed.api import Json
from testbed.installation import SimulatedNode

GPU, NPU = "gpu.apportion.dev", "npu.apportion.dev"
PROFILES = {"1g.10gb": 60, "1g.20gb": 20, "2g.20gb": 12, "3g.40gb": 8}
"""How many pods ask for each MIG profile by a template: 100, of 156 memory slices."""
GPUS, GPUS_WITH_NIC, NPUS = 22, 8, 70
"""How many pods ask for a whole device by a template: 100."""

STANDALONE = 20
"""Claims that are made without a pod: 8 Immediate ones, of which 4 get a pod; 12 others, of which 2 get two pods."""


def nodes() -> list[SimulatedNode]:
    """Return the twenty nodes."""
    found = []
    for number in range(15):
        nics = [
            {"name": f"mlx5-{index}", "pcieRoot": f"pci0000:{0x10 * (1 + index):02x}", "numaNode": index}
            for index in range(2)
        ]
        # A cut takes as long as a fast driver does, so that kills fall into the middle of some.
        simulation = {
            "cards": [{"model": "H100-80GB", "count": 4}],
            "nics": nics,
            "faults": {"createDelay": 0.1, "destroyDelay": 0.05},
        }
        found.append(SimulatedNode(f"h100-{number:02d}", simulation))
    for number in range(5):
        simulation = {"cards": [{"model": "910B4", "count": 16}], "faults": {"createDelay": 0.1}}
        found.append(SimulatedNode(f"ascend-{number:02d}", simulation))
    return found


def exactly(name: str, device_class: str, expression: str = "") -> Json:
    """Return one request."""
    selectors = [{"cel": {"expression": expression}}] if expression else []
    return {"name": name, "exactly": {"deviceClassName": device_class, "selectors": selectors}}


def mig(profile: str) -> Json:
    """Return the spec of a claim for one MIG partition."""
    expression = f'device.attributes["{GPU}"].profile == "{profile}"'
    return {"devices": {"requests": [exactly("gpu", "mig.apportion.dev", expression)]}}


def vnpu(template: str) -> Json:
    """Return the spec of a claim for one vNPU."""
    expression = f'device.attributes["{NPU}"].template == "{template}"'
    return {"devices": {"requests": [exactly("npu", "vnpu.apportion.dev", expression)]}}


def whole(device_class: str) -> Json:
    """Return the spec of a claim for one whole device."""
    return {"devices": {"requests": [exactly("whole", device_class)]}}


def with_nic() -> Json:
    """Return the spec of a claim for a GPU and a NIC behind one PCIe root."""
    requests = [exactly("gpu", GPU), exactly("nic", "rdma.apportion.dev")]
    near = {"requests": ["gpu", "nic"], "matchAttribute": "resource.kubernetes.io/pcieRoot"}
    return {"devices": {"requests": requests, "constraints": [near]}}


SPECS = {profile.replace(".", ""): mig(profile) for profile in PROFILES} | {
    "gpu": whole(GPU),
    "gpu-nic": with_nic(),
    "npu": whole(NPU),
}
"""Claim templates by name."""


def templates() -> Iterator[Json]:
    """Yield the ResourceClaimTemplates."""
    for name, spec in SPECS.items():
        yield {"metadata": {"name": name}, "spec": {"spec": spec}}


def pod(name: str, **claim: str) -> Json:
    """Return a pod with one claim, of a template or by name."""
    container: dict[str, Any] = {
        "name": "main",
        "image": "none",
        "resources": {"claims": [{"name": "device"}], "requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    return {
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "resourceClaims": [{"name": "device", **claim}],
            "containers": [container],
        },
    }


def template_pods() -> list[Json]:
    """Return the 200 pods with template claims, well mixed."""
    counts = {profile.replace(".", ""): count for profile, count in PROFILES.items()}
    counts |= {"gpu": GPUS, "gpu-nic": GPUS_WITH_NIC, "npu": NPUS}
    names = list(chain.from_iterable(repeat(name, count) for name, count in counts.items()))
    # A step that shares no factor with 200 visits every place once: large and small, of all kinds, come in turns.
    mixed = [names[index * 63 % len(names)] for index in range(len(names))]
    return [pod(f"t-{index:03d}-{name}", resourceClaimTemplateName=name) for index, name in enumerate(mixed)]


def standalone_claims() -> list[Json]:
    """Return the 20 claims that are no pod's own."""
    specs = [
        *(mig("1g.10gb") for _ in range(4)),
        *(mig("2g.20gb") for _ in range(3)),
        *(vnpu("vir05_1c_8g") for _ in range(6)),
        *(whole(NPU) for _ in range(3)),
        *(whole(GPU) for _ in range(2)),
        *(mig("1g.10gb") for _ in range(2)),
    ]
    found = []
    for index, spec in enumerate(specs):
        immediate = index % 5 in (0, 1)
        notes = {"apportion.dev/allocation": "Immediate"} if immediate else {}
        found.append({"metadata": {"name": f"s-{index:02d}", "annotations": notes}, "spec": spec})
    return found


def standalone_pods() -> list[Json]:
    """Return the pods of standalone claims: half the Immediate ones stay without, two claims are shared."""
    found = []
    for index in range(STANDALONE):
        if index % 10 in (0, 1):
            continue  # Immediate, without a pod
        users = 2 if index in (2, 13) else 1
        found += [pod(f"s-{index:02d}-{user}", resourceClaimName=f"s-{index:02d}") for user in range(users)]
    return found
