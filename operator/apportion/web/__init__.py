"""The web page, read only: a process of its own with watches of its own, which answers by the code of the commands (ADR 36)."""
