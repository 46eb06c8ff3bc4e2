"""One thing has one name: no word of the former private vocabulary occurs in names or prose.

In: the table below and the tracked files. Out: a list of findings, one per file, line and word; empty if all is well.
A word is one of:

- `TEXT`: forbidden in names, docstrings, comments and documents;
- `NAME`: forbidden as a name or a part of a name only, because it is also ordinary English;
- `WHOLE`: forbidden as a complete name only, because it is a good part of others.

Names are split at underscores and capitals; a word matches its plural too. A word that starts with a capital is the name
of a former class and matches in that spelling only: `cast` is a function of typing, `Cast` was a class. A fifth cell of the
table restricts a word to one folder, because it has another, proper sense elsewhere. Words with a proper sense in the same
folder are not in the table: kind, part, piece, rule, place, plan, seen, short, chosen, worth.
"""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MENDED = (
    "operator",
    "testbed",
    "bench",
    "tests",
    "docs",
    "docsite",
    "examples",
    "manifests",
    "README.md",
    "CONTRIBUTING.md",
)
"""Folders and files that are checked. CHANGELOG.md is not: its old entries keep the words of their time."""
UNCHECKED = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "tests/test_vocabulary.py")
"""Generated files, and the table itself."""


class Use(Enum):
    """Where a word is forbidden."""

    TEXT = "names and prose"
    NAME = "names"
    WHOLE = "complete names"


@dataclass(frozen=True, slots=True)
class OldWord:
    """A word of the former vocabulary."""

    word: str
    use: Use
    replacement: str
    reason: str
    folder: str = ""
    """The only folder where it is forbidden; empty: everywhere."""


