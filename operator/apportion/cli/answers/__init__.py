"""Commands that answer questions about a cluster by the operator's own decisions; nothing is ever written."""
