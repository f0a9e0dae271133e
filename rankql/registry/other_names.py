"""Names of metrics in other tools: other spellings of ours, and names that mean something else."""

from __future__ import annotations

import re
from functools import cache

from rankql.registry.column_names import squash

# Names | tool | what it is there | what comes closest in rankql; a table of docs/coming-from.md.
_OTHERS = """
Rprec_mult | trec_eval | precision at multiples of R, which users do not see | `Rprec` or `P@k`
G, binG, Rndcg | trec_eval | variants of nDCG that are hardly used | `nDCG`, `nDCG(gain=binary)`
gm_bpref | trec_eval | a geometric mean | `GMAP` or `Bpref`
ndcg_rel | trec_eval | nDCG at the levels of recall | `nDCG`
num_q | trec_eval | the number of queries | `queries` minus `missing` in the summary
num_nonrel_judged_ret | trec_eval | a number of rows | `count(pos) FILTER (WHERE rel < 1)`
set_relative_P | trec_eval | precision of the set, divided by min(retrieved, R) | `R_cap@k`
unj | trec_eval | the share of unjudged items | 1 minus `Judged@k`
utility | trec_eval | a sum with weights that you choose | `sum(if(rel >= 1, 1, -1))`, your own
relstring | trec_eval | the grades as text | `rankql.explain`
INST, BPM | cwl_eval | models of users with a goal for each query | `RBP(p=0.8)`
NRBP | ndeval | RBP over subtopics | `ERR_IA@k` or `alpha_nDCG@k`
Compat | ir_measures | the overlap with the best ideal ranking | `rbo` in SQL, or `nDCG@k`
SetRelP | ir_measures | precision of the set, divided by min(retrieved, R) | `R_cap@k`
CatalogCoverage | RecTools | the number of items shown | `Coverage@10` times the catalogue
ItemCoverage | Elliot | the number of items shown | `Coverage@10` times the catalogue
Gini | Elliot | 1 - Gini | `1 - gini(item, catalogue := 500)` as your own metric
ShannonEntropy | RecBole | in nats, over the items shown | `Entropy@10` times ln(2) over that number
Surprisal | RePlay | over log2 of the users, and over k | `Novelty(normalized=true)@10`
Serendipity | RecTools | relevant items weighted by ranks of popularity | `Serendipity@10`
EFD, EPC | Elliot | novelty weighted by relevance and position | `Novelty@10`
TailPercentage | RecBole | the share of items from the tail | `Popularity@10`
context_recall | Ragas | the share of an answer that the texts support, by a model | `R@k`
context_precision | Ragas | the mean precision of texts that a model found useful | `AP@k`
hits | PyKEEN, LensKit, AutoRAG | whether an item is relevant | `Success@10`; in ranx, `NumRelRet`
"""
OTHERS = [tuple(map(str.strip, row.split("|"))) for row in _OTHERS.strip().splitlines()]


@cache
def _rows() -> dict[str, tuple[str, ...]]:
    return {squash(name): row for row in OTHERS for name in row[0].split(",")}


def describe_other_name(name: str) -> str:
    """What a name that rankql does not have means in the tool that has it, or nothing."""
    row = _rows().get(squash(name)) or _rows().get(bare(name))
    if row is None:
        return ""
    _, tool, meaning, closest = row
    return f"{name!r} of {tool}: {meaning}. The closest in rankql: {closest}".replace("`", "")


def respell(text: str) -> str:
    """The spelling of rankql for one of another tool, as ndcg_at_10 or precision@5-l2."""
    text = re.sub(r"(?i)^\s*NumRet\s*\((?=\s*rel\s*=)", "NumRelRet(", text)
    if level := re.fullmatch(r"([^=()@]+)(@\d+)?-l(\d+)", text):  # ranx
        text = f"{level[1]}(rel={level[3]}){level[2] or ''}"
    return re.sub(r"^([^=()@]+?)(?:_at_|At_?)(\d+|[kK])$", r"\1@\2", text.strip())


def bare(name: str) -> str:
    """A squashed name without the word that another tool begins it with."""
    return re.sub("^(mean|retrieval)", "", squash(name))
