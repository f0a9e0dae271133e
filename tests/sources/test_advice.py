"""What messages advise works: the input, the message, the call that follows it, and its result."""

import shlex

import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from rankql.errors import RankqlError

RUN = pl.DataFrame({"query": ["a", "a", "b"], "item": ["x", "y", "z"], "score": [2.0, 1.0, 1.0]})
QRELS = pl.DataFrame({"query": ["a", "a", "b"], "item": ["y", "x", "z"], "rel": [1, 0, 1]})
ITEMS = QRELS.drop("rel")
EVENTS = pl.Series(["buy", "view", "buy"])
LISTS = pl.DataFrame({"query": ["a", "b"], "found": [["x", "y"], ["z"]]})
OBJECTS = pl.Series([[{"id": "y", "my": 3}, {"id": "x", "my": 0}], [{"id": "z", "my": 3}]])
NO_HEADER = "a,x,2,e,f\na,y,1,e,f\nb,z,1,e,f\n"
LAST = "the judgments as the last file"

# The run, the judgments and the options; what the message advises, and options that follow it; the
# same on the command line. A text is a CSV file. QRELS in the options: the judgments are passed.
TABLE = [
    (RUN, None, {}, "or qrels=", {"qrels": QRELS}, LAST, ""),
    (
        RUN, ITEMS.with_columns(event=EVENTS), {}, "rel=('event', {'buy': ..., 'view': ...})",
        {"rel": {"buy": 1, "view": 0}}, "--rel event=buy:...,view:...", "--rel buy=1,view=0",
    ),
    (
        RUN, ITEMS.with_columns(says=EVENTS), {"rel": {"buy": 1, "view": 0}},
        "Name it: rel=('COLUMN', {'buy': 1, 'view': 0})", {"rel": ("says", {"buy": 1, "view": 0})},
        "Name it: --rel COLUMN=buy:1,view:0", "--rel says=buy:1,view:0",
    ),
    (
        RUN, ITEMS.with_columns(rel=EVENTS), {}, "rel=('rel', {'buy': ..., 'view': ...})",
        {"rel": ("rel", {"buy": 1, "view": 0})}, "--rel rel=buy:...,view:...",
        "--rel rel=buy:1,view:0",
    ),
    (
        RUN, ITEMS.with_columns(esci=EVENTS), {"rel": "esci"},
        "rel=('esci', {'buy': ..., 'view': ...})",
        {"rel": ("esci", {"buy": 1, "view": 0})}, "--rel esci=buy:...,view:...",
        "--rel esci=buy:1,view:0",
    ),
    (
        RUN, ITEMS.with_columns(event=EVENTS, buy=pl.Series([1, 0, 1]), view=pl.lit(0)),
        {"rel": {"buy": 1, "view": 0}}, "Pass rel=('event', {'buy': 1, 'view': 0})",
        {"rel": ("event", {"buy": 1, "view": 0})}, "Pass --rel event=buy:1,view:0",
        "--rel event=buy:1,view:0",
    ),
    (
        RUN, ITEMS.with_columns(bought=pl.Series([5, 0, 1]), seen=pl.lit(0)),
        {"rel": {"bought": 3, "seen": 1}}, "rel='3 * bought + 1 * seen'",
        {"rel": "3 * bought + 1 * seen"}, "--rel '3 * bought + 1 * seen'",
        "--rel '3 * bought + 1 * seen'",
    ),
    (
        RUN, QRELS.rename({"item": "corpus-id", "rel": "score"}).with_columns(
            score=pl.Series([1.5, 0.5, 1.0])), {}, "or rel='score'", {"rel": "score"},
        "or --rel score", "--rel score",
    ),
    (RUN, ITEMS[[0, 2]].with_columns(n=pl.Series([1, 2])), {}, "rel='n' or rel='1'",
     {"rel": "1"}, "--rel n or --rel 1", "--rel 1"),
    (
        LISTS.rename({"found": "retrieved"}), None, {}, "pass qrels=", {"qrels": QRELS},
        f"pass {LAST}", "",
    ),
    (
        LISTS.select("query", retrieved="found", relevant=OBJECTS), None, {},
        "Pass rel='relevant.my'", {"rel": "relevant.my"}, "Pass --rel relevant.my", "--rel my",
    ),
    (
        NO_HEADER, QRELS, {}, "columns=['query', 'item', 'score']",
        {"columns": ["query", "item", "score", "x4", "x5"]},
        "--columns query,item,score", "--columns query,item,score,x4,x5",
    ),
    (
        RUN, "a,y,1\na,x,0\nb,z,1\n", {}, "of judgments 'rel'",
        {"columns": ["query", "item", "rel"]}, "--columns query,item,score",
        "--columns query,item,rel",
    ),
    (
        RUN.select("query", "item", cosine=pl.col("score") / 4), QRELS, {},
        "cosine. Pass score='cosine'", {"score": "cosine"}, "Pass --score cosine",
        "--score cosine",
    ),
    (
        RUN.rename({"score": "distance_score"}), QRELS, {"score": "distance_score"},
        "or descending=True", {"score": "distance_score", "descending": True},
        "or --descending", "--score distance_score --descending",
    ),
    (
        RUN.with_columns(pos=pl.Series([1, 2, 1])), QRELS, {"descending": True},
        "or pass score=", {"score": "score", "descending": True}, "or pass --score",
        "--score score --descending",
    ),
    (
        RUN.with_columns(pos=pl.Series([0, 1, 0])), QRELS, {}, "add 1", {"pos": "pos + 1"}, "add 1",
        "--pos 'pos + 1'",
    ),
    (
        pl.DataFrame({"request_id": ["1", "2"], "pos": [2, 1], "rel": [1, 1]}), None, {},
        "Pass query='request_id'", {"query": "request_id"}, "Pass --query request_id",
        "--query request_id",
    ),
    (
        RUN.rename({"query": "qid"}), QRELS.rename({"query": "q"}).with_columns(user=pl.lit(1)), {},
        "q of qrels matches: query=['qid', 'q']", {"query": ["qid", "q"]},
        "q of qrels matches: --query qid,q", "--query qid,q",
    ),
]  # fmt: skip


