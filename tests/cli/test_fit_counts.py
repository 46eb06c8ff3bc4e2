"""How many pods a workload has at once, as `apportion fit` and `apportion migrate` read it."""

import json
from pathlib import Path
from typing import Any

import pytest

from apportion.cli.migrateworkloads import workloads_of
from tests.cli.test_fit_command import ask, claim
from tests.cli.worlds import profile_request, two_cards

Json = dict[str, Any]
POD: Json = {
    "spec": {
        "containers": [{"name": "main"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
    }
}


def made(kind: str, spec: Json) -> Json:
    return {"kind": kind, "metadata": {"name": "w", "namespace": "team"}, "spec": spec}


def job(**spec: Any) -> Json:
    return {**spec, "template": POD}


@pytest.mark.parametrize(
    ("workload", "pods"),
    [
        (made("Job", job()), [1]),
        (made("Job", job(parallelism=4)), [4]),
        (made("Job", job(completions=8)), [1]),
        (made("Job", job(completions=2, parallelism=4)), [2]),
        (made("Job", job(completions=8, parallelism=4)), [4]),
        (made("Job", job(parallelism=0)), [0]),
        (made("CronJob", {"jobTemplate": {"spec": job(completions=1, parallelism=3)}}), [1]),
        (made("Deployment", {"replicas": 0, "template": POD}), [0]),
        (
            made(
                "JobSet",
                {
                    "replicatedJobs": [
                        {"name": "a", "replicas": 2, "template": {"spec": job(completions=1, parallelism=4)}},
                        {"name": "b", "replicas": 0, "template": {"spec": job(parallelism=4)}},
                    ]
                },
            ),
            [2, 0],
        ),
        (
            made(
                "LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": POD}}
            ),
            [8],
        ),
        (
            made(
                "LeaderWorkerSet",
                {
                    "replicas": 2,
                    "leaderWorkerTemplate": {"size": 4, "leaderTemplate": POD, "workerTemplate": POD},
                },
            ),
            [2, 6],
        ),
    ],
)
def test_as_many_pods_count_as_there_are_at_once(workload: Json, pods: list[int]) -> None:
    """A Job makes no more than have to complete; a LeaderWorkerSet has a leader and its workers in each group."""
    found = [*workloads_of([workload])]
    assert [each.pods for each in found] == pods
    assert all(each.pod == POD for each in found)


def test_jobs_of_a_jobset_are_placed_beside_each_other(tmp_path: Path) -> None:
    """Their copies had the same names: those of the second job took the place of the first one's, and twice as many had room."""
    jobs = [{"name": name, "template": {"spec": job(parallelism=2)}} for name in ("a", "b")]
    template = claim(profile_request("3g.40gb"), name="t", kind="ResourceClaimTemplate")
    result = ask(tmp_path, two_cards(), template, made("JobSet", {"replicatedJobs": jobs}))
    first, second = json.loads(result.stdout)["asked"]
    assert (first["placed"], second["placed"]) == (2, 1)
    devices = [(each["node"], each["device"]) for each in (*first["devices"], *second["devices"])]
    assert len({*devices}) == 3
