"""How often decisions are wrong: `python tests/run_simulation.py [--gate | --experiment]`."""

from support.simulation import main

main()
