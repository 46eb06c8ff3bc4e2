"""Changes between two manifests, put into the text of the first one, give the second one."""

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from testbed.chart.changes import AddedItem, AddedKey, changes
from testbed.chart.manifesttext import ManifestText
from testbed.chart.templates import put
from testbed.errors import TestbedError

SCALARS = st.one_of(
    st.integers(),
    st.booleans(),
    st.sampled_from(["a", "b: c", "two\nlines\n", "# no comment", "", "x" * 200]),
)
KEYS = st.sampled_from(["a", "b", "c", "d", "e"])
# As in manifests: items of a list are scalars, or mappings that begin with their name.
NAMED = st.fixed_dictionaries(
    {"name": SCALARS}, optional={"value": SCALARS, "list": st.lists(SCALARS, min_size=1, max_size=3)}
)


def _mappings(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.one_of(st.lists(SCALARS, min_size=1, max_size=4), st.lists(NAMED, min_size=1, max_size=4))
    return st.dictionaries(KEYS, st.one_of(SCALARS, lists, inner), min_size=1, max_size=4)


MANIFESTS = _mappings(st.deferred(lambda: MANIFESTS))


def _changed(draw: st.DrawFn, value: Any, *, fixed: bool = False) -> Any:
    """Return a value with some further keys and items, and some other scalars."""
    if isinstance(value, dict):
        found = {key: _changed(draw, inner, fixed=key == "name") for key, inner in value.items()}
        more = draw(st.dictionaries(st.sampled_from(["p", "q"]), st.one_of(SCALARS, MANIFESTS), max_size=1))
        return found | more
    if isinstance(value, list):
        found = []
        for item in value:
            found += draw(st.lists(st.just("new"), max_size=1))
            found.append(item)
        return found + draw(st.lists(st.one_of(st.just("new"), NAMED), max_size=2))
    return value if fixed else draw(st.one_of(st.just(value), SCALARS))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    before = draw(MANIFESTS)
    return before, _changed(draw, copy.deepcopy(before))


@pytest.mark.slow
@given(pairs())
def test_a_text_with_its_changes_reads_as_the_changed_object(
    pair: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    """Whatever was added, wherever; comments beside it stay."""
    before, after = pair
    text = "# first\n" + yaml.safe_dump(before, sort_keys=False) + "# last\n---\nother: document\n"
    file = ManifestText(text)
    for change in changes(before, after):
        put(file, 0, change)
    assert list(yaml.safe_load_all(file.text())) == [after, {"other": "document"}]
    assert file.text().count("# first\n") == 1
    assert "# last\n" in file.text()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"a": {"b": 1}}, {"a": {}}, "a: b went"),
        ({"a": [1, 2]}, {"a": [2, 1, 3]}, "a: an item went, changed or moved"),
        ({"a": 1}, {"a": [1]}, "a: it became another kind"),
    ],
)
def test_what_a_chart_cannot_say_is_an_error(
    before: dict[str, Any], after: dict[str, Any], said: str
) -> None:
    """Better than a chart that differs."""
    with pytest.raises(TestbedError, match=said):
        list(changes(before, after))


@pytest.mark.parametrize(
    ("text", "change", "said"),
    [
        ("a: [1, 2]\n", AddedItem(("a",), 2, 3), "one item a line"),
        ("a: {b: 1}\n", AddedKey(("a",), "c", 3), "one entry a line"),
        ("a:\n- b: 1\n", next(iter(changes({"a": [{"b": 1}]}, {"a": [{"b": 2}]}))), "begins an item"),
    ],
)
def test_a_text_without_room_for_a_change_is_an_error(text: str, change: Any, said: str) -> None:
    """It is then written otherwise in the manifest."""
    with pytest.raises(TestbedError, match=said):
        put(ManifestText(text), 0, change)


def test_two_replacements_of_one_entry_are_an_error() -> None:
    """Two features that change one scalar need a template of their own."""
    file = ManifestText("a: 1\n")
    (change,) = changes({"a": 1}, {"a": 2})
    put(file, 0, change)
    with pytest.raises(TestbedError, match="two things replace it"):
        put(file, 0, change)


def test_a_key_after_a_text_of_several_lines_comes_behind_all_of_it() -> None:
    """CEL is written so; a comment that follows it stays where it was."""
    text = "a:\n  b: >-\n    one\n    two\n# about c\nc: 1\n"
    file = ManifestText(text)
    file.add_key(0, ("a",), "d: 2")
    assert file.text() == text.replace("two\n", "two\n  d: 2\n")
