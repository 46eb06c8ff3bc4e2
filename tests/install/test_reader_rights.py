"""What a person with the role `view` for the whole cluster may read: all that the commands read, and all kinds of ours."""

from collections.abc import AsyncIterator

import pytest

from apportion.api.crd import DEFINITIONS
from apportion.cli.migrateworkloads import WORKLOADS
from apportion.cli.world.objects import DECIDING
from apportion.cluster.kinds import OWN
from testbed.api import Json
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from tests.install.accessreview import allowed, named
from tests.install.supportedversions import OnDefault, OnOldest

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PERSON = "person-who-views"
OURS = frozenset(named(each.plural, OWN) for each in DEFINITIONS)
READ = OURS | {named(kind.plural, kind.group) for kind in (*DECIDING, *WORKLOADS)}


class Reader:
    @pytest.fixture
    async def person(self, cluster: ControlPlane) -> AsyncIterator[str]:
        """Bind an account to `view` in the whole cluster, until it may list what our role adds."""
        binding: Json = {
            "metadata": {"name": PERSON},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"kind": "ServiceAccount", "name": PERSON, "namespace": "apportion-system"}],
        }
        await cluster.api.create(f"{RBAC}/clusterrolebindings", binding)
        # The role is added to `view` by a controller, and the binding takes a moment to count.
        await eventually(lambda: allowed(cluster, PERSON, f"list {named('partitions', OWN)}"), bool)
        yield PERSON
        await cluster.api.delete(f"{RBAC}/clusterrolebindings/{PERSON}")

    async def test_who_views_a_cluster_reads_all_that_commands_read_and_writes_nothing_of_ours(
        self, cluster: ControlPlane, person: str
    ) -> None:
        """One kind that is missing ends every command with status 2, or hides from people why nothing happens."""
        wanted = [f"{verb} {what}" for what in sorted(READ) for verb in ("get", "list", "watch")]
        assert [right for right in wanted if not await allowed(cluster, person, right)] == []

        writes = [f"{verb} {what}" for what in sorted(OURS) for verb in ("create", "patch", "delete")]
        assert [right for right in writes if await allowed(cluster, person, right)] == []


class TestReader(OnDefault, Reader):
    pass


class TestReaderOnOldest(OnOldest, Reader):
    pass
