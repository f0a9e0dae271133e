#!/usr/bin/env bash
# zetasql 0.1.5
# A good guess: ZetaSQL reads the type names of BigQuery's documentation, where INT and INTEGER are INT64, and DECIMAL is NUMERIC.
# What happens: with all language features on, DECIMAL is known and INT, INTEGER, BIGINT and SMALLINT are not, in both product modes.
# Output in November 2026: zetasql 0.1.5: known DECIMAL, FLOAT64, INT64, NUMERIC; unknown BIGINT, INT, INTEGER, SMALLINT
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q zetasql==0.1.5
"$folder/venv/bin/python" - <<'PYTHON'
from importlib.metadata import version
from zetasql.api import Analyzer, CatalogBuilder
from zetasql.types import AnalyzerOptions, LanguageOptions, ZetaSQLBuiltinFunctionOptions
TYPES = ["BIGINT", "DECIMAL", "FLOAT64", "INT", "INT64", "INTEGER", "NUMERIC", "SMALLINT"]
unknown = {}
for mode in (0, 1):  # internal, external
    language = LanguageOptions.maximum_features()
    language.product_mode = mode
    builtin = ZetaSQLBuiltinFunctionOptions(language_options=language)
    catalog = CatalogBuilder("project").with_builtin_functions(builtin).build()
    analyzer = Analyzer(AnalyzerOptions(language_options=language), catalog)
    unknown[mode] = []
    for kind in TYPES:
        try:
            analyzer.analyze_statement(f"SELECT CAST('1' AS {kind}) AS x")
        except Exception as error:
            assert f"Type not found: {kind}" in str(error)
            unknown[mode].append(kind)
known = [kind for kind in TYPES if kind not in unknown[0]]
print(f"zetasql {version('zetasql')}: known {', '.join(known)}; unknown {', '.join(unknown[0])}")
assert unknown[0] == unknown[1] == ["BIGINT", "INT", "INTEGER", "SMALLINT"]
PYTHON
