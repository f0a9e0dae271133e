"""Is it better, may it ship, does it pay: compare, gate, associate, and their statistics.

It is imported by output, cli and `rankql.testing`; it imports engines, evaluation and what is
below.
"""
