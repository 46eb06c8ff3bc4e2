"""The simulated kubelet knows claims by name, as the kubelet does."""

from pathlib import Path

import pytest

from testbed.api import Json
from testbed.kubelet.claims import ClaimNotReadyError, Claims
from testbed.kubelet.plugins import Plugins


def claim(uid: str, pod: str) -> Json:
    """Return claim `c` of this UID, allocated without devices and reserved for a pod."""
    users = [{"resource": "pods", "name": pod, "uid": pod}]
    metadata = {"namespace": "team", "name": "c", "uid": uid}
    return {"metadata": metadata, "status": {"allocation": {}, "reservedFor": users}}


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_claim_is_not_prepared_beside_a_former_one_of_its_name(
    tmp_path: Path, *, restarted: bool
) -> None:
    """Its pod was deleted by force with the claim, and its containers run on."""

    async def wipe(_: str) -> bool:
        return True

    plugins = Plugins(tmp_path, wipe=wipe, wiping_delay=1.0, changed=lambda: None)
    claims = Claims(plugins, tmp_path / "claims.json")
    assert await claims.prepare("p", [claim("former", "p")]) == {"former": ()}
    if restarted:
        claims = Claims(plugins, tmp_path / "claims.json")
    with pytest.raises(ClaimNotReadyError, match="with same name c and different UID former still exists"):
        await claims.prepare("q", [claim("anew", "q")])
    assert claims.pods == {"p"}
    await claims.release("p")
    assert await claims.prepare("q", [claim("anew", "q")]) == {"anew": ()}
    assert claims.pods == {"q"}
