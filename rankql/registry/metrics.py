"""What holds of every metric: where it is taken, which way is better, how far it goes."""

from __future__ import annotations

from typing import Literal, NamedTuple

Level = Literal["ranking", "list", "rankings", "catalogue"]
Better = Literal["higher", "lower", "neither"]


class Facts(NamedTuple):
    """Of one metric, with its default options."""

    # What a value is of: a judged ranking, a list whatever its judgments, all rankings at once, or
    # a catalogue. Values of the last two are never averaged: ask again over the rows of a slice.
    level: Level
    better: Better
    lowest: float | None
    highest: float | None
    # When it is NULL.
    undefined: str


_NOTHING_RELEVANT = "no judged item is relevant"
_NO_GAIN = "no grade is positive"
_NO_SUBTOPIC = "no item has a subtopic"
_NO_PAIR = "there are not two items"
_NOTHING_SHOWN = "nothing is shown"
_NEVER = "never"

FACTS = {
    "cg": Facts("ranking", "higher", None, None, _NEVER),
    "dcg": Facts("ranking", "higher", None, None, _NEVER),
    "idcg": Facts("ranking", "neither", 0, None, _NEVER),
    "ndcg": Facts("ranking", "higher", 0, 1, _NO_GAIN),
    "precision_at": Facts("ranking", "higher", 0, 1, _NEVER),
    "recall_at": Facts("ranking", "higher", 0, 1, _NOTHING_RELEVANT),
    "f1_at": Facts("ranking", "higher", 0, 1, _NOTHING_RELEVANT),
    "hit_at": Facts("ranking", "higher", 0, 1, _NOTHING_RELEVANT),
    "r_precision": Facts("ranking", "higher", 0, 1, _NOTHING_RELEVANT),
    "ap": Facts("ranking", "higher", 0, 1, _NOTHING_RELEVANT),
    "bpref": Facts("ranking", "higher", 0, 1, _NOTHING_RELEVANT),
    "judged_at": Facts("ranking", "neither", 0, 1, _NEVER),
    "micro_precision_at": Facts("rankings", "higher", 0, 1, _NEVER),
    "micro_recall_at": Facts("rankings", "higher", 0, 1, _NOTHING_RELEVANT),
    "micro_f1_at": Facts("rankings", "higher", 0, 1, _NOTHING_RELEVANT),
    "rr": Facts("ranking", "higher", 0, 1, _NOTHING_RELEVANT),
    "arhr": Facts("ranking", "higher", 0, None, _NOTHING_RELEVANT),
    "err": Facts("ranking", "higher", 0, 1, _NO_GAIN),
    "rbp": Facts("ranking", "higher", 0, 1, _NEVER),
    "rbp_residual": Facts("ranking", "lower", 0, 1, _NEVER),
    "kendall_tau_distance": Facts(
        "ranking", "lower", 0, None, f"{_NEVER} (normalized: no two grades differ)"
    ),
    "kendall_tau_b": Facts("ranking", "higher", -1, 1, "no two grades or no two positions differ"),
    "tau_ap": Facts("ranking", "higher", -1, 1, "there are not two items in both rankings"),
    "rbo": Facts("ranking", "higher", 0, 1, "a ranking is empty"),
    "rmse": Facts("ranking", "lower", 0, None, "no row has grade and score"),
    "mse": Facts("ranking", "lower", 0, None, "no row has grade and score"),
    "mae": Facts("ranking", "lower", 0, None, "no row has grade and score"),
    "catalogue_coverage": Facts("catalogue", "higher", 0, 1, _NEVER),
    "user_coverage": Facts("catalogue", "higher", 0, 1, _NEVER),
    "gini": Facts("catalogue", "lower", 0, 1, _NOTHING_SHOWN),
    "shannon_entropy": Facts("catalogue", "higher", 0, None, _NOTHING_SHOWN),
    "average_popularity": Facts("catalogue", "neither", 0, None, _NOTHING_SHOWN),
    "novelty": Facts("catalogue", "higher", 0, None, _NOTHING_SHOWN),
    "first_position": Facts("catalogue", "neither", 1, None, _NOTHING_SHOWN),
    "first_time": Facts("catalogue", "neither", None, None, _NOTHING_SHOWN),
    "personalisation": Facts("catalogue", "higher", 0, 1, "there are not two users"),
    "exposure": Facts("catalogue", "neither", 0, None, _NEVER),
    "exposure_disparity": Facts("catalogue", "lower", 0, 1, "there is no exposure or no merit"),
    "disparate_treatment": Facts("catalogue", "higher", 0, 1, "no group has merit and exposure"),
    "expected_exposure_loss": Facts("catalogue", "lower", 0, None, _NEVER),
    "category_diversity": Facts("list", "higher", 0, 1, _NO_PAIR),
    "jaccard_diversity": Facts("list", "higher", 0, 1, _NO_PAIR),
    "cosine_diversity": Facts("list", "higher", 0, 2, _NO_PAIR),
    "missing_at": Facts("list", "lower", 0, 1, _NOTHING_SHOWN),
    "duplicate_share": Facts("list", "lower", 0, 1, _NOTHING_SHOWN),
    "near_duplicate_share": Facts("list", "lower", 0, 1, _NOTHING_SHOWN),
    "unexpectedness": Facts("list", "higher", 0, 1, _NOTHING_SHOWN),
    "serendipity": Facts("list", "higher", 0, 1, _NOTHING_SHOWN),
    "subtopic_recall": Facts("ranking", "higher", 0, 1, _NO_SUBTOPIC),
    "alpha_dcg": Facts("ranking", "higher", 0, None, _NEVER),
    "alpha_ndcg": Facts("ranking", "higher", 0, None, _NO_SUBTOPIC),
    "err_ia": Facts("ranking", "higher", 0, 1, _NO_SUBTOPIC),
}
