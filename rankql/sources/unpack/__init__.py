"""Unpack the chosen lists, cells, events and split logs to rows with one item each."""
