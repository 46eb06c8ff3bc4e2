"""A replica that loses the lease and gains it while its loop is busy sees what others wrote before it acts."""

import asyncio
from typing import Any

import pytest

from apportion.app import App
from apportion.settings import OperatorSettings
from testbed.beside import beside
from testbed.eventually import eventually
from tests.cluster.apiserver import ApiServer


@pytest.mark.parametrize("regained", [True, False])
async def test_what_was_observed_in_an_earlier_term_is_not_enough(
    monkeypatch: pytest.MonkeyPatch, *, regained: bool
) -> None:
    """The lease's thread says both at once, when the loop has its turn."""
    done: list[str] = []
    server = ApiServer()
    async with server.client() as client:

        async def connect() -> Any:
            return server.client()

        app = App(OperatorSettings(health_port=0), client, (1, 37), asyncio.Event(), connect=connect)
        loop = asyncio.get_running_loop()

        async def caught_up() -> None:
            done.append("caught up")

        async def act() -> None:
            done.append("acts")
            await asyncio.Event().wait()

        def warm_up() -> None:
            if len(done) == 1:
                loop.call_soon(app.lease._say_lost)
                if regained:
                    loop.call_soon(app.lease._say_gained)
                else:
                    loop.call_later(0.1, app.lease._say_gained)

        async def acts() -> bool:
            return "acts" in done

        monkeypatch.setattr(app, "_caught_up", caught_up)
        monkeypatch.setattr(app, "_act", act)
        monkeypatch.setattr(app.snapshot.state, "warm_up", warm_up)
        async with beside(app._lead()):
            app.lease._say_gained()
            await eventually(acts)
    assert done == ["caught up", "caught up", "acts"]
