"""docs/metrics.md, made from the metrics themselves: `make metrics` writes it.

In: the counters, histograms and gauges of operator and agent. Out: Markdown.
"""

from collections.abc import Iterator

from prometheus_client.metrics import MetricWrapperBase

from apportion import metrics
from apportion.agent import agentmetrics
from apportion.gauges.described import ALL
from apportion.metrics import Described

HEAD = """# Metrics

The operator serves them at port 8080, the agents at port 8081, both at `/metrics`. `manifests/components/monitoring` brings monitors, alerts ([alerts.md](alerts.md)) and four
dashboards: fleet, tenants, efficiency, operator. The namespace that scrapes carries the label `apportion.dev/metrics=true`. Durations are in seconds. This page is made from the
code (`make metrics`), and a test compares it.

No label holds the name of a node, a pod or a claim. Of namespaces the 500 in which most claims wait have series of their own, all others are `(others)`; models, profiles and quotas are as many
as administrators have. Gauges about the cluster are there in the replica that acts only, so that sums over replicas are right; they are computed when Prometheus asks, from
what changed since it asked last ([ADR 34](adr/0034-gauges-when-asked.md)).

"""
FOOT = """
Beside these each process has `process_*`, and the operator `python_*`, of the Prometheus client. `device` is `gpu` or `npu` of a whole card, else the profile (with the layout, of a
layout's partitions). Values of `reason` of the queue are those of [reasons.md](reasons.md), and `Undecided`. Values of `verdict`: `granted`; `none`: proven that nothing fits, `node`: broken
pools were left out, `budget`: nothing found within the allowed steps, `no node`: no node can take the pod, `short` and `domain`: too little for a group, `quota`, `costly`, `broken`, `defect`,
`as before`: refused as before.
"""
KNOWN = dict(metrics.KNOWN)


def rows(found: list[tuple[str, str, tuple[str, ...], str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield "| metric | type | labels | meaning |"
    yield "|---|---|---|---|"
    for name, kind, labels, text in sorted(found):
        yield f"| `{name}` | {kind} | {', '.join(f'`{each}`' for each in labels)} | {text} |"


def row(metric: MetricWrapperBase) -> tuple[str, str, tuple[str, ...], str]:
    """Return name, type, labels and meaning of a metric; the library has no public way to the labels."""
    [family] = metric.describe()
    values = f" `{metric._labelnames[0]}`: {', '.join(KNOWN[metric])}." if metric in KNOWN else ""
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return name, family.type, tuple(metric._labelnames), family.documentation + values


def gauge(described: Described) -> tuple[str, str, tuple[str, ...], str]:
    """Return the same of a gauge."""
    return described.name, "gauge", described.labels, described.text


def reference() -> str:
    """Return the page."""
    own = {each for each in vars(metrics).values() if isinstance(each, MetricWrapperBase)}
    of_agent = {each for each in own if row(each)[0].startswith("apportion_agent_")}
    operator = [*map(row, own - of_agent), *map(gauge, ALL)]
    prepare = agentmetrics.PREPARE_SECONDS
    agent = [
        *map(row, metrics.OF_AGENT),
        *map(gauge, agentmetrics.GAUGES),
        (prepare.name, "histogram", prepare.labels, prepare.text),
    ]
    parts = ("## Operator\n", *rows(operator), "\n## Agent\n", *rows(agent))
    return HEAD + "\n".join(parts) + "\n" + FOOT


if __name__ == "__main__":
    print(reference(), end="")  # noqa: T201 - it is made for the shell
