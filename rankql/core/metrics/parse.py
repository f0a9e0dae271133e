"""Metrics by name: `nDCG@10`, `P(rel=2)@5`, aliases, and the names of trec_eval."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from rankql.core.base import errors
from rankql.core.base.column_names import squash
from rankql.core.base.errors import RankqlError, require
from rankql.core.metrics import profiles
from rankql.core.metrics.all_metrics import EVALUATED, FUNCTIONS, SHOWN, SPANS
from rankql.core.metrics.macros import INTERNAL_PREFIX, quote
from rankql.core.metrics.metric_record import GAIN, RECALL, Metric, MetricRecord, Parameter
from rankql.core.metrics.profiles import WITH_PARAMETERS

# Names | tool | what it is there | what comes closest in rankql; a table of docs/coming-from.md.
_OTHERS = Path(__file__).with_name("other_names.txt").read_text("utf-8")
OTHERS = [tuple(map(str.strip, row.split(" | "))) for row in _OTHERS.splitlines()]


_OPTION_ALIASES = {"rel": "threshold", "cutoff": "k", "dcg": GAIN.name}
_VALUE_ALIASES = {"log2": "linear", "exp-log2": "exp2"}
# The highest position. Above it, not every whole number is a DOUBLE.
_HIGHEST = 2**53
# Positions below this one hardly add to the highest ERR_IA.
_ERR_PLACES = 10_000

# Metrics of diversity in `evaluate`, by the names of ir_measures, and their functions.
_SUBTOPIC_METRICS = {"alpha_nDCG": "alpha_ndcg", "ERR_IA": "err_ia", "STREC": "subtopic_recall"}

# Metrics that read whether an item is relevant, not how many are.
_OF_GROUPS = ("RR", "Success", "Judged", "FalseAnswer", "FalseAbstention", "Forbidden")

_NAME = re.compile(
    r"\s*(?P<name>[A-Za-z](?:[\w -]*\w)?)\s*(?:\((?P<options>[^()]*)\))?\s*(?:@\s*(?P<k>[^@]*))?\s*"
)
_EXPRESSION = re.compile(
    r"\s*(?P<label>[^=()@\0]*[^=()@\s<>!\0](@(?P<k>[1-9]\d{0,14}))?)\s*=(?!=)\s*(?P<sql>\S.*)",
    re.DOTALL,
)


def parse(names: str | Sequence[str], profile: str = "") -> list[Metric]:
    """Parse names of metrics, each once. `nDCG@5,10` is two; `label = SQL` is the user's own.

    Some names of a tool have a meaning under its profile alone.
    """
    names = list_metrics(names)
    listed = isinstance(names, str | list | tuple) and bool(names)
    require(listed, f"metrics must be names such as 'nDCG@10', not {names!r}")
    given = [names] if isinstance(names, str) else names
    texts = [part for text in given for part in split_metrics(text)]
    parsed = [metric for text in texts for metric in _parse_one(text, profile)]
    for metric in parsed:
        others = (each for each in parsed if each.canonical == metric.canonical)
        same = all(each.expression == metric.expression for each in others)
        require(same, f"Two metrics are called {metric.name!r}. Rename one of them")
    return list_once(parsed, profiles.tool_of(profile).options)


def list_once(metrics: Iterable[Metric], rules: Mapping[str, Any]) -> list[Metric]:
    """The metrics, each once. Names of a tool may differ in what undefined queries count alone."""
    first: dict[tuple[Any, ...], Metric] = {}
    for metric in metrics:
        counts = (rule(rules, option, metric.name) for option in ("undefined", "missing"))
        first.setdefault((metric.canonical, *counts), metric)
    return [*first.values()]


# A text in quotes, a pair of brackets without others inside, or another character.
_PART = re.compile(r"""'[^']*'|"[^"]*"|[(\[{][^()\[\]{}]*[)\]}]|.""", re.DOTALL)


