"""The workloads, in the order of the table: each makes its data, then says what is compared."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import data
import duckdb
import polars as pl
import timing
from peer import joined as with_grades
from timing import Task, Took, Workload

import rankql
from rankql.core.metrics.macros import read_comments, read_parameters

MEASURES = ("nDCG", "AP", "RR", "P", "R", "Success", "ERR(max_rel=3)", "RBP(p=0.8)")
METRICS = {
    "nDCG@10": ["nDCG@10"],
    "AP": ["AP"],
    "24 metrics": [f"{measure}@5,10,20" for measure in MEASURES],
    "default five": ["nDCG@10", "AP", "RR@10", "P@5", "R@100"],
}
NDCG, AP, PANEL, DEFAULT = METRICS

# nDCG@10 of t(user, rel, pos), as one writes it in SQL: ranks by position and by grade, joined.
BY_HAND = """
    WITH actual AS (
        SELECT "user", sum(rel / log2(rank + 1)) AS dcg
        FROM (SELECT "user", rel, row_number() OVER (PARTITION BY "user" ORDER BY pos) AS rank
              FROM t)
        WHERE rank <= 10 GROUP BY "user"
    ), best AS (
        SELECT "user", sum(rel / log2(rank + 1)) AS dcg
        FROM (SELECT "user", rel, row_number() OVER (PARTITION BY "user" ORDER BY rel DESC) AS rank
              FROM t)
        WHERE rank <= 10 GROUP BY "user"
    )
    SELECT "user", actual.dcg / nullif(best.dcg, 0) AS ndcg FROM actual JOIN best USING ("user")
"""


def summed(con: duckdb.DuckDBPyConnection, source: str, by: str = '"user"') -> Task:
    """The sum of the grades by group, fetched: what no evaluation can do without."""
    return lambda: con.sql(f"SELECT {by}, sum(rel) FROM {source} GROUP BY {by}").pl()


def evaluated(con: duckdb.DuckDBPyConnection, run: Any, qrels: str | None, metrics: str) -> Task:
    """Every value of every group by `rankql.evaluate`, fetched."""
    return lambda: rankql.evaluate(run, qrels, METRICS[metrics], con=con, interval=None)


def against_sum(con: duckdb.DuckDBPyConnection, source: str) -> dict[str, Task]:
    """The sum of a ranked table or file, and its evaluations."""
    tasks = {"sum": summed(con, f"'{source}'")}
    return tasks | {name: evaluated(con, source, None, name) for name in (NDCG, PANEL)}


@dataclass(frozen=True)
class Size:
    """The rows and groups of each workload, or its queries; and what runs only if it is named."""

    memory: tuple[int, int] = (10_000_000, 100_000)
    parquet: tuple[int, int] = (100_000_000, 1_000_000)
    large: tuple[int, int] = (100_000_000, 1_000_000)
    spill: tuple[int, int] = (50_000_000, 5_000_000)
    queries: int = 100_000
    users: int = 1_000_000
    peer_queries: int = 10_000
    scaling: int = 10**8
    left_out: tuple[str, ...] = ("billion",)


SIZES = {
    "small": Size(
        memory=(1_000_000, 10_000),
        parquet=(2_000_000, 20_000),
        large=(10_000_000, 100_000),
        spill=(5_000_000, 500_000),
        queries=5_000,
        users=100_000,
        peer_queries=1_000,
        scaling=10**6,
        left_out=("billion", "spill", "scaling", "threads", "peers"),
    ),
    "medium": Size(),
    "large": Size(large=(1_000_000_000, 10_000_000), scaling=10**9, left_out=()),
}


@dataclass(frozen=True)
class Setting:
    """How large and where; the interpreter of the peers apart, and all that were found."""

    size: Size
    folder: Path
    peers_python: str | None = None
    versions: dict[str, str] = field(default_factory=dict)


# Macros of k = 10 in one query; FIVE of them share sums.
MACROS = tuple(
    f"{metric}(rel, pos, 10)"
    for metric in ("ndcg", "dcg", "precision_at", "rr", "hit_at", "recall_at", "ap")
)
FIVE = "ndcg, precision_at, rr, hit_at, recall_at"


def macro(setting: Setting) -> Iterator[Workload]:
    """Macros in a user's own GROUP BY, in memory and over Parquet; nothing is fetched."""
    con = duckdb.connect()
    rankql.register(con)
    five = [f"{metric}(rel, pos, 10)" for metric in FIVE.split(", ")]

    def consumed(source: str, *expressions: str) -> Task:
        named = ", ".join(f"{x} AS x{i}" for i, x in enumerate(expressions))
        rows = f'SELECT "user", {named} FROM {source} GROUP BY "user"'
        sums = ", ".join(f"sum(hash(x{i}))" for i in range(len(expressions)))
        # Not con.sql(), which plans a query twice.
        return lambda: con.execute(f"SELECT {sums} FROM ({rows})").fetchall()

    for order, density in product(data.ORDERS, data.DENSITIES):
        data.ranked_table(con, *setting.size.memory, density, order)
        path = data.ranked_files(setting.folder, *setting.size.memory, density, order)
        for name, source in (("macro", "t"), ("macro over Parquet", f"'{path}'")):
            expressions = ("sum(rel)", *(MACROS if source != "t" else MACROS[:1]))
            tasks = {expression: consumed(source, expression) for expression in expressions}
            tasks[FIVE] = consumed(source, *five)
            yield Workload(f"{name}{order}", tasks, *setting.size.memory, density)
    con.execute("CREATE OR REPLACE TABLE t AS FROM t LIMIT 0")

    def planned(*expressions: str) -> Task:
        query = f'SELECT "user", {", ".join(expressions)} FROM t GROUP BY "user"'
        return partial(repeated, lambda: con.execute(query).fetchall())

    empty = {"sum(rel)": planned("sum(rel)"), MACROS[0]: planned(MACROS[0])}
    # Of no rows; the table of docs/appendix/speed.md has them where 30% are relevant.
    yield Workload("plan", empty | {FIVE: planned(*five)}, 0, 0, 30)


