"""A claim that is reserved for its gated pod together with its allocation, on real control planes of both versions (ADR 23)."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from apportion.cluster.kinds import CLAIMS, PODS
from apportion.errors import ApiError, NotLeading
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.faultyproxy import Fault, Rule
from tests.scheduling.reservedplace import LONG, Place, clearing, handed_on, place_in


class Reserving:
    async def test_kube_scheduler_binds_without_a_write_to_the_claim(self, place: Place) -> None:
        """One write less for each pod; the node is the one that was allocated."""
        pod, claim = await place.allocated("p", "reserved-large")
        await place.writer.ungate(pod)
        assert (await place.bound("p")).node == "reserved-large"
        found = await place.claim_of(pod)
        assert found is not None
        assert (found.version, found.allocated_by) == (claim.version, "apportion-operator")

    async def test_kube_scheduler_nominates_no_node_where_we_have(self, place: Place) -> None:
        """Its own write of the pod's status before it binds is left out, so that a pod costs no more requests."""
        assert await place.nominated_by("ours", "reserved-large") == "apportion-operator"
        assert await place.nominated_by("its-own", "") == "kube-scheduler"

    async def test_a_nomination_binds_nobody(self, place: Place) -> None:
        """A pod that does not fit there has another node, as one without a nomination."""
        pod, _ = await place.allocated("p", "reserved-large", cpu="2")
        await place.writer.ungate(pod, node="reserved-small")
        assert (await place.bound("p")).node == "reserved-large"

    async def test_kube_scheduler_takes_a_nomination_back_with_the_devices(self, place: Place) -> None:
        """Else the node's cpu would be kept for a pod that has nothing there."""
        pod, _ = await place.allocated("p", "reserved-small", cpu="2")
        await place.writer.ungate(pod, node="reserved-small")
        await eventually(
            lambda: place.claim_of(pod), lambda found: found is not None and found.allocation is None
        )

        async def nominated() -> str:
            found = await place.client.get(PODS, "p", namespace=place.namespace)
            return str(found["status"].get("nominatedNodeName", ""))

        await eventually(nominated, lambda node: node == "")

    async def test_a_gated_pod_is_not_bound(self, place: Place) -> None:
        """So the reservation of a gated pod says that nobody uses the devices."""
        pod, _ = await place.allocated("p", "reserved-large")
        with pytest.raises(Exception, match="schedulingGates"):
            await place.bind(pod, "reserved-large")

    @pytest.mark.parametrize("gated", [True, False])
    async def test_controller_manager_takes_it_from_a_pod_that_never_had_a_node(
        self, place: Place, *, gated: bool
    ) -> None:
        """The devices are free within a moment, without us."""
        pod, claim = await place.allocated("p", "reserved-small", cpu="100")
        if not gated:
            await place.writer.ungate(pod)
        await place.client.delete(PODS, "p", namespace=place.namespace, uid=pod.uid)
        left = await eventually(
            lambda: place.claim_of(pod), lambda found: found is None or found.allocation is None
        )
        assert left is None or (left.uid == claim.uid and left.reserved_for == ())
        assert await eventually(lambda: place.claim_of(pod), lambda found: found is None) is None

    async def test_kube_scheduler_takes_it_back_where_the_pod_does_not_fit(self, place: Place) -> None:
        """As it does with a claim that nobody has reserved."""
        pod, _ = await place.allocated("p", "reserved-small", cpu="2")
        await place.writer.ungate(pod)
        found = await eventually(
            lambda: place.claim_of(pod), lambda found: found is not None and found.allocation is None
        )
        assert found is not None
        assert found.reserved_for == ()

    async def test_what_a_gated_pod_has_is_cleared(self, place: Place) -> None:
        """With the reservation; controller-manager leaves the claim of a live pod alone."""
        pod, claim = await place.allocated("p", "reserved-large")
        assert await place.writer.clear(claim, pod)
        found = await place.claim_of(pod)
        assert found is not None
        assert (found.allocation, found.reserved_for) == (None, ())

    async def test_a_pod_without_a_gate_loses_its_reservation_first(self, place: Place) -> None:
        """kube-scheduler, which may know it as reserved, has to write from then on; so it keeps its devices if it is bound."""
        pod, claim = await place.allocated("p", "reserved-small", cpu="100")
        await place.writer.ungate(pod)
        assert not await place.writer.clear(claim, pod)
        unreserved = await place.claim_of(pod)
        assert unreserved is not None
        assert (unreserved.allocation, unreserved.reserved_for) == (claim.allocation, ())
        assert await place.writer.clear(unreserved, pod)
        cleared = await place.claim_of(pod)
        assert cleared is not None
        assert cleared.allocation is None

    async def test_a_bound_pod_keeps_its_devices(self, place: Place) -> None:
        """Also where our watch shows it as gated still. Nothing is written: without its reservation it would not be prepared once more."""
        pod, claim = await place.allocated("p", "reserved-large")
        await place.writer.ungate(pod)
        await place.bound("p")
        assert not await place.writer.clear(claim, pod)
        found = await place.claim_of(pod)
        assert found is not None
        assert found.version == claim.version
        assert [user.uid for user in found.reserved_for] == [pod.uid]
        assert found.allocation == claim.allocation

    async def test_a_pod_that_is_bound_meanwhile_keeps_its_devices(
        self, place: Place, tmp_path: Path
    ) -> None:
        """The reservation is there at once, without controller-manager."""
        pod, claim = await place.allocated("p", "reserved-large")
        async with clearing(place, tmp_path, pod, claim) as (proxy, cleared):
            proxy.let_go()
            assert not await cleared
            found = await place.claim_of(pod)
        assert found is not None
        assert [user.uid for user in found.reserved_for] == [pod.uid]
        assert found.allocation == claim.allocation

    async def test_a_bound_pod_keeps_the_devices_of_a_claim_in_deletion(self, place: Place) -> None:
        """Nobody may reserve such a claim once more, and without its reservation controller-manager frees what the containers use."""
        pod, claim = await place.allocated("p", "reserved-large")
        await place.writer.ungate(pod)
        await place.bound("p")
        await place.client.delete(CLAIMS, claim.name, namespace=place.namespace, uid=claim.uid)
        assert not await place.writer.clear(claim, pod)
        found = await place.claim_of(pod)
        assert found is not None
        assert (found.deleting, found.allocation) == (True, claim.allocation)
        assert [user.uid for user in found.reserved_for] == [pod.uid]

    @pytest.mark.parametrize(
        ("fault", "method", "path"),
        [
            (Fault.FAIL, "GET", "/pods/p"),
            (Fault.EXPIRE, "GET", "/pods/p"),
            (Fault.LOSE_ANSWER, "PATCH", "/status"),
            (Fault.HOLD_REQUEST, "PATCH", "/status"),
        ],
        ids=[
            "the pod cannot be read",
            "reading the pod is refused",
            "the answer is lost",
            "the request comes late",
        ],
    )
    async def test_a_bound_pod_keeps_its_reservation_where_an_answer_is_missing(
        self, place: Place, tmp_path: Path, fault: Fault, method: str, path: str
    ) -> None:
        """Nobody would prepare its claim, as long as controller-manager does not see that."""
        pod, claim = await place.allocated("p", "reserved-large")
        rule = Rule(fault, method, path, times=1)
        with_the_write = [rule] if fault is Fault.LOSE_ANSWER else []
        late = fault is Fault.HOLD_REQUEST
        patience = 5.0 if late else LONG
        async with clearing(place, tmp_path, pod, claim, *with_the_write, patience=patience) as (
            proxy,
            cleared,
        ):
            if method == "GET":
                proxy.rules.append(rule)
            if not late:
                proxy.let_go()
            with pytest.raises(ApiError):
                await cleared
            proxy.let_go()
            await eventually(lambda: handed_on(proxy, "/status"))
            found = await place.claim_of(pod)
        assert found is not None
        assert [user.uid for user in found.reserved_for] == [pod.uid]
        assert found.allocation == claim.allocation

    async def test_a_bound_pod_gets_its_reservation_back_when_the_lease_is_renewed(
        self, place: Place, tmp_path: Path
    ) -> None:
        """The lease was too short for a write for a moment, right after the reservation had been taken away."""
        pod, claim = await place.allocated("p", "reserved-large")
        asked = count()

        def fence() -> None:
            # Before the claim is read, and before its reservation goes; then for the reservation to come back.
            if 2 <= next(asked) < 4:
                raise NotLeading("1.0 s left")

        async with clearing(place, tmp_path, pod, claim, fence=fence) as (proxy, cleared):
            proxy.let_go()
            assert not await cleared
            found = await place.claim_of(pod)
        assert found is not None
        assert [user.uid for user in found.reserved_for] == [pod.uid]

    async def test_what_others_have_reserved_is_never_touched(self, place: Place) -> None:
        """Not even where the pod of the claim has reserved it, too."""
        pod, claim = await place.allocated("p", "reserved-large")
        other = {"apiGroup": "example.com", "resource": "things", "name": "other", "uid": "other"}
        own = {"resource": "pods", "name": pod.name, "uid": pod.uid}
        both = {"status": {"reservedFor": [own, other]}}
        await place.client.patch(CLAIMS, claim.name, both, namespace=place.namespace, sub="status")
        assert not await place.writer.clear(claim, pod)
        found = await place.claim_of(pod)
        assert found is not None
        assert len(found.reserved_for) == 2
        # controller-manager does not know the other consumer, and would keep the claim.
        gone = {"status": {"reservedFor": None}}
        await place.client.patch(CLAIMS, claim.name, gone, namespace=place.namespace, sub="status")


class TestReserving(Reserving):
    @pytest.fixture
    async def place(self, control_plane: ControlPlane, namespace: str) -> AsyncIterator[Place]:
        """Give a place on the default version."""
        async with place_in(control_plane, namespace) as made:
            yield made


class TestReservingOnTheOldest(Reserving):
    @pytest.fixture
    async def place(self, oldest_control_plane: ControlPlane, oldest_namespace: str) -> AsyncIterator[Place]:
        """Give a place on the oldest supported version."""
        async with place_in(oldest_control_plane, oldest_namespace) as made:
            yield made