def split_metrics(text: Any) -> list[Any]:
    """The metrics in a text, separated by commas: 'nDCG@5,10,RR' is nDCG@5,10 and RR.

    An expression of the user, which has an equals sign outside brackets, is one metric.
    """
    parts = _PART.findall(text) if isinstance(text, str) else []
    if "," not in parts:
        return [text]
    pieces = text.split(",")
    if any(map(WITH_PARAMETERS.fullmatch, pieces)):
        parts = [part for piece in pieces for part in (piece, ",")][:-1]
    elif "=" in parts:
        return [text]
    metrics: list[str] = []
    for name in "".join("\0" if part == "," else part for part in parts).split("\0"):
        if metrics and re.fullmatch(r"\s*[\d.]+[cCkK]?\s*", name):  # one more cutoff, or recall
            metrics[-1] += f",{name.strip()}"
        elif name.strip():
            metrics.append(name.strip())
        else:  # nothing before or after a comma
            return [text]
    return metrics


def list_metrics(metrics: Any) -> Any:
    """Metrics as texts: a dict, or one in a list, holds the user's own as label: SQL.

    A set, as pytrec_eval takes, has no order of its own.
    """
    if isinstance(metrics, set | frozenset):
        return sorted(map(str, metrics))
    if isinstance(metrics, Mapping):
        for label in metrics:
            plain = "=" not in str(label)
            require(plain, f"The label {label!r} of a metric contains '='. Write it without")
        return [f"{label} = {sql}" for label, sql in metrics.items()]
    if isinstance(metrics, list | tuple) and any(isinstance(each, Mapping) for each in metrics):
        return [
            text
            for each in metrics
            for text in (list_metrics(each) if isinstance(each, Mapping) else [each])
        ]
    return metrics


def parse_any(name: Any) -> list[Metric]:
    """Parse a name of a result, which may have been read under a profile."""
    try:
        return parse(name)
    except RankqlError:
        return parse(name, "*")


def is_metric(name: str) -> bool:
    """Is this the name of a metric, at least under a profile?"""
    try:
        return bool(parse_any(name))
    except RankqlError:
        return False


def function_called(name: str) -> str:
    """The function of SQL and polars of a metric that has this name in `evaluate`, or nothing."""
    record = record_of(name)
    return record.function if record.level == "ranking" else ""


def resolve_names(text: str, names: Sequence[str], conventions: Mapping[str, Any]) -> list[str]:
    """The metrics that a text such as 'ndcg@5,10' stands for, each spelled as among the names."""
    if text in names:
        return [text]
    spellings = {metric: name for name in names for metric in canonical_names(name, conventions)}
    return [spellings.get(metric, metric) for metric in canonical_names(text, conventions)]


def canonical_names(text: str, conventions: Mapping[str, Any]) -> list[str]:
    """The canonical names of the metrics of a text, or the text if it names none."""
    try:
        parsed = parse(text, conventions.get("profile", ""))
        return [metric.under(conventions).canonical for metric in parsed]
    except RankqlError:
        return [text]


def rule(rules: Mapping[str, Any], option: str, name: str) -> Any:
    """The value of a convention for a metric, where a profile has one for each."""
    value = rules.get(option)
    if not isinstance(value, Mapping):
        return value
    record = record_of(name)
    same = (x for other, x in value.items() if record.name and record_of(other) is record)
    return value.get(name) or profiles.entry(value, name, record.name, next(same, "skip"))


def lower_is_better(name: str) -> bool:
    """Is a lower value better? False for an expression of the user."""
    return record_of(name).better == "lower"


def may_lack_worst(name: str, conventions: Mapping[str, Any]) -> bool:
    """Is a missing query left out, at least where a grade is negative?"""
    record = record_of(name)
    if record is _OWN or record.level != "ranking":
        return False
    return record.worst is None or parse_any(name)[0].keeps_sign(conventions)


def lacks_direction(name: str) -> bool:
    """Is neither a higher nor a lower value better? False for an expression of the user."""
    return (find_shown(name) or record_of(name)).better == "neither"