# How macros are called, by their first parameters: columns, expressions, and nested ones.
EVENT = "CASE event WHEN 'buy' THEN 3 WHEN 'click' THEN 1 ELSE 0 END"
CALLS = {
    "rels": ("rels", GRADES := "grades_of(run, gold)", f"{GRADES}, ideal := grades_of(gold, gold)"),
    "rel, pos": ("rel, pos", f"{EVENT}, pos + 0", f"exp2_gain({EVENT}), pos + 0"),
    "rel, score": ("rel, score", f"{EVENT}, 1 - score", f"exp2_gain({EVENT}), 1 - score"),
}
# Options without a default, by the name of the metric.
NEEDED = {"err": "max_rel := 8", "rbp": "p := 0.8"}


def plan(setting: Setting) -> Iterator[Workload]:
    """To plan each public macro once, by its arguments; and to register all of them."""
    con = duckdb.connect()
    rankql.register(con)
    con.execute("""CREATE TABLE t AS SELECT 1 AS q, 3 AS rel, 1 AS pos, 0.5 AS score, 'd' AS item,
        'buy' AS event, [1, 0] AS rels, ['a', 'b'] AS run, ['b'] AS gold""")
    parameters = read_parameters()

    def queries(form: str, call: str) -> Iterator[str]:
        groups = "" if form == "rels" else " GROUP BY q"
        for name in read_comments():
            if not ", ".join(parameters[name]).startswith(form):
                continue
            if "ideal :=" in call and "ideal" not in parameters[name]:
                continue
            arguments = [call, *(["item := item"] if "item" in parameters[name] else [])]
            arguments += [x for metric, x in NEEDED.items() if metric in name]
            yield f"EXPLAIN SELECT {name}({', '.join(arguments)}) FROM t{groups}"

    def explained(form: str, call: str) -> Task:
        texts = [*queries(form, call)]
        return lambda: [con.execute(text).fetchall() for text in texts]

    for form, calls in CALLS.items():
        tasks = {call: explained(form, call) for call in calls}
        yield Workload(f"plan, {form}", tasks, 0, 0, 30, at_most=3)
    tasks = {"connect": duckdb.connect, "register": lambda: rankql.register(duckdb.connect())}
    yield Workload("plan, all macros", tasks, 0, 0, 30, at_most=5)


