"""How often decisions are wrong: `run_simulation.py [--gate | --weights | ...]`."""

from research.simulation import main

main()