def value_range(name: str) -> tuple[float | None, float | None]:
    """The lowest and the highest value of a metric, None where it has no bound or is unknown."""
    subtopics = _subtopic_record(re.split("[(@]", name)[0])
    record = subtopics or find_shown(name) or record_of(name)
    # Only negative grades give a sum of gains below 0.
    lowest = 0 if record.sums_gains else record.lowest
    return (None, None) if record is _OWN else (lowest, record.highest)


# What holds of expressions of the user, and of metrics of shown items per query.
_OWN = MetricRecord(function="")


@lru_cache(1000)
def record_of(name: str) -> MetricRecord:
    """The record of a name that stands for one metric of rankings, or that of the user's own."""
    try:
        (metric,) = parse_any(name)
    except (RankqlError, ValueError):
        return _OWN
    return metric.record or metric.spans or _OWN


def _parse_one(text: str, profile: str = "") -> Iterator[Metric]:
    require(isinstance(text, str), f"A metric must be a name such as 'nDCG@10', not {text!r}")
    text = _ranx_name(text.strip(), profile)
    named = profiles.our_name(text, profile)
    respelled = named != text or _respell(text) != text
    for metric in _parse_spelled(_respell(named), profile):
        metric = replace(metric, label=text) if respelled else metric
        record = metric.known.name if metric.known else ""
        reason = profiles.entry(profiles.tool_of(profile).refused, metric.name, record)
        require(not reason, f"{metric.name}: {reason}")
        yield metric


def _ranx_name(text: str, profile: str) -> str:
    """A name that ranx alone gives this meaning, as ours under its profile."""
    patience = re.fullmatch(r"(?i)rbp(\.\d+)", text)
    name = f"RBP(p=0{patience[1]})" if patience else "NumRelRet" if text == "hits" else text
    if name == text or profile.startswith("ranx"):
        return name
    require(not patience, f"{text!r} is a name of ranx: write {name}, or set conventions='ranx'")
    return text


def _parse_spelled(text: str, profile: str = "") -> Iterator[Metric]:
    special = WITH_PARAMETERS.fullmatch(text) or text.endswith("-")
    if special and (message := profiles.describe_name(text, profile)):
        raise RankqlError(message)
    own = _EXPRESSION.fullmatch(text)
    stem = own["label"].partition("@")[0].strip() if own else ""
    if metrics := [*_trec_metrics(text.strip()), *_set_metric(text)]:
        yield from metrics
    elif own and not find_shown(stem) and is_metric(stem):
        raise RankqlError(
            f"{own['label'].strip()!r} is the name of a metric of rankql. Give the expression "
            "another name"
        )
    elif own:
        k = int(own["k"]) if own["k"] else None
        yield Metric(None, k, label=own["label"].strip(), expression=own["sql"].strip())
    elif match := _NAME.fullmatch(text):
        subtopics, shown = _subtopic_record(match["name"]), find_shown(text)
        spans = _SPANS.get(squash(match["name"]))
        record = subtopics or shown or spans or _find_record(match["name"], match["k"])
        options = dict(_parse_options(text, record, match["options"] or ""))
        k = options.pop("k", None)
        twice = match["k"] is not None and (k is not None or RECALL.name in options)
        require(not twice, f"{text!r}: the cutoff is given twice")
        for cutoff in [k] if match["k"] is None else match["k"].split(","):
            metric = _metric(text, record, options, cutoff)
            metric = replace(metric, record=None, shown=shown) if shown else metric
            metric = _span_metric(metric) if spans else metric
            yield _subtopic_metric(metric) if subtopics else metric
    else:
        raise RankqlError(
            profiles.describe_name(text)
            or f"Cannot parse the metric {text!r}. Expected name@k, name(option=value)@k, or "
            "label = SQL expression, such as hits = count(rel)"
        )


def find_shown(text: str) -> MetricRecord | None:
    """The record of a metric of shown items that has this name, with cutoff and options or not."""
    match = _NAME.fullmatch(text)
    return _SHOWN.get(squash(match["name"])) if match else None


