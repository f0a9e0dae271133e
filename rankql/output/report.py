"""A comparison as an HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rankql.decisions.gate import gate_comparison
from rankql.decisions.gate_limits import Limits
from rankql.errors import require_package
from rankql.layout import Block
from rankql.output.page import bundle_vega, read_file, render_page
from rankql.output.specs import CONFIG
from rankql.text import format_count, format_html, format_queries, join_words, show_controls
from rankql.versions import find_version

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison


def render_report(
    comparison: Comparison,
    title: str | None = None,
    date: str | None = None,
    texts: Mapping[str, Any] | None = None,
    max_drop: Limits | None = None,
) -> str:
    """Render the report as HTML, the same on every day except for the date."""
    for package in ("altair", "vl_convert"):
        require_package(package, "report", "report")
    import jinja2
    import markupsafe

    from rankql.output.report_elements import Section
    from rankql.output.report_sections import SECTIONS
    from rankql.output.report_source import Texts, open_source

    with open_source(comparison, Texts(texts)) as source:
        sections = [section for make in SECTIONS if (section := make(source))]
    if max_drop:
        gate = gate_comparison(comparison, max_drop)
        sections.insert(0, Section("gate", gate.title, gate._rendered()))
    specs = {figure.id: figure.spec for section in sections for figure in section.figures}
    environment = jinja2.Environment(
        autoescape=True,
        finalize=show_controls,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )

    def format_block(block: Block, **options: Any) -> markupsafe.Markup:
        block = block.cut()
        return markupsafe.Markup(format_html(block.rows, block.right, block.title, **options))

    def link(words: str) -> str:
        return str(jinja2.utils.urlize(show_controls(words), rel="noreferrer"))

    environment.filters["table"] = format_block
    environment.filters["linked_table"] = lambda block: format_block(block, escape=link)
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}
    queries = comparison.result.frame()[comparison.result.meta.query]
    counts = [format_queries(queries.n_unique()), format_count(len(comparison.systems), "system")]
    today = datetime.now(UTC).date().isoformat()
    facts = [*counts, date or today, f"rankql {find_version('rankql')}"]
    settings = asdict(comparison.settings).items()
    title = _default_title(comparison) if title is None else title
    body = environment.from_string(read_file("report.html.j2")).render(
        title=title,
        facts=facts,
        verdict=f"{comparison.title}.",
        sections=sections,
        remarks=[
            ("Settings", ", ".join(f"{k}={v}" for k, v in settings if v is not None)),
            *(remark.partition(": ")[::2] for remark in comparison.remarks()),
        ],
        sql=comparison.result.sql.strip(),
        charts={"config": CONFIG, "specs": specs},
    )
    return render_page(title, body, [bundle_vega(), read_file("report.js")])


def _default_title(comparison: Comparison) -> str:
    base = comparison.settings.baseline
    names = [name for name in comparison.systems if name != base]
    if len(comparison.systems) == 1:
        return f"Evaluation of {comparison.systems[0]}"
    listed = join_words(names) if len(names) <= 3 else f"{len(names)} systems"
    return f"{listed} compared" if base is None else f"{listed} against {base}"
