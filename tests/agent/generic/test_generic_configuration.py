"""What is read of a configuration of generic devices, and what is said about one that cannot be."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from apportion.agent.devices.generic.configuration import read
from tests.agent.generic.places import CONFIGURATION, FPGA, described


def written(file: Path, *kinds: Any) -> Path:
    """Write a configuration of these kinds."""
    file.write_text(yaml.safe_dump({"devices": [*kinds]}), encoding="utf-8")
    return file


def test_the_configuration_of_the_component_can_be_read() -> None:
    """It is what people start from."""
    found = read(CONFIGURATION)
    assert found.broken == {}
    assert found.drivers == {"fpga": FPGA}
    assert [kind.match.pci.vendor for kind in found.kinds if kind.match.pci] == [("0x10ee",)]


def test_no_file_and_an_empty_one_describe_nothing(tmp_path: Path) -> None:
    """A ConfigMap may be empty for a while."""
    (tmp_path / "empty.yaml").write_text("")
    assert read(None).kinds == read(tmp_path / "empty.yaml").kinds == ()
    assert read(tmp_path / "empty.yaml").broken == {}


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "unknown field": ({"colour": "red"}, "colour: is not known"),
    "type of another backend": ({"type": "gpu"}, "type: gpu is a kind that apportion has by itself"),
    "type with a dash": ({"type": "fpga-card"}, "type: String should match pattern"),
    "driver's name": ({"driver": "FPGA"}, "driver: String should match pattern"),
    "driver of another backend": (
        {"driver": "rdma.apportion.dev"},
        "driver: rdma.apportion.dev is the driver of another kind",
    ),
    "no match": ({"match": {}}, "match: devices are found either by pci or by path"),
    "matches everything": (
        {"match": {"pci": {}}},
        "match.pci: names neither vendor nor device nor class nor driver",
    ),
    "number as id": (
        {"match": {"pci": {"vendor": 1234}}},
        "match.pci.vendor: 1234 is no id: four hexadecimal digits, in quotes",
    ),
    "class": ({"match": {"pci": {"class": "0x120"}}}, "match.pci.class: '0x120' is no class"),
    "path elsewhere": ({"match": {"path": "/etc/*"}}, "match.path: '/etc/*' is not below /sys/"),
    "path upwards": (
        {"match": {"path": "/sys/../etc/*"}},
        "match.path: '/sys/../etc/*' is no path, or leads upwards",
    ),
    "file elsewhere": (
        {"uuid": {"file": "/etc/shadow"}},
        "uuid.file: /etc/shadow is neither below the device's folder nor",
    ),
    "file upwards": (
        {"uuid": {"file": "../../secret"}},
        "uuid.file: '../../secret' is no path, or leads upwards",
    ),
    "expression": ({"uuid": {"file": "a", "pattern": "("}}, "uuid.pattern: '(' is no regular expression"),
    "own attribute": (
        {"attributes": {"uuid": {"value": "x"}}},
        "attributes.uuid: uuid is an attribute that every device has by itself",
    ),
    "attribute's name": (
        {"attributes": {"a-b": {"value": 1}}},
        "attributes.a-b: String should match pattern",
    ),
    "two sources": (
        {"attributes": {"a": {"value": 1, "file": "a"}}},
        "attributes.a: stands either in a file or as value",
    ),
    "no source": ({"attributes": {"a": {}}}, "attributes.a: stands either in a file or as value"),
    "type of a value": ({"attributes": {"a": {"value": "x", "type": "int"}}}, "attributes.a: 'x' is no int"),
    "version": (
        {"attributes": {"a": {"value": "1.2", "type": "version"}}},
        "attributes.a: '1.2' is not a semantic version",
    ),
    "long text": (
        {"attributes": {"a": {"value": "x" * 65}}},
        "attributes.a: 'xxxxxxxxxxxxxxxxxxxx'... is longer than 64 bytes",
    ),
    "large number": (
        {"attributes": {"a": {"value": 2**63}}},
        "attributes.a: 9223372036854775808 does not fit into 64 bits",
    ),
    "scaled text": (
        {"attributes": {"a": {"file": "a", "scale": 2}}},
        "attributes.a: scale is for attributes of type int",
    ),
    "amount": ({"capacity": {"a": {"value": "much"}}}, "capacity.a.value: 'much' is not a quantity"),
    "half": ({"capacity": {"a": {"value": "500m"}}}, "capacity.a.value: '500m' is no whole amount"),
    "too many": (
        {"attributes": {f"a{n}": {"value": n} for n in range(27)}, "capacity": {}},
        ": 27 attributes and capacities are too many: a device has room for 26",
    ),
    "device file elsewhere": ({"nodes": ["/etc/passwd"]}, "nodes[0].path: '/etc/passwd' is not below /dev/"),
    "placeholder": (
        {"nodes": ["/dev/{serial}"]},
        "nodes[0].path: {serial} is not known; known are {name}, {card}, {pci}, {uuid}",
    ),
    "our variable": (
        {"env": {"APPORTION_DEVICES": "x"}},
        "env.APPORTION_DEVICES: APPORTION_DEVICES is a variable that apportion sets",
    ),
    "part found in two ways": (
        {"parts": [{"type": "region", "sysfs": "r*", "count": 2}]},
        "parts[0]: parts are either found by sysfs or counted",
    ),
    "part found in no way": ({"parts": [{"type": "region"}]}, "parts[0]: parts are either found by sysfs"),
    "part elsewhere": (
        {"parts": [{"type": "region", "sysfs": "/sys/class/fpga_region/*"}]},
        "parts[0].sysfs: /sys/class/fpga_region/* is not below the card's folder",
    ),
    "part's type": (
        {"parts": [{"type": "mig", "count": 1}]},
        "parts[0].type: mig is a kind that apportion has by itself",
    ),
    "part of its own type": (
        {"parts": [{"type": "fpga", "count": 1}]},
        "parts: fpga is the type of the card, or of several parts",
    ),
    "two parts of one type": (
        {"parts": [{"type": "a", "count": 1}, {"type": "a", "count": 2}]},
        "parts: a is the type of the card, or of several parts",
    ),
    "no parts": ({"parts": [{"type": "a", "count": 0}]}, "parts[0].count: Input should be greater than"),
    "too many parts": ({"parts": [{"type": "a", "count": 65}]}, "parts[0].count: Input should be less than"),
    "unknown field of a part": (
        {"parts": [{"type": "a", "count": 1, "match": {}}]},
        "parts[0].match: is not known",
    ),
    "what the card has not": (
        {"parts": [{"type": "a", "count": 1, "takes": {"regons": 1}}]},
        "parts: a takes regons, which is no capacity of the card; it has dmaBandwidth, regions",
    ),
    "takes nothing": (
        {"parts": [{"type": "a", "count": 1, "takes": {"regions": 0}}]},
        "parts[0].takes.regions: 0 is nothing",
    ),
    "takes an unknown amount": (
        {"parts": [{"type": "a", "count": 1, "takes": {"regions": "half"}}]},
        "parts[0].takes.regions: 'half' is not a quantity",
    ),
    "takes and has": (
        {
            "parts": [
                {"type": "a", "count": 1, "takes": {"regions": 1}, "capacity": {"regions": {"value": 1}}}
            ]
        },
        "parts[0]: regions is what a part takes of its card, and so its capacity",
    ),
    "part's own attribute": (
        {"parts": [{"type": "a", "count": 1, "attributes": {"parentUUID": {"value": "x"}}}]},
        "parts[0].attributes.parentUUID: parentUUID is an attribute that every device has",
    ),
    "two counters of one name": (
        {
            "capacity": {"aB": {"value": 1}, "a_b": {"value": 1}},
            "parts": [{"type": "a", "count": 1, "takes": {"aB": 1, "a_b": 1}}],
        },
        "parts: aB and a_b are one counter a-b",
    ),
    "counter of ours": (
        {"capacity": {"parts": {"value": 1}}, "parts": [{"type": "a", "count": 1, "takes": {"parts": 1}}]},
        "parts: a takes parts: parts is a counter that every card with parts has",
    ),
    "no name for a counter": (
        {"capacity": {"__": {"value": 1}}, "parts": [{"type": "a", "count": 1, "takes": {"__": 1}}]},
        "parts: __ is no name for a counter",
    ),
    "mount": ({"mounts": [{"host": "opt"}]}, "mounts[0].host: 'opt' is not below /"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_named_by_file_field_and_reason(tmp_path: Path, name: str) -> None:
    """The other kind of the same file is taken all the same."""
    changes, reason = BROKEN[name]
    other = {"type": "video", "driver": "video.example.com", "match": {"path": "/sys/class/video4linux/*"}}
    file = written(tmp_path / "devices.yaml", described() | changes, other)
    found = read(file, ("rdma.apportion.dev",))
    (said,) = found.broken.values()
    assert said.startswith(f"{file}: devices[0]{'' if reason[0] == ':' else '.'}{reason}"), said
    assert [kind.type for kind in found.kinds] == ["video"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("devices: {", "is no YAML: "),
        ("devices: 2026-02-30", "is no YAML: day is out of range"),
        ("- a", "is no object with a list devices"),
        ("devices: {}", "devices: is no list"),
        ("device: []", "device: is not known"),
        ("devices: [3]", "devices[0]: is no object"),
        ("\xff", "is no UTF-8"),
    ],
)
def test_a_file_that_is_no_configuration_says_why(tmp_path: Path, text: str, reason: str) -> None:
    """Nothing of it is taken, and nothing is raised: other backends go on."""
    file = tmp_path / "devices.yaml"
    file.write_bytes(text.encode("latin-1"))
    found = read(file)
    assert found.kinds == ()
    (said,) = found.broken.values()
    assert re.match(re.escape(f"{file}: {reason}"), said), said


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    """The option names it, so something is missing."""
    (said,) = read(tmp_path / "absent.yaml").broken.values()
    assert said == f"{tmp_path / 'absent.yaml'}: cannot be read: No such file or directory"


def test_a_type_and_a_driver_belong_to_one_kind(tmp_path: Path) -> None:
    """The first of two counts; the second says what it has in common with it."""
    kind = described()
    same_type, same_driver = kind | {"driver": "other.example.com"}, kind | {"type": "other"}
    found = read(written(tmp_path / "d.yaml", kind, same_type, same_driver))
    assert found.drivers == {"fpga": FPGA}
    assert [*found.broken] == ["devices[1]", "other"]
    assert "devices[1].type: fpga is the type of another kind" in found.broken["devices[1]"]
    assert f"devices[2].driver: {FPGA} is the driver of another kind" in found.broken["other"]


def test_the_driver_of_a_broken_kind_is_known(tmp_path: Path) -> None:
    """What it published stays, and claims of it can be unprepared."""
    found = read(written(tmp_path / "d.yaml", described() | {"match": {}}))
    assert (found.kinds, found.drivers, [*found.broken]) == ((), {"fpga": FPGA}, ["fpga"])
