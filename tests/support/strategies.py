"""Rankings and options for the property tests."""

from hypothesis import strategies as st

from support import metric_engines, signatures

SMALL = st.sampled_from([0, 1, 2, 3])
GRADES = st.sampled_from([None, -2, -1, -0.25, 0, 0, 0.5, 1, 1, 1.75, 2, 2, 3, 3])
FRACTIONS = st.sampled_from([None, -1, 0, 0.25, 0.5, 0.75])
# How far the next retrieved item stands below the last one; 0: it was not retrieved.
STEPS = st.sampled_from([0, 1, 1, 1, 1, 2, 5])
SPARSE = st.sampled_from([0, 0, 0, 1])
LONGEST = 8
DEEPEST = 5 * LONGEST


def positions(items):
    rows, pos = [], 0
    for rel, step in items:
        pos += step
        rows.append((rel, pos if step else None))
    return rows


def rankings(grades=GRADES, steps=STEPS):
    """Rows (rel, pos) with ties in grades, unjudged and not retrieved items, and gaps; or none.

    The highest grade may be a fraction below 1, and fewer items retrieved than are relevant.
    """
    both = (grades, FRACTIONS) if grades is GRADES else (grades,)
    rows = (
        st.lists(st.tuples(rel, step), max_size=LONGEST) for rel in both for step in (steps, SPARSE)
    )
    return st.one_of(*rows).map(positions)


def batches(group, most=12):
    return st.lists(group, min_size=1, max_size=most)


@st.composite
def lists(draw):
    """A list of grades, or none; and the list of all judged ones in any order, or none."""
    grades = draw(st.sampled_from([GRADES, FRACTIONS]))
    rels = draw(st.lists(grades, max_size=LONGEST))
    more = draw(st.none() | st.lists(grades, max_size=3))
    if draw(st.integers(0, 5)) == 0:
        return None, more
    if more is None:
        return rels, None
    return rels, draw(st.permutations([rel for rel in rels if rel is not None] + more))


TEXTS = ["", "a", "A", "aa", "b", "Z", "é", "ß", "10", "9", "-1", "\U0001f600", "\uffff", "a b"]
SCORE = st.sampled_from([None, 1.0, 1.0, 2.0, -3.5, 0.0, float("inf"), float("-inf")])


def scored(most=LONGEST):
    """Rows (rel, score, item) with ties in scores; the items of a group differ."""
    rows = (st.tuples(grades, SCORE, st.sampled_from(TEXTS)) for grades in (GRADES, FRACTIONS))
    lists = (st.lists(x, min_size=1, max_size=most, unique_by=lambda row: row[2]) for x in rows)
    return st.one_of(*lists)


def two_rankings():
    """Rows (reference, pos): gaps, and items that one ranking or both have not."""
    places = st.none() | st.integers(1, 2 * LONGEST)

    def distinct(rows):
        sides = [[place for place in side if place is not None] for side in zip(*rows, strict=True)]
        return all(len(side) == len(set(side)) for side in sides)

    short = st.permutations(range(1, LONGEST + 1)).flatmap(
        lambda ours: st.lists(st.booleans(), max_size=LONGEST).map(
            lambda kept: [
                (i if i % 3 or keep else None, pos if keep else None)
                for i, (pos, keep) in enumerate(zip(ours, kept, strict=False), 1)
            ]
        )
    )
    return short | st.lists(st.tuples(places, places), max_size=LONGEST).filter(distinct)


def ratings():
    value = st.none() | st.sampled_from([-1.5, 0, 1, 2.25, 5])
    return st.lists(st.tuples(value, value), max_size=LONGEST)


@st.composite
def micro_rows(draw):
    """Rows (rel, pos, query) of some queries; those without a query are a ranking too."""
    queries = draw(st.lists(rankings(), max_size=3))
    names = draw(st.permutations([None, 1, 2]))
    both = zip(names, queries, strict=False)
    return [(rel, pos, query) for query, rows in both for rel, pos in rows]


WEIGHTS = st.sampled_from([0.25, 0.8, 1, 1.5, 2, 3])
CHOICES = {
    "k": st.sampled_from([None, 1, 2, 3, 4, 5, 7, 10, 100]),
    "threshold": st.sampled_from([1, 2, 0.5, 0, -1, 1.75]),
    "recall": st.none() | st.sampled_from([0, 0.1, 0.3, 0.5, 0.75, 1]),
    "discounts": st.none() | st.lists(WEIGHTS, min_size=DEEPEST, max_size=DEEPEST),
    "base": st.sampled_from([2, 10, 1.5, 2.718281828459045]),
    "ideal": st.sampled_from(["judged", "retrieved"]),
    "negative": st.sampled_from(["zero", "keep"]),
    "normalized": st.booleans(),
    "max_rel": st.sampled_from([3, 4, 5.5]),
    "bound": st.sampled_from(["ext", "min", "max", "residual"]),
    "p": st.sampled_from([0.1, 0.5, 0.8, 0.95]),
}


