"""How devices are set up for the programs of a claim that share them: planned, done, kept and taken back."""
