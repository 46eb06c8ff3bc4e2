"""Quotas in the cycle: charges follow the snapshot, demands beyond a limit wait, cohorts share their turns, statuses say why."""
