"""`apportion fit`: where claims and workloads would go, judged by the operator's own cycle on the same cluster."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from click.testing import Result
from typer.testing import CliRunner

from apportion.cli.answers.copies import copies_of
from apportion.cli.answers.fit import fit
from apportion.cli.answers.fitting import Fitting
from apportion.cli.world.objects import kind_of
from apportion.cli.world.world import World
from apportion.cluster.client import Client
from apportion.cluster.kinds import NAMESPACES, QUOTAS
from tests.cli.worlds import (
    Cluster,
    allocate_what_is_assumed,
    drawn_cluster,
    drawn_request,
    profile_request,
    two_cards,
)
from tests.clients import unanswered
from tests.observedcluster import request

__all__ = ["unanswered"]

app = typer.Typer()
app.command()(fit)
Json = dict[str, Any]


def claim(*requests: Json, name: str = "c", kind: str = "ResourceClaim") -> Json:
    spec: Json = {"devices": {"requests": [*requests]}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"spec": spec} if kind.endswith("Template") else spec,
    }


def deployment(replicas: int, cpu: str = "1", **spec: Any) -> Json:
    resources = {"limits": {"cpu": cpu}}
    pod = {
        "containers": [{"name": "main", "resources": resources}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        **spec,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "team"},
        "spec": {"replicas": replicas, "template": {"spec": pod}},
    }


def ask(
    tmp_path: Path, cluster: Cluster, *objects: Json, options: tuple[str, ...] = ("-o", "json")
) -> Result:
    (tmp_path / "f").write_text(yaml.safe_dump_all(objects))
    where = ["-f", str(tmp_path / "f"), "--world", str(cluster.write(tmp_path / "w"))]
    return CliRunner().invoke(app, [*where, *options], env={"COLUMNS": "80"})


def row(result: Result) -> Json:
    [found] = json.loads(result.stdout)["asked"]
    return dict(found)


async def settled(cluster: Cluster, client: Client) -> None:
    """Let the operator's cycle serve what waits, and show its decisions as written."""
    cluster.cycle(client).once()
    allocate_what_is_assumed(cluster)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(80))
async def test_a_copy_goes_where_the_cycle_sends_it(seed: int, unanswered: Client) -> None:
    """A cluster is drawn and filled by the cycle; the command says of one more pod what the cycle then does with it, word for word."""
    rng = random.Random(seed)  # noqa: S311 - a test that can be repeated
    cluster = drawn_cluster(rng)
    await settled(cluster, unanswered)
    wanted = claim(drawn_request(rng), name="t", kind="ResourceClaimTemplate")
    asked, shared = copies_of([wanted, deployment(1, cpu=rng.choice(["1", "4"]))], "team")
    found = Fitting(World([*cluster.objects.values()]), shared).place(asked[0], 1, further=False)

    cluster = cluster.anew()
    for raw in asked[0].make(1):
        kind = kind_of(raw)
        assert kind is not None
        cluster.see(kind, dict(raw))
    cluster.cycle(unanswered).once()

    sent = {node: 1 for name, node in cluster.places().items() if name == "d-gpu-1"}
    assert dict(found.nodes) == sent
    if found.reason is not None:
        said = [text for name, _, text in cluster.messages if name == "d-gpu-1"]
        assert found.reason.text in said


def test_copies_are_placed_until_nothing_is_left(tmp_path: Path) -> None:
    """Three halves are left; four replicas get three, with the reason for the fourth and exit status 1; two get two, and room is told."""
    wanted = claim(profile_request("3g.40gb"))
    few = ask(tmp_path, two_cards(), wanted, options=("-o", "json", "--replicas", "2"))
    assert (few.exit_code, row(few)["placed"], row(few)["most"]) == (0, 2, 3)
    many = ask(tmp_path, two_cards(), wanted, options=("-o", "json", "--replicas", "4"))
    assert many.exit_code == 1
    found = row(many)
    assert (found["placed"], found["nodes"]) == (3, {"n1": 1, "n2": 2})
    assert found["reason"]["reason"] == "NotAllocated"
    devices = [(each["node"], each["device"]) for each in found["devices"]]
    assert len({*devices}) == 3


def test_claims_of_a_file_are_for_one_node_together(tmp_path: Path) -> None:
    """A whole card and a part go nowhere together although each goes somewhere, because each node has one card."""
    both = [claim(request("gpu")), claim(profile_request("1g.10gb"), name="d")]
    assert ask(tmp_path, two_cards(), *both).exit_code == 1
    assert [ask(tmp_path, two_cards(), each).exit_code for each in both] == [0, 0]


def test_a_workload_needs_cpu_too_and_its_replicas_are_asked_about(tmp_path: Path) -> None:
    """Each node has eight cores: of three pods of five cores two go somewhere, although devices are left."""
    template = claim(profile_request("1g.10gb"), name="t", kind="ResourceClaimTemplate")
    result = ask(tmp_path, two_cards(), template, deployment(3, cpu="5"))
    assert row(result)["wanted"] == 3
    assert row(result)["placed"] == 2
    assert "too little cpu" in row(result)["reason"]["message"]


