"""Data for tests: files of frames, random runs, ranked tables, rows of any metric."""

import gzip
import json
import random
from functools import cache

import duckdb
import polars as pl
from polars.testing import assert_frame_equal

import rankql
from rankql.core.metrics.macros import read_parameters
from support import metric_engines

# A frame in the formats that users have

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


# A random run with judgments, its values and attributes of its queries

METRICS = ["nDCG@10", "AP", "RR", "P@5", "R@10", "ERR(max_rel=3)@10", "RBP(p=0.8)"]


def random_data(seed, queries=40, longest=15, negative=False):
    """A run with few different scores, some apart by less than 32 bits hold, and its judgments.

    Of every ten queries one is missing from the run, one not judged, one without a relevant item,
    one with nothing but relevant items, one with none of its relevant items retrieved, one with a
    single item retrieved. Items are `d1` to `d20`, of which `d9` is the last as bytes. Grades are 0
    to 3, some of them -1 or -2 with `negative`. ranx keeps ties in order up to 15 items: `longest`.
    """
    rng = random.Random(seed)
    run, qrels = {}, {}
    for number in rng.sample(range(queries), queries):
        query, kind = f"q{number}", number % 10
        items = [f"d{at}" for at in range(1, longest + 6)]
        rng.shuffle(items)
        retrieved = items[: 1 if kind == 5 else rng.randint(2, longest)]
        judged = rng.sample(items, rng.randint(len(items) // 2, len(items)))
        lowest = -2 if negative else 0
        low = range(lowest, 1)
        grades = {2: low, 3: range(1, 4), 4: low}.get(kind, [*low, 0, 1, 2, 3])
        if kind != 0:
            run[query] = {
                item: rng.randrange(4) / 4 + rng.choice([0, 0, 1e-9]) for item in retrieved
            }
        if kind != 1:
            qrels[query] = {item: rng.choice(grades) for item in judged}
            if kind == 4:
                qrels[query] |= {item: rng.randint(1, 3) for item in items[-3:]}
    return run, qrels


def frames(run, qrels):
    """The dicts as frames, in the order of the dicts."""
    scored = [(q, d, s) for q, items in run.items() for d, s in items.items()]
    judged = [(q, d, r) for q, items in qrels.items() for d, r in items.items()]
    return (
        pl.DataFrame(scored, schema=["query", "item", "score"], orient="row"),
        pl.DataFrame(judged, schema=["query", "item", "rel"], orient="row"),
    )


def random_frames(seed=1, **kinds):
    """A run and judgments as frames."""
    return frames(*random_data(seed, **kinds))


RUN, QRELS = random_frames()


@cache
def expected():
    """The values of the run."""
    return rankql.evaluate(RUN, QRELS, METRICS).per_query


def same(left, right):
    """Equal to 1e-12: threads may add up in any order."""
    assert_frame_equal(left, right, abs_tol=1e-12, rel_tol=0)


def joined():
    """One ranked table of the judged queries, as the plain macros take it."""
    both = RUN.join(QRELS, on=["query", "item"], how="full", coalesce=True)
    return both.filter(pl.col("query").is_in(QRELS["query"].unique().to_list()))


def with_segments():
    """Attributes of the queries: segment, NULL for some, and device."""
    queries = QRELS.select("query").unique(maintain_order=True).with_row_index("i")
    return queries.select(
        "query",
        segment=pl.when(pl.col("i") % 5 > 0).then(pl.format("s{}", pl.col("i") % 3)),
        device=pl.when(pl.col("i") % 2 == 0).then(pl.lit("phone")).otherwise(pl.lit("desk")),
    )


# A small evaluation that other engines repeat

SMALL_RUN = pl.DataFrame(
    {
        "query": ["a", "a", "b", "c", "c", "z"],
        "item": ["x", "y", "x", "x", "y", "q"],
        "score": [2.0, 1.0, 1.0, 3.0, 3.0, 1.0],
        "hour": [1, 1, 2, 1, 1, 3],
    }
)
SMALL_QRELS = pl.DataFrame(
    {"query": ["a", "a", "b", "c", "d"], "item": ["y", "w", "x", "y", "x"], "rel": [1, 3, 0, 2, 1]}
)


# Ranked tables, and the same as a run and judgments


def ranked_table(rows, rel=pl.Float64, pos=pl.Int64):
    """Rows (query, rel, pos) as a ranked table."""
    table = pl.DataFrame(rows, {"query": pl.Int64, "rel": rel, "pos": pos}, orient="row")
    return table.with_columns(item=pl.int_range(pl.len()))


def ranked(end, seed=1, queries=120, most=120):
    """Rankings with gaps, unjudged items and such as were not retrieved; some have no gain."""
    rng = random.Random(f"{end} {seed}")
    rows = []
    for query in range(queries):
        grades = [*range(end + 1), None, 0] if query % 7 else [0, None] if query % 2 else [None]
        if query % 11 == 0:  # full of the highest grade, or of others
            grades = [end] if query % 2 else range(1, end + 1)
        places = rng.sample(range(1, most), rng.choice([1, 3, 20, most - 1]))
        rows += [(query, rng.choice(grades), pos) for pos in places]
        rows += [(query, rng.choice(grades), None) for _ in range(rng.choice([0, 0, 2, 9]))]
    rows.append((queries, end, 1))
    rng.shuffle(rows)
    return ranked_table(rows)


def score(table, tied=3):
    """The table with scores, of which so many are the same."""
    return table.with_columns(score=1.0 - pl.col("pos") // tied).drop("pos")


def join(table):
    """The same as a run and judgments, with queries on one side only."""
    place = "score" if "score" in table.columns else "pos"
    run = table.filter(pl.col("query") != 3).select("query", "item", place)
    qrels = table.filter(pl.col("rel").is_not_null(), pl.col("query") != 5)
    return run, qrels.select("query", "item", "rel")


SHAPES = {
    "ranked": lambda table: (table, None),
    "ranked without items": lambda table: (table.drop("item"), None),
    "ranked by score": lambda table: (score(table), None),
    "ranked by other scores": lambda table: (score(table, 1), None),
    "joined": join,
    "joined by score": lambda table: join(score(table)),
    "joined by other scores": lambda table: join(score(table, 1)),
}


# Rows of any metric, and a call with its required options

# A value of each kind of column, drawn anew for every row.
DRAWN = {
    **dict.fromkeys(("score", "exposure", "merit", "target"), lambda r: r.random()),
    **dict.fromkeys(("item", "category"), lambda r: r.choice("abcdef")),
    "user": lambda r: r.randint(1, 3),
    "rel": lambda r: r.choice([0, 0, 1, 2, 3]),
    "popularity": lambda r: r.randint(0, 9),
    "created_at": lambda r: r.choice([None, r.randint(0, 9)]),
    "shown_at": lambda r: r.randint(9, 20),
    "attribute": lambda r: r.choice(["x", None]),
    "attributes": lambda r: r.sample("xyz", r.randint(1, 3)),
    "subtopics": lambda r: r.sample("xyz", r.randint(0, 2)),
    "embedding": lambda r: [r.uniform(-1, 1), r.uniform(-1, 1)],
    "baseline": lambda r: r.random() < 0.5,
}
# What some must be told.
OPTIONS = {"catalogue": 9, "users": 9, "p": 0.7, "max_rel": 3, "similarity": 0.9}
OPTIONS |= {"query": metric_engines.Column("1")}
KINDS = dict.fromkeys(("item", "category", "attribute"), "VARCHAR")
KINDS |= dict.fromkeys(("attributes", "subtopics"), "VARCHAR[]")
KINDS |= {"baseline": "BOOLEAN", "embedding": "DOUBLE[]"}


def options_of(name):
    """The required options."""
    known = [o for o in read_parameters()[name] if o in OPTIONS and (name, o) != ("rbp", "max_rel")]
    return {option: OPTIONS[option] for option in known}


def call_of(name: str) -> str:
    return metric_engines.call(name, columns_of(name), options_of(name))


def columns_of(name: str) -> list[str]:
    return [parameter for parameter, default in read_parameters()[name].items() if default is None]


def draw_rows(name, seed, n=6):
    """Rows, each position taken once, some of them by nobody."""
    r = random.Random(seed)
    orders = {which: r.sample([*range(1, n + 1)], n) for which in ("pos", "reference")}
    return [
        [orders[c][row] if c in orders else DRAWN[c](r) for c in columns_of(name)]
        for row in range(n)
    ]
