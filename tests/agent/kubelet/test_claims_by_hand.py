"""A claim that an administrator prepares beside a running agent, which finds nothing of it in the API."""

import asyncio
import threading
from pathlib import Path

import pytest
import yaml

from apportion.agent.devices.simulated.backend import SimulatedBackend
from apportion.agent.nodetools import NodeTools
from apportion.agent.rows import ClaimRow, ClaimStep
from apportion.agent.settings import AgentOptions
from tests.agent.kubelet.filesbelow import REF, held_claims, written
from tests.agent.lifecycle.onecard import one_card
from tests.agent.places import GPU, H100, MakeBackend


async def test_an_agent_leaves_a_whole_card_alone_that_is_being_prepared_by_hand(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row would go, and another claim get the card, while the administrator's containers are about to use it."""
    backend = make_backend(cards=[H100])
    simulation = tmp_path / "node.yaml"
    simulation.write_text(yaml.safe_dump({"cards": [H100]}), encoding="utf-8")
    looked, seen = threading.Event(), list[ClaimRow | None]()
    async with one_card(tmp_path, backend) as node:
        claims = held_claims(tmp_path, node)
        looks: list[asyncio.Task[None]] = []

        def at(step: str) -> None:
            if step == "claim.preparing":
                looks.append(asyncio.create_task(claims.check()))
                looks[0].add_done_callback(lambda _: looked.set())

        def slow(*_: object) -> None:
            looked.wait(0.5)
            seen.append(node.context.journal.claim(REF.uid, GPU))

        monkeypatch.setattr(SimulatedBackend, "make_whole", slow)
        boot = tmp_path / "boot"
        boot.write_text("boot", encoding="utf-8")
        options = AgentOptions(
            "n", backend="simulated", simulation=simulation, cdi_dir=tmp_path / "cdi", state_dir=tmp_path,
            plugins_dir=tmp_path / "p", run_dir=tmp_path / "run", boot_id=boot, at=at,
        )  # fmt: skip
        await NodeTools(options).prepare(written("gpu-0"))
        await asyncio.gather(*looks)
        assert [row is not None for row in seen] == [True]
        assert [(row.uid, row.step) for row in claims.rows()] == [(REF.uid, ClaimStep.PREPARED)]
