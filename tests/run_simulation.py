"""How often compare and gate are wrong: `python tests/run_simulation.py [--gate | --weights]`."""

from support.simulation import main

main()