# The metrics of shown items by their names.
_SHOWN = {squash(name): record for record in SHOWN for name in (record.name, *record.aliases)}


# The metrics of spans by their names.
_SPANS = {squash(name): record for record in SPANS for name in (record.name, *record.aliases)}


def _span_metric(metric: Metric) -> Metric:
    """The metric as an expression: the run has its values, and the judgments say if it is defined.

    A missing query has 0.
    """
    value = f"coalesce(any_value({quote(span_column(metric))}), 0)"
    expression = f"CASE WHEN max(rel) > 0 THEN {value} END"
    return replace(metric, record=None, spans=metric.record, expression=expression)


def span_column(metric: Metric) -> str:
    """The column of the run with the values of a metric of spans."""
    return f"{INTERNAL_PREFIX}{metric.canonical}"


def _subtopic_record(name: str) -> MetricRecord | None:
    """The record of a metric of subtopics that has this name in `evaluate`."""
    known = name.lower().replace("-", "_")
    known = "strec" if squash(name) in ("strecall", "grouprecall") else known
    for spelling, function in _SUBTOPIC_METRICS.items():
        if known in (spelling.lower(), function):
            return replace(FUNCTIONS[function], name=spelling)
    return None


def _subtopic_metric(metric: Metric) -> Metric:
    """The metric as an expression, whose ideal needs all judged items, not only the first k.

    As in ndeval, ERR_IA is divided by the value of a ranking of items with all subtopics.
    """
    assert metric.record
    options = {**metric.options, **({} if metric.k is None else {"k": metric.k})}
    call = ", ".join(["subtopics", "pos", *(f"{name} := {x}" for name, x in options.items())])
    expression = f"{metric.record.function}({call})"
    if metric.record.function == "err_ia":
        alpha = float(options.get("alpha", 0.5))
        require(alpha > 0, f"{metric.name}: alpha must be above 0")
        places = range(1, min(metric.k or _ERR_PLACES, _ERR_PLACES) + 1)
        most = alpha * math.fsum((1 - alpha) ** (i - 1) / i for i in places)
        expression += f" / {most!r}"
    return Metric(None, label=metric.name, expression=expression)


def of_groups(metric: Metric) -> Metric:
    """The metric of groups of which one item each suffices. Refuse one that counts items."""
    record, k = metric.record, "" if metric.k is None else f", k := {metric.k}"
    if record and record.name == "AllRel" and not metric.options:
        expression = f"floor(subtopic_recall(subtopics, pos{k}))"
        return Metric(None, label=metric.name, expression=expression)
    require(
        record is None or record.name in _OF_GROUPS,
        f"{metric.name} counts items, but with groups='any' one item of each group suffices. Use "
        f"group_recall@k, AllRel@k, {', '.join(_OF_GROUPS)}",
    )
    return metric


@cache
def _index(spell: Callable[[str], str] = str.lower) -> dict[str, MetricRecord]:
    """The records by their names, in lower case or in another spelling."""
    prefixes = [
        "gm_" if r.overall == "geometric" else "micro_" if r.weight and r.overall != "sum" else ""
        for r in EVALUATED
    ]
    functions = [f"{prefix}{r.macro}" for prefix, r in zip(prefixes, EVALUATED, strict=True)]
    return {
        spell(name): record
        for record, function in zip(EVALUATED, functions, strict=True)
        for name in (record.name, *record.aliases, function)
    }


@cache
def _names_elsewhere(field: str) -> dict[str, tuple[MetricRecord, Mapping[str, Any]]]:
    """The metrics by their names in another tool, in lower case, with their options."""
    return {
        name.lower(): (record, options)
        for record in EVALUATED
        for name, options in getattr(record, field).items()
    }


