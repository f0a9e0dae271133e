"""The command line: `rankql` and `python -m rankql`.

Nothing imports it; it imports everything, and only when a command needs it.
"""
