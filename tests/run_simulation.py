"""How often compare and gate decide wrongly: `python tests/run_simulation.py [--gate]`."""

from support.simulation import main

main()
