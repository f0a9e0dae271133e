#!/usr/bin/env bash
# pyarrow 26.0.1, numpy 1.26.4, duckdb 2.0.1, polars 2.1.0
# A good guess: tools that pin numpy<2 get a pyarrow that runs beside it, because pip reads the bounds of a package. And what has
# the Arrow capsule (__arrow_c_stream__) is read by DuckDB through it, so polars frames, which have it, need no pyarrow.
# What happens: pyarrow declares no bound on NumPy, pip installs both, and the import of pyarrow fails. DuckDB then refuses the polars
# frame, which it recognises and reads through pyarrow, but reads an object that has nothing but the capsule of the same frame.
# Output in November 2026:
#   No broken requirements found.
#   pyarrow requires: []
#   import pyarrow: pyarrow requires NumPy 2.0 or newer, found 1.26.4
#   frame: InvalidInputException
#   capsule: [(6,)]
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==1.26.4 pyarrow==26.0.1 duckdb==2.0.1 polars==2.1.0
"$folder/venv/bin/pip" check
cat > "$folder/read.py" <<'PYTHON'
from importlib.metadata import requires

import duckdb
import polars as pl

print("pyarrow requires:", [x for x in requires("pyarrow") or [] if "extra" not in x])
try:
    import pyarrow
except ImportError as error:
    print("import pyarrow:", str(error).splitlines()[0])
else:
    raise SystemExit("pyarrow runs")


class Stream:
    """The capsule of a frame, and nothing else."""

    def __init__(self, frame):
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        return self.frame.__arrow_c_stream__(requested_schema)


frame = pl.DataFrame({"x": [1, 2, 3]})
con = duckdb.connect()
for name, data in (("frame", frame), ("capsule", Stream(frame))):
    try:
        con.register(name, data)
        print(f"{name}:", con.execute(f"SELECT sum(x) FROM {name}").fetchall())
    except Exception as error:
        print(f"{name}: {type(error).__name__}")
        assert name == "frame"
    else:
        assert name == "capsule"
PYTHON
"$folder/venv/bin/python" "$folder/read.py"
