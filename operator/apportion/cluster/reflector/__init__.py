"""What the API server has of one kind, followed by list and watch: what was reported of it, how far that goes, and what interrupts it."""

from apportion.cluster.reflector.reflector import Reflector

__all__ = ["Reflector"]
