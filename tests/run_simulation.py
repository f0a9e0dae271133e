"""How often decisions are wrong: `run_simulation.py [--gate | --weights | ...]`."""

from support.simulation import main

main()
