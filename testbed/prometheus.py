"""A Prometheus that scrapes as the PodMonitors say, for targets on this machine.

In: PodMonitors and a PrometheusRule (monitoring.coreos.com/v1), the ports where the pods' endpoints are. Out: answers to queries.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import yaml

from testbed.errors import TestbedError
from testbed.eventually import eventually
from testbed.ports import free_ports
from testbed.process import Process

Json = dict[str, Any]


class QueryError(TestbedError):
    """Prometheus refused an expression; the text is Prometheus'."""


class Prometheus:
    """`async with Prometheus(...) as prometheus:` runs one with its data in a folder."""

    def __init__(
        self,
        program: Path,
        folder: Path,
        monitors: Sequence[Json],
        ports: Mapping[str, Sequence[int]],
        rules: Json,
    ) -> None:
        """`ports`: of the pods of each PodMonitor, by its name; `rules`: a PrometheusRule. Scrapes and evaluates each second."""
        self._rules = rules["spec"]
        self._program = program
        self._folder = folder
        self._targets = sum(map(len, ports.values()))
        self._configuration = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(folder / "rules.yaml")],
            "scrape_configs": [_job(monitor, ports[monitor["metadata"]["name"]]) for monitor in monitors],
        }
        [self._port] = free_ports(1)
        self._process: Process | None = None
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Start it; returns once every target was scraped."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / "prometheus.yaml"
        file.write_text(yaml.safe_dump(self._configuration))
        (self._folder / "rules.yaml").write_text(yaml.safe_dump(self._rules))
        self._process = Process.start(
            "prometheus",
            [
                *(self._program, f"--config.file={file}", f"--storage.tsdb.path={self._folder / 'data'}"),
                f"--web.listen-address=127.0.0.1:{self._port}",
            ],
            self._folder / "prometheus.log",
        )
        self._session = aiohttp.ClientSession(f"http://127.0.0.1:{self._port}")
        try:
            await eventually(self._all_up, within=30)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        if self._session is not None:
            await self._session.close()
        if self._process is not None:
            await self._process.stop(5.0)

    async def query(self, expression: str, at: float | None = None) -> list[Json]:
        """Return the samples of an expression at a time (`time.time`), now if none is given. Raises QueryError."""
        when = {} if at is None else {"time": f"{at:.3f}"}
        found: list[Json] = (await self._ask("/api/v1/query", query=expression, **when))["result"]
        return found

    async def names(self) -> frozenset[str]:
        """Return the names of all metrics that were scraped."""
        found: Any = await self._ask("/api/v1/label/__name__/values")
        return frozenset(found)

    async def rules(self) -> list[Json]:
        """Return the rules as they were last evaluated: `health`, `lastError`, of alerts `state`."""
        found = await self._ask("/api/v1/rules")
        return [rule for group in found["groups"] for rule in group["rules"]]

    async def _all_up(self) -> bool:
        try:
            found = await self.query("up")
        except aiohttp.ClientError:
            return False
        return len(found) == self._targets and all(each["value"][1] == "1" for each in found)

    async def _ask(self, path: str, **parameters: str) -> Any:
        if self._session is None:
            raise TestbedError("Prometheus was not started")
        async with self._session.get(path, params=parameters) as response:
            answer = await response.json()
        if answer["status"] != "success":
            raise QueryError(f"{answer['errorType']}: {answer['error']}")
        return answer["data"]


def _job(monitor: Json, ports: Sequence[int]) -> Json:
    """Return what prometheus-operator makes of a PodMonitor, as far as it concerns the values."""
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    name = monitor["metadata"]["name"]
    labels = {"job": name, "namespace": "apportion-system", "container": "main", "endpoint": endpoint["port"]}
    return {
        "job_name": name,
        "metrics_path": endpoint.get("path", "/metrics"),
        "honor_labels": endpoint.get("honorLabels", False),
        "static_configs": [
            {"targets": [f"127.0.0.1:{port}"], "labels": {**labels, "pod": f"{name}-{number}"}}
            for number, port in enumerate(ports)
        ],
    }


async def promtool(program: Path, *arguments: str, text: str = "") -> str:
    """Return what promtool says; raises TestbedError with it when promtool finds fault."""
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate(text.encode())
    said = output.decode(errors="replace")
    if process.returncode:
        raise TestbedError(f"promtool {' '.join(arguments)}:\n{said}")
    return said
