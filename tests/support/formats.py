"""A frame in the formats that users have."""

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
