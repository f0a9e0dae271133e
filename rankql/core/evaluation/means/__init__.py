"""Means: averaged by slice, from moments or from values per query and system."""