def ranked(setting: Setting) -> Iterator[Workload]:
    """A ranked table in memory through `evaluate`."""
    con = duckdb.connect()
    for order, density in product(data.ORDERS, data.DENSITIES):
        data.ranked_table(con, *setting.size.memory, density, order)
        yield Workload(f"ranked{order}", against_sum(con, "t"), *setting.size.memory, density)
        if not order:
            tasks = {name: evaluated(con, "t", None, name) for name in (NDCG, DEFAULT)}
            yield Workload("ranked, in nDCG@10", tasks, *setting.size.memory, density)


def by_hand(setting: Setting) -> Iterator[Workload]:
    """nDCG@10 of the same table against the SQL that one writes without rankql."""
    con = duckdb.connect()
    for density in data.DENSITIES:
        data.ranked_table(con, *setting.size.memory, density)
        tasks = {
            NDCG: evaluated(con, "t", None, NDCG),
            "SQL by hand": lambda: con.sql(BY_HAND).pl(),
        }
        yield Workload("by hand", tasks, *setting.size.memory, density)


SUM_OF_FRAME = "SELECT query, sum(rel) FROM frame GROUP BY query"


def few_rows(setting: Setting) -> Iterator[Workload]:
    """10,000 rows: mostly what every evaluation costs."""
    con = duckdb.connect()
    data.ranked_table(con, 10_000, 100, 30)
    yield Workload("few rows", against_sum(con, "t"), 10_000, 100, 30)
    rows = con.sql('SELECT "user" AS query, pos AS item, rel, pos FROM t').pl()
    con.register("frame", rows)
    tasks = {
        # Not con.sql(), which plans a query twice.
        "sum": partial(repeated, lambda: con.execute(SUM_OF_FRAME).fetchall()),
        NDCG: partial(repeated, evaluated(con, rows, None, NDCG)),
    }
    yield Workload("few rows of a frame", tasks, 10_000, 100, 30)


def repeated(task: Task) -> None:
    """A task twenty times, because one takes less than what is measured exactly."""
    for _ in range(20):
        task()


def parquet(setting: Setting) -> Iterator[Workload]:
    """The same from Parquet."""
    con = duckdb.connect()
    for density in data.DENSITIES:
        path = data.ranked_files(setting.folder, *setting.size.parquet, density)
        yield Workload("parquet", against_sum(con, path), *setting.size.parquet, density)


def joined(setting: Setting) -> Iterator[Workload]:
    """A run with scores and its judgments from Parquet, against the bare join."""
    con, queries = duckdb.connect(), setting.size.queries
    for density in data.DENSITIES:
        run, qrels = data.run_and_judgments(setting.folder, queries, density)
        both = f"'{run}' JOIN '{qrels}' USING (query, item)"
        tasks = {"join and sum": summed(con, both, by="query")}
        tasks |= {name: evaluated(con, run, qrels, name) for name in (NDCG, AP, PANEL)}
        yield Workload("joined", tasks, queries * 100, queries, density)


# Of shown items: without and with the interactions of training.
ACCURACY = ["HR@10", "nDCG@10", "AP@10", "Entropy@10", "Personalisation@10"]
TRAINED = ["Coverage@10", "Gini@10", "Popularity@10", "Novelty@10", "Serendipity@10", "Repeats@10"]


def recommender(setting: Setting) -> Iterator[Workload]:
    """The metrics of a recommender with train=, against those that need none."""
    users = setting.size.users
    run, test, train = data.interactions(setting.folder, users)
    tasks: dict[str, Task] = {
        "without train=": lambda: rankql.evaluate(run, test, ACCURACY),
        "with train=": lambda: rankql.evaluate(run, test, [*ACCURACY, *TRAINED], train=train),
    }
    yield Workload("recommender", tasks, users * 10, users, 10)


def matrices(frame: pl.DataFrame) -> list[Any]:
    """Grades and scores with a row for each query, as scikit-learn wants them."""
    rows = frame.sort("query")
    return [rows[name].to_numpy().reshape(-1, 100) for name in ("rel", "score")]


