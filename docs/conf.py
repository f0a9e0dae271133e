"""The site: `sphinx-build -W -b html docs site`."""

import sys
import tomllib
from pathlib import Path

from sphinx.util import logging

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import browser_page  # noqa: E402

logger = logging.getLogger(__name__)

project = "rankql"
copyright = "the rankql authors"
release = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["version"]

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "mathml",
    "chinese_search",
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
default_role = "code"
smartquotes = False
suppress_warnings = ["misc.highlighting_failure"]  # DuckDB's MAP {}
autodoc_typehints = "none"
autodoc_preserve_defaults = True
napoleon_use_param = False  # else "table" becomes a link to some attribute

# For AI assistants; written by assistants.py.
html_extra_path = ["llms.txt", "SKILL.md"]

html_theme = "furo"
html_title = "rankql"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True


# What people search for, by the page that answers it. These become index entries, which the
# search of the site lists first.
KEYWORDS = {
    "bias": ["click bias", "position bias", "propensity", "counterfactual"],
    "business": ["clicks and revenue", "correlation with clicks", "questionnaire", "robustness"],
    "by-hand": ["any shape", "dicts", "arrays", "nested lists", "map of grades", "own format"],
    "choosing-k": [
        *("cutoff", "choose k", "weights", "weighted mean", "traffic", "stratified sample"),
        "importance",
    ],
    "coming-from": [
        *(
            "trec_eval",
            "pytrec_eval",
            "ir_measures",
            "scikit-learn",
            "ranx",
            "recbole",
            "pyterrier",
        ),
        *("lightgbm", "xgboost", "catboost", "torchmetrics", "beir", "mteb", "evidently"),
        *(
            "pyterrier",
            "replay",
            "rax",
            "mlflow",
            "opensearch",
            "elasticsearch",
            "sentence-transformers",
            "rectools",
        ),
        *("cornac", "lenskit", "implicit", "azure-ai-evaluation", "haystack", "llamaindex"),
        *("keras-rs", "polars_ds", "trectools", "quepid", "pyvespa", "pyspark"),
    ],
    "compare": [
        *("compare two rankers", "a/b test", "multiple comparisons", "html report"),
        *("winsorize", "outliers", "ship it"),
        *("statistical significance", "p-value", "confidence interval", "sample size"),
    ],
    "engines": ["plain sql", "sqlite", "trino", "redshift", "databricks", "mysql", "datafusion"],
    "evaluate": [
        *("slices", "segments", "export", "latex", "trec files", "missing queries"),
        *("pandas", "dataframe"),
    ],
    "experiment": [
        *("a/b test on users", "tea-tasting", "cuped", "peeking", "sample ratio mismatch"),
        "interleaving",
    ],
    "gate": ["ci", "regression test", "pull request"],
    "implicit": [
        *("implicit feedback", "recommender", "purchases", "clicks without grades"),
        "hit rate on logs",
    ],
    "judges": ["llm as a judge", "llm labels", "kappa", "prediction-powered", "calibration"],
    "monitor": ["monitoring", "alerts", "drift", "metric dropped", "stale judgments", "cusum"],
    "metrics/cascade": ["mrr", "reciprocal rank"],
    "metrics/gain": ["ndcg", "dcg"],
    "metrics/precision": ["map", "recall", "precision", "hit rate"],
    "queries": ["group by", "sql", "polars", "macro"],
    "questions": ["ndcg above 1", "all zeros", "duplicates", "how many queries"],
    "rag": [
        *("rag", "retrieval-augmented generation", "ragas", "langchain", "llamaindex", "chunks"),
        *("evidence", "multi-hop", "forbidden", "leak"),
    ],
    "speed": ["billion rows", "speed"],
    "start": ["browser", "without python", "private data", "calculator", "ndcg by hand"],
    "textbook": [
        *("textbook", "course", "cumulative gain", "arhr", "intra-list similarity", "ils", "ips"),
        *("f-measure", "hit ratio", "mean time of first appearance", "timeliness", "dimensions"),
        *("conversion", "satisfaction", "novelty", "coverage", "weighted annotators"),
    ],
    "trust": [
        *("check", "explain", "unjudged", "unjudged items", "missing judgments"),
        *("funnel", "pipeline", "reranker", "stages", "retrieval loss"),
        *("ties", "tie", "negative grades", "conventions", "trulens", "gbrain", "memorybench"),
        *("reproduce", "reproducible", "repeat a result", "manifest", "checksum", "provenance"),
    ],
    "audit": [
        *("published", "paper", "leaderboard", "mcnemar", "clopper", "rounding"),
        *("reported number", "sample size"),
    ],
    "zh/audit": ["论文", "公布的数字", "多少查询"],
    "zh/by-hand": ["字典", "数组", "嵌套列表"],
    "zh/choosing-k": ["截断"],
    "zh/coming-from": ["迁移", "预设"],
    "zh/compare": ["置信区间", "显著性", "显著"],
    "zh/errors": ["报错"],
    "zh/gate": ["门禁", "限度", "退出码"],
    "zh/implicit": ["隐式反馈", "点击", "购买", "留一法", "TopN", "推荐列表"],
    "zh/judges": ["大语言模型", "大模型标注"],
    "zh/labels": ["标签", "标注员", "训练集", "测试集"],
    "zh/metrics": [
        *("累计增益", "折损", "指数增益", "精确率", "召回率", "召回", "命中率", "平均精度均值"),
        *("平均倒数排名", "期望倒数排名", "期望互惠排名", "持久性", "逆序", "逆序对", "重复商品"),
        *("均方根误差", "平均绝对误差", "覆盖率", "新颖性", "多样性", "列表内相似度"),
    ],
    "zh/monitor": ["监控", "报警"],
    "zh/queries": ["聚合函数", "临时宏", "视图"],
    "zh/rag": ["检索", "片段"],
    "zh/textbook": [
        *("归一化折损累积增益", "归一化折损累计增益", "标准化折现累积增益", "折损累积增益"),
        *("折扣累计收益", "折现累积增益", "折现", "折扣", "标准化", "归一化", "精确度", "准确率"),
        *("查准率", "查全率", "离线实验", "在线实验", "AB测试", "A/B 测试", "用户调查", "调查问卷"),
        *("显式反馈", "停留时间", "购买率", "转化率", "透明度", "因果推断"),
        *("短视频", "电商", "好评", "梯度", "惊喜度", "信任度", "实时性"),
        *("xx@N", "均方误差", "平均平均精度", "平均命中排序倒数", "鲁棒性", "敏感"),
        *("对数", "不连续", "点击率"),
    ],
    "zh/trust": ["未标注", "召回", "粗排", "精排", "约定", "同分", "未定义"],
}


