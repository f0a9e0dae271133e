"""The sections of tools in docs/coming-from.md and its Chinese twin, from records and rows.

A section has a convention only if a row shows a metric that reads it; a tool that nobody has run
here has what its record says.
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
# What is said of each option.
SAYS = {
    "gain": ("gain of nDCG: {}", "nDCG 的增益：{}"),
    "ideal": ("ideal ranking: {}", "理想排序：{}"),
    "ap_denominator": ("AP@k divided by {}", "AP@k 的除数：{}"),
    "precision_denominator": ("P@k divided by {}", "P@k 的除数：{}"),
    "ties": ("equal scores: {}", "同分：{}"),
    "undefined": ("no relevant item: {}", "没有相关物品：{}"),
    "missing": ("judged, not in the run: {}", "有标注，排序结果里没有：{}"),
}
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
            some = (", some metrics refused", "，部分指标报错")[side]
            text += (", ", "，")[side] + more if tool.options.get("float32") else ""
            text += some if "tied" in tool.limits else ""
        return text
    parts = [f"`{key}` {words[x][side]}" for key, x in value.items() if key != "*"]
    other = ("others", "其他")[side]
    return (", ", "、")[side].join([*parts, f"{other} {words[value['*']][side]}"])


# The words between the names and calls of records, in Chinese.
PHRASES = {
    ", where each group has one id": "，每组只有一个 ID",
    ", the mean of its random orders": "，即它的随机顺序的均值",
    ", with the run sorted by id": "，排序结果先按 id 排序",
    ", with the discounts log2(rank), at least 1": "，折损是 log2(名次)，至少为 1",
    ", and ties='order' for its nDCG": "，它的 nDCG 用 ties='order'",
    " for IDBased": " 用于 IDBased",
    "a list, such as ": "写成列表，如 ",
    "none, as ": "没有，因为 ",
    " reads one run": " 只读一份排序结果",
    " times ln(2) over that number": " 乘以 ln(2) 再除以该数",
    " times the catalogue": " 乘以物品总数",
    " as your own metric": "，作为自己的指标",
    ", your own": "，作为自己的指标",
    "; in ranx, ": "；在 ranx 里是 ",
    " in the summary": "（汇总里的列）",
    " in SQL, without GROUP BY": "（SQL），不写 GROUP BY",
    " in SQL, of ": "（SQL），用 ",
    " in SQL, or ": "（SQL），或 ",
    " minus ": " 减 ",
    "1 minus ": "1 减 ",
    " and ": " 和 ",
    " or ": " 或 ",
    ", ": "、",
    ": ": "：",
}


def in_chinese(text):
    """A text of a record, with the words outside code in Chinese."""
    parts = text.split("`")
    for english, chinese in PHRASES.items():
        parts[::2] = [part.replace(english, chinese) for part in parts[::2]]
    return "`".join(parts)


# A call, in words on what it is for.
CALL = re.compile(r"evaluate\(.*?\)(?=,? (?:with|where|and|for|the)\b|$)")


def sentence(name, language):
    """A tool's profile with what it does otherwise than rankql, or its call."""
    tool, side = TOOLS[name], ("en", "zh").index(language)
    stop, semicolon, colon = ((".", "; ", ": "), ("。", "；", "："))[side]
    version = tool.version.replace("source", "源码") if side else tool.version
    said = {option: cell(name, option, language) for option in OPTIONS if not tool.call}
    differs = [SAYS[x][side].format(y) for x, y in said.items() if y not in ("", default(x, side))]
    how = CALL.sub(r"`\g<0>`", tool.call) or f'`conventions="{name}"`'
    how = in_chinese(how) if side else how
    return f"{version}{colon}{semicolon.join([how, *differs])}{stop}"


CHINESE = {"论文": "papers", "脚本": "scripts"}


def default(option, side):
    """The words for what rankql does."""
    return OPTIONS[option][1][getattr(PROFILES["rankql"], option)][side]


def keys(title):
    """The tools of a section: of TOOLS those whose version begins with a word of its title."""
    words = [CHINESE.get(word, word) for word in re.split(", | and | ?与 ?", title)]
    named = {
        key for key, tool in TOOLS.items() for x in words if f"{tool.version} ".startswith(f"{x} ")
    }
    others = {tool for row in OTHERS for tool in row[1].split(", ")}
    return named, {
        x for x in others for word in words if f"{x} ".startswith((f"{word} ", f"{word.lower()} "))
    }


def generated(title, language):
    """Sentences of the tools of a section, then names that are others in rankql."""
    named, others = keys(title)
    yield from (sentence(key, language) for key in TOOLS if key in named)
    rows = []
    for names, tools, _, closest in OTHERS:
        if {*tools.split(", ")} & others:
            coded = ", ".join(f"`{name.strip()}`" for name in names.split(","))
            rows.append(f"- {coded}: {closest}")
    text = "\n".join(rows)
    yield from [text if language == "en" else in_chinese(text)] if rows else []


# A paragraph that `generated` wrote, which no other text of a section begins like.
WRITTEN = re.compile(r"^(- `[^\n]*`(: |：)|[^\n`]+(:\s|：)`(conventions=|evaluate\())")
SECTION = re.compile(r"^### (.+?)\n\n(.*?)(?=^##)", re.DOTALL | re.MULTILINE)


def with_sections(language):
    """The page with the sentences and names of each tool as they are now."""

    def fill(found):
        kept = [x for x in found[2].rstrip("\n").split("\n\n") if x and not WRITTEN.match(x)]
        return "\n\n".join([f"### {found[1]}", *generated(found[1], language), *kept]) + "\n\n"

    text = SECTION.sub(fill, PAGES[language].read_text("utf-8"))
    return text if language == "en" else doc_tables.aligned(text)
