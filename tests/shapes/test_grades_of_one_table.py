"""One table of rankings whose grades have another name: the only column that may hold them."""

import polars as pl

import rankql
from support.parameters import few
from support.questions import follow
from support.reading import asked, read

LOG = pl.DataFrame([
    (f"s{n}", f"u{n % 7}", "movil" if n % 2 else "web", f"p{(n * 3 + place) % 40}", place,
     int((n + place) % 4 == 0))
    for n in range(30) for place in range(1, 7)
], schema=["sesion", "cliente", "canal", "producto", "hueco", "pulsado"], orient="row")  # fmt: skip
NAMED = {"query": "sesion", "item": "producto", "pos": "hueco"}


@few(2)(("named", "flags"), [({}, False), (NAMED, True), (NAMED, False), ({}, True)])
def test_a_log_beside_attributes_of_its_queries(named, flags):
    log = LOG.with_columns(pl.col("pulsado").cast(pl.Boolean)) if flags else LOG
    expected = read(LOG.rename({"pulsado": "rel"}), **NAMED)
    assert follow(rankql.evaluate, log, metrics="RR", **named)["RR"] == expected["RR"]


@few(4)("name", [
    "ratings by words", "two", "places", "large", "of the query", "slot_number",
])  # fmt: skip
def test_no_grades_are_offered_where_others_fit_or_they_do_not(name):
    by_row = pl.int_range(pl.len())
    tables = {
        "ratings by words": LOG.with_columns(juicio=pl.when(by_row % 3 == 0).then(pl.lit("no"))
                                             .otherwise(pl.lit("si"))),
        "two": LOG.with_columns(comprado=(by_row % 5 == 0).cast(pl.Int64)),
        "places": LOG.drop("pulsado").with_columns(lugar=7 - pl.col("hueco")),
        "large": LOG.with_columns(pulsado=pl.col("pulsado") * 40),
        "of the query": LOG.with_columns(pulsado=pl.col("sesion").str.slice(1).cast(int) % 2),
        "slot_number": LOG.rename({"pulsado": "slot_number"}),
    }  # fmt: skip
    assert not any("rel" in call for call in asked(tables[name], **NAMED).calls)