# Pages that became sections of others: their old addresses lead there.
MOVED = {
    "beyond": "metrics/diversity.html",
    "conventions": "trust.html#conventions",
    "does-your-tool": "trust.html#does-your-tool-do-this",
    "weights": "choosing-k.html#weights",
    "verify": "trust.html#can-the-result-be-repeated",
    "zh/conventions": "trust.html",
    "browser": "start.html#without-installing-anything",
    "one-truth": "rag.html#one-truth-for-every-chunker",
    "zh/one-truth": "rag.html",
    "funnel": "trust.html#which-stage-loses-quality",
    "metrics/interleaving": "../experiment.html#interleaving",
    "notebooks": "queries.html#examples",
    "pandas": "evaluate.html#pandas",
    "scale": "speed.html#very-large-data-on-spark",
    "significance": "compare.html#in-plain-words",
    "unjudged": "trust.html#unjudged-items",
}


def add_redirects(app, error):
    """Write a page that leads on for every page that moved."""
    if error is None and app.builder.format == "html":
        for page, target in MOVED.items():
            text = f'<!doctype html><meta http-equiv="refresh" content="0; url={target}">\n'
            Path(app.outdir, f"{page}.html").write_text(text)


def add_keywords(app, page, source):
    """Put the keywords of a page below its title, as main entries of the index."""
    if page in KEYWORDS:
        title, _, text = source[0].partition("\n")
        entries = ", ".join(f"! {keyword}" for keyword in KEYWORDS[page])
        source[0] = f"{title}\n\n```{{index}} {entries}\n```\n{text}"


def set_language(app, page, template, context, tree):
    """Mark the Chinese pages as Chinese, so that browsers choose the right glyphs."""
    if page.startswith("zh/"):
        context["language"] = "zh-CN"


def add_browser_page(app, error):
    """Build the page for the browser into the site. Without npm it has no evaluation of files."""
    if error is not None or app.builder.format != "html":
        return
    if missing := browser_page.build_folder(Path(app.outdir) / "browser"):
        logger.info(f"browser/index.html cannot evaluate files: {missing}")


def setup(app):
    """Register the hooks."""
    app.connect("build-finished", add_browser_page)
    app.connect("build-finished", add_redirects)
    app.connect("source-read", add_keywords)
    app.connect("html-page-context", set_language)
