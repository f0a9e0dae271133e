"""Simulate the data of the examples: a shop, a video feed, searches, an A/B test, a large log.

The same seed gives the same data.

python examples/simulate.py [folder]
"""

from __future__ import annotations

import math
import random
import re
import sys
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

# ---------------------------------------------------------------------------------------- the shop
QUERIES, CANDIDATES, SHOWN, DAYS = 120, 30, 10, 14
# Propensity of a position: 1 / position ^ this exponent.
FADING = {"desktop": 0.6, "phone": 1.1}
CART, PURCHASE = 0.5, 0.6  # probability after a click, and after a cart


def shop(folder: Path, sessions: int = 24_000, seed: int = 6) -> None:
    """Simulate two weeks of a shop with a sponsored first slot, then an A/B test of a new ranker.

    candidates.parquet: the candidates of each query, with the scores of the old and the new
    ranker, and `appeal`, the probability that a user who sees the item likes it. A real shop does
    not know it. log.parquet: a row for each item shown in a session. events.parquet: clicks,
    carts and purchases. trial.parquet: each query under both rankers in the A/B test, with
    sessions, items shown, clicks and purchases.

    Several sellers offer the same product. A user who dislikes the product dislikes every offer.
    """
    rng = random.Random(seed)
    candidates = [offer for query in range(QUERIES) for offer in _offers(query, rng)]
    by_query: dict[str, list[dict[str, object]]] = {}
    for offer in candidates:
        by_query.setdefault(offer["query"], []).append(offer)
    names = [*by_query]
    log, events = [], []
    for session in range(sessions):
        query, device = rng.choice(names), rng.choice(["desktop", "phone", "phone"])
        shown = _old_list(by_query[query], rng)
        day = session * DAYS // sessions + 1
        for pos, (offer, done) in enumerate(_visit(shown, device, rng), 1):
            row = {"session": session, "day": day, "device": device, "query": query,
                   "item": offer["item"], "pos": pos, "promoted": offer["sponsored"] and pos == 1,
                   "click": bool(done)}  # fmt: skip
            log.append(row)
            events += [{**{k: row[k] for k in ("session", "day", "query", "item")}, "event": event}
                       for event in done]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(candidates).write_parquet(folder / "candidates.parquet")
    pl.DataFrame(log).write_parquet(folder / "log.parquet")
    pl.DataFrame(events).write_parquet(folder / "events.parquet")
    pl.DataFrame(_trial(by_query, rng)).write_parquet(folder / "trial.parquet")


def _offers(query: int, rng: random.Random) -> list[dict[str, object]]:
    """The candidates of a query: products, some of them from several sellers."""
    # In some departments many sellers offer the same product.
    crowded = query % 3 == 0
    offers: list[dict[str, object]] = []
    product = 0
    while len(offers) < CANDIDATES:
        product += 1
        liking = rng.gauss(-1.6, 1.1)
        sellers = rng.choice([3, 5, 6]) if crowded else 1
        estimate = 1.2 * liking + rng.gauss(0, 0.5)  # the new ranker's, for all offers of a product
        for seller in range(min(sellers, CANDIDATES - len(offers))):
            old = 0.5 * liking + rng.gauss(0, 1)
            new = estimate + rng.gauss(0, 0.05)
            offers.append({
                "query": f"q{query:03}", "item": f"q{query:03}-p{product:02}-s{seller}",
                "product": f"q{query:03}-p{product:02}", "crowded": crowded,
                "sponsored": False, "old": round(old, 4), "new": round(new, 4),
                "appeal": round(1 / (1 + math.exp(-liking)), 4),
            })  # fmt: skip
    # Sponsors are items that would not reach the first slot by themselves.
    for offer in sorted(offers, key=lambda o: o["appeal"])[5:8]:
        offer["sponsored"] = True
    return offers


def _old_list(offers: list[dict[str, object]], rng: random.Random) -> list[dict[str, object]]:
    """The list of the old ranker: noisy scores, and often a sponsored item in the first slot."""
    ranked = sorted(offers, key=lambda o: o["old"] + rng.gauss(0, 0.7), reverse=True)
    if rng.random() < 0.7:
        promoted = rng.choice([o for o in offers if o["sponsored"]])
        ranked.remove(promoted)
        ranked.insert(0, promoted)
    return ranked[:SHOWN]


