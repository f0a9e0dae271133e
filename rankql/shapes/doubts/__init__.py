"""Doubts: a sample of a run and its judgments, and one list of rules that ask about it."""
