"""A comparison as a file: an HTML page, Markdown, JSON, or its table."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from rankql import text as show
from rankql.errors import RankqlError, require_package
from rankql.evaluation.writing import atomic_path
from rankql.output.report_source import find_limits
from rankql.output.report_tables import (
    list_findings,
    tabulate_all_pairs,
    tabulate_differences,
    tabulate_means,
)
from rankql.output.style import CONFIG

if TYPE_CHECKING:
    from rankql.decisions.comparison import Comparison
    from rankql.output.report_elements import Section

ENDINGS = (".html", ".md", ".csv", ".json", ".parquet")
# Of more sentences the rest is folded away.
SENTENCES = 8


def save(comparison: Comparison, path: Path, title: str | None, date: str | None) -> None:
    """Write a comparison to a file, in the format of its suffix."""
    kind = path.suffix.lower()
    if kind not in ENDINGS:
        raise RankqlError(f"{str(path)!r} must end in one of: {', '.join(ENDINGS)}")
    text = {
        ".html": lambda: render_page(comparison, title, date),
        ".md": lambda: _add_limits(comparison).to_markdown() + "\n",
        ".csv": lambda: show.format_csv(comparison.table),
        ".json": lambda: comparison.to_json() + "\n",
    }
    with atomic_path(path) as beside:
        if kind in text:
            beside.write_text(text[kind](), encoding="utf-8", newline="")
        else:
            comparison.table.write_parquet(beside)


def _add_limits(comparison: Comparison) -> Comparison:
    """Add the limits of the numbers to the notes of the comparison."""
    limits = find_limits(comparison)
    notes = [] if isinstance(limits, str) else limits.notes
    return replace(comparison, notes=[*comparison.notes, *notes])


def render_page(comparison: Comparison, title: str | None = None, date: str | None = None) -> str:
    """Render the report as HTML, the same on every day but for the date."""
    for package in ("altair", "vl_convert"):
        require_package(package, "report", "report")
    import jinja2

    sections = _draw_sections(comparison)
    scripts = [_bundle_vega(), _read("report.js")]
    specs = {figure.id: figure.spec for section in sections for figure in section.figures}
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}
    today = datetime.now(UTC).date().isoformat()
    return environment.from_string(_read("report.html.j2")).render(
        title=_default_title(comparison) if title is None else title,
        facts=[*_count_inputs(comparison), date or today, _format_version()],
        findings=list_findings(comparison),
        most=SENTENCES,
        tables=[*tabulate_means(comparison), *tabulate_differences(comparison)],
        all_pairs=tabulate_all_pairs(comparison),
        sections=sections,
        remarks=[
            ("Settings", _format_settings(comparison)),
            *(remark.partition(": ")[::2] for remark in comparison.remarks()),
        ],
        sql=comparison.result.sql.strip(),
        scripts=scripts,
        hashes=[_hash_script(script) for script in scripts],
        charts={"config": CONFIG, "specs": specs},
    )


def _draw_sections(comparison: Comparison) -> list[Section]:
    """Make the sections that the comparison has something for."""
    import altair as alt

    from rankql.output.report_sections import SECTIONS

    with alt.theme.enable("none"):  # not the theme of the user
        return [section for make in SECTIONS if (section := make(comparison))]


def _read(name: str) -> str:
    return (files("rankql.output") / name).read_text(encoding="utf-8")


@cache
def _bundle_vega() -> str:
    """Bundle Vega, Vega-Lite and vega-embed, which takes a few seconds."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    return bundle


def _hash_script(script: str) -> str:
    """Hash a script, for the Content-Security-Policy to allow it."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _default_title(comparison: Comparison) -> str:
    base = comparison.settings.baseline
    names = [name for name in comparison.systems if name != base]
    if len(comparison.systems) == 1:
        return f"Evaluation of {comparison.systems[0]}"
    listed = show.join_words(names) if len(names) <= 3 else f"{len(names)} systems"
    return f"{listed} compared" if base is None else f"{listed} against {base}"


def _count_inputs(comparison: Comparison) -> Iterator[str]:
    result = comparison.result
    yield show.format_queries(result.frame()[result.meta["query"]].n_unique())
    yield show.format_count(len(comparison.systems), "system")


def _format_version() -> str:
    try:
        return f"rankql {version('rankql')}"
    except PackageNotFoundError:
        return "rankql"


def _format_settings(comparison: Comparison) -> str:
    settings = asdict(comparison.settings).items()
    return ", ".join(f"{name}={value}" for name, value in settings if value is not None)
