"""The scenario `shares`: nodes with eight GPUs that several claims may share, and claims for shares of their memory and cores.

In: number of nodes, demand, seed. Out: a scenario in the format of the shared
generator (peer/scenarios.py): fill to 90 % of the GPUs, then three rounds of releasing
a quarter of the claims and filling again. Equal arguments give equal scenarios.
"""

import random
import uuid
from typing import Any

DRIVER = "gpu.nvidia.com"
GPUS = 8
ROUNDS = 3
RELEASED = 4
"""Each round releases one in so many claims."""
MEMORY, CORES = 80, 100
"""Gi and percent of a GPU."""

MIX = (
    (35, 1, MEMORY, CORES),
    (25, 1, 20, 25),
    (15, 1, 10, 25),
    (12, 1, 40, 50),
    (8, 1, 55, 60),
    (5, 2, MEMORY, CORES),
)
"""Weight, GPUs, Gi and percent of each of them."""

Raw = dict[str, Any]


def shares(nodes: int, demand: float | None, seed: int) -> Raw:
    """Return the scenario. `demand`: requested fraction of the GPUs' cores."""
    rng = random.Random(f"shares/{nodes}/{seed}")
    names = [f"node-{number:04d}" for number in range(nodes)]
    target = (demand or 0.9) * nodes * GPUS * CORES
    claims: list[Raw] = []
    events: list[Raw] = []
    active: list[tuple[str, int]] = []
    asked = 0
    for turn in range(ROUNDS + 1):
        if turn:
            rng.shuffle(active)
            gone = len(active) // RELEASED
            for name, size in active[:gone]:
                events.append({"op": "release", "claim": name})
                asked -= size
            del active[:gone]
        while True:
            _, count, memory, cores = rng.choices(MIX, [row[0] for row in MIX])[0]
            if asked + count * cores > target:
                break
            name = f"claim-{len(claims):05d}"
            claims.append(_claim(rng, name, count, memory, cores))
            events.append({"op": "allocate", "claim": name})
            active.append((name, count * cores))
            asked += count * cores
    gpu = f'device.attributes["{DRIVER}"].type == "gpu"'
    return {
        "name": f"shares-{nodes}n",
        "nodes": [{"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}} for name in names],
        "classes": [
            {
                "metadata": {"name": DRIVER},
                "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}" && {gpu}'}}]},
            }
        ],
        "slices": [_slice(rng, name) for name in names],
        "claims": claims,
        "events": events,
    }


def _slice(rng: random.Random, node: str) -> Raw:
    return {
        "metadata": {"name": f"00000-{DRIVER}-{node}-0"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [_gpu(rng, number) for number in range(GPUS)],
        },
    }


def _gpu(rng: random.Random, number: int) -> Raw:
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{_uid(rng)}"},
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{0x10 + 16 * (number // 2):02x}"},
            "resource.kubernetes.io/numaNode": {"int": number // 4},
        },
        "capacity": {"memory": {"value": f"{MEMORY}Gi"}, "cores": {"value": str(CORES)}},
        "allowMultipleAllocations": True,
    }


def _claim(rng: random.Random, name: str, count: int, memory: int, cores: int) -> Raw:
    exact = {
        "deviceClassName": DRIVER,
        "allocationMode": "ExactCount",
        "count": count,
        "capacity": {"requests": {"memory": f"{memory}Gi", "cores": str(cores)}},
    }
    return {
        "metadata": {"name": name, "namespace": "default", "uid": _uid(rng)},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exact}]}},
        "status": {},
    }


def _uid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))