def scored(setting: Setting) -> Iterator[Workload]:
    """A frame with grades and scores against scikit-learn, from the frame and from its matrices."""
    from sklearn.metrics import ndcg_score

    queries = setting.size.peer_queries
    frame = with_grades(*data.run_and_judgments(setting.folder, queries, 30))

    made = matrices(frame)
    tasks: dict[str, Task] = {
        NDCG: lambda: rankql.evaluate(frame, None, NDCG, interval=None, conventions="sklearn")
    }
    for name, options in (("ndcg_score", {}), ("ndcg_score, ignore_ties", {"ignore_ties": True})):
        theirs = partial(ndcg_score, k=10, **options)
        tasks[f"{name}, from the frame"] = lambda theirs=theirs: theirs(*matrices(frame))
        tasks[f"{name}, from matrices"] = partial(theirs, *made)
    yield Workload("scored", tasks, frame.height, queries, 30)


def by_score(setting: Setting) -> Iterator[Workload]:
    """Scores in a table of the engine against its sum, and against what one writes by hand."""
    from sklearn.metrics import ndcg_score

    queries = setting.size.peer_queries
    frame = with_grades(*data.run_and_judgments(setting.folder, queries, 30))
    grouped = frame.group_by("query")

    def discounted(best_first: Sequence[str], name: str) -> pl.DataFrame:
        ordered = frame.sort(best_first, descending=True)
        rows = ordered.with_columns(pos=pl.int_range(1, pl.len() + 1).over("query"))
        gain = pl.col("rel") / (pl.col("pos") + 1).log(2)
        return rows.filter(pl.col("pos") <= 10).group_by("query").agg(gain.sum().alias(name))

    def by_hand() -> pl.DataFrame:
        values = discounted(["score", "item"], "dcg").join(discounted(["rel"], "best"), on="query")
        return values.select("query", ndcg=pl.col("dcg") / pl.col("best").replace(0, None))

    def aggregated(metric: pl.Expr) -> Task:
        return lambda: grouped.agg(metric)

    yield Workload(
        "by score, polars",
        {
            "agg(sum)": aggregated(pl.col("rel").sum()),
            ".agg(ndcg_by_score)": aggregated(rankql.ndcg_by_score(k=10)),
            ".agg(ndcg_by_score), ties='expected'": aggregated(
                rankql.ndcg_by_score(k=10, ties="expected")
            ),
            ".agg(recall_at_by_score)": aggregated(rankql.recall_at_by_score(k=10)),
            ".pipe(ranked)": lambda: frame.pipe(rankql.ranked),
            "ndcg with sort and over": by_hand,
            "ndcg_score of scikit-learn": lambda: ndcg_score(*matrices(frame), k=10),
        },
        frame.height,
        queries,
        30,
    )
    con = duckdb.connect()
    rankql.register(con)
    con.execute("CREATE TABLE t AS FROM frame")
    window = BY_HAND.replace('"user"', "query").replace(
        "ORDER BY pos", "ORDER BY score DESC, item DESC"
    )
    calls = ["sum(rel)"]
    calls += [f"{x}_by_score(rel, score, item, 10)" for x in ("ndcg", "recall_at")]
    statements = {x: f"SELECT query, {x} FROM t GROUP BY query" for x in calls}
    statements["ndcg of ranked"] = (
        "SELECT query, ndcg(rel, pos, 10) FROM ranked('t') GROUP BY query"
    )
    statements["ndcg in a window query"] = window
    # Not con.sql(), which plans a query twice.
    tasks = {x: lambda sql=sql: con.execute(sql).fetchall() for x, sql in statements.items()}
    yield Workload("by score, DuckDB", tasks, frame.height, queries, 30)


