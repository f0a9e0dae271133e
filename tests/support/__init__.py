"""What several test modules share: engines, cases, oracles, sessions. It imports no test module."""
