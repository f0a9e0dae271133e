"""Runs and judgments of whole-number ids in every pair of formats; in every function for two."""

import polars as pl
import pytest

import rankql
from support.reading import read

RUN = pl.DataFrame({"query_id": [1, 1, 2, 2], "item_id": [10, 11, 12, 10], "score": [4, 3, 2, 1]})
STAGE = pl.DataFrame(
    {
        "query_id": [1, 1, 1, 2, 2, 2],
        "item_id": [11, 10, 13, 10, 14, 12],
        "score": [6, 5, 4, 3, 2, 1],
    }
)
QRELS = pl.DataFrame({"query_id": [1, 2, 2], "item_id": [10, 10, 14], "rel": [1, 1, 1]})
TABLES = ("frame", "csv", "tsv", "json", "jsonl", "parquet")


def write(frame, path):
    form = path.suffix[1:]
    if form == "frame":
        return frame
    columns = zip(*frame.iter_rows(), strict=True)
    if form in ("run", "qrels"):
        query, item, number = columns
        rest = ["Q0"] * len(frame), [1] * len(frame), ["t"] * len(frame)
        order = (query, rest[0], item, rest[1], number, rest[2])
        fields = order if form == "run" else (query, rest[1], item, number)
        path.write_text("".join(" ".join(map(str, x)) + "\n" for x in zip(*fields, strict=True)))
    elif form == "tsv":
        frame.write_csv(path, separator="\t")
    else:
        {"csv": frame.write_csv, "json": frame.write_json, "jsonl": frame.write_ndjson,
         "parquet": frame.write_parquet}[form](path)  # fmt: skip
    return path


# Each format on each side, with two of the other side by turns.
ONE, OTHER = (*TABLES, "run"), (*TABLES, "qrels")
PAIRS = [(one, OTHER[(n + shift) % len(OTHER)]) for n, one in enumerate(ONE) for shift in range(2)]


@pytest.mark.few(4)
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_ids_meet_in_every_pair_of_formats(one, other, tmp_path):
    run, stage = (write(x, tmp_path / f"{n}.{one}") for n, x in (("a", RUN), ("b", STAGE)))
    qrels = write(QRELS, tmp_path / f"q.{other}")
    assert read(run, qrels)["RR"] == 0.75
    if one not in ("csv", "parquet"):
        return
    assert {x.kind for x in rankql.check(run, qrels)} <= {"judged-share"}
    explained = rankql.explain(run, qrels, 2, metric="RR").table
    assert explained.filter(pl.col("pos") == 2)["rel"].to_list() == [1]
    means = rankql.compare({"a": run, "b": stage}, qrels, "RR").summary["mean"].to_list()
    assert means == [0.75, 0.75]
    verdict = rankql.gate(run, qrels, stage, minimum={"RR": 0.75}, max_drop={"RR": 0.9})
    assert verdict.table["status"][0] == "passed" and verdict.table["mean"][0] == 0.75
    funnel = rankql.funnel({"b": stage, "a": run}, qrels)
    assert funnel.table["lost"].to_list()[:2] == [0, 1]
    assert funnel.items["item"].cast(pl.String).to_list() == ["10", "10", "14"]
