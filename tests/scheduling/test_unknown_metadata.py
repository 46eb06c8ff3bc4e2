"""Labels and annotations of apportion that mean nothing where they stand: an Event names the field, and what was probably meant."""

from difflib import get_close_matches
from pathlib import Path

import pytest
import yaml

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.scheduling.reports.unknownmetadata import LABELS, OF_CLAIMS, OF_PODS
from tests.observedcluster import ObservedCluster, request
from tests.steps import Steps

ROOT = Path(__file__).parents[2]
OWN = "apportion.dev/"


def world(labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None) -> ObservedCluster:
    """Return a node with a card that a pod with such metadata gets."""
    made = ObservedCluster()
    made.device_class("gpu")
    made.node("n1")
    made.card("n1")
    made.claim("c", request("gpu"))
    pod = made.pod("p", "c")
    pod["metadata"] |= {"labels": labels or {}, "annotations": annotations or {}}
    made.see(PODS, pod)
    return made


@pytest.mark.parametrize(
    ("labels", "annotations", "said"),
    [
        (
            {},
            {"max-runtme": "1h"},
            "annotations[apportion.dev/max-runtme]: there is no such annotation of a Pod; did you mean apportion.dev/max-runtime?",
        ),
        ({}, {"x": ""}, "annotations[apportion.dev/x]: there is no such annotation of a Pod"),
        (
            {"pod-grop": "g"},
            {},
            "labels[apportion.dev/pod-grop]: there is no such label; did you mean apportion.dev/pod-group?",
        ),
        (
            {"max-runtime": "1h"},
            {},
            "labels[apportion.dev/max-runtime]: it is an annotation: metadata.annotations",
        ),
        ({}, {"pod-group": "g"}, "annotations[apportion.dev/pod-group]: it is a label: metadata.labels"),
        (
            {},
            {"keep-for": "1h"},
            "annotations[apportion.dev/keep-for]: it means something on a ResourceClaim only",
        ),
        (
            {},
            {"pod-group-min-count": "2"},
            "annotations[apportion.dev/pod-group-min-count]: the pod is of no group: it has no label apportion.dev/pod-group",
        ),
    ],
)
async def test_what_means_nothing_on_a_pod_is_named_and_the_pod_is_served(
    silent: Client, labels: dict[str, str], annotations: dict[str, str], said: str
) -> None:
    """Once."""
    made = world(
        {OWN + key: each for key, each in labels.items()}, {OWN + k: v for k, v in annotations.items()}
    )
    cycle = made.cycle(silent)
    for _ in range(2):
        cycle.once()
    assert made.messages == [("p", "UnknownMetadata", f"metadata.{said}")]
    assert made.places() == {"c": "n1"}


async def test_what_means_nothing_on_a_claim_is_named_until_it_is_mended(silent: Client) -> None:
    """And again when it comes back."""
    made = world()
    cycle = made.cycle(silent)
    cycle.once()
    assert made.messages == []
    claim = made.seen[CLAIMS, "team", "c"]
    for annotations in ({"keep-fro": "1h"}, {"keep-for": "1h"}, {"keep-fro": "2h"}):
        claim["metadata"]["annotations"] = {OWN + key: each for key, each in annotations.items()}
        made.see(CLAIMS, claim)
        cycle.once()
    text = (
        "metadata.annotations[apportion.dev/keep-fro]: there is no such annotation of a ResourceClaim;"
        " did you mean apportion.dev/keep-for?"
    )
    assert made.messages == [("c", "UnknownMetadata", text)] * 2


async def test_a_claim_with_pods_that_does_not_say_immediate_hears_it(silent: Client) -> None:
    """It is served for its pod, and would not be kept for the next one."""
    made = world()
    claim = made.seen[CLAIMS, "team", "c"]
    claim["metadata"]["annotations"] = {f"{OWN}allocation": "immediate"}
    made.see(CLAIMS, claim)
    made.cycle(silent).once()
    text = "metadata.annotations[apportion.dev/allocation]: expected Immediate, not 'immediate'"
    assert made.messages == [("c", "UnknownMetadata", text)]
    assert made.places() == {"c": "n1"}


async def test_metadata_of_others_and_labels_that_tools_write_on_everything_are_nobodys_mistake(
    silent: Client,
) -> None:
    """A pod of a group has all of ours."""
    made = world(
        {"app": "a", **dict.fromkeys(LABELS - {OWN + "pod-group"}, "true")}, {"example.com/apportion": "x"}
    )
    made.claim("d", request("gpu"), labels=dict.fromkeys(LABELS, "true"))
    cycle = made.cycle(silent)
    cycle.once()
    assert [each for each in made.messages if each[1] == "UnknownMetadata"] == []


async def test_the_label_of_a_topology_that_no_node_has_is_named(silent: Client) -> None:
    """Also where it is only preferred: the group is served anywhere."""
    group = {f"{OWN}pod-group-min-count": "1", f"{OWN}pod-group-topology": "example.com/rac"}
    made = world({f"{OWN}pod-group": "g"}, group)
    made.node("n1", **{"example.com/rack": "a"})
    cycle = made.cycle(silent)
    cycle.once()
    assert made.messages == [
        (
            "p",
            "UnknownMetadata",
            "metadata.annotations[apportion.dev/pod-group-topology]: no node has the label example.com/rac; did you mean example.com/rack?",
        )
    ]
    assert made.places() == {"c": "n1"}


@pytest.mark.slow
def test_the_examples_use_no_other_names() -> None:
    """What is documented is known."""
    used = {
        key
        for path in (ROOT / "examples").glob("*.yaml")
        for each in yaml.safe_load_all(path.read_text())
        for key in keys_of(each)
        if key.startswith(OWN)
    }
    assert used
    assert used <= LABELS | OF_PODS | OF_CLAIMS


def keys_of(raw: object) -> set[str]:
    """Return the keys of all labels and annotations in an object."""
    if isinstance(raw, list):
        return {key for each in raw for key in keys_of(each)}
    if not isinstance(raw, dict):
        return set()
    own = {key for name in ("labels", "annotations") for key in (raw.get(name) or {})}
    return own | {key for each in raw.values() for key in keys_of(each)}


async def test_a_pod_with_thousands_of_annotations_that_mean_nothing_hears_of_a_few(client: Client) -> None:
    """What one tenant writes keeps nobody else waiting."""
    counts = []
    for count in (100, 400):
        made = world(annotations={f"{OWN}max-run{count}-{number}": "" for number in range(count)})
        cycle = made.cycle(client)
        with Steps(get_close_matches) as compared:
            cycle.once()
        counts.append(compared.count)
        [text] = [text for name, reason, text in made.messages if (name, reason) == ("p", "UnknownMetadata")]
        assert text.count("there is no such annotation") == counts[0]
    assert counts[0] == counts[1] < 10
