"""What is left of the driver's files once a backend has let go of it: nothing, or it could not be exchanged."""

import threading

import pytest

from apportion.agent.devices.nvml.session import NoSession
from testbed.eventually import eventually
from testbed.fakes.nvml.library import FakeNvml
from tests.agent.nvml.nodes import Node

UNINITIALIZED = 1
WAIT, REGISTER = "nvmlEventSetWait_v2", "nvmlDeviceRegisterEvents"


async def _called(fake: FakeNvml, symbol: str) -> int:
    return fake.calls().get(symbol, 0)


def test_a_backend_that_is_closed_has_no_file_of_the_driver_open(node: Node) -> None:
    """A set of events that was not freed would keep the GPUs' files open."""
    node.backend.devices()
    node.backend.health()
    assert node.fake.held()
    node.backend.close()
    assert not node.fake.held()


def test_a_set_that_fails_is_freed_when_another_takes_its_place(node: Node) -> None:
    """Events come to the new one, once."""
    node.backend.devices()
    node.backend.health()
    node.fake.fail(WAIT, 999)
    node.backend.health()
    node.fake.xid(0, 79)
    assert set(node.backend.health()) == {"gpu-0"}
    node.backend.release("a test")
    assert not node.fake.held()


def test_a_session_that_is_over_takes_its_set_along(node: Node) -> None:
    """The driver was reloaded: the set of before is not touched, that of now is freed."""
    node.backend.devices()
    node.backend.health()
    node.fake.fail("nvmlDeviceGetMemoryInfo", UNINITIALIZED)
    with pytest.raises(NoSession):
        node.backend.health()
    assert not node.backend.health()
    node.fake.xid(0, 79)
    assert set(node.backend.health()) == {"gpu-0"}
    node.backend.close()


@pytest.mark.slow
@pytest.mark.parametrize("symbol", [WAIT, REGISTER])
async def test_a_call_that_hangs_does_not_hold_up_who_closes(node: Node, symbol: str) -> None:
    """Its set cannot be freed; the backend is closed all the same, and the late call opens nothing."""
    node.backend.devices()
    node.backend.health()
    if symbol == REGISTER:
        # Only a new set makes it register again.
        node.fake.fail(WAIT, 999)
    before = await _called(node.fake, symbol)
    node.fake.hang(symbol)
    late = threading.Thread(target=node.backend.health)
    late.start()
    try:
        await eventually(lambda: _called(node.fake, symbol), lambda calls: calls > before)
        node.backend.close()
    finally:
        node.fake.drop_rules()
        late.join(60)
    assert not late.is_alive()
