"""Which Partition objects should exist, and held by whom."""

from apportion.api.partition import Origin, Partition
from apportion.cluster.kinds import CLAIMS, PARTITIONS, POLICIES, SLICES
from apportion.partitions.wanted import Action, Create, Delete, SetHolder, Wanted
from tests.observedcluster import ObservedCluster as World

FIRST = "gpu-0-mig-1g10gb-19-0"
SECOND = "gpu-0-mig-1g10gb-19-1"
HALF = "gpu-0-mig-3g40gb-9-0"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Bed:
    """One node with one card, and what the controller would do there."""

    def __init__(self) -> None:
        self.world = World()
        self.world.node("n1")
        self.world.card("n1")
        self.world.device_class("gpu")
        self.clock = Clock()
        self._wanted = Wanted(self.clock)

    def actions(self) -> list[Action]:
        return self._wanted.actions(self.world.snapshot)

    def carry_out(self) -> list[Action]:
        """Do what is wanted, as the API server and the agent would show it."""
        done = self.actions()
        for action in done:
            raw = action.partition.to_json()
            match action:
                case Create():
                    raw["status"] = {"phase": "Ready", "uuid": f"MIG-{raw['spec']['device']}"}
                    self.world.see(PARTITIONS, raw)
                case SetHolder(holder=holder):
                    raw["spec"].pop("holder", None)
                    if holder is not None:
                        raw["spec"]["holder"] = holder.to_json()
                    self.world.see(PARTITIONS, raw)
                case Delete():
                    self.world.gone(PARTITIONS, raw)
        return done

    def partitions(self) -> dict[str, Partition]:
        return {p.spec.device: p for p in self.world.snapshot.partitions.values()}


def test_an_allocated_placement_becomes_a_partition_once() -> None:
    """With parent, profile and placement as published; the second pass finds it made."""
    bed = Bed()
    bed.world.allocate(bed.world.claim("c"), "n1", FIRST)
    (made,) = bed.carry_out()
    assert isinstance(made, Create)
    spec = made.partition.spec
    assert (made.partition.metadata.name, spec.parent, spec.profile) == (f"n1-{FIRST}", "gpu-0", "1g.10gb")
    assert spec.placement is not None
    assert (spec.placement.start, spec.placement.size, spec.origin) == (0, 1, Origin.CLAIM)
    assert made.partition.metadata.finalizers == ("apportion.dev/agent",)
    assert bed.actions() == []


def test_a_whole_card_needs_no_partition() -> None:
    """Nothing is cut for it."""
    bed = Bed()
    bed.world.allocate(bed.world.claim("c"), "n1", "gpu-0")
    assert bed.actions() == []


def test_a_released_partition_idles_is_reused_and_goes_when_it_was_idle_for_too_long() -> None:
    """Kept warm for the policy's idle timeout, five minutes if nothing else is said."""
    bed = Bed()
    claim = bed.world.allocate(bed.world.claim("first"), "n1", FIRST)
    bed.carry_out()
    bed.world.gone(CLAIMS, claim)
    (released,) = bed.carry_out()
    assert isinstance(released, SetHolder)
    assert released.holder is None
    assert bed.actions() == []
    bed.clock.now = 299
    assert bed.actions() == []
    bed.world.allocate(bed.world.claim("second"), "n1", FIRST)
    (held,) = bed.carry_out()
    assert isinstance(held, SetHolder)
    assert held.holder is not None
    assert held.holder.name == "second"
    bed.world.gone(CLAIMS, bed.world.claim("second"))
    bed.carry_out()
    bed.actions()
    bed.clock.now += 301
    (gone,) = bed.carry_out()
    assert isinstance(gone, Delete)


def test_a_partition_idles_as_long_as_the_policy_of_its_last_holder_says() -> None:
    """Other classes may keep theirs for longer."""
    bed = Bed()
    bed.world.device_class("other")
    bed.world.see(
        POLICIES,
        {
            "metadata": {"name": "short"},
            "spec": {"deviceClasses": {"names": ["gpu"]}, "partitions": {"idleTimeout": "1s"}},
        },
    )
    claim = bed.world.claim("c")
    bed.world.allocate(claim, "n1", FIRST)
    bed.carry_out()
    bed.carry_out()
    bed.world.gone(CLAIMS, claim)
    bed.carry_out()
    bed.carry_out()
    bed.clock.now += 2
    assert [type(action) for action in bed.carry_out()] == [Delete]


def test_an_idle_partition_gives_way_to_what_needs_its_room() -> None:
    """Only those in the way go: a half of the card needs slices 0 to 3."""
    bed = Bed()
    claims = [bed.world.allocate(bed.world.claim(f"c{n}"), "n1", f"gpu-0-mig-1g10gb-19-{n}") for n in (0, 6)]
    bed.carry_out()
    for claim in claims:
        bed.world.gone(CLAIMS, claim)
    bed.carry_out()
    bed.world.allocate(bed.world.claim("half"), "n1", HALF)
    done = bed.carry_out()
    assert [a.partition.spec.device for a in done if isinstance(a, Delete)] == [FIRST]
    assert [a.partition.spec.device for a in done if isinstance(a, Create)] == [HALF]
    bed.world.allocate(bed.world.claim("half"), "n1", "gpu-0")
    assert "gpu-0-mig-1g10gb-19-6" in {
        a.partition.spec.device for a in bed.actions() if isinstance(a, Delete)
    }


def test_a_partition_that_a_container_uses_is_never_idle() -> None:
    """Even when its claim is gone: the agent still has it prepared."""
    bed = Bed()
    claim = bed.world.allocate(bed.world.claim("c"), "n1", FIRST)
    bed.carry_out()
    raw = bed.partitions()[FIRST].to_json()
    raw["status"]["preparedBy"] = [claim["metadata"]["uid"]]
    bed.world.see(PARTITIONS, raw)
    bed.world.gone(CLAIMS, claim)
    bed.carry_out()
    bed.clock.now = 10_000
    assert not any(isinstance(action, Delete) for action in bed.actions())


def test_a_wiped_slice_does_not_cost_a_claim_its_partition() -> None:
    """The claim's allocation says who holds it, not the slice."""
    bed = Bed()
    bed.world.allocate(bed.world.claim("c"), "n1", FIRST)
    bed.carry_out()
    for found in list(bed.world.snapshot.slices.values()):
        bed.world.snapshot.prune(SLICES, frozenset({found.uid}))
    assert bed.actions() == []


def test_warm_partitions_are_cut_ahead_and_kept() -> None:
    """As many idle ones of a profile as the policy says, where they fit."""
    bed = Bed()
    policy = {
        "metadata": {"name": "p"},
        "spec": {
            "deviceClasses": {"names": ["gpu"]},
            "partitions": {"warm": [{"profile": "1g.10gb", "count": 2}], "idleTimeout": "1s"},
        },
    }
    bed.world.see(POLICIES, policy)
    done = bed.carry_out()
    assert [a.partition.spec.origin for a in done if isinstance(a, Create)] == [Origin.WARM, Origin.WARM]
    bed.clock.now = 100
    assert bed.actions() == []
    bed.world.allocate(bed.world.claim("c"), "n1", FIRST)
    done = bed.carry_out()
    assert [a.holder.name for a in done if isinstance(a, SetHolder) and a.holder] == ["c"]
    assert len([a for a in done if isinstance(a, Create)]) == 1
