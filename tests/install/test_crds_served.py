"""The API server serves our kinds: it explains them, fills defaults in, and refuses what cannot be."""

import pytest

from apportion.api.policy import AllocationPolicy
from testbed.api import Json
from testbed.controlplane import ControlPlane
from testbed.errors import ApiError
from tests.install.refusedobjects import IMMUTABLE, REFUSED
from tests.install.supportedversions import OnDefault, OnOldest
from tests.install.writtenobjects import ACCEPTED, GROUP, POLICY, create


class Served:
    @pytest.mark.parametrize(
        ("path", "words"),
        [
            ("partition", "The operator writes it; the node agent cuts it"),
            ("partition.spec", "The object that uses it. Absent: it is idle"),
            ("partition.status.phase", "Pending: not begun, or waiting for room"),
            ("playout.spec.partitions", "Exact positions on every card (MIG only)"),
            ("apol.spec.partitions.idleTimeout", "as a duration (300s, 1h30m)"),
            ("aquota.spec.cohort", "the one with the smaller dominant share goes first"),
        ],
    )
    async def test_explain_says_what_a_field_means(
        self, cluster: ControlPlane, path: str, words: str
    ) -> None:
        """`kubectl explain` answers with our sentences, by long and short names."""
        said = " ".join((await cluster.kubectl("explain", path)).split())

        assert words in said

    @pytest.mark.parametrize(("kind", "change"), ACCEPTED)
    async def test_what_makes_sense_is_accepted(self, cluster: ControlPlane, kind: str, change: Json) -> None:
        """Each of these is written as users or the operator would."""
        made = await create(cluster, kind, change)

        assert made["kind"] == kind

    @pytest.mark.parametrize(("kind", "change", "reason"), REFUSED)
    async def test_what_cannot_be_is_refused_with_the_reason(
        self, cluster: ControlPlane, kind: str, change: Json, reason: str
    ) -> None:
        """The refusal names the field, or the rule that the field breaks."""
        with pytest.raises(ApiError) as refusal:
            await create(cluster, kind, change)

        assert refusal.value.status == 422
        assert reason in refusal.value.message

    async def test_only_the_holder_of_a_partition_may_change(self, cluster: ControlPlane) -> None:
        """A partition goes from holder to nobody to holder; anything else is another partition."""
        made = await create(cluster, "Partition", {}, name="immutable", keep=True)
        path = f"{GROUP}/partitions/immutable"

        for change in IMMUTABLE:
            field = next(iter(change))
            with pytest.raises(ApiError, match=f"{field} is immutable; only holder may change") as refusal:
                await cluster.api.patch(path, {"spec": change})
            assert refusal.value.status == 422
        await cluster.api.patch(path, {"spec": {"holder": None}})
        holder = made["spec"]["holder"] | {"name": "c2", "uid": "c-2"}
        assert (await cluster.api.patch(path, {"spec": {"holder": holder}}))["spec"]["holder"] == holder
        await cluster.api.delete(path)

    async def test_the_server_fills_in_the_defaults_of_the_models(self, cluster: ControlPlane) -> None:
        """What the server stores reads as what the model makes of the bare object."""
        made = await create(cluster, "AllocationPolicy", {})

        assert made["spec"]["partitions"] == {"idleTimeout": "300s", "waitForReady": True}
        assert (
            AllocationPolicy.from_json(made).spec == AllocationPolicy.from_json({**made, "spec": POLICY}).spec
        )

    async def test_partitions_are_selected_by_node_and_driver_on_the_server(
        self, cluster: ControlPlane
    ) -> None:
        """An agent sees the Partitions of its own node, without the others crossing the network."""
        for node in ("field-a", "field-b"):
            await create(cluster, "Partition", {"nodeName": node}, name=node, keep=True)

        chosen = await cluster.api.get(
            f"{GROUP}/partitions", fieldSelector="spec.nodeName=field-b,spec.driver=gpu.apportion.dev"
        )

        assert [item["metadata"]["name"] for item in chosen["items"]] == ["field-b"]
        for node in ("field-a", "field-b"):
            await cluster.api.delete(f"{GROUP}/partitions/{node}")

    async def test_a_table_shows_where_a_partition_is_and_who_has_it(self, cluster: ControlPlane) -> None:
        """`kubectl get part` and `kubectl get apportion` show what people ask for first."""
        await create(cluster, "Partition", {}, name="shown", keep=True)
        await cluster.api.patch(f"{GROUP}/partitions/shown/status", {"status": {"phase": "Ready"}})

        head, row = (await cluster.kubectl("get", "part", "shown")).splitlines()

        assert head.split() == ["NAME", "NODE", "DEVICE", "PROFILE", "PHASE", "HOLDER", "ORIGIN", "AGE"]
        assert row.split()[:-1] == ["shown", "n1", "gpu-0-mig-1g10gb-19-3", "1g.10gb", "Ready", "c1", "Claim"]
        assert "partition.apportion.dev/shown" in await cluster.kubectl("get", "apportion")
        await cluster.api.delete(f"{GROUP}/partitions/shown")

    async def test_a_table_shows_when_a_reservation_is_expected_to_start(self, cluster: ControlPlane) -> None:
        """It is in the future, for which a column of type date says `<invalid>`: kubectl prints that as an age."""
        starts = "2100-01-02T03:04:05Z"
        await create(
            cluster, "DeviceHold", {"purpose": "Reservation", "starts": starts}, name="later", keep=True
        )

        _, row = (await cluster.kubectl("get", "deviceholds", "later")).splitlines()

        assert row.split()[-2] == starts
        await cluster.api.delete(f"{GROUP}/deviceholds/later")

    async def test_a_layouts_name_fits_into_an_attribute(self, cluster: ControlPlane) -> None:
        """Its devices carry the name as a value, which has at most 64 bytes."""
        await create(cluster, "PartitionLayout", {}, name="l" * 63)
        with pytest.raises(ApiError, match=r"metadata\.name"):
            await create(cluster, "PartitionLayout", {}, name="l" * 64)


class TestServed(OnDefault, Served):
    pass


class TestServedOnOldest(OnOldest, Served):
    pass