TEXT, NAME, WHOLE = Use.TEXT, Use.NAME, Use.WHOLE
TABLE = """
# Allocator: claims and queries
meaning       | NAME  | query                     | what claims ask for, without request names
shape         | NAME  | named query, query        | a shape is that of an array | operator/apportion/allocator
want          | NAME  | alternative, request      | one alternative of a request; a verb is no name of a thing
wish          | NAME  | request, desired partition | what somebody asks for is a request
canonical     | NAME  | representative            | the query that stands for all that match the same devices
token         | WHOLE | match_signature           | tokens are those of a parser or credentials | operator/apportion/allocator
One           | WHOLE | SingleDevice              | says not one of what
Rule          | WHOLE | AttributeConstraint       | rules are taint rules      | operator/apportion/allocator
Kind          | WHOLE | NodeClass                 | a kind is that of API objects | operator/apportion/allocator
told          | NAME  | as_broken_input, message  | says neither what nor to whom
personal      | TEXT  | per node                  | an attribute whose value differs from node to node
peculiar      | TEXT  | unclassifiable            | a node that no class can hold
homely        | TEXT  | node-local                | all devices of which are on the node
question      | NAME  | query, demand             | a demand is allocated, not asked
inquiry       | TEXT  | node outcomes             | outcomes of one query on all nodes
way           | NAME  | alternative               | the API calls it a subrequest, an alternative of a request
door          | NAME  | command, entry point      | a metaphor
# Allocator: nodes
anatomy       | TEXT  | node template             | pools, devices and counters of equal nodes
standing      | TEXT  | node state                | which devices and counters are free
spot          | TEXT  | group occupancy, placement | three things had this name
roster        | TEXT  | ranked states             | node states in the order of their outcomes
Cast          | TEXT  | GroupTemplate             | the devices of a counter group
Piece         | WHOLE | SliceView                 | a piece belongs to a cutting problem | operator/apportion/allocator
_worn         | WHOLE | _stale_views              | says not in what
# Allocator: outcomes, caches and prices
glance        | TEXT  | estimate                  | an outcome without picks
recall        | TEXT  | query cache               | results by query
sight         | TEXT  | node prices               | prices of one node's devices
outlook       | TEXT  | demand prices             | prices under one demand
quickly       | NAME  | the name of what is done  | every module is meant to be quick
again         | NAME  | rerate, second            | says not what is repeated
tight         | NAME  | short hosts               | nodes with little cpu or memory left
looked_over   | WHOLE | precomputed_until         | names the person who looks
look_over     | WHOLE | precompute                | names the person who looks
look over     | TEXT  | compute in advance        | names the person who looks
harm          | TEXT  | contention                | what an allocation costs other demands
toll          | TEXT  | contention cost           | what an allocation costs other demands
roll          | WHOLE | index_by_name             | a list with positions      | operator/apportion/allocator
rivalry       | TEXT  | markets                   | demands for the same devices
rival         | TEXT  | contending                | demands for the same devices
supply        | NAME  | scarcity                  | opportunity cost of device sets
portion       | TEXT  | share prices              | shares of a device's capacity
board         | NAME  | cut states                | a board is hardware        | operator/apportion/allocator
stock         | NAME  | group prices               | prices of a counter group
shortfall     | NAME  | host curve                | host capacity that is useless to devices
tally         | NAME  | cost, usage               | what a choice has consumed
squeeze       | WHOLE | place with swaps          | a metaphor                 | operator/apportion/allocator
cupboard      | TEXT  | memo                      | a metaphor
# Members
_stand        | WHOLE | _outcome_of_state         | a verb that says nothing
_see          | WHOLE | _outcome_of_node          | a verb that says nothing
_sight        | WHOLE | _visible_key              | a metaphor
_beside       | WHOLE | _exceptions_and_best      | says not what
_sparing      | WHOLE | _best_counting_idle       | says not what
_come         | WHOLE | _create_or_keep           | a verb that says nothing
_untie        | WHOLE | _clear_tied_claims        | a metaphor
# Agent
desk          | TEXT  | agent context             | what every task of the agent needs
sighting      | TEXT  | last seen                 | when a device was last reported
Marks         | TEXT  | StickyErrors              | errors that stay until a reset
byhand        | NAME  | nodetools                 | commands for people on a node
recollect     | TEXT  | recover claims            | claims of a lost journal
# Scheduling and cluster
errand        | TEXT  | background writes         | writes that nobody waits for
lingering     | TEXT  | still prepared            | claims of ended pods
Together      | TEXT  | GroupDecider              | decides pod groups
Joint         | TEXT  | WaitingGroup              | a pod group that waits
Room          | WHOLE | HostCapacity              | cpu and memory that are left
foretold      | TEXT  | policy mix                | the demand mix of a policy
foretell      | TEXT  | state the demand mix      | the demand mix of a policy
Ledger        | TEXT  | AssumedAllocations, Holdings | two things had this name
# Chaos and fakes
brood         | TEXT  | agent pool                | forked agents
hatchling     | TEXT  | forked agent              | a forked agent
nursery       | TEXT  | fork server               | the process that forks agents
blow          | NAME  | kill point                | where an agent is killed
judge         | NAME  | invariants                | what always holds
plays         | WHOLE | scenarios                 | theatre
play          | WHOLE | scenario                  | theatre
ground        | WHOLE | fakehardware              | theatre
# Prose
whoever       | TEXT  | the demand, the caller    | demands and claims are no persons
stand alike   | TEXT  | be in the same state      | see standing
stands alike  | TEXT  | is in the same state      | see standing
stood alike   | TEXT  | were in the same state    | see standing
nobody can tell | TEXT | the answers are equal     | says not what is compared
as things stand | TEXT | now                       | see standing
"""
"""Word, use, replacement, reason, folder."""


def old_words() -> list[OldWord]:
    """Read the table."""
    rows = [line.split("|") for line in TABLE.splitlines() if line and not line.startswith("#")]
    return [
        OldWord(word, Use[use], *more)
        for word, use, *more in ([cell.strip() for cell in row] for row in rows)
    ]


def spellings(word: str) -> set[str]:
    """Return a word and its plural."""
    return {word, f"{word}es" if word.endswith("sh") else f"{word}s"}