def _visit(shown: list[dict[str, object]], device: str, rng: random.Random):
    """Yield each item with the events of one visitor: none, or click, cart, purchase in order."""
    wish: dict[object, list[str]] = {}
    for pos, offer in enumerate(shown, 1):
        product, done = offer["product"], []
        if product not in wish:
            chances = (offer["appeal"], CART, PURCHASE)
            steps = zip(("click", "cart", "purchase"), chances, strict=True)
            wish[product] = [*_while(steps, rng)]
        if wish[product] and rng.random() < pos ** -FADING[device]:
            done = wish[product]
            wish[product] = done[:1]  # nobody buys a product twice
        yield offer, done


def _while(steps, rng: random.Random):
    """Yield the steps until the visitor stops."""
    for step, chance in steps:
        if rng.random() >= chance:
            return
        yield step


def _trial(by_query, rng: random.Random, sessions: int = 300) -> list[dict[str, object]]:
    """Simulate the A/B test: both rankers, without a sponsored slot."""
    rows = []
    for query, offers in by_query.items():
        for system in ("old", "new"):
            shown = sorted(offers, key=lambda o: o[system], reverse=True)[:SHOWN]
            clicks = sold = 0
            for _ in range(sessions):
                device = rng.choice(["desktop", "phone", "phone"])
                visit = [done for _, done in _visit(shown, device, rng)]
                clicks += sum("click" in done for done in visit)
                sold += any("purchase" in done for done in visit)
            rows.append({"query": query, "system": system, "sessions": sessions,
                         "shown": sessions * SHOWN, "clicks": clicks, "sold": sold})  # fmt: skip
    return rows


# ---------------------------------------------------------------------------------- the video feed
TOPICS = ("cats", "chess", "cooking", "football", "garden", "maths", "music", "travel")


def videos(folder: Path, users: int = 2_000, items: int = 1_200, seed: int = 3) -> None:
    """Simulate what the users of a video feed watched.

    videos.parquet: each video with its topic. watched.parquet: user, video, time and the share of
    the video that was watched. Everyone watches a few popular videos; users who like a topic watch
    the others.
    """
    rng = random.Random(seed)
    catalogue = [
        {"item": f"v{item:04}", "topic": rng.choice(TOPICS), "pull": 1 / (item + 8) ** 0.9}
        for item in range(items)
    ]
    of_topic = {topic: [v for v in catalogue if v["topic"] == topic] for topic in TOPICS}
    pulls = {topic: [v["pull"] for v in of_topic[topic]] for topic in TOPICS}
    every = [v["pull"] for v in catalogue]
    rows = []
    for user in range(users):
        liked = rng.sample(TOPICS, 2)
        clock, seen = rng.uniform(0, 86_400), set()
        for _ in range(rng.randint(4, 40)):
            clock += rng.expovariate(1 / 7_200)
            by_taste = rng.random() < 0.75
            topic = liked[rng.random() < 0.3]
            (video,) = (
                rng.choices(of_topic[topic], pulls[topic]) if by_taste
                else rng.choices(catalogue, every)
            )  # fmt: skip
            if video["item"] not in seen:
                seen.add(video["item"])
                share = min(1.0, rng.betavariate(3, 1.5 if video["topic"] in liked else 3))
                rows.append({"user": f"u{user:04}", "item": video["item"], "time": round(clock),
                             "share": round(share, 3)})  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(catalogue).drop("pull").write_parquet(folder / "videos.parquet")
    pl.DataFrame(rows).write_parquet(folder / "watched.parquet")


# ------------------------------------------------------------------------ a search with two rankers
# By kind of query: its share, and how well the old and the new ranker estimate relevance.
KINDS = {"product name": (0.5, 1.4, 1.6), "need": (0.35, 0.6, 1.1), "part number": (0.15, 1.8, 1.2)}


