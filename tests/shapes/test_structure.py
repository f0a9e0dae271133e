"""Columns whose names say nothing: the first call that is offered names them by structure."""

import re

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import rankql
from rankql.cli.main import main
from support.parameters import few
from support.reading import asked, one_line, read

KINDS = {
    "text": (lambda n: f"need {n}", lambda n: f"tile {n}"),
    "numbers": (lambda n: 1000 + n, lambda n: 7 * n),
    "numbers of queries": (lambda n: 1000 + n, lambda n: f"t{n}"),
}


def log(kind="text", engines=1, start=1, queries=12, size=6, seed=5):
    """Random lists by engine: the engine, the list, the tile, its place, its points."""
    rng, (query, item) = np.random.default_rng(seed), KINDS[kind]
    rows = [
        (f"e{engine}", query(n), item(int(tile)), place, 0.9 ** (place + 0.1 * n))
        for engine in range(engines)
        for n in range(queries)
        for place, tile in enumerate(rng.choice(20, size, replace=False), start)
    ]
    return pl.DataFrame(rows, ["motor", "thema", "kachel", "platz", "punkte"], orient="row")


def judged(kind="text"):
    frame = log(kind, seed=9).select("thema", "kachel")
    return frame.with_columns(nutzen=pl.int_range(len(frame)) % 4)


NAMES = {"query": "thema", "item": "kachel", "rel": "nutzen"}


def same(run, qrels, **names):
    """Gives the first offered call what the names of all columns give?"""
    named = read(run, qrels, **names)
    assert asked(run, qrels).readings[0].rankings == named.rankings
    assert max(named.means("nDCG@4")) < 1


@few(2)("kind", [*KINDS])
@few(2)("columns", [["punkte"], ["platz"], ["platz", "punkte"]])
def test_query_and_item_are_not_swapped(kind, columns):
    run = log(kind).select("thema", "kachel", *columns)
    role = {"pos": "platz"} if "platz" in columns else {"score": "punkte"}
    same(run, judged(kind), **NAMES, **role)
    same(run.select("kachel", *columns, "thema"), judged(kind), **NAMES, **role)


@few(2)("kind", [*KINDS])
def test_places_may_count_from_0(kind):
    run = log(kind, start=0).drop("punkte", "motor")
    same(run, judged(kind), **NAMES, pos="platz + 1")


@few(2)("column", ["platz", "punkte"])
def test_what_repeats_has_systems(column):
    run = log(engines=3).select("thema", "kachel", column, "motor")
    role = {"pos": column} if column == "platz" else {"score": column}
    same(run, judged(), **NAMES, **role, system="motor")


@few(2)("kind", [*KINDS])
@few(2)("engines", [1, 3])
def test_one_table(kind, engines):
    run = log(kind, engines).drop("punkte").with_columns(gekauft=pl.int_range(pl.len()) % 5 == 3)
    system = {"system": "motor"} if engines > 1 else {}
    run = run if engines > 1 else run.drop("motor")
    system |= {"pool": False} if engines > 1 else {}
    same(run, None, query="thema", item="kachel", pos="platz", rel="gekauft", **system)


def test_ids_with_blanks_beside_a_known_place():
    run = log().select(query="thema", sku="kachel", slot="platz")
    graded = run.with_columns(ordered=pl.int_range(pl.len()) % 5 == 3)
    same(graded.rename({"query": "gesucht"}), None, query="gesucht", rel="ordered")
    same(graded.rename({"slot": "platz"}), None, pos="platz", rel="ordered")


def test_ids_that_count_up_are_no_places():
    run = log("text").with_columns(kachel="platz").select("thema", "kachel", "punkte")
    gold = judged().with_columns(kachel=pl.int_range(pl.len()).over("thema") + 1)
    same(run, gold, query="thema", item="kachel", rel="nutzen", score="punkte")


def test_days_of_which_each_has_other_queries_are_no_systems():
    days = log(engines=4).filter(
        pl.col("motor").str.slice(1).cast(int) == pl.int_range(pl.len()) % 4
    )
    question = asked(days, judged())
    assert not any("system" in call for call in question.calls)


def test_a_column_that_the_caller_names_for_one_role_is_offered_for_no_other():
    run = log().drop("motor")
    with pytest.raises(rankql.RankqlError) as error:
        rankql.evaluate(run, judged(), "nDCG@4", item="thema")
    assert all(call.get("query") != "thema" for call in error.value.calls)


