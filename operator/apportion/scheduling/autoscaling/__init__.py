"""Autoscaling: pods that wait for a node that is not there."""
