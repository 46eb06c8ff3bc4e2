"""DefragPolicy: when pods are moved together so that whole cards are free, or a demand finds room; only recommended unless it says otherwise."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from apportion.api import duration
from apportion.api.duration import Duration
from apportion.api.model import ClassName, Conditions, Model, NodeName, ObjectMeta, listed
from apportion.api.selector import DeviceSelector, LabelSelector

MOST_RESTARTS = 64
"""Pods that one plan may restart: what is being carried out is written down whole, and an object has to stay small."""

MOST_DEVICES = 64
"""Devices that one pod has, as a status shows them."""

MOST_FREED = 256
"""Cards that are to be free, or devices of a claim: all of them are kept from others until the end."""

Selectors = Annotated[tuple[DeviceSelector, ...], listed("atomic", most=8)]
DeviceText = Annotated[str, Field(max_length=384)]
"""A device as driver/pool/name."""
Devices = Annotated[tuple[DeviceText, ...], listed("atomic", most=MOST_DEVICES)]
Freed = Annotated[tuple[DeviceText, ...], listed("atomic", most=MOST_FREED)]
PodText = Annotated[str, Field(max_length=320)]
"""A pod as namespace/name."""
Uid = Annotated[str, Field(max_length=64)]


class DefragMode(StrEnum):
    """What is done with a plan."""

    RECOMMEND = "Recommend"
    EVICT = "Evict"


class WholeCards(Model):
    """Cards that nobody has a part of."""

    device_class: ClassName
    """The DeviceClass that selects such a card as a whole (gpu.apportion.dev)."""
    selectors: Selectors = ()
    """CEL expressions that the whole card has to match, too, as in a ResourceClaim's request."""
    count: Annotated[int, Field(ge=1, le=MOST_FREED)] = 1
    """How many more of them are to be free than now; as many as can be, if not all."""


class ClaimRoom(Model):
    """Devices that one claim would find on one node."""

    device_class: ClassName
    """The DeviceClass of the devices."""
    selectors: Selectors = ()
    """CEL expressions that each device has to match, too, such as one for a profile."""
    count: Annotated[int, Field(ge=1, le=32)] = 1
    """How many devices, on one node."""


