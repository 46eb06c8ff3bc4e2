"""`kubectl apply -k manifests/` works, and works again."""

import json
from pathlib import Path

from testbed.controlplane import ControlPlane
from tests.install.applied import versions
from tests.install.supportedversions import OnDefault, OnOldest

WORKLOADS = ("deployment.apps/apportion-operator", "daemonset.apps/apportion-agent")


class Apply:
    async def test_a_second_apply_changes_no_object(self, cluster: ControlPlane, manifests: Path) -> None:
        """Every object keeps its resourceVersion, so that a GitOps loop comes to rest."""
        before = await versions(cluster, manifests)

        await cluster.kubectl("apply", "--kustomize", str(manifests))

        after = await versions(cluster, manifests)
        assert len(before) >= 27
        assert {name: after[name] for name in before} == before
        assert set(after) - set(before) == {"Deployment/apportion-operator", "DaemonSet/apportion-agent"}
        await cluster.kubectl("delete", "--namespace=apportion-system", *WORKLOADS)

    async def test_the_policies_pass_the_servers_type_check(self, cluster: ControlPlane) -> None:
        """A typing error in a policy's CEL shows as a warning in its status, and would show only at use otherwise."""
        listed = json.loads(await cluster.kubectl("get", "validatingadmissionpolicies", "--output=json"))
        ours = [item for item in listed["items"] if item["metadata"]["name"].endswith(".apportion.dev")]

        assert len(ours) == 6
        assert [item["status"]["typeChecking"] for item in ours] == [{}] * 6


class TestApply(OnDefault, Apply):
    pass


class TestApplyOnOldest(OnOldest, Apply):
    pass
