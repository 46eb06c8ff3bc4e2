"""What is said of a network interface that comes and goes."""

import subprocess
from typing import Any

import pytest

from testbed import hostnetwork


def test_an_interface_that_leaves_between_two_looks_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent moves it into a pod while somebody asks for its addresses, and then for its routes."""
    looks = iter(([{"ifname": "nic0"}], []))

    def ip(*words: str, namespace: str = "") -> Any:
        if words == ("address", "show"):
            return next(looks)
        raise subprocess.CalledProcessError(1, ["ip", *words], stderr='Cannot find device "nic0"')

    monkeypatch.setattr(hostnetwork, "ip", ip)
    assert hostnetwork.seen("nic0") == {}
