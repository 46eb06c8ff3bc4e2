"""`python -m bench.gangs`: groups of pods on a real API server: many that compete, or a large one beside single pods."""
