"""Every metric of `rel` and `pos` over lists and by score: list_ndcg, ndcg_by_score.

`rankql/__init__.pyi` declares their names, for type checkers and editors too.
"""

from __future__ import annotations

import polars as pl  # noqa: F401

from rankql.core.expressions import cascade, gain, order, precision
from rankql.core.expressions.variants import list_form, score_form
from rankql.core.metrics.all_metrics import FUNCTIONS

# Required options, for the example in the docstring.
EXAMPLES = {"err": "max_rel=3", "nerr": "max_rel=3", "rbp": "p=0.8", "rbp_residual": "p=0.8"}

for _record in FUNCTIONS.values():
    if _record.level == "ranking" and _record.columns == ("rel", "pos"):
        _name, _example = _record.function, EXAMPLES.get(_record.function, "")
        _families = map(vars, (gain, precision, cascade, order))
        _metric = next(family[_name] for family in _families if _name in family)
        globals()[_name] = _metric  # for the examples, as pl
        globals()[f"list_{_name}"] = list_form(_metric, _example)
        globals()[f"{_name}_by_score"] = score_form(_metric, _example)
