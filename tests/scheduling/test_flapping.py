"""No two workloads evict each other in turns (kubernetes-sigs/kueue 3779, 7101), whatever they ask for and whichever of them returns."""

import random
from dataclasses import dataclass, field

import pytest

from apportion.cluster.client import Client
from tests.quota.tenants import namespace, quota
from tests.scheduling.evicting import Trial, ends, joins, loses_its_devices, starts, trial, waits

ROUNDS = 250
STEPS = 5
WORLDS = 50
"""Clusters with quotas."""
GROUPS = 25
"""Clusters with groups."""
SETTLED = 40
"""Steps after which nobody is evicted any more."""


@dataclass
class Workload:
    """Makes its pod again whenever that was evicted, as a Job does."""

    name: str
    gpus: int
    priority: int
    team: str = "team"
    node: str = ""
    """Where its pods have to run; empty: anywhere."""
    pods: int = 0
    """How often its pods were made."""
    running: bool = False
    size: int = 1
    """Pods; several are a group, all of which are needed."""
    evicted: list[int] = field(default_factory=list)
    """At what steps it was evicted."""

    @property
    def pod(self) -> str:
        return f"{self.name}-{self.pods}"

    @property
    def all(self) -> list[str]:
        """Its pods by name."""
        return [self.pod] if self.size == 1 else [f"{self.pod}-{number}" for number in range(self.size)]

    def make(self, made: Trial) -> None:
        self.pods += 1
        self.running = False
        where = {"nodeSelector": {"host": self.node}} if self.node else {}
        if self.size > 1:
            joins(made.world, *self.all, gpus=self.gpus, priority=self.priority, group=self.pod)
        else:
            waits(made.world, self.pod, self.gpus, self.priority, self.team, **where)


@pytest.mark.slow
async def test_of_a_pair_each_pod_goes_at_most_once_and_never_for_the_other_one_in_turn(
    unanswered: Client,
) -> None:
    """Pairs on one to four GPUs, back at once when evicted, with all pauses off: one eviction settles them."""
    went = 0
    for seed in range(ROUNDS):
        rng = random.Random(seed)  # noqa: S311 - a test that can be repeated
        made = trial(unanswered, rng.randint(1, 4), cooldown="0s")
        pair = [Workload(name, rng.randint(1, 4), rng.randint(0, 2)) for name in ("a", "b")]
        rng.shuffle(pair)
        for each in pair:
            each.make(made)
            if rng.random() < 0.7:
                await made.passes(1)
                start(made, pair)
        for step in range(STEPS):
            await made.passes(1)
            start(made, pair)
            end(made, pair, step, rng)
        high, low = sorted(pair, key=lambda each: -each.priority)
        assert high.evicted == [], seed
        assert len(low.evicted) <= (high.priority > low.priority), seed
        went += len(low.evicted)
    assert went > ROUNDS / 20


@pytest.mark.slow
async def test_groups_and_single_pods_evict_each_other_no_more_often(unanswered: Client) -> None:
    """Of a group all pods go or none; each eviction is for a higher priority, and who was evicted for it does not come back at its cost."""
    went = groups = 0
    for seed in range(GROUPS):
        rng = random.Random(f"groups/{seed}")  # noqa: S311 - a test that can be repeated
        made = trial(unanswered, rng.randint(1, 2), nodes=2, cooldown="0s")
        found = [
            Workload(name, rng.randint(1, 2), rng.randint(0, 2), size=rng.choice([1, 2, 2, 3]))
            for name in "abc"
        ]
        for each in found:
            each.make(made)
            if rng.random() < 0.7:
                await made.passes(1)
                start(made, found)
        for step in range(SETTLED):
            await made.passes(1)
            start(made, found)
            end(made, found, step, rng)
        top = max(each.priority for each in found)
        assert all(not each.evicted for each in found if each.priority == top), seed
        assert all(step < SETTLED / 2 for each in found for step in each.evicted), seed
        for each in found:
            placed = set(each.all) & made.world.places().keys()
            assert placed in (set(), set(each.all)), seed
            if each.evicted:
                went += each.size
                groups += each.size > 1
    assert groups > GROUPS / 20
    assert went > GROUPS / 10


@pytest.mark.slow
async def test_guarantees_and_priorities_together_come_to_an_end(unanswered: Client) -> None:
    """Two teams with guarantees and one without a quota, on one or two nodes; all that is evicted is back at once, with all pauses off."""
    went = 0
    for seed in range(WORLDS):
        rng = random.Random(f"quotas/{seed}")  # noqa: S311 - a test that can be repeated
        made = trial(unanswered, rng.randint(1, 3), nodes=2, cooldown="0s")
        for number in (1, 2):
            made.world.node(f"n{number}", cpu="64", host=f"n{number}")
        for team in "abc":
            namespace(made.world, team, team=team)
        for team in "ab":
            quota(made.world, team, cohort="x", reclaims=True, guaranteed=rng.randint(0, 4))
        workloads = [
            Workload(
                f"w{number}",
                rng.choice([1, 1, 2]),
                rng.randint(0, 3),
                team=rng.choice("aabbc"),
                node=rng.choice(["", "n1", "n2"]),
            )
            for number in range(rng.randint(6, 9))
        ]
        for each in workloads:
            each.make(made)
            if rng.random() < 0.5:
                await made.passes(1)
                start(made, workloads)
        for step in range(SETTLED + 20):
            await made.passes(1)
            start(made, workloads)
            end(made, workloads, step, rng)
        assert all(step < SETTLED for each in workloads for step in each.evicted), seed
        went += sum(len(each.evicted) for each in workloads)
    assert went > WORLDS / 2


@pytest.mark.slow
async def test_a_preemptor_that_nobody_starts_evicts_ever_more_seldom(unanswered: Client) -> None:
    """A scheduler refuses it each time, and its victim is back at once: twelve hours cost the victim six pods, not thousands."""
    made = trial(unanswered, 1, cooldown="10m")
    low, high = Workload("low", 1, 0), Workload("high", 1, 5)
    low.make(made)
    await made.passes(1)
    start(made, [low])
    high.make(made)
    rng = random.Random(0)  # noqa: S311 - a test that can be repeated
    for step in range(12 * 60):
        await made.passes(1)
        made.world.clock.now += 60
        start(made, [low])
        end(made, [low], step, rng, always=True)
        if high.pod in made.world.places():
            loses_its_devices(made.world, high.pod)
    assert 3 <= len(low.evicted) <= 7
    gaps = [after - before for before, after in zip(low.evicted, low.evicted[1:], strict=False)]
    assert gaps == sorted(gaps)


def start(made: Trial, workloads: list[Workload]) -> None:
    """Bind the pods that have their devices."""
    for each in workloads:
        if not each.running and made.world.places().keys() >= set(each.all):
            for name in each.all:
                starts(made.world, name)
            each.running = True


def end(
    made: Trial, workloads: list[Workload], step: int, rng: random.Random, *, always: bool = False
) -> None:
    """Let evicted pods be gone, sooner or later, and their workloads make new ones."""
    for each in workloads:
        gone = [name for name in each.all if name in made.evicted]
        if len(gone) == each.size and (always or rng.random() < 0.7):
            each.evicted.append(step)
            ends(made.world, *gone)
            each.make(made)
