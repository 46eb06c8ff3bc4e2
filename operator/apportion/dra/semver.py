"""Semantic versions (semver.org 2.0.0), the values of attributes of type `version`."""

import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering

from apportion.errors import BrokenInput

_SHAPE = re.compile(
    r"(?P<major>0|[1-9]\d*)\.(?P<minor>0|[1-9]\d*)\.(?P<patch>0|[1-9]\d*)"
    r"(?:-(?P<pre>(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+(?P<build>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    re.ASCII,
)
UNBOUNDED = "a number exceeds 64 bits"
"""What is wrong with a version that is not `bounded`."""
_BOUND = 2**64
_LONGEST = 1000
"""Characters of a version. Python reads no number of more than 4300 digits; attributes have 64 at most."""


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A version. Build metadata is kept for printing and ignored in comparisons (semver.org 10)."""

    text: str
    key: tuple[object, ...]
    """Sort key by semver.org 11: a release after its pre-releases, numbers before words."""
    bounded: bool = True
    """Whether its numbers have 64 bits at most, so that Kubernetes can compute with it. The API server stores others, too."""

    @classmethod
    def parse(cls, text: str) -> "Semver":
        """Read a version whose numbers have 64 bits at most; raises BrokenInput when the text is none."""
        found = _parse(text)
        if not found.bounded:
            raise BrokenInput(f"{text[:70]!r} is not a semantic version: {UNBOUNDED}")
        return found

    @classmethod
    def of_any_size(cls, text: str) -> "Semver":
        """Read a version, `bounded` or not; raises BrokenInput when the text is none."""
        return _parse(text)

    @property
    def major(self) -> int:
        """First number."""
        return int(self.text.split(".", 1)[0])

    @property
    def minor(self) -> int:
        """Second number."""
        return int(self.text.split(".", 2)[1])

    @property
    def patch(self) -> int:
        """Third number."""
        return int(re.split(r"[-+]", self.text, maxsplit=1)[0].split(".")[2])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.key == other.key

    def __lt__(self, other: "Semver") -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=4096)
def _parse(text: str) -> Semver:
    shape = _SHAPE.fullmatch(text) if len(text) <= _LONGEST else None
    if shape is None:
        raise BrokenInput(f"{text[:70]!r} is not a semantic version")
    numbers = int(shape["major"]), int(shape["minor"]), int(shape["patch"])
    bounded = max(numbers) < _BOUND
    if shape["pre"] is None:
        return Semver(text, (*numbers, 1), bounded)
    # Every identifier becomes (0, number, "") or (1, 0, word), so that unlike kinds compare.
    words = tuple((0, int(w), "") if w.isdigit() else (1, 0, w) for w in shape["pre"].split("."))
    return Semver(text, (*numbers, 0, words), bounded and all(number < _BOUND for _, number, _ in words))