def polars(setting: Setting) -> Iterator[Workload]:
    """The polars twins against the sum of the same engine."""
    ndcg = rankql.ndcg("rel", "pos", k=10)
    con = duckdb.connect()
    for density in data.DENSITIES:
        data.ranked_table(con, *setting.size.memory, density)
        frame = con.sql("FROM t").pl()
        grouped = frame.lazy().group_by("user")
        plans = {
            "agg(sum)": grouped.agg(pl.col("rel").sum()),
            ".agg(ndcg)": grouped.agg(ndcg),
            ".pipe(ndcg)": frame.lazy().pipe(rankql.ndcg, by="user", k=10),
        }
        eager = {"DataFrame.pipe(ndcg)": partial(frame.pipe, rankql.ndcg, by="user", k=10)}
        for name, engine, more in (
            ("polars", "in-memory", eager),
            ("polars streaming", "streaming", {}),
        ):
            tasks = {task: partial(plan.collect, engine=engine) for task, plan in plans.items()}
            yield Workload(name, tasks | more, *setting.size.memory, density)


def billion(setting: Setting) -> Iterator[Workload]:
    """A billion rows of Parquet within 4 GB."""
    yield from within("billion", "4GB", setting.folder, *setting.size.large)


def spill(setting: Setting) -> Iterator[Workload]:
    """Many groups within 500 MB."""
    yield from within("spill", "500MB", setting.folder, *setting.size.spill)


def within(name: str, limit: str, folder: Path, rows: int, groups: int) -> Iterator[Workload]:
    """Tasks of large files, each in a process of its own with little memory."""
    for density in data.DENSITIES:
        files = data.ranked_files(folder, rows, groups, density)
        tasks = {task: timing.fresh(files, task, folder, limit) for task in ("sum", NDCG, PANEL)}
        yield Workload(name, tasks, rows, groups, density, at_most=3)