def _respell(text: str) -> str:
    """The spelling of rankql for one of another tool, as ndcg_at_10 or precision@5-l2."""
    text = re.sub(r"(?i)^\s*NumRet\s*\((?=\s*rel\s*=)", "NumRelRet(", text)
    if level := re.fullmatch(r"([^=()@]+)(@\d+)?-l(\d+)", text):  # ranx
        text = f"{level[1]}(rel={level[3]}){level[2] or ''}"
    return re.sub(r"^([^=()@]+?)(?:_at_|At_?)(\d+|[kK])$", r"\1@\2", text.strip())


def _bare(name: str) -> str:
    """A squashed name without the word that another tool begins it with."""
    return re.sub("^(mean|retrieval)", "", squash(name))


def _find_record(name: str, k: str | None = None) -> MetricRecord:
    squashed = _index(squash)
    record = _index().get(name.lower()) or squashed.get(squash(name)) or squashed.get(_bare(name))
    if record:
        return record
    own = f"evaluate does not compute {name!r}. Call {name.lower()}() in SQL or polars"
    require(name.lower() not in FUNCTIONS, own)
    _refuse_elsewhere(name, k)
    raise RankqlError(profiles.describe_name(name) or describe_unknown_metric(name))


def describe_unknown_metric(name: str) -> str:
    """The error about a name that no metric has: the most similar one, and where to find all."""
    names = {x: record.name for record in EVALUATED for x in (record.name, *record.aliases)}
    close = errors.closest(name, names)
    hint = f" Did you mean {close!r}?" if close else ""
    return f"Unknown metric {name!r}.{hint} rankql.metrics(), or `rankql metrics`, lists all"


def _refuse_elsewhere(name: str, k: str | None = None) -> None:
    """Refuse a name that only other tools have, with what comes closest."""
    others = {squash(each): row for row in OTHERS for each in row[0].split(",")}
    if row := others.get(squash(name)) or others.get(_bare(name)):
        _, tool, meaning, closest = row
        closest = re.sub(r"@10\b", f"@{k}", closest) if k else closest
        other = f"{name!r} of {tool}: {meaning}. The closest in rankql: {closest}"
        raise RankqlError(other.replace("`", ""))


def _trec_metrics(text: str) -> Iterator[Metric]:
    """The metrics that trec_eval calls so, as trec_eval defines them, whatever the conventions.

    Its command writes ndcg_cut.5,10 for ndcg_cut_5 and ndcg_cut_10.
    """
    names = _names_elsewhere("trec_eval")
    match = re.fullmatch(r"(?i)(\w+)\.(\d[\d.,]*)", text)
    if match and f"{match[1]}_".lower() in names:
        for cutoff in match[2].split(","):
            yield from _trec_metrics(f"{match[1]}_{cutoff}")
        return
    match = re.fullmatch(r"(\w*?)((?<=_)\d[\d.]*)?", text.lower())
    if match and match[1] in names and (match[2] is not None) == match[1].endswith("_"):
        record, options = names[match[1]]
        yield _metric(text, record, options, match[2])


def _set_metric(text: str) -> Iterator[Metric]:
    """The metric that ir_measures calls so, as `SetP(rel=2)`, or capped recall: `R_cap@10`."""
    names = _names_elsewhere("ir_measures")
    match = _NAME.fullmatch(text)
    name = match["name"].lower() if match else ""
    cutoffs = f"{name}@" in names
    if not match or not (cutoffs or name in names):
        return
    record, fixed = names[f"{name}@" if cutoffs else name]
    options = dict(_parse_options(text, record, match["options"] or ""))
    if (match["k"] is not None and not cutoffs) or not options.keys().isdisjoint({"k", *fixed}):
        raise RankqlError(f"{text!r}: {match['name']} has only the option rel. Use {record.name}")
    for cutoff in (match["k"] or "").split(","):
        yield _metric(text, record, {**fixed, **options}, cutoff or None)


