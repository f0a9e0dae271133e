"""Evaluate under the plan that `choose` makes of facts, such as those of a large table."""

import math

import polars as pl
from rankql.evaluation.plan import choose_plan

import rankql
from rankql.evaluation.checks import evaluation_errors
from rankql.evaluation.compute import compute
from rankql.evaluation.evaluate import prepare
from rankql.evaluation.readable import unique_columns
from rankql.evaluation.request import EvaluateArguments, Reading, parse_groupings
from rankql.evaluation.resolve import Facts
from rankql.sources.session import open_session


class LargeFacts(Facts):
    """Facts about a table that seems to be large, with few ties and much room in memory."""

    rows, tied_share, memory_gib = 10**9, 0.0, math.inf

    def are_tops_tied(self, k):
        return self.tied_tops


def make_arguments(run, qrels, metrics, con=None, by=(), packs=None, **options):
    """The arguments of `evaluate`; packs=False: every metric is a macro."""
    of_evaluate = {
        name: options.pop(name)
        for name in ("weight", "interval", "attributes", "cluster")
        if name in options
    }
    reading = Reading.of(options, rankql.evaluate)
    groupings = parse_groupings(by)
    return EvaluateArguments(
        run, qrels, metrics, reading, con=con, groupings=groupings, packs=packs, **of_evaluate
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
