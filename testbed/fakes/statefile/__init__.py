"""The state file that all fake libraries share: header, lock, faults on request."""
