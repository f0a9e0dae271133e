"""Simulations of how often decisions are wrong: see README.md."""
