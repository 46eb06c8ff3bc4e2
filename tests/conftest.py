"""Real control planes for every test that asks for one: `control_plane`, `oldest_control_plane`, `namespace`."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Generator, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

import pytest
import structlog
from hypothesis import settings
from rich.console import Console
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from apportion import metrics
from testbed.backup import ETCDUTL
from testbed.binaries import Binaries, provide
from testbed.certificates import Authority
from testbed.controlplane import ControlPlane
from testbed.errors import MissingBinariesError
from testbed.kueue import PROGRAM as KUEUE
from testbed.realnode.probe import unsupported_reason
from testbed.versions import DEFAULT, NODE, OLDEST

# Asserts of what several test files share say what they compared, too.
pytest.register_assert_rewrite("tests")

# How long an example takes says more about the machine than about the code.
settings.register_profile("apportion", deadline=None)
settings.load_profile("apportion")

_PROVIDED = pytest.StashKey[dict[str, Binaries]]()
_NODE = pytest.StashKey[Binaries | str]()
_VERSION = "kubernetes"
"""Property of a test that needs a control plane, and of its report: the version."""
_NEEDS = {
    "binaries": DEFAULT,
    "control_plane": DEFAULT,
    "namespace": DEFAULT,
    "oldest_binaries": OLDEST,
    "oldest_control_plane": OLDEST,
    "oldest_namespace": OLDEST,
}


_TAIL = 60
"""Lines of each log that a failed test shows."""
_ONE_HOST = ("tests/node", "tests/agent/rdma")
"""Folders whose tests look at what the whole machine has: its control groups, its network. One worker runs all of them."""


_ROOT = Path(__file__).resolve().parents[1]
_INSTALLED = ("tests/e2e", "tests/metrics", "tests/node", "tests/web")
"""Folders with an installation of their own, of scope `package`: it ends with the folder's last test in a worker."""


class _Folder(pytest.Package):
    """A folder at whose end fixtures of scope `package` end: installations that nobody asks any more would take a tenth of each core until the run is over."""

    def setup(self) -> None:
        """Import nothing: it is no package of Python's."""


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Let the fixtures of some folders end with them."""
    if path in {parent.config.rootpath / folder for folder in _INSTALLED}:
        made: pytest.Collector = _Folder.from_parent(parent, path=path)
        return made
    return None


@cache
def _group(path: PurePosixPath) -> str:
    """Return what one worker runs in one go: a file, all files that ask for their folder's installation, or all tests of the machine's host."""
    if any(path.is_relative_to(folder) for folder in _ONE_HOST):
        return "host"
    shared = str(path.parent) in _INSTALLED and 'scope="module"' not in (_ROOT / path).read_text()
    return str(path.parent if shared else path)


class _ByFile(LoadScopeScheduling):
    """Gives a worker all tests of a group together: fixtures are then made once."""

    def _split_scope(self, nodeid: str) -> str:
        return _group(PurePosixPath(nodeid.partition("::")[0]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Distribute tests among workers."""
    return _ByFile(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that need a control plane, before `-m` selects; the files whose tests may take longest come first."""
    _longest_first(config, items)
    for item in items:
        needed = {_NEEDS[name] for name in getattr(item, "fixturenames", ()) if name in _NEEDS}
        if needed or {"node_binaries", "helm_program"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.cluster)
            item.user_properties.append((_VERSION, OLDEST if OLDEST in needed else DEFAULT))
        if OLDEST in needed:
            item.add_marker(pytest.mark.oldest)


def _longest_first(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort by the longest time-out in a file, those of a folder's installation first: else one worker has minutes to go when the others have nothing left."""
    usual = float(config.getini("timeout"))
    allowed: dict[Path, float] = defaultdict(lambda: usual)
    for item in items:
        own = item.get_closest_marker("timeout")
        if own is not None:
            allowed[item.path] = max(allowed[item.path], float(own.args[0]))

    def place(item: pytest.Item) -> tuple[float, bool]:
        path = PurePosixPath(item.path.relative_to(config.rootpath))
        return -allowed[item.path], _group(path) not in _INSTALLED

    items.sort(key=place)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Get the binaries before the first test: a build takes minutes, must not run into a test's timeout, and is shown on the terminal."""
    session.config.stash[_PROVIDED] = provided = {}
    if session.config.option.collectonly:
        return
    versions = {
        _NEEDS[name] for item in session.items for name in getattr(item, "fixturenames", ()) if name in _NEEDS
    }
    capture = session.config.pluginmanager.getplugin("capturemanager")
    for version in sorted(versions, reverse=True):
        with capture.global_and_fixture_disabled():
            try:
                provided[version] = asyncio.run(provide(version, console=Console(stderr=True)))
            except MissingBinariesError as error:
                pytest.exit(f"{error}\nTests without a control plane: make quick", returncode=1)
    for fixture, program in (
        ("kueue_program", KUEUE),
        ("helm_program", "helm"),
        ("etcdutl_program", ETCDUTL),
    ):
        if any(fixture in getattr(item, "fixturenames", ()) for item in session.items):
            with capture.global_and_fixture_disabled():
                asyncio.run(provide(DEFAULT, [program], console=Console(stderr=True)))
    if any("node_binaries" in getattr(item, "fixturenames", ()) for item in session.items):
        with capture.global_and_fixture_disabled():
            session.config.stash[_NODE] = asyncio.run(_node_binaries())


async def _node_binaries() -> Binaries | str:
    """Return the programs of a real node, or why none can run here."""
    reason = await unsupported_reason()
    if reason:
        return reason
    try:
        return await provide(DEFAULT, NODE, console=Console(stderr=True))
    except MissingBinariesError as error:
        pytest.exit(str(error), returncode=1)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the file of a certificate authority: a client without one reads all of the machine's, which takes longer than a test."""
    return str(Authority(tmp_path_factory.mktemp("authority")).certificate)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the programs of a fixture's installation said last, when a test failed."""
    report = yield
    if report.failed:
        found = [getattr(each, "installation", each) for each in getattr(item, "funcargs", {}).values()]
        # A control plane has a method of that name.
        named = [logs for each in found if isinstance(logs := getattr(each, "logs", None), list)]
        for log in dict.fromkeys(log for logs in named for log in logs if log.exists()):
            lines = log.read_text(errors="replace").splitlines()
            report.sections.append((f"log {log.name}", "\n".join(lines[-_TAIL:])))
    return report


@pytest.fixture(scope="session")
def node_binaries(pytestconfig: pytest.Config) -> Binaries:
    """Give the programs of a real node; tests are skipped where none can run."""
    found = pytestconfig.stash[_NODE]
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="session")
async def kueue_program() -> Path:
    """Give the program of Kueue, which is there since the tests were collected."""
    return (await provide(DEFAULT, [KUEUE], console=Console(stderr=True)))[KUEUE]