def search(folder: Path | str, queries: int = 400, seed: int = 21) -> Path:
    """Simulate the rankings of an old and a new search for the same queries, and judgments.

    queries.parquet: each query's kind. old.parquet, new.parquet: the best 20 of 60 items by score.
    judgments.parquet: grades 0 to 3 of the top items of the old search, and of fewer of the new
    search. A few items are judged twice.
    """
    rng, folder = random.Random(seed), Path(folder)
    kinds, runs, judgments = [], {"old": [], "new": []}, []
    for number in range(queries):
        query = f"q{number:03}"
        (kind,) = rng.choices([*KINDS], [share for share, *_ in KINDS.values()])
        kinds.append({"query": query, "kind": kind})
        liking = {f"item{n:04}": rng.gauss(0, 1) for n in rng.sample(range(5_000), 60)}
        pooled: dict[str, None] = {}
        for (system, run), knows in zip(runs.items(), KINDS[kind][1:], strict=True):
            scores = {item: round(knows * x + rng.gauss(0, 1), 6) for item, x in liking.items()}
            best = sorted(scores, key=scores.__getitem__, reverse=True)[:20]
            run += [{"query": query, "item": item, "score": scores[item]} for item in best]
            pooled |= dict.fromkeys(best[: 15 if system == "old" else 8])
        for item in pooled:
            for _ in range(2 if rng.random() < 0.01 else 1):
                seen = liking[item] + rng.gauss(0, 0.3)
                rel = sum(seen > step for step in (1.2, 1.8, 2.4))
                judgments.append({"query": query, "item": item, "rel": rel})
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"queries": kinds, **runs, "judgments": judgments}
    for name, rows in tables.items():
        pl.DataFrame(rows).write_parquet(folder / f"{name}.parquet")
    return folder


# ------------------------------------------------------------------------------------ an A/B test
SORTED = {"A": 0.4, "B": 0.65, "C": 0.4}  # how well each arm sorts the items


def judged(folder: Path | str, queries: int = 600, labelled: int = 60, seed: int = 5) -> Path:
    """Simulate two rankers, labels by a language model, and labels by people for a few queries.

    old.parquet, new.parquet: 20 items per query with a score. llm.parquet: the model's grades of
    all of them, from 0 to 3. human.parquet: people's grades for a random sample of queries.
    truth.parquet: people's grades of all of them, which nobody has in practice.

    The model often gives a grade too many, and more often to fluent items, which the new ranker
    prefers too.
    """
    rng, rows = random.Random(seed), []
    for query in range(queries):
        skill = rng.uniform(0.2, 1.5)
        for item in range(20):
            rel = rng.choices(range(4), (10, 5, 3, 2))[0]
            fluent = rng.random() < 0.4
            kind = rng.random() < (0.45 if fluent else 0.15)
            old = skill * rel + rng.gauss(0, 1)
            new = old + 0.15 * rel + 0.9 * fluent + rng.gauss(0, 0.5)
            rows.append((f"q{query:03}", f"d{item:02}", rel, min(3, rel + kind), old, new))
    folder, kept = Path(folder), ("query", "item")
    folder.mkdir(parents=True, exist_ok=True)
    table = pl.DataFrame(rows, (*kept, "truth", "llm", "old", "new"), orient="row")
    sample = rng.sample(sorted(set(table["query"])), labelled)
    for name in ("truth", "llm"):
        table.select(*kept, rel=name).write_parquet(folder / f"{name}.parquet")
    human = table.filter(pl.col("query").is_in(sample)).select(*kept, rel="truth")
    human.write_parquet(folder / "human.parquet")
    for name in ("old", "new"):
        table.select(*kept, score=name).write_parquet(folder / f"{name}.parquet")
    return folder


def annotated(folder: Path | str, queries: int = 100, seed: int = 9) -> Path:
    """Simulate labels.csv: 10 items per query, graded by the people ann and bo and by two models.

    gpt errs as often as people, llama more often. Errors are more frequent in difficult queries.
    """
    rng, rows = random.Random(seed), []
    errors = {"ann": 0.7, "bo": 0.7, "gpt": 0.75, "llama": 1.1}
    for query in range(queries):
        level, hard = rng.gauss(1, 0.7), max(0.2, rng.gauss(1, 0.4))
        for item in range(10):
            truth = rng.gauss(level, 1)
            grades = (round(truth + rng.gauss(0, e * hard)) for e in errors.values())
            rows.append((f"q{query:02}", f"d{item}", *(min(3, max(0, x)) for x in grades)))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    table = pl.DataFrame(rows, ("query", "item", *errors), orient="row")
    table.write_csv(folder / "labels.csv")
    return folder / "labels.csv"