def write(data, path):
    if isinstance(data, str):
        path = path.with_suffix(".csv")
        path.write_text(data)
    else:
        data.write_parquet(path)
    return str(path)


def as_options(options):
    """Wrong options as those of the command line."""
    for name, value in options.items():
        if isinstance(value, bool):
            yield f"--{'descending' if value else 'ascending'}"
        elif value is not None:
            pairs = isinstance(value, dict) and ",".join(f"{k}={v}" for k, v in value.items())
            yield from (
                f"--{name}",
                pairs or (value if isinstance(value, str) else ",".join(value)),
            )


@pytest.mark.few(7)
@pytest.mark.parametrize("row", TABLE, ids=[f"{i}: {row[3]}" for i, row in enumerate(TABLE)])
def test_advice_works(row, tmp_path):
    run, qrels, wrong, advice, right, cli_advice, cli_right = row
    paths = [write(x, tmp_path / n) for x, n in ((run, "run.parquet"), (qrels, "q.parquet"))
             if x is not None]  # fmt: skip
    inputs = [
        path if isinstance(x, str) else x for x, path in zip((run, qrels), paths, strict=False)
    ]
    with pytest.raises(RankqlError) as caught:
        rankql.evaluate(*inputs, metrics="RR", **wrong)
    assert advice in str(caught.value)
    # The item y of query a is relevant and at position 2.
    assert rankql.evaluate(*inputs, metrics="RR", **right)["RR"] == 0.75
    done = CliRunner().invoke(main, ["eval", *paths, "-m", "RR", *as_options(wrong)])
    assert done.exit_code == 2 and cli_advice in done.output
    assert not {"rel=", "item=", "qrels=", "CLI"} & {*done.output.replace("(", " ").split()}
    if cli_right is None:
        return
    paths += [write(QRELS, tmp_path / "last.parquet")] if LAST in cli_advice else []
    command = ["eval", *paths, "-m", "RR", "--format", "csv", *shlex.split(cli_right)]
    printed = CliRunner().invoke(main, command).stdout
    assert dict(zip(*(x.split(",") for x in printed.splitlines()), strict=True))["mean"] == "0.75"


def test_a_folder_is_advised_by_its_files(tmp_path):
    RUN.write_csv(tmp_path / "a.csv")
    with pytest.raises(RankqlError) as caught:
        rankql.evaluate(tmp_path, QRELS)
    pattern = str(caught.value).rpartition("such as ")[2].strip("'")
    assert rankql.evaluate(pattern, QRELS, "RR")["RR"] == 0.75


@pytest.mark.parametrize("blank", [0, 2])
@pytest.mark.parametrize("broken", ['{"query": "a", "item":', "text", '{"query": "a" "item": 1}'])
def test_a_broken_line_has_its_own_number(broken, blank, tmp_path):
    rows = [f'{{"query": "a", "item": "x{i}", "score": {i}}}' for i in range(9)]
    (tmp_path / "run.jsonl").write_text("\n".join([*rows, *[""] * blank, broken, *rows]) + "\n")
    with pytest.raises(RankqlError, match=r"run\.jsonl.* at byte \d+ in line 1[0-3]: "):
        rankql.evaluate(tmp_path / "run.jsonl", QRELS)
