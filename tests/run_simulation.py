"""How often decisions are wrong: `run_simulation.py [--gate | --weights | --experiment]`."""

from support.simulation import main

main()