def ab_test(folder: Path | str, arms: str = "AB", users: int = 12_000, seed: int = 21) -> Path:
    """Simulate an A/B test of rankers: A is the old one, B sorts better, and C equals A.

    users.parquet: user, arm and `before`, what the user paid in the month before, NULL for new
    users. shown.parquet: what each search showed: user, query, pos, click (0 or 1) and paid. Some
    users do not search.
    """
    rng, folder = random.Random(seed), Path(folder)
    people, shown = [], []
    for number in range(users):
        user, arm, loyal = f"u{number:05}", rng.choice(arms), rng.random() < 0.3
        budget, buys = rng.lognormvariate(3, 0.5), 0.5 if loyal else 0.03
        searches = rng.choices([0, 1, 2, 4], [2, 4, 3, 1])[0]
        spent = round(searches * buys * budget * rng.lognormvariate(0, 0.3), 2)
        before = None if rng.random() < 0.2 else spent
        people.append({"user": user, "arm": arm, "before": before})
        for search in range(searches):
            wanted = [rng.gauss(0, 1) for _ in range(10)]
            wanted.sort(key=lambda x: SORTED[arm] * x + rng.gauss(0, 1), reverse=True)
            for pos, interest in enumerate(wanted, 1):
                click = interest > 1 and rng.random() < 1 / pos**0.5
                paid = budget * rng.lognormvariate(0, 0.3) if click and rng.random() < buys else 0
                shown.append({"user": user, "query": f"{user}-{search}", "pos": pos,
                              "click": int(click), "paid": round(paid, 2)})  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(people).write_parquet(folder / "users.parquet")
    pl.DataFrame(shown, infer_schema_length=None).write_parquet(folder / "shown.parquet")
    return folder


# ---------------------------------------------------------------------------------- a search by day
FIRST_DAY, RANKED = date(2026, 9, 1), 15


def days(folder: Path | str, number: int = 91, queries: int = 150, seed: int = 4) -> Path:
    """Simulate a search from September to November 2026: day=2026-09-01/part.parquet and so on.

    Each row is an item of a ranking: query, device, item, pos and rel (0 to 2; NULL if nobody has
    judged it). Sundays have harder queries. From 1 October on, new items appear that nobody has
    judged: 1% more of all items every 5 days. On 16 November, a release breaks the ranking on
    phones.
    """
    rng, folder = random.Random(seed), Path(folder)
    for since in range(number):
        day = FIRST_DAY + timedelta(since)
        unjudged = max(0, (day - date(2026, 10, 1)).days) * 0.002
        hardness = rng.gauss(0, 0.03) + (0.3 if day.isoweekday() == 7 else 0)
        rows = []
        for query in range(queries):
            device = rng.choice(["desktop", "phone"])
            broken = device == "phone" and day >= date(2026, 11, 16)
            noise = 0.8 + hardness + (0.8 if broken else 0)
            grades = rng.choices([0, 1, 2], [6, 3, 1], k=RANKED)
            ranked = sorted(grades, key=lambda grade: grade + rng.gauss(0, noise), reverse=True)
            rows += [
                {"query": f"q{query:03}", "device": device, "item": f"i{pos:02}", "pos": pos,
                 "rel": None if rng.random() < unjudged else grade}
                for pos, grade in enumerate(ranked, 1)
            ]  # fmt: skip
        path = folder / f"day={day}"
        path.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(rows, schema_overrides={"rel": pl.Int64}).write_parquet(path / "part.parquet")
    return folder


# ----------------------------------------------------------------------------- a log of any size
# Of 256 users who look at the first item, the number who click.
CLICKS = {"new": 40, "regular": 80, "vip": 160}
LENGTH = 200  # items per user
AT_ONCE = 600  # users per row group, which bounds the memory


