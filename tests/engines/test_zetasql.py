"""The statements of sql/bigquery.sql and the query of an evaluation, type-checked by ZetaSQL.

ZetaSQL is the parser and analyzer of BigQuery. It does not run JavaScript.
"""

import re

import pytest

from rankql.engines.native import native_sql, render_native_query
from support.environments import run_with
from support.native_databases import handlers

pytestmark = pytest.mark.warehouses
SCRIPT = """
from zetasql.api import Analyzer, CatalogBuilder, TableBuilder
from zetasql.types import (
    AnalyzerOptions, Function, FunctionEnums, LanguageOptions, TypeKind,
    ZetaSQLBuiltinFunctionOptions)

language = LanguageOptions.maximum_features()
options = AnalyzerOptions(language_options=language, allow_undeclared_parameters=True)
builtin = ZetaSQLBuiltinFunctionOptions(language_options=language)
catalog = CatalogBuilder("project").with_builtin_functions(builtin).build()
analyzer = Analyzer(options, catalog)
functions, shop = CatalogBuilder("metrics").build(), CatalogBuilder("shop")
for statement in map(analyzer.analyze_statement, statements):
    for argument in statement.signature.argument:
        argument.options.min_value = argument.options.max_value = None
    mode = FunctionEnums.Mode.AGGREGATE if statement.is_aggregate else FunctionEnums.Mode.SCALAR
    functions.custom_function.append(Function(
        name_path=statement.name_path, group="UDF", mode=mode, signature=[statement.signature]))
for name, last, kind in (("run", "score", "DOUBLE"), ("qrels", "rel", "INT64")):
    table = TableBuilder(name)
    for column, of in (("query", "STRING"), ("item", "STRING"), (last, kind)):
        table = table.add_column(column, getattr(TypeKind, f"TYPE_{of}"))
    shop.add_table(table.build())
catalog.catalog = [functions, shop.build()]
results = []
for query in queries:
    try:
        columns = analyzer.analyze_statement(query).output_column_list
        results.append([[column.name, column.column.type.type_kind.name] for column in columns])
    except Exception as error:
        results.append(str(error))
print(json.dumps(results))
"""
METRICS = ["nDCG(gain=exp2)@10", "P(rel=2)@5", "ERR(max_rel=3)@5", "RMSE"]
CALL = "SELECT metrics.ndcg({}, 1, {}) AS n FROM shop.qrels"
CONSTANT = "Argument 3 to UDF:METRICS.NDCG must be a literal or query parameter"
# Arguments, and what is said of them.
CALLS = {
    ("rel", "10"): None,
    ("rel", "NULL"): None,
    ("rel", "@k"): None,
    ("CAST(rel AS NUMERIC)", "10"): None,
    ("rel", "rel"): CONSTANT,
    ("rel", "5 + 5"): CONSTANT,
    ("item", "10"): "No matching signature for aggregate function UDF:METRICS.NDCG",
    ("rel >= 1", "10"): "No matching signature for aggregate function UDF:METRICS.NDCG",
}


def test_zetasql_types_all_statements_and_the_query(tmp_path):
    text = re.sub(r"(?m)^-- .*\n", "", native_sql("bigquery", schema="metrics"))
    statements = [part.strip() for part in re.split(r"(?m)^(?=CREATE OR REPLACE )", text)[1:]]
    assert len(statements) == len(handlers("bigquery")) + 1
    queries = [
        render_native_query(
            "bigquery", "shop.run", "shop.qrels", METRICS, schema="metrics", **options
        )
        for options in ({}, {"rel": {"buy": 3}, "query": ["query", "item"]})
    ]
    queries[1] = queries[1].replace("`event`", "`item`")
    queries += [CALL.format(*arguments) for arguments in CALLS]
    results = run_with(["zetasql==0.1.5"], SCRIPT, tmp_path, statements=statements, queries=queries)
    for columns in results[:2]:
        assert [kind for _, kind in columns] == ["TYPE_STRING"] + ["TYPE_DOUBLE"] * len(METRICS)
    for result, expected in zip(results[2:], CALLS.values(), strict=True):
        assert expected in result if expected else result == [["n", "TYPE_DOUBLE"]]
