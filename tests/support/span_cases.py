"""Random chunks and relevant spans, and what the first chunks cover, as sets of characters."""

from fractions import Fraction

import polars as pl

KINDS = [
    *(("SpanR", cover) for cover in (None, 0.5, 0.55)),
    *(("AllSpans", cover) for cover in (None, 1.0)),
    *((kind, None) for kind in ("CharR", "CharP", "CharIoU")),
]
# The number of the first chunks, or the length of the context.
CUTOFFS = ("1", "2", "5", "1c", "7c", "20c")
METRICS = [(kind, cover, cutoff) for kind, cover in KINDS for cutoff in CUTOFFS]


def name_of(kind, cover, cutoff):
    return f"{kind}{f'(cover={cover})' if cover else ''}@{cutoff}"


def covered(kind, cover, cutoff, chunks, spans):
    """The value of a metric. chunks: (document, start, end); spans: with evidence too."""
    k = len(chunks) if cutoff.endswith("c") else int(cutoff)
    text = [(d, i) for d, s, e in chunks[:k] for i in range(s, e)]
    text = text[: int(cutoff[:-1])] if cutoff.endswith("c") else text
    seen, truth = {*text}, {(d, i) for d, s, e, _ in spans for i in range(s, e)}
    if kind in ("SpanR", "AllSpans"):
        found = {}
        for d, s, e, evidence in {*spans}:
            count = len(seen & {(d, i) for i in range(s, e)})
            needed = max(1, -(-(Fraction(str(cover)) * (e - s)) // 1)) if cover else 1
            key = (d, s, e) if evidence is None else evidence
            found[key] = found.get(key, False) or count >= needed
        return sum(found.values()) / len(found) if kind == "SpanR" else float(all(found.values()))
    both = len(seen & truth)
    over = {"CharR": truth, "CharP": seen, "CharIoU": seen | truth}[kind]
    return both / len(over) if over else 0.0


def random_cases(random, queries, systems=(None,)):
    """The run, the judgments, and the chunks and spans of each system and query.

    Many chunks and spans overlap, are nested, touch or are copies of each other.
    """
    chunks, spans, cases = [], [], {}
    for query in range(queries):
        size, documents = random.choice((6, 15, 40)), random.choice((1, 2, 3))

        def place(size=size, documents=documents):
            return random.randrange(documents), *sorted(random.sample(range(size + 1), 2))

        relevant = [(*place(), random.choice((None, None, "x", "y"))) for _ in range(3)]
        while random.random() < 0.6:
            relevant.append(random.choice(relevant))
        for system in systems:
            ranked = [place() for _ in range(random.randrange(1, 7))]
            while random.random() < 0.4:
                ranked.append(random.choice(ranked))
            cases[system, query] = ranked, relevant
            chunks += [(system, query, *each, n) for n, each in enumerate(ranked, 1)]
        spans += [(query, *each) for each in relevant]
    random.shuffle(chunks)
    random.shuffle(spans)
    names = ["query", "doc_id", "start", "end"]
    run = pl.DataFrame(chunks, schema=["system", *names, "pos"], orient="row")
    types = {**dict.fromkeys(names, pl.Int64), "evidence": pl.String}
    return run, pl.DataFrame(spans, schema=types, orient="row"), cases


def judged(chunks, spans, cover, threshold):
    """The judgments of chunks (id, document, start, end) by the spans of one query.

    spans: (document, start, end, grade, evidence).
    """
    rows, found, lost = [], set(), {}
    for item, document, start, end in chunks:
        shares = []
        for d, s, e, rel, evidence in spans:
            both = len({*range(start, end)} & {*range(s, e)}) if d == document else 0
            if both >= max(1, Fraction(str(cover or 0)) * (e - s)):
                shares.append((rel, both / (e - s), evidence or f"{d}:{s}-{e}"))
        topics = sorted({x for rel, _, x in shares if rel >= threshold})
        found |= {*topics}
        if shares:
            rows.append((item, *max(shares)[:2], topics or None))
    places = {}
    for d, s, e, rel, evidence in spans:
        if rel >= threshold and (evidence or f"{d}:{s}-{e}") not in found:
            places.setdefault(evidence or f"{d}:{s}-{e}", []).append((f"{d}:{s}-{e}", rel))
    for evidence, of_it in places.items():
        lost.setdefault(min(of_it)[0], []).append((max(rel for _, rel in of_it), evidence))
    for place, several in lost.items():
        rows.append((place, max(several)[0], 0.0, sorted(x for _, x in several)))
    return sorted(rows)


def random_collections(random, count):
    """Chunks (id, document, start, end) and graded spans, many of them beyond all chunks."""
    collections = []
    for number in range(count):

        def place(last, number=number):
            return f"{number}.{random.randrange(2)}", *sorted(random.sample(range(last), 2))

        chunks = {place(12) for _ in range(random.randrange(1, 4))}
        places = [place(30) for _ in range(random.randrange(1, 4))]
        spans = [(*random.choice(places), random.choice((0, 1, 3)), random.choice((None, *"xyz")))
                 for _ in range(random.randrange(1, 6))]  # fmt: skip
        named = [(f"c{number}-{n}", *chunk) for n, chunk in enumerate(sorted(chunks))]
        collections.append((named, spans))
    return collections