def scaling(setting: Setting) -> Iterator[Workload]:
    """The cost against the number of rows, from Parquet, 100 rows in each group, 30% with gain."""
    con = duckdb.connect()
    con.execute("SET memory_limit = '4GB'")
    rows = 10**5
    while rows <= setting.size.scaling:
        path = data.ranked_files(setting.folder, rows, rows // 100, 30)
        tasks = against_sum(con, path)
        yield Workload("scaling", tasks, rows, rows // 100, 30, at_most=3 if rows > 10**8 else 100)
        rows *= 10


def threads(setting: Setting) -> Iterator[Workload]:
    """Seconds of the clock by the number of threads: 1, 2, 4 and so on up to all cores."""
    path = data.ranked_files(setting.folder, *setting.size.memory, 30)
    both = " ".join(data.run_and_judgments(setting.folder, setting.size.queries, 30))
    cores = os.cpu_count() or 1
    counts = sorted({*(2**n for n in range(cores.bit_length()) if 2**n <= cores), cores})
    for name in THREADED:
        files = both if name == "joined" else path
        tasks = {str(n): timing.threaded(files, name, n) for n in counts}
        yield Workload(f"threads: {name}", tasks, *setting.size.memory, 30)


@dataclass(frozen=True)
class Peer:
    """How rankql is asked for the number of a peer, and what may keep the two apart."""

    options: Mapping[str, Any]
    metrics: tuple[str, ...] = (NDCG,)
    tolerance: float = 1e-9
    # Its dependencies conflict with those of rankql.
    apart: bool = False


SKLEARN = {"conventions": "sklearn"}
PEERS = {
    "pytrec_eval": Peer({"conventions": "trec_eval"}, (NDCG, AP)),
    "ir_measures": Peer({"conventions": "trec_eval"}, (NDCG, AP)),
    "ranx": Peer({"conventions": "ranx"}, (NDCG, AP)),
    "scikit-learn": Peer(SKLEARN),
    # Neither averages over tied items then.
    "scikit-learn, ignore_ties": Peer({**SKLEARN, "ties": "item"}),
    "polars_ds": Peer({**SKLEARN, "ties": "item"}),
    # It computes in 32 bits.
    "torchmetrics": Peer(SKLEARN, tolerance=1e-6, apart=True),
    # Binary, over the users who have a relevant item.
    "RecTools": Peer({"gain": "binary"}, apart=True),
    "Spark": Peer({"conventions": "spark"}),
}


def against(name: str, setting: Setting) -> Iterator[Workload]:
    """A peer: from the same Parquet to the same number."""
    peer, queries = PEERS[name], setting.size.peer_queries
    python = setting.peers_python if peer.apart else sys.executable
    if not python:
        print(f"{name} is left out: --peers-python says where it is", file=sys.stderr)
        return
    files = data.run_and_judgments(setting.folder, queries, 30)
    for metric in peer.metrics:

        def ours(metric: str = metric) -> Took:
            start = time.perf_counter()
            value = rankql.evaluate(*files, metric, interval=None, **peer.options)[metric]
            return Took(time.perf_counter() - start, values={metric: value})

        with timing.peer(python, name, metric, files) as (theirs, version):
            if not theirs:
                print(f"{name} is left out: it is not installed", file=sys.stderr)
                return
            setting.versions.update(version)
            tasks: dict[str, Task] = {f"rankql ({', '.join(peer.options.values())})": ours}
            tasks[name] = theirs
            options = {"peer": name, "tolerance": peer.tolerance}
            yield Workload(f"{metric} by a peer", tasks, queries * 100, queries, 30, **options)


def command_line(setting: Setting) -> Iterator[Workload]:
    """`rankql eval` on small files, against a process that only imports its two engines."""
    files = data.run_and_judgments(setting.folder, 100, 30)
    tasks = {
        "import duckdb, polars": timing.process("-c", "import duckdb, polars"),
        "rankql eval": timing.process("-m", "rankql", "eval", *files, "-m", NDCG),
    }
    yield Workload("command line", tasks, 10_000, 100, 30)


Family = Callable[[Setting], Iterator[Workload]]
FAMILIES: dict[str, Family] = {
    "macro": macro,
    "plan": plan,
    "ranked": ranked,
    "by hand": by_hand,
    "few rows": few_rows,
    "parquet": parquet,
    "joined": joined,
    "recommender": recommender,
    "scored": scored,
    "by score": by_score,
    "polars": polars,
    "billion": billion,
    "spill": spill,
    "scaling": scaling,
    "threads": threads,
    **{name: partial(against, name) for name in PEERS},
    "command line": command_line,
}


def peak() -> int:
    """The peak memory of this process, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss of a child may be that of its parent
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def streamed(path: str) -> Task:
    """ndcg of each group by the streaming engine of polars."""
    plan = pl.scan_parquet(path).pipe(rankql.ndcg, by="user", k=10)
    return lambda: plan.collect(engine="streaming")


# What the workload `threads` measures, by name: the task of a connection and its files.
THREADED: dict[str, Callable[[duckdb.DuckDBPyConnection, str], Task]] = {
    "sum(rel)": lambda con, path: summed(con, f"'{path}'"),
    MACROS[0]: lambda con, path: (
        lambda: con.sql(f"""SELECT "user", {MACROS[0]} FROM '{path}' GROUP BY "user" """).pl()
    ),
    "evaluate": lambda con, path: evaluated(con, path, None, NDCG),
    "joined": lambda con, files: evaluated(con, *files.split(), NDCG),
    "polars streaming": lambda con, path: streamed(path),
}


def run_threaded(files: str, name: str, count: str) -> None:
    """Run a task with so many threads, once to warm up; print the seconds of the second time."""
    con = duckdb.connect()
    con.execute(f"SET threads = {count}")
    rankql.register(con)
    task = THREADED[name](con, files)
    task()
    start = time.perf_counter()
    task()
    print(json.dumps({"seconds": time.perf_counter() - start}))


def run_fresh(files: str, name: str, spill: str, limit: str) -> None:
    """Run the sum or an evaluation once; print its seconds, without imports, and the peak."""
    con = duckdb.connect()
    con.execute(f"SET temp_directory = '{spill}'")
    con.execute(f"SET memory_limit = '{limit}'")
    task = against_sum(con, files)[name]
    start = time.perf_counter()
    task()
    print(json.dumps({"seconds": time.perf_counter() - start, "peak": peak()}))


if __name__ == "__main__":  # in a process of its own, for `timing.fresh`
    (run_threaded if len(sys.argv) == 4 else run_fresh)(*sys.argv[1:])