def passages(folder: Path | str, questions: int = 200, seed: int = 8) -> Path:
    """Simulate a text, questions with the places of their answers, and chunkers with their runs.

    The words are made up, and so is the retriever: BM25 of the words of a question. spans.parquet:
    the question, and the two ends of each part of its answer. chunks_<size>.parquet: the chunks of
    200, 500 and 1,000 characters, of which neighbours share 20%. run_<size>.parquet: the first 60
    chunks of each question.
    """
    rng, folder = random.Random(seed), Path(folder)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    words = sorted({"".join(rng.choices(syllables, k=rng.randint(2, 4))) for _ in range(3000)})
    common, rare = words[:300], words[300:]
    text, paragraphs = "", list[tuple[list[str], list[tuple[int, int, str]]]]()
    for _ in range(2 * questions):  # each has a topic of its own
        topic, sentences = rng.sample(rare, 6), list[tuple[int, int, str]]()
        for _ in range(rng.randint(3, 8)):
            both = [rng.choice(topic if rng.random() < 0.25 else common)
                    for _ in range(rng.randint(6, 18))]  # fmt: skip
            sentence = " ".join(both) + ". "
            sentences.append((len(text), len(text) + len(sentence) - 2, sentence))
            text += sentence
        paragraphs.append((topic, sentences))
    spans, asked = list[dict[str, object]](), dict[str, list[str]]()
    for n in range(questions):
        name = f"q{n:03}"
        asked[name] = []
        for topic, sentences in rng.sample(paragraphs, rng.choice((1, 1, 2))):
            first = rng.randrange(len(sentences) - 1)
            answer = sentences[first : first + rng.choice((1, 1, 2))]
            ends = {"start": answer[0][0], "end": answer[-1][1]}
            spans.append({"question": name, "doc_id": "text", **ends})
            own = [x for _, _, sentence in answer for x in sentence[:-2].split()]
            asked[name] += rng.sample(own, min(3, len(own))) + rng.sample(topic, 1)
        asked[name] += rng.sample(common, 2)
    folder.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(spans).write_parquet(folder / "spans.parquet")
    for size in (200, 500, 1000):
        starts = range(0, len(text) - size // 5, size * 4 // 5)
        ends = [(x, min(x + size, len(text))) for x in starts]
        chunks = [{"chunk_id": f"{size}-{n}", "doc_id": "text", "start": s, "end": e}
                  for n, (s, e) in enumerate(ends)]  # fmt: skip
        counts = [Counter(re.findall("[a-z]+", text[s:e])) for s, e in ends]
        holding = Counter(word for each in counts for word in each)
        rows = list[dict[str, object]]()
        weights = {x: math.log(len(ends) / n) for x, n in holding.items()}
        for question, own in asked.items():
            scores = [
                sum(weights[x] * each[x] / (each[x] + 1.2) for x in own if each[x])
                for each in counts
            ]
            best = sorted(range(len(ends)), key=lambda n: -scores[n])[:60]
            rows += [{"question": question, **chunks[n], "score": scores[n]} for n in best]
        pl.DataFrame(chunks).write_parquet(folder / f"chunks_{size}.parquet")
        pl.DataFrame(rows).write_parquet(folder / f"run_{size}.parquet")
    return folder


def large_log(folder: Path, users: int, seed: int = 11) -> None:
    """Simulate a month of a shop in one Parquet file of any size.

    users.parquet: each user's segment. log.parquet: user, item, pos and rel, 1 for a click, 2 for
    a cart, 3 for a purchase.
    """
    folder.mkdir(parents=True, exist_ok=True)
    segments = pl.Series([[*CLICKS][i] for i in (0, 1, 0, 1, 0, 2, 0, 1, 0, 1)])  # of ten users
    every = pl.DataFrame({"user": range(users)})
    every = every.with_columns(segment=segments[every["user"] % 10])
    every.write_parquet(folder / "users.parquet")
    positions = pl.DataFrame({"pos": range(1, LENGTH + 1)})
    rng, draw = random.Random(seed), pl.col("draw")
    chance = pl.col("segment").replace_strict(CLICKS) / pl.col("pos").sqrt()
    rel = sum((draw % 256 < chance / rarer).cast(pl.Int64) for rarer in (1, 3, 8))
    with pq.ParquetWriter(folder / "log.parquet", pa.schema(
        {name: pa.int64() for name in ("user", "item", "pos", "rel")}
    )) as log:  # fmt: skip
        for some in every.iter_slices(AT_ONCE):
            rows = some.join(positions, how="cross")
            draws = [None, pa.py_buffer(rng.randbytes(4 * len(rows)))]
            draws = pl.Series(pa.Array.from_buffers(pa.uint32(), len(rows), draws))
            rows = rows.with_columns(draw=draws.cast(pl.Int64))
            log.write_table(
                rows.select("user", item=draw // 256 % 5_000, pos="pos", rel=rel).to_arrow()
            )


if __name__ == "__main__":
    target = Path(*sys.argv[1:2] or ["rankql-stories"])
    shop(target / "shop")
    videos(target / "feed")
    search(target / "search")
    judged(target / "judged")
    ab_test(target / "ab-test")
    days(target / "days")
    print(f"Wrote simulated data to {target}/")
