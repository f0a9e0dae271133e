"""The tables of tools in docs/coming-from.md and its Chinese twin, from records and observed rows.

A cell has a convention only if a row shows a metric that reads it; a tool that nobody has run here
has what its record says.
"""

import json
import re
from functools import cache

import doc_tables
from rankql.core.metrics.conventions import PROFILES
from rankql.core.metrics.parse import OTHERS
from rankql.core.metrics.profiles import TOOLS
from support.paths import ROOT

PAGES = {"en": ROOT / "docs" / "coming-from.md", "zh": ROOT / "docs" / "zh" / "coming-from.md"}
HEADS = {
    "en": "tool | gain of nDCG | ideal ranking | AP@k divides by | P@k divides by | equal scores | "
          "no relevant item | judged, not in the run | in rankql",
    "zh": "工具 | nDCG 的增益 | 理想排序 | AP@k 除以 | P@k 除以 | 同分 | 没有相关物品 | "
          "有标注，排序结果里没有 | 在 rankql 里",
}  # fmt: skip
# By option: the metrics whose rows show it, or the case; and its values in both languages.
OPTIONS = {
    "gain": ("nDCG", {"linear": ("the grade", "等级"), "exp2": ("2^grade - 1", "2^等级 - 1"),
                      "binary": ("1 or 0", "1 或 0")}),
    "ideal": ("nDCG", {"judged": ("judged items", "标注过的物品"),
                       "retrieved": ("retrieved items", "检索到的物品")}),
    "ap_denominator": ("AP", {"min": ("min(k, R)", "min(k, R)"), "R": ("R", "R"), "k": ("k", "k"),
                              "found": ("relevant items found", "找到的相关物品数")}),
    "precision_denominator": ("P", {"k": ("k", "k"), "min": ("min(k, R)", "min(k, R)"),
                                    "retrieved": ("min(k, retrieved)", "min(k, 检索到的个数)")}),
    "ties": ("equal", {"item": ("item descending", "按物品降序"),
                       "worst": ("lowest grade first", "等级低的在前"),
                       "order": ("order of the rows", "行的顺序"),
                       "expected": ("mean over all orders", "所有顺序的平均")}),
    "undefined": ("empty", {"skip": ("left out", "不计入"), "zero": ("0", "0"), "one": ("1", "1"),
                            "drop": ("query left out", "不计该查询"),
                            "error": ("refused", "报错")}),
    "missing": ("missing", {"zero": ("0", "0"), "skip": ("left out", "不计入"),
                            "error": ("refused", "报错")}),
}  # fmt: skip
NAMES = {"NDCG": "nDCG", "ndcg": "nDCG", "ndcg_cut_10": "nDCG", "RetrievalNormalizedDCG": "nDCG",
         "MAP": "AP", "map": "AP", "map_cut_2": "AP", "RetrievalMAP": "AP", "pre": "P",
         "PrecisionAt": "P", "precision": "P", "P_5": "P"}  # fmt: skip


@cache
def shown(name):
    """The metrics and cases that the rows of a tool show."""
    found = set()
    for row in map(json.loads, (ROOT / "tests/cases/observed.jsonl").read_text().splitlines()):
        if row["tool"] == name:
            stem = re.split("[@:(]", row["metric"])[0]
            found |= {NAMES.get(stem, stem), *re.findall("equal|empty|missing", row["case"])}
    return found


def cell(name, option, language):
    tool = TOOLS[name]
    needs, words = OPTIONS[option]
    known = shown(name)
    if known and needs not in known:
        return ""
    value = tool.options.get(option)
    if value is None and (tool.call or not known):
        return ""
    value = value or getattr(PROFILES[name], option)
    side = ("en", "zh").index(language)
    if not isinstance(value, dict):
        text = words[value][side]
        more = ("scores of 32 bits", "得分为 32 位")[side]
        if option == "ties":
            some = (", some metrics refused", ", 部分指标报错")[side]
            text += f", {more}" if tool.options.get("float32") else ""
            text += some if "tied" in tool.limits else ""
        return text
    parts = [f"`{key}` {words[x][side]}" for key, x in value.items() if key != "*"]
    other = ("others", "其他")[side]
    return ", ".join([*parts, f"{other} {words[value['*']][side]}"])


def table(language):
    head = HEADS[language]
    lines = [f"| {head} |", "|" + "---|" * (head.count("|") + 1)]
    for name, tool in TOOLS.items():
        if name == "rankql":
            continue
        call = tool.call.replace("|", "\\|") if tool.call else f'conventions="{name}"'
        version = tool.version if language == "en" else tool.version.replace("source", "源码")
        cells = [version, *(cell(name, option, language) for option in OPTIONS), f"`{call}`"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def with_table(language):
    """The page with its table as it is now."""
    text = doc_tables.with_table(PAGES[language], "tools", table(language))
    return text if language == "en" else doc_tables.aligned(text)


def with_names():
    """docs/coming-from.md with its table of names that mean something else in other tools."""
    lines = ["| name | tool | what it is there | the closest in rankql |", "|---|---|---|---|"]
    for names, *rest in OTHERS:
        coded = ", ".join(f"`{name.strip()}`" for name in names.split(","))
        lines.append(f"| {' | '.join([coded, *rest])} |")
    return doc_tables.with_table(PAGES["en"], "other names", "\n".join(lines))
