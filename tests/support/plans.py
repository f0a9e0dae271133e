"""Evaluate under the plan that `choose` makes of facts, such as those of a large table."""

import math

import polars as pl

from rankql.evaluation.arguments import EvaluateArguments, RankingOptions, parse_groupings
from rankql.evaluation.evaluate import compute, prepare
from rankql.evaluation.facts import Facts
from rankql.evaluation.plan import choose_plan
from rankql.evaluation.query import unique_columns
from rankql.evaluation.validation import evaluation_errors
from rankql.sources.session import open_session


class LargeFacts(Facts):
    """Facts about a table that seems to be large, with few ties and much room in memory."""

    rows, tied_share, memory_gib = 10**9, 0.0, math.inf

    def has_scored_rows(self, least):
        return True

    def are_tops_tied(self, k):
        return self.tied_tops


class LongListFacts(LargeFacts):
    """The same, with rankings of very different lengths."""

    common_list_length = None


def make_arguments(run, qrels, metrics, con=None, by=(), packs=None, **options):
    """The arguments of `evaluate`; packs=False: every metric is a macro."""
    names = ("query", "item", "rel", "score", "pos")
    ranking = RankingOptions.take(options)
    named = {name: options.pop(name, None) for name in ("system", "descending", "attributes")}
    return EvaluateArguments(
        run,
        qrels,
        metrics,
        con=con,
        columns={name: options.pop(name, None) for name in names},
        ranking=ranking,
        weight=options.pop("weight", None),
        interval=options.pop("interval", "auto"),
        groupings=parse_groupings(by),
        packs=packs,
        profile=options.pop("conventions", None),
        options=options,
        **named,
    )


def evaluate_plan(run, qrels, metrics, facts=Facts, packs=None, con=None, **options):
    """The plan at first, the plan that gave the values, and the values per query."""
    arguments = make_arguments(run, qrels, metrics, con, packs=packs, **options)
    with open_session(con, run, qrels) as session:
        inputs, known, plan = prepare(session, arguments)
        known = facts(session, inputs, known.conventions, packs)
        first = choose_plan(inputs, plan.metrics, plan.conventions, known)
        with evaluation_errors(session, inputs, plan.conventions):
            known.require_valid([m.name for m in plan.metrics], unique_columns(inputs, first))
            values = pl.concat(compute(known, first)[0])
        last = choose_plan(inputs, plan.metrics, plan.conventions, known)
    return first, last, values
