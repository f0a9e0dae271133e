"""The pictures of the report: light and dark, wide and on a phone, from the simulated data.

pip install '.[report]' playwright pillow, and Chromium, then: python examples/report_picture.py
"""

from __future__ import annotations

import io
import itertools
import shutil
import tempfile
from pathlib import Path

import duckdb
import simulate
from PIL import Image
from playwright.sync_api import sync_playwright

import rankql

IMAGES = Path(__file__).parents[1] / "docs" / "images"
SCREENS = {  # what the name of the picture ends with, and how it is taken
    "": {"viewport": {"width": 1280, "height": 800}},
    "-phone": {"viewport": {"width": 390, "height": 640}, "device_scale_factor": 2},
}


def write_report(folder: Path) -> Path:
    """Compare the two simulated rankers, and write the report."""
    simulate.search(folder)
    con = duckdb.connect()
    rankql.register(con)
    judged = con.sql(f"""
        SELECT query, item, consensus(rel, how := 'majority', ties := 'low') AS rel
        FROM '{folder}/judgments.parquet' GROUP BY query, item
    """).pl()
    comparison = rankql.compare(
        {name: folder / f"{name}.parquet" for name in ("old", "new")}, judged,
        ["nDCG@10", "AP", "RR@10", "P@10"], baseline="old", by="kind",
        attributes=folder / "queries.parquet",
    )  # fmt: skip
    comparison.save(
        folder / "report.html", title="New search against old search", date="2026-01-31"
    )
    return folder / "report.html"


def take_pictures(report: Path, images: Path) -> None:
    """Take a picture of the first screen in each colour scheme."""
    browser_path = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for scheme, screen in itertools.product(("light", "dark"), SCREENS):
            page = browser.new_page(**SCREENS[screen], color_scheme=scheme)
            page.goto(report.as_uri())
            page.wait_for_selector("html[data-drawn]")
            picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            path = images / f"report-{scheme}{screen}.png"
            picture.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
            print(f"Wrote {path}")
        browser.close()


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        take_pictures(write_report(Path(folder)), IMAGES)