class DefragGoal(Model):
    """What is to be free. Exactly one of wholeCards and roomFor."""

    rules = (
        {
            "rule": "has(self.wholeCards) != has(self.roomFor)",
            "message": "exactly one of wholeCards and roomFor is needed",
        },
    )

    whole_cards: WholeCards | None = None
    """More whole cards."""
    room_for: ClaimRoom | None = None
    """Room for a claim, which need not exist."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.whole_cards is None) == (self.room_for is None):
            raise ValueError("exactly one of wholeCards and roomFor is needed")
        return self


class DefragPolicySpec(Model):
    """What is to be free, who may be moved for it, and when."""

    free: DefragGoal
    """What is to be free."""
    node_selector: LabelSelector = LabelSelector()
    """Labels of the nodes that count: pods are moved from and to these only. An empty selector selects all of them."""
    mode: DefragMode = DefragMode.RECOMMEND
    """Recommend: the plan is written into the status, and nobody is touched. Evict: it is carried out, one pod after the other, for which the
    operator needs the right to evict (component preemption); PodDisruptionBudgets are respected."""
    schedule: Annotated[str, Field(min_length=9, max_length=128)]
    """When a window opens, as a cron expression of five fields: minute, hour, day of the month, month, day of the week. In each window
    one plan is made."""
    time_zone: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_+/-]+$")] = "UTC"
    """The time zone of the schedule, by its name in the IANA database (Europe/Berlin)."""
    window: Duration = duration.default("1h")
    """How long a window is open. No move begins after it has closed; one that has begun is ended."""
    cooldown: Duration = duration.default("1h")
    """How long no pod is evicted for this policy after it was the last time."""
    threshold: Annotated[int, Field(ge=1, le=MOST_FREED)] = 1
    """A plan for whole cards that frees fewer of them is not carried out."""
    max_restarts: Annotated[int, Field(ge=1, le=MOST_RESTARTS)] = 8
    """A plan restarts at most so many pods."""
    move_timeout: Duration = duration.default("10m")
    """How long one move may take, from the eviction until the pod that comes instead runs; what is left of the plan is then given up."""


class DefragPlace(Model):
    """Devices of one node."""

    node: NodeName
    """The node."""
    devices: Devices
    """The devices, each as driver/pool/name."""


class DefragMove(Model):
    """One pod that gets other devices."""

    pod: PodText
    """The pod, as namespace/name."""
    source: DefragPlace
    """What it has."""
    target: DefragPlace
    """What the pod that comes instead gets."""


Moves = Annotated[tuple[DefragMove, ...], listed("atomic", most=MOST_RESTARTS)]


class LeftAlone(Model):
    """Claims that a plan does not move."""

    reason: Annotated[str, Field(max_length=256)]
    """Why."""
    claims: Annotated[int, Field(ge=0)]
    """How many."""


class DefragPlan(Model):
    """The plan that was made in the last window."""

    time: datetime
    """When it was made."""
    moves: Moves = ()
    """The moves, in an order in which each finds its new place free."""
    restarts: Annotated[int, Field(ge=0)] = 0
    """How many pods it restarts."""
    freed: Freed = ()
    """The cards that would be free and are not now, each by the device that takes all of it; for roomFor the devices that a claim would find."""
    proven: bool = False
    """Whether it was tried that no plan restarts fewer pods."""
    left_alone: Annotated[tuple[LeftAlone, ...], listed("atomic", most=16)] = ()
    """Claims that may not move, by reason."""


class MovePhase(StrEnum):
    """How far a move has come."""

    WAITING = "Waiting"
    EVICTING = "Evicting"
    MOVED = "Moved"


class CampaignMove(DefragMove):
    """One move that is carried out."""

    uid: Uid
    """UID of the pod that goes."""
    controller: Uid
    """UID of the object that makes its pods anew."""
    same_name: bool = False
    """Whether the pod that comes instead has the same name (StatefulSet)."""
    phase: MovePhase = MovePhase.WAITING
    """Waiting; Evicting: the eviction was decided, and the pod that comes instead does not run yet; Moved."""
    since: datetime | None = None
    """When the eviction was decided."""


class Campaign(Model):
    """A plan that is being carried out, or was."""

    began: datetime
    """When it began."""
    closes: datetime
    """When its window closes: no move begins later."""
    freed: Freed = ()
    """What is to be free in the end, and is kept from others until then."""
    moves: Annotated[tuple[CampaignMove, ...], listed("atomic", most=MOST_RESTARTS)] = ()
    """The moves. All of their places are kept from others until the end."""
    evicted: datetime | None = None
    """When a pod was last evicted."""
    generation: Annotated[int, Field(ge=0)] | None = None
    """The metadata.generation of the policy that the plan was made for; no move begins under another one. Absent: an older release began."""
    ended: datetime | None = None
    """When it ended; absent: it goes on."""
    reason: Annotated[str, Field(max_length=64)] = ""
    """Why it ended, one CamelCase word."""
    message: Annotated[str, Field(max_length=1024)] = ""
    """Why it ended, for people."""

    @property
    def progress(self) -> str:
        """How far it is, in words."""
        done = sum(each.phase is MovePhase.MOVED for each in self.moves)
        return f"{done} of {len(self.moves)} moves made"


class DefragPolicyStatus(Model):
    """What was planned and done last."""

    last_schedule: datetime | None = None
    """When the last window opened in which a plan was made."""
    next_schedule: datetime | None = None
    """When the next window opens."""
    summary: Annotated[str, Field(max_length=256)] = ""
    """The last plan in one line, for people."""
    plan: DefragPlan | None = None
    """The last plan."""
    campaign: Campaign | None = None
    """What is being carried out, or was last."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The metadata.generation that this status describes."""
    conditions: Conditions = ()
    """Details, by type. Accepted: False when the policy cannot work as written. Planned: False when the last window brought no plan, with the
    reason. Completed: False while a plan is being carried out, or when it ended before its last move."""


class DefragPolicy(Model):
    """When pods are moved together so that whole cards are free, or a demand finds room."""

    api_version: Literal["apportion.dev/v1alpha1"] = "apportion.dev/v1alpha1"
    kind: Literal["DefragPolicy"] = "DefragPolicy"
    metadata: ObjectMeta
    spec: DefragPolicySpec
    """What is to be free, who may be moved for it, and when."""
    status: DefragPolicyStatus = DefragPolicyStatus()
    """What was planned and done last."""
