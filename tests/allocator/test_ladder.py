"""The devices that are chosen on a node are the closest ones."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from apportion.allocator.allocate import allocate
from apportion.allocator.closeness.ladder import ladder_of
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.terms import Terms
from apportion.api.policy import AllocationPolicy
from tests.allocator.boards import (
    GUARD,
    POLICIES,
    Ask,
    Board,
    Choice,
    Plain,
    Rating,
    claim,
    cluster,
    score,
    sets,
)

CASES = 30
"""Nodes drawn per topology."""
NPU, GPU, MIG, NIC, VNPU = (f"{name}.apportion.dev" for name in ("npu", "gpu", "mig", "rdma", "vnpu"))


def nics(count: int, **more: Any) -> list[dict[str, Any]]:
    """Return NICs, one per PCIe root."""
    return [
        {
            "name": f"mlx5-{i}",
            "pcieRoot": f"pci0000:{0x10 * (i + 1):02x}",
            "numaNode": i * 2 // count,
            "socket": 0,
        }
        | more
        for i in range(count)
    ]


H100 = {"model": "H100-80GB", "nvlink": 8, "sockets": [0, 0], "driverVersion": "550.90.7"}
BOARDS: dict[str, tuple[str, dict[str, Any], list[list[Ask]]]] = {
    "910A: two rings of four": (
        "ascend-910-rings",
        {"cards": [{"model": "910B3", "count": 8, "hccs": 4}]},
        [[Ask(NPU, n)] for n in (1, 1, 2, 2, 3, 4, 5)],
    ),
    "910B: a mesh": (
        "ascend-910b",
        {"cards": [{"model": "910B4", "count": 8}], "nics": nics(4)},
        [[Ask(NPU, n), Ask(NIC, m)] for n, m in ((1, 1), (2, 1), (4, 2), (5, 1))],
    ),
    "Box16: two rings of eight": (
        "ascend-box16",
        {"cards": [{"model": "910B3", "count": 16, "hccs": 8}]},
        [[Ask(NPU, n)] for n in (1, 2, 3, 4, 6, 10, 12)],
    ),
    "A3: eight modules of two": (
        "ascend-a3",
        {"cards": [{"model": "910B3", "count": 16, "hccs": 16, "chipsPerCard": 2}]},
        [[Ask(NPU, n)] for n in (1, 2, 3, 4, 5, 6)],
    ),
    "310P Duo: two chips per card": (
        "ascend-310p-duo",
        {"cards": [{"model": "310P-48G", "count": 8, "chipsPerCard": 2}]},
        [[Ask(NPU, n)] for n in (1, 2, 3, 4, 5)],
    ),
    "310P Duo: vNPUs": (
        "ascend-310p-duo",
        {"cards": [{"model": "310P-48G", "count": 4, "chipsPerCard": 2}]},
        [[Ask(VNPU, n, "vir02")] for n in (1, 2, 3)],
    ),
    "310: four chips per card": (
        "ascend-310",
        {"cards": [{"model": "310P", "count": 16, "chipsPerCard": 4}]},
        [[Ask(NPU, n)] for n in (1, 2, 3, 4, 5)],
    ),
    "H100: GPUs and NICs": (
        "nvidia",
        {"cards": [{**H100, "count": 8}], "nics": nics(4)},
        [[Ask(GPU, n), Ask(NIC, m)] for n, m in ((1, 1), (2, 1), (2, 2), (4, 2), (4, 4))],
    ),
    "H100: GPUs": (
        "nvidia",
        {"cards": [{**H100, "count": 8, "nvlink": 4}]},
        [[Ask(GPU, n)] for n in (2, 3, 4, 6)],
    ),
    "H100: partitions": (
        "nvidia",
        {"cards": [{**H100, "count": 4}]},
        [
            [Ask(MIG, 2, "1g.10gb")],
            [Ask(MIG, 3, "1g.10gb")],
            [Ask(MIG, 1, "2g.20gb"), Ask(MIG, 1, "3g.40gb")],
        ],
    ),
    "H100: a partition and its NIC": (
        "nvidia",
        {"cards": [{**H100, "count": 8}], "nics": nics(4)},
        [[Ask(MIG, 1, "1g.10gb"), Ask(NIC, 1)], [Ask(MIG, 2, "2g.20gb"), Ask(NIC, 1)]],
    ),
}


def policy(name: str) -> tuple[AllocationPolicy, list[dict[str, Any]]]:
    """Return a shipped policy, and its ladder in its own words."""
    raw = yaml.safe_load((POLICIES / f"{name}.yaml").read_text())
    return AllocationPolicy.from_json({**raw, "metadata": {**raw["metadata"], "uid": name}}), raw["spec"][
        "ladder"
    ]


def wear(board: Board, rng: random.Random) -> None:
    """Let some devices be in use: whole ones, and parts of others."""
    share = rng.choice([0.0, 0.2, 0.4, 0.6])
    for device in board.devices:
        kind = device.attributes[f"{device.driver}/type"]
        if kind in {"gpu", "npu", "nic"} and rng.random() < share:
            board.take(device)
    parts = [d for d in board.devices if d.attributes[f"{d.driver}/type"] in {"mig", "vnpu"}]
    for device in rng.sample(parts, min(len(parts), rng.choice([0, 0, 4, 12, 30]))):
        if board.fits([device]):
            board.take(device)


@pytest.mark.parametrize("title", BOARDS)
def test_the_chosen_set_is_the_best_of_all(
    title: str, record_property: Callable[[str, object], None]
) -> None:
    """On nodes in use: by worst level, evenness, sum of levels, fill, then the strategy's score."""
    name, cards, requests = BOARDS[title]
    found, ladder = policy(name)
    rng = random.Random(title)  # noqa: S311
    equal = asked = 0
    for _ in range(CASES):
        board = Board(cards)
        wear(board, rng)
        asks = rng.choice(requests)
        rating = Rating(ladder, board, asks)
        every = [(rating.close(choice), choice) for choice in sets(board, asks)]
        state = cluster(board)

        answer = allocate(
            state, Demand((claim(*asks),), tolerations=(GUARD,)), Terms(ladder=ladder_of(found.spec))
        )

        assert isinstance(answer, Decision) == bool(every)
        if isinstance(answer, Decision):
            best = min(rated for rated, _ in every)
            mine = chosen(board, answer)
            asked += 1
            equal += rating.close(mine) == best and score(state, board, mine) == min(
                score(state, board, choice) for rated, choice in every if rated == best
            )
    print(f"\n{title}: {equal} of {asked} sets are the best that there is")  # noqa: T201
    record_property("best", f"{equal}/{asked}")
    assert asked >= CASES // 3
    assert equal == asked


def chosen(board: Board, answer: Decision) -> Choice:
    """Return the devices of a decision, by request."""
    by_id = {device.id: device for device in board.devices}
    rows: dict[str, list[Plain]] = {}
    for allocation in answer.allocations:
        for result in allocation.results:
            rows.setdefault(result.request, []).append(by_id[result.device])
    return tuple(tuple(row) for row in rows.values())