IN_TEXT = {
    re.compile(rf"(?<![\w-])(?:{'|'.join(sorted(spellings(one.word)))})(?![\w-])", re.IGNORECASE): one
    for one in old_words()
    if one.use is TEXT and one.word[0].islower()
}
IN_NAMES = {spelling: one for one in old_words() if one.use is not WHOLE for spelling in spellings(one.word)}
WHOLE_NAMES = {one.word: one for one in old_words() if one.use is WHOLE}


def in_name(name: str) -> Iterator[OldWord]:
    """Yield the old words in a name."""
    if name in WHOLE_NAMES:
        yield WHOLE_NAMES[name]
    for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name):
        if found := IN_NAMES.get(part) or IN_NAMES.get(part.lower()):
            yield found


def in_prose(text: str) -> Iterator[tuple[int, OldWord]]:
    """Yield the old words in a text and, between backticks, in names; with the number of the line, from 0."""
    for number, line in enumerate(text.splitlines()):
        prose, code = re.sub(r"`[^`]*`", " ", line), " ".join(re.findall(r"`([^`]*)`", line))
        for pattern, one in IN_TEXT.items():
            if pattern.search(prose):
                yield number, one
        for name in re.findall(r"\w+", code):
            for one in in_name(name):
                yield number, one


def in_python(source: str) -> Iterator[tuple[int, OldWord]]:
    """Yield the old words in names, docstrings and comments, with their lines; other strings are data."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line = token.start[0]
        if token.type == tokenize.NAME:
            for one in in_name(token.string):
                yield line, one
        elif token.type == tokenize.COMMENT:
            for number, one in in_prose(token.string):
                yield line + number, one
    for node in ast.walk(ast.parse(source)):
        # Docstrings, and the strings below attributes that document them.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            for number, one in in_prose(str(node.value.value)):
                yield node.lineno + number, one


def findings(root: str) -> list[str]:
    """Return what is found in a folder or a file, file names included."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", root],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    found = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix not in {".py", ".md"} or name.endswith(UNCHECKED) or not path.exists():
            continue
        text = path.read_text(encoding="utf-8")
        rows = [(0, one) for one in in_name(path.stem)]
        rows += in_python(text) if path.suffix == ".py" else in_prose(text)
        found += [
            f"{name}:{line}: {one.word} -> {one.replacement}"
            for line, one in dict.fromkeys(sorted(rows, key=lambda row: row[0]))
            if name.startswith(one.folder)
        ]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("root", MENDED)
def test_no_old_word_occurs(root: str) -> None:
    """The message names file, line, word and replacement."""
    assert findings(root) == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def node_standing(): ...", ["standing"]),
        ("class NodeStandings: ...", ["standing"]),
        ("again = 1\nagainst = 2", ["again"]),
        ("x = cast(int, y)\nclass GroupCast: ...", ["Cast"]),
        ('"""A glance at `Wish`."""', ["glance", "wish"]),
        ('"""Try it again, the same way."""', []),
        ("# Nodes that stand alike.", ["stand alike"]),
        ("playbook = ground_truth = 1\nground = 2", ["ground"]),
        ('print("standing")', []),
    ],
)
def test_old_words_are_found_in_names_docstrings_and_comments(source: str, words: list[str]) -> None:
    """Parts of names count, parts of words do not, and strings that are data are not read."""
    assert sorted(one.word for _, one in in_python(source)) == sorted(words)


def test_the_table_has_every_word_once() -> None:
    """Every row has a replacement and a reason."""
    words = [one.word for one in old_words()]
    assert len(words) == len(set(words))
    assert all(one.replacement and one.reason for one in old_words())


def test_every_checked_root_exists() -> None:
    """A folder or file that was moved would be checked no longer; so would a word restricted to a folder that was."""
    roots = {*MENDED, *(one.folder for one in old_words())}
    assert [root for root in sorted(roots) if not (ROOT / root).exists()] == []
