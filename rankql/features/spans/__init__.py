"""Spans: relevant text as places in documents, which chunks of any size may cover.

`ends` reads the two ends of chunks and spans, `pieces` has the SQL of what the first k chunks cover
together, and `covered` puts the values into the inputs of an evaluation: one row per ranking.
"""
