"""A frame in the formats that users have."""

import gzip
import json

import duckdb

FORMATS = ["frame", "pandas", "arrow", "parquet", "csv", "jsonl", "table"]


def written(frame, form, folder, name="rows", con=None):
    """What `evaluate` takes: the data, and the connection if they are a table."""
    if form in ("frame", "pandas", "arrow"):
        return {"frame": frame, "pandas": frame.to_pandas(), "arrow": frame.to_arrow()}[form], None
    if form == "table":
        con = con or duckdb.connect()
        con.register("frame", frame.to_arrow())
        con.execute(f"CREATE TABLE {name} AS FROM frame")
        return name, con
    path = folder / f"{name}.{form}"
    write = {"parquet": frame.write_parquet, "csv": frame.write_csv, "jsonl": frame.write_ndjson}
    write[form](path)
    return path, None


def write_rows(path, rows):
    """Write rows of JSON as the suffix of the path says, and return the path."""
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    data = ("\n".join(lines) if ".jsonl" in path.name else f"[{','.join(lines)}]").encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
