"""`apportion select`: selectors without a cluster."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import typer
import yaml
from typer.testing import CliRunner, Result

from apportion.cli.select import select
from tests.cel.devices import GPU
from tests.cel.evaluators import recorded

DEVICES = [
    {"name": "gpu-0", "driver": "gpu.example.com", **{key: GPU[key] for key in ("attributes", "capacity")}},
    {"name": "gpu-1", "driver": "gpu.example.com", "attributes": {"index": {"int": 9}}, "capacity": None},
    {"driver": "nic.example.com"},
]
INDEX = 'device.driver != "nic.example.com" ? device.attributes["gpu.example.com"].index == 3 : device.attributes.x.y'


def run(*args: str, stdin: str | bytes = "") -> Result:
    """Run the command as `apportion select` would."""
    app = typer.Typer()
    app.command()(select)
    return CliRunner().invoke(app, args, input=stdin, env={"COLUMNS": "200"})


def test_every_device_gets_its_verdict_in_order() -> None:
    """Match, no match, error with its message; the exit status is 0."""
    done = run("-e", INDEX, "-f", "-", "-o", "json", stdin=orjson.dumps(DEVICES))
    found = orjson.loads(done.stdout)["devices"]
    assert done.exit_code == 0
    assert [(row["device"], row["kind"], row.get("match")) for row in found] == [
        ("gpu-0", "match", True),
        ("gpu-1", "match", False),
        ("#2", "matchError", None),
    ]
    assert "no such key: y" in found[2]["message"]


def test_devices_may_come_as_yaml_and_as_a_slice(tmp_path: Path) -> None:
    """A ResourceSlice gives its driver to its devices."""
    slice_ = {"kind": "ResourceSlice", "spec": {"driver": "gpu.example.com", "devices": [dict(GPU)]}}
    file = tmp_path / "slice.yaml"
    file.write_text(yaml.safe_dump(orjson.loads(orjson.dumps(slice_))))
    done = run("-e", 'device.driver == "gpu.example.com"', "-f", str(file), "-o", "json")
    assert orjson.loads(done.stdout)["devices"] == [{"device": "gpu-0", "kind": "match", "match": True}]


def test_a_person_gets_a_table() -> None:
    """One row a device."""
    done = run("-e", INDEX, "-f", "-", stdin=orjson.dumps(DEVICES))
    assert done.exit_code == 0
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:4]] == [
        ["gpu-0", "match"],
        ["gpu-1", "no"],
        ["#2", "error"],
    ]


def test_bad_input_is_named_and_ends_with_two() -> None:
    """A broken expression, file or output format: one line on standard error, no stack trace."""
    cases: list[tuple[tuple[str, ...], str, str]] = [
        (("-e", "device.foo", "-f", "-"), "[]", "undefined field 'foo'"),
        (("-e", "true", "-f", "/nonexistent"), "", "/nonexistent: No such file"),
        (("-e", "true", "-f", "-"), "{", "neither JSON nor YAML"),
        (("-e", "true", "-f", "-"), '{"devices": 5}', "devices: expected a list"),
        (("-f", "-"), "[]", "an expression is missing"),
        (("-e", "true", "-f", "-", "-o", "xml"), "[]", "there are table and json"),
    ]
    for args, stdin, reason in cases:
        done = run(*args, stdin=stdin)
        assert done.exit_code == 2
        assert reason in done.stderr
        assert "Traceback" not in done.output


def test_a_compile_error_is_an_answer_in_json_output() -> None:
    """Scripts read the reason from standard output."""
    done = run("-e", "1", "-f", "-", "-o", "json", stdin="[]")
    assert done.exit_code == 2
    assert orjson.loads(done.stdout) == {
        "kind": "compileError",
        "message": "must evaluate to bool or the unknown type, not int",
    }


def test_lines_are_answered_one_by_one_and_a_bad_line_does_not_stop_the_rest() -> None:
    """One answer a line, in order; the option's expression serves lines that bring none."""
    lines: list[Any] = [
        {
            "expression": "device.driver == 'a'",
            "driver": "a",
            "attributes": None,
            "allowMultipleAllocations": None,
        },
        {"driver": "b"},
        {"expression": "1", "driver": "a"},
        {"expression": "device.attributes.x.y", "driver": "a"},
        {"expression": 5},
        {"expression": "true", "driver": "a", "attributes": {"x": {"int": "five"}}},
        {"expression": "true", "driver": "a", "attributes": {"x": {}}},
        [],
    ]
    text = b"\n".join(map(orjson.dumps, lines)) + b"\n{bad\n"
    done = run("-f", "-", "-e", "device.driver == 'a'", "--jsonl", stdin=text)
    answers = [orjson.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == 0
    assert [answer["kind"] for answer in answers] == [
        *("match", "match", "compileError", "matchError", "error"),
        *("matchError", "matchError", "error", "error"),
    ]
    assert answers[0] == {"kind": "match", "match": True}
    assert answers[1] == {"kind": "match", "match": False}
    assert "unsupported attribute value" in answers[6]["message"]


@pytest.mark.slow
def test_the_conformance_cases_get_upstreams_answers() -> None:
    """The recorded cases, one a line."""
    rows = recorded()
    done = run("-f", "-", "--jsonl", stdin=b"\n".join(map(orjson.dumps, rows)))
    wrong = []
    for row, line in zip(rows, done.stdout.splitlines(), strict=True):
        answer, expected = orjson.loads(line), row["expect"]
        if (
            answer["kind"] != expected["kind"]
            or answer.get("match") != expected.get("match")
            or (answer["kind"] != "match" and expected[answer["kind"]] not in answer["message"])
        ):
            wrong.append((row["name"], answer))
    assert wrong == []
