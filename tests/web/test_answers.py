"""Pages and commands say the same about the same cluster: they are compared field by field on drawn clusters."""

import json
import random
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from apportion.cli.answers.free import free
from apportion.cli.answers.status import status
from apportion.cli.answers.story import What
from apportion.cli.answers.who import who
from apportion.cli.answers.why import why
from apportion.cli.world.objects import DECIDING
from apportion.cli.world.world import World
from apportion.cluster.client import Client
from apportion.web.livecluster import LiveCluster
from apportion.web.map import map_page, node_rows
from apportion.web.observed import Observed
from apportion.web.storypage import StoryPage, story_page
from apportion.web.waiting import queue_page
from tests.cli.worlds import Cluster, allocate_what_is_assumed, drawn_cluster
from tests.clients import unanswered

__all__ = ["unanswered"]

app = typer.Typer()
for each in (free, status, who, why):
    app.command()(each)
Json = dict[str, Any]
SEEDS = (9, 10, 29, 37, 53)
"""Clusters in which something is left, some waits, and two have cordoned nodes."""


class Both:
    """A drawn cluster that its cycle has filled, as pages see it and as commands do."""

    def __init__(self, seed: int, client: Client, folder: Path) -> None:
        cluster: Cluster = drawn_cluster(random.Random(seed))  # noqa: S311 - a test that can be repeated
        cluster.cycle(client).once()
        allocate_what_is_assumed(cluster)
        self._path = cluster.write(folder / "world.json")
        self.observed = Observed(World([*cluster.objects.values()], "1.37"))
        self.observed.refresh()

    def command(self, *words: str) -> Json:
        """Return what a command prints."""
        found = CliRunner().invoke(app, [*words, "--world", str(self._path), "-o", "json"])
        answer: Json = json.loads(found.stdout)
        return answer


@pytest.fixture(params=SEEDS)
async def both(request: pytest.FixtureRequest, unanswered: Client, tmp_path: Path) -> Both:
    """Draw a cluster."""
    return Both(request.param, unanswered, tmp_path)


@pytest.mark.slow
async def test_the_map_is_that_of_status_and_its_holders_are_those_of_who(both: Both) -> None:
    """Cards, slices, holders, what fits, and the numbers above."""
    said = both.command("status")
    page = map_page(both.observed, 1)
    assert page.counts == said["claims"]
    shown = [
        (row.card.node, str(row.card.device), "".join(slot.letter or "." for slot in row.slots),
         dict(row.card.holders), row.card.largest, row.card.fragmentation)
        for node in page.nodes for row in node.cards
    ]  # fmt: skip
    assert shown == [
        (row["node"], row["device"], row["slices"], row["holders"], row["largest"], row["fragmentation"])
        for row in said["cards"]
    ]
    for node in page.nodes:
        held = [part.holder.to_json() for row in node.cards for part in row.held]
        found = both.command("who", node.name)["holders"]
        assert sorted(held, key=str) == sorted(found, key=str)
        assert node_rows(both.observed, (node.name,)) == (node,)


@pytest.mark.slow
async def test_the_queue_and_each_story_are_those_of_why(both: Both) -> None:
    """Reason, text, devices and remedies of every claim, asked twice: an answer changes nothing."""
    queue = {claim: row for row in queue_page(both.observed, 1).rows for claim in row.claims}
    claims = [claim.key for claim in both.observed.snapshot.claims.values()]
    assert claims
    for key in claims * 2:
        namespace, name = key.split("/")
        said = both.command("why", "claim", key)
        page = story_page(both.observed, What.CLAIM, namespace, name, monotonic)
        assert page is not None
        if said["served"]:
            assert page.story.reason is None
            assert [(row.claim, row.device, row.node) for row in page.story.devices] == [
                (row["claim"], row["device"], row["node"]) for row in said["devices"]
            ]
            continue
        reason = page.story.reason
        assert reason is not None
        assert reason.name == said["reason"]
        assert key not in queue or queue[key].reason == said["reason"]
        if reason.name != "Fits":
            assert reason.text == said["message"]
            assert key not in queue or queue[key].text == said["message"]
        assert [(each.name, each.text) for each in page.story.remedies] == [
            (each["remedy"], each["message"]) for each in said["remedies"]
        ]


async def test_what_is_left_is_that_of_free(both: Both) -> None:
    """Each kind of device."""
    said = both.command("free")["devices"]
    shown = [
        (kind.model, kind.name, left.left, left.held, left.most)
        for kind, left in both.observed.left().items()
    ]
    assert shown == [(row["model"], row["device"], row["left"], row["held"], row["of"]) for row in said]


@pytest.mark.slow
async def test_what_was_watched_is_answered_as_what_was_read_at_once(both: Both, unanswered: Client) -> None:
    """A world that took in watch events, with changes and deletions among them, is that of the objects that are left."""
    cluster = LiveCluster(unanswered, "1.37", frozenset(), frozenset())
    world = both.observed.world
    of_name = {kind.name: kind for kind in DECIDING}
    for key, raw in world.objects.items():
        kind = of_name[key.kind]
        metadata = {"uid": f"uid-{key}", "resourceVersion": "1", **raw["metadata"]}
        listed = {name: value for name, value in raw.items() if name not in {"apiVersion", "kind"}}
        gone = {**metadata, "name": f"{key.name}-gone", "uid": "gone"}
        cluster._observe(kind, "ADDED", {**listed, "metadata": gone})
        cluster._observe(kind, "DELETED", {"metadata": gone})
        cluster._observe(kind, "ADDED", {**listed, "metadata": metadata})
    claims = [claim.key.split("/") for claim in both.observed.snapshot.claims.values()]

    def answers(observed: Observed) -> list[object]:
        stories = [story_page(observed, What.CLAIM, *claim, monotonic) for claim in claims]
        rows = [replace(row, since="") for row in queue_page(observed, 1).rows]
        return [sorted(observed.world.objects), map_page(observed, 1), rows, *map(_said, stories)]

    assert cluster._answer(answers) == answers(both.observed)


def _said(page: StoryPage | None) -> object:
    assert page is not None
    reason = page.story.reason
    return reason and reason.text, [(each.name, each.text) for each in page.story.remedies]