@pytest.mark.parametrize(("replicas", "reasons"), [(300, 0), (321, 1)])
def test_all_pods_of_a_large_workload_are_asked_about(replicas: int, reasons: int, tmp_path: Path) -> None:
    """Forty nodes of eight devices."""
    cluster = Cluster()
    cluster.device_class("gpu")
    for number in range(40):
        cluster.node(f"n{number}", cpu="64")
        rows = [{"name": f"gpu-{index}", "attributes": {}} for index in range(8)]
        cluster.slice(f"n{number}", f"n{number}-devices", {"devices": rows}, 1)
    template = claim(request("gpu"), name="t", kind="ResourceClaimTemplate")
    found = row(ask(tmp_path, cluster, template, deployment(replicas)))
    assert found["placed"] == replicas - reasons
    assert (found["reason"] is not None) == bool(reasons)


def test_pods_that_share_a_claim_go_to_its_node(tmp_path: Path) -> None:
    """The claim is allocated once; further pods follow it, until the node's cores are gone."""
    shared = [{"name": "gpu", "resourceClaimName": "c"}]
    result = ask(tmp_path, two_cards(), claim(request("gpu")), deployment(3, cpu="3", resourceClaims=shared))
    found = row(result)
    assert found["nodes"] == {"n2": 2}
    assert len(found["devices"]) == 1
    assert "has no room" in found["reason"]["message"]


def test_a_quota_is_a_limit_here_too(tmp_path: Path) -> None:
    """What is beyond a limit is refused with quota and resource."""
    cluster = two_cards()
    cluster.see(NAMESPACES, {"metadata": {"name": "team"}})
    resources = [{"name": "gpus", "deviceClass": "gpu", "limit": 0}]
    cluster.see(
        QUOTAS, {"metadata": {"name": "q"}, "spec": {"namespaceSelector": {}, "resources": resources}}
    )
    found = row(ask(tmp_path, cluster, claim(request("gpu"))))
    assert found["reason"]["reason"] == "ExceedsLimit"
    assert "AcceleratorQuota q" in found["reason"]["message"]


def test_what_is_not_apportions_to_give_says_so(tmp_path: Path) -> None:
    """Unknown, mixed and unmanaged classes have reasons of their own."""
    cluster = two_cards()
    cluster.device_class("theirs", "true", other="label")
    for classes, reason in (
        (("gqu",), "UnknownClass"),
        (("gpu", "theirs"), "MixedClasses"),
        (("theirs",), "NotManaged"),
    ):
        result = ask(tmp_path, cluster, claim(*map(request, classes)))
        assert (result.exit_code, row(result)["reason"]["reason"]) == (1, reason)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: ResourceClam\nmetadata: {name: c}", "did you mean ResourceClaim?"),
        ("kind: ConfigMap\nmetadata: {name: c}", "no claim in it"),
        ("kind: ResourceClaim\nmetadata: {name: c}\nspec: {devices: {reqests: []}}", "spec.devices.reqests: there is no such field; did you mean requests?"),
        ("kind: ResourceClaim\nmetadata: {name: c}\nspec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, cuont: 2}}]}}", "spec.devices.requests[0].exactly.cuont"),
        ("kind: ResourceClaim\nmetadata: {name: c}\nspec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: -1}}]}}", "-1 is less than 1"),
        ("kind: ResourceClaim\nmetadata: {name: c}\nspec: {devices: {requests: []}}", "asks for nothing"),
        ("kind: ResourceClaim\nspec: {}", "has no name"),
        ("kind: ResourceClaim\nmetadata: {name: c}\nspec: 7", "expected an object"),
        ("kind: Pod\nmetadata: {name: p}\nspec: {resourceClaims: [{name: g, resourceClaimTemplateName: t}]}", "ResourceClaimTemplate default/t is not in the file"),
        ("", "no claim in it"),
    ],
)  # fmt: skip
def test_bad_input_is_named_and_ends_with_2(tmp_path: Path, text: str, words: str) -> None:
    """One sentence on standard error, with the field and what was probably meant."""
    (tmp_path / "f").write_text(text)
    where = ["-f", str(tmp_path / "f"), "--world", str(two_cards().write(tmp_path / "w"))]
    result = CliRunner().invoke(app, where)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_other_outputs_say_the_same(tmp_path: Path) -> None:
    """YAML has what JSON has, names are nodes, and the table has 80 columns and the devices in full."""
    wanted = claim(profile_request("3g.40gb"))
    asked = {
        each: ask(tmp_path, two_cards(), wanted, options=("-o", each))
        for each in ("json", "yaml", "name", "table")
    }
    assert yaml.safe_load(asked["yaml"].stdout) == json.loads(asked["json"].stdout)
    assert asked["name"].stdout.split() == [*row(asked["json"])["nodes"]]
    text = asked["table"].stdout
    assert max(map(len, text.splitlines())) <= 80
    assert "1 of 1 would be placed; there is room for 3" in text
    assert row(asked["json"])["devices"][0]["device"] in text.replace("\n", "").replace(" ", "")


def test_what_layouts_reserve_is_not_given_away(tmp_path: Path) -> None:
    """A layout wants half of each card and has not cut it yet: no whole card is left, as for the operator."""
    cluster = two_cards()
    assert ask(tmp_path, cluster, claim(request("gpu"))).exit_code == 0
    cluster.layout()
    assert ask(tmp_path, cluster, claim(request("gpu"))).exit_code == 1