def apart(engines=3):
    """Rankings whose query names the system too, and their judgments."""
    anfrage = (pl.col("motor") + "/" + pl.col("thema")).alias("anfrage")
    gold = judged().join(pl.DataFrame({"motor": [f"e{n}" for n in range(engines)]}), how="cross")
    run = log(engines=engines).drop("punkte").with_columns(anfrage)
    return run, gold.select(anfrage, "kachel", "nutzen")


PLACED = {"item": "kachel", "rel": "nutzen", "pos": "platz"}


@few(1)(("query", "engines"), [("anfrage", 2), (["motor", "thema"], 3)])
def test_systems_with_queries_of_their_own_are_named(query, engines):
    run, gold = apart(engines)
    gold = gold if query == "anfrage" else judged()
    found = rankql.compare(run, gold, "nDCG@4", query=query, **PLACED)
    assert "If motor names systems, pass query='thema', system='motor'" in str(found)
    verdict = rankql.gate(run, gold, minimum="nDCG@4>=0.01", query=query, **PLACED)
    assert "If motor names systems, pass the rows of one" in str(verdict)


def test_attributes_of_queries_name_no_systems():
    run, gold = apart(engines=1)
    run = run.with_columns(motor=pl.col("thema").hash(seed=3) % 4).cast({"motor": pl.String})
    found = rankql.compare(run, gold, "nDCG@4", query="anfrage", **PLACED)
    assert "only one system" in str(found) and "names systems" not in str(found)


@pytest.mark.slow
def test_the_command_line_names_the_systems_of_one_file(tmp_path):
    run, gold = tmp_path / "run.csv", tmp_path / "gold.csv"
    log(engines=3).drop("punkte").write_csv(run)
    judged().write_csv(gold)
    done = CliRunner().invoke(main, ["compare", str(run), str(gold)])
    call = re.search(r"\n    (--.*)\n", done.output)[1]
    assert call == "--query thema --item kachel --pos platz --system motor --rel nutzen"
    done = CliRunner().invoke(main, ["compare", str(run), str(gold), *call.split()])
    assert done.exit_code == 0 and "e2" in done.output
    apart()[0].write_csv(run)
    apart()[1].write_csv(gold)
    names = ["--query", "anfrage", *["--item", "kachel", "--pos", "platz", "--rel", "nutzen"]]
    done = CliRunner().invoke(main, ["compare", str(run), str(gold), *names])
    assert done.exit_code == 2 and "pass --query thema, --system motor" in done.output


def question(*tables):
    with pytest.raises(rankql.RankqlError) as error:
        rankql.evaluate(*tables, metrics="RR")
    return error.value


# A metric beside a run, of each query; numbers that few queries share by chance.
METRICS = ["hit_at_5", "reciprocal_rank", "ndcg@10", "precision"]


@few(2)("name", METRICS)
def test_a_metric_of_a_query_is_neither_grade_nor_score(name):
    run = log().select(query="thema", item="kachel", pos="platz").with_columns(
        pl.col("query").rank("dense").mod(3).truediv(2).alias(name)
    )  # fmt: skip
    assert not question(run).calls
    gold = judged().rename({"thema": "query", "kachel": "item", "nutzen": "rel"})
    assert not any("score" in call for call in question(run.drop("pos"), gold).calls)
    if name == "reciprocal_rank":
        return  # a rank of an item is no grade either
    graded = run.with_columns((pl.int_range(pl.len()) % 2).alias(name))  # of each item
    assert {"rel": name} in question(graded).calls


@few(1)("name", ["ordinal", "tenant", "count"])
def test_small_numbers_come_last_in_few_queries(name):
    shown = [[{name: n, "karte": f"k{q}{n}"} for n in (1, 2, 3)] for q in range(3)]
    rows = [{"frage": f"q{q}", "treffer": each, "soll": [each[q]]} for q, each in enumerate(shown)]
    found = question(rows)
    assert found.calls[0]["item"] == ["treffer.karte", "soll.karte"]
    assert "do not decide" not in str(found)
    alone = [
        {**x, "treffer": [{name: y[name]} for y in x["treffer"]], "soll": [x["soll"][0][name]]}
        for x in rows
    ]
    found = question(alone)
    assert "The values do not decide. Pass one of: item=" in one_line(found)
    assert found.calls[0] == {"item": [f"treffer.{name}", "soll"]}
    many = [{**x, "frage": f"{x['frage']}-{n}"} for n in range(4) for x in alone]
    assert "do not decide" not in str(question(many))
