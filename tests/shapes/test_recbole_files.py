"""Atomic files of RecBole 1.2.1: a name has its type behind it, and .inter is separated by tabs."""

import polars as pl

import rankql
from support.parameters import few
from support.reading import read

RATED = [
    (u, i, float((u * i) % 5 + 1), 1000.0 + 10 * u + i) for u in range(1, 7) for i in range(1, 5)
]
NAMES = ["user_id:token", "item_id:token", "rating:float", "timestamp:float"]
RUN = pl.DataFrame(
    [(u, i, 1 / i) for u in range(1, 7) for i in range(1, 7)],
    schema=["user", "item", "score"],
    orient="row",
)


@few(1)("implicit", [False, True])
def test_the_type_is_no_part_of_the_name(implicit, tmp_path):
    log = pl.DataFrame(RATED, schema=NAMES, orient="row")
    log = log.drop("rating:float") if implicit else log
    log.write_csv(tmp_path / "log.inter", separator="\t")
    plain = log.rename(lambda name: name.partition(":")[0])
    expected = read(RUN, plain, "nDCG@3")["nDCG@3"]
    for data in (log, tmp_path / "log.inter"):
        result = rankql.evaluate(RUN, data, "nDCG@3")
        assert result["nDCG@3"] == expected
        rel = "1 for every row" if implicit else "rating:float"
        assert f"rel = {rel}" in repr(result)
    run = RUN.rename({"user": "user_id:token", "item": "item_id:token", "score": "score:float"})
    assert read(run, log, "nDCG@3")["nDCG@3"] == expected
    split = rankql.leave_one_out(log)
    assert split["split"].to_list() == rankql.leave_one_out(plain)["split"].to_list()