def _metric(text: str, record: MetricRecord, options: Mapping[str, Any], cutoff: object) -> Metric:
    k, by_length = None, False
    if cutoff is not None and RECALL.name in record.options:
        options = {**options, RECALL.name: _parse_number(str(cutoff))}
    elif cutoff is not None:
        digits = str(cutoff).strip()
        by_length = _is_length(text, record, digits)
        digits = digits.removesuffix("c") if by_length else digits
        takes = record.has_cutoff or bool(record.of_shown)
        require(takes, f"{text!r}: {record.name} has no cutoff. Leave out @{digits}")
        if digits.lower() == "r":  # of each query
            _refuse_elsewhere(f"{record.name}_at_R")
        whole = re.fullmatch(r"[1-9]\d{0,15}", digits, re.ASCII) and int(digits) <= _HIGHEST
        wrong = f"k must be a whole number from 1 to {_HIGHEST}, not {digits or 'nothing'}"
        require(bool(whole), f"{text!r}: {wrong}")
        k = int(digits)
    lacks = "{k}" in record.of_shown and k is None
    require(not lacks, f"{text!r} needs a cutoff, such as {record.name}@10")
    defaults = {name: o.default for name, o in record.options.items() if not o.convention}
    record.check_options({**defaults, **options}, f"{text!r}: ")
    name, has_cutoff, _ = text.strip().partition("@")
    if has_cutoff:
        name = f"{name.strip()}@{str(cutoff).strip()}"
    elif cutoff is not None and not name.endswith(str(cutoff)):  # it is an option
        name = ""
    if by_length:
        return Metric(record, None, options, name, characters=k)
    return Metric(record, k, options, name)


def _is_length(text: str, record: MetricRecord, digits: str) -> bool:
    """Is a cutoff the length of the context in characters, such as 2000c?"""
    length = re.fullmatch(r"([1-9]\d*)([cCkK])", digits, re.ASCII)
    if not length or (record not in SPANS and length[2] in "kK"):
        return False
    names = ", ".join(each.name for each in SPANS)
    which = f"a cutoff by characters is one of {names}. Use {record.name}@10"
    require(record in SPANS, f"{text!r}: {which}")
    right = length[1] + ("000" if length[2] in "kK" else "") + "c"
    require(digits == right, f"{text!r}: write @{right} for a context of so many characters")
    return True


def _parse_options(text: str, record: MetricRecord, options: str) -> Iterator[tuple[str, Any]]:
    known = dict(record.options)
    if record.of_shown:
        known = {name: x for name, x in known.items() if f"{{{name}}}" in record.of_shown}
    if record.sums_gains:
        known[GAIN.name] = GAIN
    seen = set()
    for part in filter(None, map(str.strip, re.findall(r"(?:\[[^\]]*\]|[^,\[])+", options))):
        name, _, value = (piece.strip() for piece in part.partition("="))
        name = _OPTION_ALIASES.get(name, name)
        names = ["rel" if o == "threshold" else o for o in known]
        unknown = f"{text!r}: {record.name} has no option {name!r}"
        require(name in known, unknown + errors.did_you_mean(name, names))
        require(name not in seen and value != "", f"{text!r}: {name} must have one value")
        seen.add(name)
        setting = _parse_value(known[name], value.strip("'\""))
        known[name].check(setting, f"{text!r}: ")
        yield name, setting


def _parse_value(option: Parameter, text: str) -> Any:
    """The value of an option, in the spelling and type of its record if it is allowed."""
    if option.kind == "flag":
        return {"true": True, "false": False}.get(text.lower(), text)
    if option.choices:
        text = _VALUE_ALIASES.get(text, text)
        return next((x for x in option.choices if x.lower() == text.lower()), text)
    if option.kind != "list":
        return _parse_number(text)
    numbers = [_parse_number(part) for part in text.removeprefix("[").removesuffix("]").split(",")]
    wrong = f"{option.name} must be a list of numbers above 0, such as [0.8, 1.5], not {text}"
    require(all(0 < errors.as_number(number) < math.inf for number in numbers), wrong)
    return tuple(numbers)


def _parse_number(text: str) -> float | str:
    """The number that a text is, or the text."""
    number = errors.parse_number(text)
    if number is None:
        return text.strip()
    return int(number) if number.is_integer() else number
