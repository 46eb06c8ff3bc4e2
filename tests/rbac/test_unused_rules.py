"""The rights in the manifests are exactly those that the work needs.

An installation goes through every example and the rare paths; then the API server's audit log says which rule allowed
what. A right that nobody used is a right too many, unless a test proves that the work fails without it.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator

import pytest

from testbed.audit import Request
from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.demo.nodes import DEMO_MANIFESTS, demo_nodes
from testbed.installation import REPOSITORY, Installation
from tests.rbac.paths import Paths
from tests.rbac.rules import Right, granted, of, right

OPERATOR, AGENT = "apportion-operator", "apportion-agent"


PROVEN: dict[tuple[str, Right], str] = {
    # The API server asks for it by itself when an allocation changes, so no request names it.
    (OPERATOR, ("resource.k8s.io", "resourceclaims/binding", "patch")): (
        "tests/install/test_rights.py::test_an_allocation_needs_the_right_to_bind"
    ),
    # The same for the entries of `status.devices`.
    (AGENT, ("resource.k8s.io", "resourceclaims/driver", "associated-node:patch")): (
        "tests/agent/kubelet/test_claim_status.py::test_a_claim_says_that_its_devices_are_ready"
    ),
    # The server serves PodGroups with a feature gate only.
    **dict.fromkeys(
        ((OPERATOR, ("scheduling.k8s.io", "podgroups", verb)) for verb in ("list", "watch")),
        "tests/e2e/test_native_groups.py::test_pods_of_a_podgroup_get_their_devices_together_or_not_at_all",
    ),
}
"""Rights that the audit log cannot show, and the test that fails without each."""

REFUSALS: dict[tuple[str, Right], str] = {}
"""Refused requests that are as they should be, and why."""


@pytest.fixture(scope="module")
async def asked(binaries: Binaries) -> AsyncIterator[tuple[ControlPlane, list[Request]]]:
    """Lead one installation along every path; gives its control plane and what was asked of it."""
    async with ControlPlane(binaries=binaries) as cluster:
        async with Installation(
            cluster,
            demo_nodes(),
            operator_options=("--lease-duration", "9", "--schedulers=nobody,default-scheduler"),
            manifests=DEMO_MANIFESTS,
        ) as installation:
            namespace = await cluster.make_namespace("rights", {"apportion.dev/managed": "true"})
            paths = Paths(installation, namespace)
            await paths.examples()
            await paths.a_preemption()
            await paths.a_policy()
            await asyncio.gather(
                paths.an_allocation_that_nobody_uses(),
                paths.a_class_that_others_change(),
                paths.a_node_that_loses_a_card(),
                paths.slices_that_others_delete(),
                paths.a_cut_that_fails(),
            )
            await paths.a_restart()
            await paths.the_end()
        # Watches enter the log when they end.
        yield cluster, cluster.audited()


@pytest.mark.slow
@pytest.mark.timeout(480)
class TestRules:
    @pytest.mark.parametrize("account", [OPERATOR, AGENT])
    async def test_every_right_is_used_or_proven_necessary(
        self, asked: tuple[ControlPlane, list[Request]], account: str
    ) -> None:
        """A rule without a path that needs it fails here."""
        cluster, requests = asked
        used = {right(each) for each in of(requests, account) if each.decision == "allow" and each.code < 300}
        proven = {what for who, what in PROVEN if who == account}
        everything = await granted(cluster, account)

        assert len(everything) > 10
        assert sorted(everything - used - proven) == []
        assert sorted(proven & used) == [], "the audit log shows it by now"

    @pytest.mark.parametrize("account", [OPERATOR, AGENT])
    async def test_nothing_is_refused_and_nothing_leans_on_rules_of_others(
        self, asked: tuple[ControlPlane, list[Request]], account: str
    ) -> None:
        """What the code does and the manifests forget would show here."""
        mine = of(asked[1], account)
        refused = {right(each) for each in mine if each.decision != "allow" or each.code == 403}
        foreign: dict[Right, set[str]] = defaultdict(set)
        for each in mine:
            if f'"{account}' not in each.rule:
                foreign[right(each)].add(each.rule)

        assert len(mine) > 100
        assert sorted(what for what in refused if (account, what) not in REFUSALS) == []
        assert dict(foreign) == {}

    def test_every_proof_exists(self) -> None:
        """A test that was renamed or removed proves nothing."""
        for proof in PROVEN.values():
            file, _, name = proof.partition("::")
            assert f"def {name}(" in (REPOSITORY / file).read_text()
