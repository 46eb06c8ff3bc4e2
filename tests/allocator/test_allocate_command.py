"""`apportion allocate`: worlds in, answers out."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from click.testing import Result
from typer.testing import CliRunner

from apportion.cli.allocate import command
from tests.allocator.builders import GPU, ROOT, Raw, device_at
from tests.allocator.conformance import cases, differences

app = typer.Typer()
app.command()(command)


def world(kind: str = "gpu") -> dict[str, Any]:
    """Return a world of one device and one claim that requests devices of a kind."""
    selector = f'device.attributes["gpu.example.com"].kind == "{kind}"'
    return {
        "nodes": [{"metadata": {"name": "n1"}}],
        "classes": [{"metadata": {"name": "any"}, "spec": {}}],
        "slices": [
            {
                "metadata": {"name": "s"},
                "spec": {
                    "driver": "gpu.example.com",
                    "nodeName": "n1",
                    "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": "gpu-0", "attributes": {"kind": {"string": "gpu"}}}],
                },
            }
        ],
        "claims": [
            {
                "metadata": {"name": "c", "namespace": "ns"},
                "spec": {
                    "devices": {
                        "requests": [
                            {
                                "name": "r",
                                "exactly": {
                                    "deviceClassName": "any",
                                    "allocationMode": "ExactCount",
                                    "count": 1,
                                    "selectors": [{"cel": {"expression": selector}}],
                                },
                            }
                        ]
                    }
                },
            }
        ],
    }


def run(*args: str, given: str = "") -> tuple[int, str, str]:
    """Return exit status, standard output and standard error."""
    result = CliRunner().invoke(app, list(args), input=given)
    return result.exit_code, result.stdout, result.stderr


def test_an_answer_names_node_and_devices(tmp_path: Path) -> None:
    """The world comes from a YAML file or as JSON from standard input."""
    path = tmp_path / "world.yaml"
    path.write_text(yaml.safe_dump(world()))

    for args, given in ((("-f", str(path)), ""), (("-f", "-"), json.dumps(world()))):
        status, out, _ = run(*args, "-o", "json", given=given)
        answer = json.loads(out)
        assert status == 0
        assert (answer["kind"], answer["node"]) == ("results", "n1")
        assert [row["device"] for row in answer["results"][0]["devices"]["results"]] == ["gpu-0"]


def test_a_refusal_carries_its_explanation() -> None:
    """As JSON with -o json, as text without."""
    given = json.dumps(world("other"))

    status, out, _ = run("-f", "-", "-o", "json", given=given)
    answer = json.loads(out)
    assert (status, answer["kind"]) == (0, "none")
    assert answer["explanation"]["groups"][0]["kind"] == "selector"

    status, out, _ = run("-f", "-", given=given)
    assert status == 0
    assert "0 passed request selector #0" in out
    assert "nearest miss: gpu.example.com/n1/gpu-0" in out


def test_the_table_shows_the_devices_of_each_claim() -> None:
    """The default output."""
    status, out, _ = run("-f", "-", given=json.dumps(world()))

    assert status == 0
    assert "ns/c" in out
    assert "gpu-0" in out


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"nodes": 3}, "nodes: expected a list, found int"),
        ({"claims": [{"spec": {"devices": {"requests": [{}]}}}]}, "claims[0].spec.devices.requests[0].name"),
        ({"strange": "]["}, ""),
    ],
)
def test_bad_input_is_reported_by_field_without_a_stack_trace(broken: dict[str, Any], message: str) -> None:
    """The message names field and reason; the exit status is 2."""
    given = json.dumps(world() | broken) if message else "{ strange: ]["

    status, _, err = run("-f", "-", given=given)

    assert status == 2
    assert message in err
    assert err.startswith("error: ")
    assert "Traceback" not in err


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    """The exit status is 2."""
    status, _, err = run("-f", str(tmp_path / "nowhere.json"))

    assert status == 2
    assert "No such file" in err


def test_a_bad_line_gets_an_error_and_the_other_lines_get_answers() -> None:
    """One answer per line, in order."""
    lines = [json.dumps(world()), "{broken", json.dumps({"slices": 3}), json.dumps(world("other"))]

    status, out, _ = run("-f", "-", "-o", "json", "--jsonl", given="\n".join(lines))

    answers = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [answer["kind"] for answer in answers] == ["results", "error", "error", "none"]
    assert answers[2]["error"] == {"kind": "fatal", "message": "slices: expected a list, found int"}


def test_allocated_claims_of_a_world_hold_their_devices() -> None:
    """They are not allocated a second time."""
    raw = world()
    taken = json.loads(json.dumps(raw["claims"][0]))
    taken["metadata"]["name"] = "taken"
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    taken["status"] = {"allocation": {"devices": {"results": [result]}}}
    raw["claims"].append(taken)

    _, out, _ = run("-f", "-", "-o", "json", given=json.dumps(raw))

    answer = json.loads(out)
    assert answer["kind"] == "none"
    assert "ns/taken" in json.dumps(answer["explanation"])


@pytest.mark.slow
def test_upstreams_cases_get_upstreams_answers_from_the_command() -> None:
    """One case per line, strategy FirstFit."""
    rows = [case.values[0] for case in cases() if case.values[0] is not None]
    if not rows:
        pytest.skip("the cases are not here")

    _, out, _ = run(
        "-f", "-", "--jsonl", "--strategy", "FirstFit", given="\n".join(json.dumps(row) for row in rows)
    )

    answers = [json.loads(line) for line in out.splitlines()]
    assert len(answers) == len(rows)
    assert [
        (row["name"], wrong)
        for row, answer in zip(rows, answers, strict=True)
        if (wrong := differences(row, answer))
    ] == []


def test_the_allocate_command_applies_a_policy_file(tmp_path: Path) -> None:
    """With the policy's ladder the pair is closer; an error in a policy names its field."""
    rows = [device_at(0, 0, 0), device_at(1, 1, 1), device_at(2, 1, 1)]
    spec = {"driver": GPU, "nodeName": "n1", "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1}}
    pair = {"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 2}}
    path = tmp_path / "world.json"
    path.write_text(
        json.dumps(
            {
                "classes": [{"metadata": {"name": "any"}, "spec": {}}],
                "slices": [{"metadata": {"name": "s"}, "spec": spec | {"devices": rows}}],
                "claims": [{"metadata": {"name": "c"}, "spec": {"devices": {"requests": [pair]}}}],
            }
        )
    )
    policy = tmp_path / "policy.yaml"

    def ask(ladder: list[Raw]) -> Result:
        spec = {"deviceClasses": {"names": ["any"]}, "strategy": "Pack", "ladder": ladder}
        policy.write_text(json.dumps({"kind": "AllocationPolicy", "spec": spec}))
        return CliRunner().invoke(app, ["-f", str(path), "-o", "json", "--policy", str(policy)])

    def given(result: Result) -> list[str]:
        rows = json.loads(result.stdout)["results"][0]["devices"]["results"]
        return [row["device"] for row in rows]

    assert given(ask([{"attribute": ROOT}])) == ["gpu-1", "gpu-2"]
    refused = ask([{"attribute": "numaNode"}])
    assert refused.exit_code == 2
    assert "ladder[0].attribute" in refused.output
