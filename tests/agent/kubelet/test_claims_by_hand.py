"""A claim that an administrator prepares beside a running agent, which finds nothing of it in the API."""

import asyncio
import threading
from pathlib import Path

import yaml

from apportion.agent.nodetools import NodeTools
from apportion.agent.rows import ClaimRow, ClaimStep
from apportion.agent.settings import AgentOptions
from tests.agent.kubelet.filesbelow import REF, held_claims, written
from tests.agent.lifecycle.onecard import one_card
from tests.agent.places import GPU, H100, MakeBackend


async def test_an_agent_leaves_a_whole_card_alone_that_is_being_prepared_by_hand(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Its row would go, and another claim get the card, while the administrator's containers are about to use it."""
    backend = make_backend(cards=[H100])
    simulation = tmp_path / "node.yaml"
    simulation.write_text(yaml.safe_dump({"cards": [H100]}), encoding="utf-8")
    boot = tmp_path / "boot"
    boot.write_text("boot", encoding="utf-8")

    async def agent() -> None:
        async with one_card(tmp_path, backend) as beside:
            await held_claims(tmp_path, beside).check()

    looking, seen = threading.Thread(target=lambda: asyncio.run(agent())), list[ClaimRow | None]()
    async with one_card(tmp_path, backend) as node:

        def at(step: str) -> None:
            if step == "claim.preparing":
                looking.start()
                # An agent that leaves the claim alone waits until it is prepared; any other one is done with it by then.
                looking.join(0.5)
            if step == "cdi.written":
                seen.append(node.context.journal.claim(REF.uid, GPU))

        options = AgentOptions(
            "n", backend="simulated", simulation=simulation, cdi_dir=tmp_path / "cdi", state_dir=tmp_path,
            plugins_dir=tmp_path / "p", run_dir=tmp_path / "run", boot_id=boot, at=at,
        )  # fmt: skip
        await NodeTools(options).prepare(written("gpu-0"))
        await asyncio.to_thread(looking.join)
        assert [row is not None for row in seen] == [True]
        rows = node.context.journal.claims()
        assert [(row.uid, row.step) for row in rows] == [(REF.uid, ClaimStep.PREPARED)]