def options(metric):
    """Any options of the metric, each given or left out."""
    refused = () if signatures.takes_k(metric) else ("k",)
    names = [x for x in signatures.ROWS[metric] if x in CHOICES and x not in refused]
    choices = {name: CHOICES[name] for name in names}
    if "denominator" in signatures.ROWS[metric]:
        sizes = ["min", "R", "found", "k"] if metric == "ap" else ["k", "retrieved", "min"]
        choices["denominator"] = st.sampled_from(sizes)
        choices["k"] = st.none() | choices["k"]
    must = {name: choices.pop(name) for name in signatures.REQUIRED.get(metric, ())}
    if metric == "rbo":
        must["p"] = choices.pop("p")
    return st.fixed_dictionaries(must, optional=choices)


# Columns and options of the metrics beyond accuracy.

ITEM = st.sampled_from([None, "a", "a", "b", "c", "d", "A", "é", ""])
AMOUNT = st.sampled_from([None, 0, 0.25, 1, 1, 2, 3.5])
TOPICS = st.none() | st.lists(st.sampled_from(["1", "2", "3", "4", "10", "x", "X"]), max_size=3)
NUMBER = st.sampled_from([-2.0, 0.0, 0.5, 1.0, 3.0])
VECTOR = st.none() | st.lists(NUMBER, min_size=3, max_size=3).filter(any)
COLUMNS = {
    **dict.fromkeys(("item", "category", "attribute"), ITEM),
    **dict.fromkeys(("exposure", "merit", "target"), AMOUNT),
    **dict.fromkeys(("attributes", "subtopics"), TOPICS),
    "user": st.sampled_from([None, 1, 2, 3]),
    "popularity": st.sampled_from([None, 0, 1, 2, 5, 5, 8]),
    "created_at": st.sampled_from([None, 0, 1.5, 3]),
    "shown_at": st.sampled_from([None, 3, 4.5, 100]),
    "embedding": VECTOR,
    "baseline": st.sampled_from([None, False, True]),
    "rel": st.sampled_from([None, -1, 0, 1, 1, 2]),
    "pos": st.none() | st.integers(1, 12),
}
BEYOND_CHOICES = {
    "catalogue": st.sampled_from([8, 9, 100]),
    "users": st.sampled_from([8, 9, 100]),
    "norm": st.sampled_from(["n", "n-1"]),
    "normalized": st.booleans(),
    "k": st.sampled_from([None, 1, 2, 3, 5, 100]),
    "attention": st.sampled_from([None, [1 / n for n in range(1, 13)]]),
    "missing": st.sampled_from(["drop", "different", "same"]),
    "similarity": st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    "threshold": st.sampled_from([1, 2]),
    "alpha": st.sampled_from([0, 0.3, 0.5, 1]),
}
UNSEEN = {"novelty": ["one_user", "drop", "max"], "average_popularity": ["zero", "drop"]}


@st.composite
def beyond(draw, metric, names):
    """Groups of rows, in diversity each item at a place of its own; and options."""
    places = "pos" in names and metric in signatures.DIVERSITY
    distinct = (lambda row: row[-1] if row[-1] is not None else object()) if places else None
    row = st.tuples(*(COLUMNS[name] for name in names))
    groups = draw(st.lists(st.lists(row, max_size=8, unique_by=distinct), min_size=1, max_size=8))
    options = {}
    for name, default in signatures.BEYOND[metric].items():
        needed = name in ("catalogue", "users", "similarity")
        if default is not signatures.NEEDED and (needed or draw(st.booleans())):
            choice = st.sampled_from(UNSEEN[metric]) if name == "unseen" else BEYOND_CHOICES[name]
            options[name] = draw(choice)
    if metric == "shannon_entropy":
        options.setdefault("catalogue", "shown")
    return groups, options


@st.composite
def calls(draw, metric):
    """Groups and options of any metric, or of its list form or score form."""
    if metric in signatures.BEYOND:
        return draw(beyond(metric, metric_engines.names(metric)))
    plain = metric.removeprefix("list_").removesuffix("_by_score")
    if plain in signatures.RATING:
        return draw(batches(ratings())), {}
    given = draw(options(plain))
    if plain in signatures.MICRO:
        query = {} if plain == "micro_recall_at" else {"query": metric_engines.Column("query")}
        return draw(batches(micro_rows())), given | query
    if metric.startswith("list_"):
        given.pop("ideal", None)
        groups = draw(batches(lists()))
        takes_ideal = plain in signatures.TAKES_IDEAL
        return [(rels, ideal if takes_ideal else None) for rels, ideal in groups], given
    if metric.endswith("_by_score"):
        return draw(batches(scored())), given
    rows = two_rankings() if plain in signatures.TWO_RANKINGS else rankings()
    return draw(batches(rows)), given
