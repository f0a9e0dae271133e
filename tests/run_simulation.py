"""How often decisions are wrong: `run_simulation.py [--gate | --weights | --clicks | ...]`."""

import sys

from support.click_simulation import click_table
from support.simulation import REPEATS, main

if "--clicks" in sys.argv:
    click_table(REPEATS // 5)
else:
    main()
