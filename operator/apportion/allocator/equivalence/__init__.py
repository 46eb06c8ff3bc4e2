"""Node classes and node states: nodes on which a search has equal outcomes."""
