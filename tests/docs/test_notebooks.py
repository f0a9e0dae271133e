"""The notebooks run from a clean kernel or process, and show what is committed.

`python tests/generate.py notebook` runs the Jupyter notebook and writes its outputs anew.
"""

import contextlib
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import time

import pytest

from doc_blocks import cells
from notebooks import EXAMPLES, JUPYTER, MARIMO, PATH, executed, nbformat
from support.components import optional
from support.screens import SCREENS

sync_api = optional("playwright.sync_api")
pytestmark = pytest.mark.notebooks


def shown(notebook):
    """What the cells show: of what kinds it is, and the cells and words of its text."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = {"text/plain": output.get("text", ""), **output.get("data", {})}
            yield sorted(data), cells(data.get("text/markdown", data["text/plain"]))


def test_jupyter(tmp_path):
    committed = nbformat.read(JUPYTER, as_version=4)
    nbformat.validate(committed)
    assert [*shown(executed(tmp_path))] == [*shown(committed)]
    text = JUPYTER.read_text()
    assert text.count('"image/png": "') == 2
    machine = (str(EXAMPLES), sys.prefix, tempfile.gettempdir(), "iopub")
    assert not [word for word in machine if word in text]


def test_marimo_as_a_script(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    spec = importlib.util.spec_from_file_location("explore", MARIMO)
    notebook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notebook)
    with contextlib.chdir(tmp_path):
        _, defined = notebook.app.run()
    # The same as in the other notebook.
    means = {row["system"]: row["mean"] for row in defined["means"].to_dicts()
             if row["kind"] == "together" and row["metric"] == "nDCG"}  # fmt: skip
    assert means == {"new": pytest.approx(0.7201, abs=5e-5), "old": pytest.approx(0.6448, abs=5e-5)}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The address of the notebook, served from a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "marimo", "-q", "run", MARIMO, "--headless", "--no-token"]
    folder = tmp_path_factory.mktemp("served")
    environment = {**os.environ, "PYTHONPATH": PATH}
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [*command, "--port", str(port)], cwd=folder, env=environment, stdout=log, stderr=log
        )
        for _ in range(600):
            with socket.socket() as door:
                if door.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None, (folder / "log").read_text()
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
        server.terminate()
        server.wait(30)


def redrawn(page, chart, before):
    """Is it another picture, once it stands? While it is drawn there is none."""
    for _ in range(60):
        with contextlib.suppress(sync_api.Error):
            if chart.screenshot() != before:
                return True
        page.wait_for_timeout(500)
    return False


def test_marimo_redraws(browser, served):
    """On a phone, and nothing is wider than that screen or a wide one."""
    page = browser.new_page(**SCREENS["phone"])
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: message.type == "error" and errors.append(message.text))
    page.goto(served)
    chart = page.locator(".vega-embed canvas, .vega-embed svg").first
    chart.wait_for(timeout=120_000)
    page.get_by_text("+0.075 on 398 queries").wait_for(timeout=60_000)
    drawn = chart.screenshot()
    page.get_by_role("slider").first.press("ArrowLeft")
    page.get_by_text("nDCG@9 of new").wait_for(timeout=60_000)
    page.get_by_label("queries").select_option("part number")
    page.get_by_text("on 55 queries").first.wait_for(timeout=60_000)
    assert redrawn(page, chart, drawn)
    fits = "box => box.scrollWidth <= box.clientWidth"
    for screen in ("phone", "wide"):
        page.set_viewport_size(SCREENS[screen]["viewport"])
        for box in ("html", ".chart-wrapper"):
            assert page.locator(box).first.evaluate(fits), (screen, box)
    assert errors == []
    page.context.close()
