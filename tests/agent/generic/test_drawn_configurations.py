"""Configurations of generic devices as anybody might write them: taken and published, or refused with file and field."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import event, given, settings
from hypothesis import strategies as st

from apportion.agent.devices.generic.backend import GenericBackend
from apportion.agent.devices.generic.configuration import read
from apportion.agent.devices.names import UnkeptNames
from apportion.agent.slices.nodeinventory import NodeInventory
from apportion.agent.slices.pool import pools
from apportion.errors import HardwareError
from testbed.fakes.fpga import FpgaHost
from tests.agent.generic.places import FIRST, SECOND, check_limits, described

NAMES = st.sampled_from(
    ["sessions", "aB", "a_b", "_", "parts", "regions", "uuid", "parentUUID", "x" * 33, "é"]
)
WORDS = st.sampled_from(
    ["16Gi", "8", "0", "-1", "1.5", "half", "", "..", "/sys/x", "regions", "board_name", "{card}", "{x}", "("]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES | WORDS, inner, max_size=3),
    max_leaves=8,
)
AMOUNT = st.integers(0, 2**64) | WORDS
FACT = st.fixed_dictionaries(
    {}, optional={"file": WORDS, "value": AMOUNT, "pattern": WORDS, "scale": st.floats()}
)
FACTS = st.dictionaries(NAMES, FACT | st.fixed_dictionaries({"value": AMOUNT}), max_size=3)
PATHS = st.sampled_from(["fpga_region/*", "misc/*", "*", ".", "absent", "..", "/sys/*"])
SOUND = st.fixed_dictionaries(
    {"type": st.sampled_from(["region", "small", "large"])}, optional={"takes": st.just({"regions": 1})}
)
FOUND = st.builds(
    lambda base, how: base | how,
    SOUND,
    st.builds(lambda path: {"sysfs": path}, PATHS)
    | st.builds(lambda count: {"count": count}, st.integers(0, 65)),
)
DRAWN = st.fixed_dictionaries(
    {"type": st.sampled_from(["region", "fpga", "mig", "x" * 17]) | ANYTHING},
    optional={
        "sysfs": PATHS | ANYTHING,
        "count": st.integers(-1, 70) | ANYTHING,
        "takes": st.dictionaries(NAMES, AMOUNT, max_size=3) | ANYTHING,
        "attributes": FACTS | ANYTHING,
        "capacity": FACTS | ANYTHING,
        "nodes": st.lists(st.fixed_dictionaries({"sysfs": PATHS}) | ANYTHING, max_size=2),
        "mounts": ANYTHING,
        "env": st.dictionaries(NAMES, WORDS, max_size=2) | ANYTHING,
        "health": st.fixed_dictionaries({"file": WORDS, "healthy": WORDS}) | ANYTHING,
    },
)
CHANGES = st.fixed_dictionaries(
    {"parts": st.lists(FOUND, max_size=3) | st.lists(FOUND | DRAWN, max_size=3) | ANYTHING},
    optional={
        "capacity": FACTS.map(lambda facts: {"regions": {"file": "regions"}, **facts}),
        "env": ANYTHING,
    },
)


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory) -> FpgaHost:
    """Give a host with two cards, of which one has regions."""
    host = FpgaHost(tmp_path_factory.mktemp("drawn") / "root")
    host.add(FIRST)
    host.add(SECOND, bridge="18", regions="none")
    host.divide(FIRST, "region0", "region1")
    return host


@pytest.mark.slow
@given(changes=CHANGES)
@settings(max_examples=300)
def test_whatever_somebody_writes_is_published_as_the_api_takes_it_or_refused_with_its_field(
    divided: FpgaHost, changes: dict[str, Any]
) -> None:
    """A card that is published with parts has counters that they share, and no text ends the agent."""
    file: Path = divided.root.parent / "devices.yaml"
    file.write_text(yaml.safe_dump({"devices": [described() | changes]}), encoding="utf-8")
    found = read(file)
    event("refused" if found.broken else "taken")
    if found.broken:
        (said,) = found.broken.values()
        assert said.startswith(f"{file}: devices[0]"), said
        return
    (kind,) = found.kinds
    backend = GenericBackend(kind, divided.root, UnkeptNames())
    cards = backend.devices()
    (pool,) = pools(NodeInventory(cards), {"fpga": kind.driver})
    check_limits(pool)
    with_parts = {card.part_of for card in cards} - {""}
    event(f"{len(with_parts)} cards with parts")
    assert with_parts == {card.name for card in cards if card.totals}
    assert not backend.incomplete()
    # The first and the last of each kind of parts: those between are found by the same rule, and each is looked for among all.
    of_a_kind = ({(card.part_of, card.type): card.name for card in order} for order in (cards, cards[::-1]))
    for name in {name for names in of_a_kind for name in names.values()}:
        with suppress(HardwareError):
            backend.edits(name)
    backend.health()
    assert not backend.incomplete()
