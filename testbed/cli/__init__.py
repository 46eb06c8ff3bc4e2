"""The commands of `python -m testbed`, one per file."""
