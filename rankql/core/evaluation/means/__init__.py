"""Means: averaged by slice, from moments."""
