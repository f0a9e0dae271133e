"""The errors in the source that no test triggered: `python tests/untriggered_errors.py FILE`.

FILE is written by test runs with RANKQL_ERRORS=FILE.
"""

from support.triggered_errors import main

main()
