"""Unpack the chosen lists, cells and events to rows with one item each."""