@pytest.fixture(scope="session")
async def helm_program() -> Path:
    """Give the program of Helm, which is there since the tests were collected."""
    return (await provide(DEFAULT, ["helm"], console=Console(stderr=True)))["helm"]


@pytest.fixture(scope="session")
async def etcdutl_program() -> Path:
    """Give etcd's program for files, which is there since the tests were collected."""
    return (await provide(DEFAULT, [ETCDUTL], console=Console(stderr=True)))[ETCDUTL]


@pytest.fixture(scope="session")
def binaries(pytestconfig: pytest.Config) -> Binaries:
    """Give the programs of the default Kubernetes version."""
    return pytestconfig.stash[_PROVIDED][DEFAULT]


@pytest.fixture(scope="session")
def oldest_binaries(pytestconfig: pytest.Config) -> Binaries:
    """Give the programs of the oldest supported Kubernetes version."""
    return pytestconfig.stash[_PROVIDED][OLDEST]


@pytest.fixture(scope="session")
async def control_plane(binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """Run one control plane of the default version for the whole run."""
    async with ControlPlane(binaries=binaries) as cluster:
        yield cluster


@pytest.fixture(scope="session")
async def oldest_control_plane(oldest_binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """Run one control plane of the oldest supported version, started when the first test asks for it."""
    async with ControlPlane(version=OLDEST, binaries=oldest_binaries) as cluster:
        yield cluster


@pytest.fixture
async def namespace(control_plane: ControlPlane) -> AsyncIterator[str]:
    """Make the test's own namespace on `control_plane`, ready for pods."""
    control_plane.check()
    name = await control_plane.make_namespace()
    yield name
    await control_plane.drop_namespace(name)


@pytest.fixture
async def oldest_namespace(oldest_control_plane: ControlPlane) -> AsyncIterator[str]:
    """Make the test's own namespace on `oldest_control_plane`, ready for pods."""
    oldest_control_plane.check()
    name = await oldest_control_plane.make_namespace()
    yield name
    await oldest_control_plane.drop_namespace(name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests ran on real control planes, and how long each group of tests took."""
    seconds: dict[str, float] = defaultdict(float)
    tests: dict[str, int] = defaultdict(int)
    on_cluster: dict[str, int] = defaultdict(int)
    for outcomes in terminalreporter.stats.values():
        for report in outcomes:
            if not isinstance(report, pytest.TestReport):
                continue
            parts = PurePosixPath(report.location[0]).parts
            group = "/".join(parts[:2])
            seconds[group] += report.duration
            if report.when != "call" or report.skipped:
                continue
            tests[group] += 1
            for name, value in report.user_properties:
                if name == _VERSION:
                    on_cluster[str(value)] += 1
    if not seconds:
        return
    terminalreporter.section("groups")
    for group in sorted(seconds, key=lambda name: -seconds[name]):
        terminalreporter.write_line(f"{group:<28} {tests[group]:>5} tests {seconds[group]:>8.1f} s")
    by_version = ", ".join(
        f"{count} on {version}" for version, count in sorted(on_cluster.items(), reverse=True)
    )
    terminalreporter.write_line(
        f"{sum(on_cluster.values())} tests ran against real control planes"
        + (f" ({by_version})" if by_version else "")
    )


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """Restore how logs are written: a command that ran in this process writes errors only, and others read logs."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture(autouse=True)
def _no_step_left_out(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in whose passes a step broke down and was left out, unless it is about that (ADR 46)."""
    before = _left_out()
    yield
    if request.node.get_closest_marker("leaves_out_steps") is None:
        assert _left_out() == before, "a step of a pass broke down; see the log's step.defect"


def _left_out() -> dict[str, float]:
    """Return how often each optional step of passes was left out in this process."""
    [found] = metrics.DEFECTIVE_STEPS.collect()
    return {each.labels["step"]: each.value for each in found.samples}
