"""The agent's memory over crashes: a file of SQLite, with a module for each kind of row."""

from apportion.agent.journal.journal import Journal
from apportion.agent.journal.readjournal import read_journal

__all__ = ["Journal", "read_journal"]
