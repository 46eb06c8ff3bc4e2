"""How many decisions the operator has counted, for tests that tell by the difference what was decided."""

from prometheus_client import REGISTRY


def decisions(*verdicts: str) -> float:
    """Return how many decisions the metric has counted."""
    found = [REGISTRY.get_sample_value("apportion_decisions_total", {"verdict": each}) for each in verdicts]
    return sum(each or 0.0 for each in found)
