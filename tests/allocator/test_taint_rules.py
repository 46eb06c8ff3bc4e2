"""DeviceTaintRules: which devices get their taints, and what it costs to find them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from apportion.allocator.facts.inventory import Inventory
from apportion.allocator.rules.features import DEFAULT_FEATURES
from apportion.dra.slice import Slice
from apportion.dra.taint import Taint
from apportion.dra.taintrule import DeviceTaintRule
from tests.allocator.builders import GPU, device, device_slice
from tests.steps import Steps

RULE = st.builds(
    DeviceTaintRule,
    st.sampled_from(["a", "b", "c"]),
    st.builds(Taint, st.sampled_from(["k", "l"]), st.sampled_from(["NoSchedule", "None"])),
    st.sampled_from(["", GPU, "other.example"]),
    st.sampled_from(["", "n1", "n2"]),
    st.sampled_from(["", "gpu-0", "gpu-1"]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("rule"), RULE),
        st.tuples(st.just("no rule"), st.sampled_from(["a", "b", "c"])),
        st.tuples(st.just("slice"), st.integers(0, 2), st.integers(0, 2)),
    ),
    max_size=15,
)


@given(STEPS)
def test_devices_have_the_taints_of_all_rules_that_cover_them(happens: list[tuple[Any, ...]]) -> None:
    """Whatever rules came, changed and went, before the slice or after it."""
    inventory, rules, pieces = Inventory(DEFAULT_FEATURES), dict[str, DeviceTaintRule](), dict[int, Slice]()
    for node in ("n0", "n1", "n2"):
        inventory.put_node(node, {}, ())
    for step in happens:
        match step:
            case "rule", DeviceTaintRule() as rule:
                rules[rule.name] = rule
                inventory.put_taint_rule(rule)
            case "no rule", name:
                rules.pop(name, None)
                inventory.drop_taint_rule(name)
            case _, number, devices:
                rows = [device(f"gpu-{index}") for index in range(devices)]
                pieces[number] = device_slice(f"s{number}", f"n{number}", rows)
                inventory.put_slice(pieces[number])
        for piece in pieces.values():
            covered = {
                index: tuple(
                    rule.taint
                    for _, rule in sorted(rules.items())
                    if rule.covers(one.id) and rule.taint.blocks
                )
                for index, one in enumerate(piece.devices)
            }
            blocking = inventory.slice_view(piece).template.blocking
            assert blocking == {index: taints for index, taints in covered.items() if taints}


def test_rules_for_single_devices_cost_other_pools_nothing() -> None:
    """A cluster has one for each broken device: neither its slices are compared with all of them, nor all slices read anew when one changes."""
    counts = []
    for nodes in (3, 30):
        inventory = Inventory(DEFAULT_FEATURES)
        for number in range(nodes):
            inventory.put_node(f"n{number}", {}, ())
            inventory.put_slice(device_slice(f"s{number}", f"n{number}", [device("gpu-0")]))
            inventory.put_taint_rule(rule_of(number, "NoSchedule"))
        with Steps(only=DeviceTaintRule.covers) as compared:
            assert [*inventory.put_taint_rule(rule_of(0, "NoExecute"))] == ["n0"]
            for number in range(nodes):
                (piece,) = inventory.pools(f"n{number}")[0].slices
                assert inventory.slice_view(piece).template.blocking
        counts.append(compared.count / nodes)
    assert counts[1] <= counts[0]


def rule_of(number: int, effect: str) -> DeviceTaintRule:
    """Return a rule for one device."""
    return DeviceTaintRule(f"r{number}", Taint("k", effect), GPU, f"n{number}", "gpu-0")
