"""What is wrong with a command line that people are told to type. In: text of a shell. Out: what does not exist, in words."""

import importlib.util
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

from docsite.commands import commands

ROOT = Path(__file__).parents[2]
KUBECTL = frozenset((
    "annotate", "apply", "auth", "config", "cordon", "create", "delete", "describe", "diff", "drain", "edit", "events", "exec", "explain",
    "get", "kustomize", "label", "logs", "patch", "port-forward", "replace", "rollout", "scale", "top", "uncordon", "version", "wait",
))  # fmt: skip
OTHERS = frozenset((
    "awk", "cat", "cd", "chmod", "cosign", "cp", "curl", "docker", "echo", "export", "gh", "git", "go", "grep", "helm", "jq", "kind", "kustomize",
    "ls", "mkdir", "nvidia-smi", "npu-smi", "pip", "podman", "promtool", "rdma", "sed", "sh", "sha256sum", "diff", "skopeo", "sleep", "sudo", "systemctl", "tar", "test",
    "tilt", "true", "uv",
))  # fmt: skip
"""Programs of others: nothing about them is looked at."""
_BREAKS = frozenset(("|", "||", "&&", ";", "&", "(", ")"))
_REDIRECTS = frozenset((">", ">>", "<", "2>", "2>&1"))
_ASSIGNMENT = re.compile(r"^[A-Z_]+=")


def wrong(text: str) -> list[str]:
    """Return what is wrong with the lines of a shell."""
    return [f"{' '.join(words)}: {why}" for words in _simple(text) for why in _of(words)]


def _simple(text: str) -> Iterator[list[str]]:
    """Yield the simple commands: words without redirections."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.wordchars += "{}[]$@:%^,+!\\"
        words: list[str] = []
        skip = False
        for word in (*lexer, ";"):
            if word in _BREAKS:
                if words:
                    yield words
                words = []
            elif skip or word in _REDIRECTS:
                skip = not skip
            elif words or not _ASSIGNMENT.match(word):
                words.append(word)


def _of(words: Sequence[str]) -> Iterator[str]:
    match words:
        case ["apportion", *rest] | ["kubectl", "apportion", *rest]:
            yield from _apportion(rest)
        case ["kubectl", *rest]:
            known = [word for word in rest if word in KUBECTL]
            if not known:
                yield "kubectl has no such command"
            if "--" in rest:
                yield from _of_inner(rest[rest.index("--") + 1 :])
            yield from _missing_files(rest)
        case ["make", *rest]:
            for word in rest:
                if "=" not in word and word not in _targets():
                    yield f"the Makefile has no {word}"
        case [program, "-m", module, *rest] if program.endswith("python"):
            if module == "apportion":
                yield from _apportion(rest)
            elif importlib.util.find_spec(module) is None:
                yield f"there is no module {module}"
            else:
                yield from (
                    f"{module} has no {each}" for each in _options(rest) if each not in _written(module)
                )
        case [program, *_] if program not in OTHERS:
            yield f"{program} is no program that tests/docs/commandline.py knows"


def _of_inner(words: Sequence[str]) -> Iterator[str]:
    if words:
        yield from _of(["python" if words[0].endswith("/python") else words[0], *words[1:]])


def _apportion(words: Sequence[str]) -> Iterator[str]:
    plain = [word for word in words if not word.startswith("-")]
    first = "".join(words[:1]).startswith("-")
    found = [
        (names, command)
        for names, command in commands()
        if tuple(plain[: len(names) - 1]) == names[1:] and (names[1:] or first)
    ]
    if not found:
        if set(words) - {"--help", "-h"}:
            yield "apportion has no such command"
        return
    command = found[-1][1]
    known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {
        "--help",
        "-h",
    }
    yield from (f"apportion {plain[0]} has no {each}" for each in _options(words) if each not in known)
    yield from _missing_files(words)


def _options(words: Sequence[str]) -> list[str]:
    return [word.split("=")[0] for word in words if re.match(r"^--?[a-z]", word)]


def _missing_files(words: Sequence[str]) -> Iterator[str]:
    """Yield the files of the repository that are named and not there; names without a folder are the reader's own."""
    for flag, word in pairwise(words):
        if flag in {"-f", "-k", "--filename", "--kustomize"} and "/" in word and "://" not in word:
            path = ROOT / word
            if not path.exists() and not word.startswith("/"):
                yield f"there is no {word}"


@cache
def _targets() -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@cache
def _written(module: str) -> frozenset[str]:
    """Return the options that occur in a package: as text, or as a parameter that typer makes one of."""
    folder = ROOT / module.split(".", maxsplit=1)[0]
    text = "\n".join(path.read_text() for path in folder.rglob("*.py"))
    return frozenset(re.findall(r'"(--?[a-z][a-z-]*)', text)) | {
        f"--{name.replace('_', '-')}" for name in re.findall(r"^    (\w+): ", text, re.MULTILINE)
    }
