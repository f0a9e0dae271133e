"""Build the page for the browser, from docs/browser and packages of the npm registry.

    python docs/browser_page.py site/browser            # a folder, for a web server
    python docs/browser_page.py --one-file rankql.html  # one file, which opens without a server

Sphinx builds the folder as a part of the site. The packages are brought once by `npm pack`, checked
against the digests below, and kept in .browser_cache. Without npm the page has nDCG by hand only.
"""

import argparse
import base64
import gzip
import hashlib
import json
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from rankql.core.base.column_names import DISTANCES, MEASURES, ROLES
from rankql.core.metrics import macros
from rankql.core.metrics.all_metrics import EVALUATED
from rankql.core.tables.request import DEFAULT_METRICS

SOURCES = Path(__file__).parent / "browser"
CACHE = SOURCES.parents[1] / ".browser_cache"

# The digest of each package as npm writes it, and the files that the page needs.
PACKAGES = {
    "@duckdb/duckdb-wasm@1.32.0": (
        "IewXTNYEjsZCPE9weUWgtjGxUlMRo7qhX0GF6tq/KjK8bnY+RAl4cyUdYUfcdzbyb4b9ZxPC+FOsCcxgaKFWMg==",
        "dist/duckdb-browser.mjs dist/duckdb-browser-eh.worker.js dist/duckdb-eh.wasm",
    ),
    "apache-arrow@17.0.0": (
        "X0p7auzdnGuhYMVKYINdQssS4EcKec9TCXyez/qtJt32DrIMGbzqiaMiQ0X6fQlQpw8Fl0Qygcv4dfRAr5Gu9Q==",
        "Arrow.es2015.min.js",
    ),
    "parquet-wasm@0.8.0": (
        "AunZLpYYHPQCzDzeIKOO3e/p3Uqo8+DGyfEVofhlIIn/bk3EuOFJkDXlswSKDDSWOaZRv6bHrob/XynUDKmceg==",
        "esm/parquet_wasm.js esm/parquet_wasm_bg.wasm",
    ),
}


class Unavailable(Exception):
    """The packages cannot be brought: the page has no evaluation of files."""


def read_macros():
    """The macros, and those that read the columns of a file."""
    return macros.read_sql() + (macros.sql_folder() / "input.sql").read_text("utf-8")


def build_folder(folder: Path) -> str:
    """Write the page and what it loads into a folder; return what is missing, or ''."""
    vendored, missing = _vendored_or_reason()
    if folder.exists():
        shutil.rmtree(folder)
    (folder / "vendor").mkdir(parents=True)
    for path in SOURCES.iterdir():
        if not path.name.startswith("one-file"):
            shutil.copy(path, folder)
    for name, data in vendored.items():
        (folder / "vendor" / name).write_bytes(data)
    (folder / "rankql.sql").write_text(read_macros(), "utf-8")
    (folder / "names.js").write_text(names_module(bool(vendored)), "utf-8")
    return missing


def names_module(has_engine: bool) -> str:
    """What Python and the page share: names of columns, metrics and their options."""
    families = map(macros.read_statements, ("gain", "precision", "cascade"))
    offered = {name for family in families for name in family} & {*macros.read_comments()}
    records = [
        {
            "name": record.name,
            "function": record.function,
            "aliases": [record.function, *record.aliases],
            "options": [
                {"name": p.name, "kind": p.kind, "choices": p.choices, "required": p.required}
                for p in record.options.values()
                if p.kind != "list"
            ],
            "gain": record.sums_gains,
            "lowest": 0 if record.sums_gains else record.lowest,
            "highest": record.highest,
        }
        for record in EVALUATED
        if record.function in offered and record.better != "lower" and record.level == "ranking"
    ]
    constants = {
        "HAS_ENGINE": has_engine,
        "ROLES": ROLES,
        "DISTANCES": [x + name for x in ("", *MEASURES) for name in DISTANCES],
        "DEFAULT_METRICS": DEFAULT_METRICS,
        "METRICS": records,
    }
    lines = [f"export const {name} = {json.dumps(value)};" for name, value in constants.items()]
    return "// Written by docs/browser_page.py from the registry of rankql.\n" + "\n".join(lines)


# Packages


def bring_packages() -> dict[str, bytes]:
    """The files of the packages, by name."""
    files = {}
    for package, (digest, names) in PACKAGES.items():
        with tarfile.open(_fetch(package, digest)) as archive:
            for name in names.split():
                member = archive.extractfile(f"package/{name}")
                assert member, f"{package} has no {name}"
                files[Path(name).name] = member.read()
    # The names of modules become addresses, and Arrow a module.
    arrow = files.pop("Arrow.es2015.min.js")
    files["arrow.mjs"] = (
        b"const exports = {}, module = {};\n" + arrow + b"\nexport default exports;"
    )
    duckdb, imports = re.subn(
        rb'import\*as (\w+) from"apache-arrow"', rb'import \1 from"./arrow.mjs"',
        files["duckdb-browser.mjs"],
    )  # fmt: skip
    assert imports == 2
    files["duckdb-browser.mjs"] = duckdb
    return {name: re.sub(rb"\n//# sourceMappingURL=\S*", b"", data) if name.endswith("js") else data
            for name, data in files.items()}  # fmt: skip


def _vendored_or_reason() -> tuple[dict[str, bytes], str]:
    try:
        return bring_packages(), ""
    except Unavailable as reason:
        return {}, str(reason)


def _fetch(package: str, digest: str) -> Path:
    """The archive of a package, checked."""
    scoped, _, version = package.rpartition("@")
    path = CACHE / f"{scoped.removeprefix('@').replace('/', '-')}-{version}.tgz"
    if not path.exists():
        _pack(package)
    found = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    if found != digest:
        path.unlink()
        raise SystemExit(f"{package} has another digest than expected: {found}. It is not used")
    return path


def _pack(package: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("npm is not installed")
    CACHE.mkdir(exist_ok=True)
    # Moved when complete, because two builds may run at once.
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        command = [npm, "pack", package, "--silent", "--pack-destination", folder]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise Unavailable(f"npm pack {package} failed: {done.stderr.strip()[-300:]}")
        for path in Path(folder).glob("*.tgz"):
            path.replace(CACHE / path.name)


# One file


def build_one_file(path: Path) -> None:
    """Write the page as one file. Modules and the worker become blob: addresses when it opens."""
    vendored = bring_packages()
    modules = [path for path in SOURCES.glob("*.js") if path.name != "worker.js"]
    texts = {path.name: path.read_text("utf-8") for path in modules}
    texts["names.js"] = names_module(True)
    texts["assets.js"] = texts.pop("one-file-assets.js")
    worker = (SOURCES / "worker.js").read_text("utf-8")
    worker = re.sub(r"^importScripts\(.*\n", "", worker, flags=re.MULTILINE)
    vendored["worker.js"] = worker.encode() + vendored.pop("duckdb-browser-eh.worker.js")
    vendored["rankql.sql"] = read_macros().encode()
    start = texts.pop("one-file.js")
    style = (SOURCES / "style.css").read_text("utf-8")
    icon = base64.b64encode((SOURCES / "icon.svg").read_bytes()).decode()

    policy = (
        f"default-src 'none'; script-src {_hash(start)} blob: 'wasm-unsafe-eval'; "
        f"style-src {_hash(style)}; img-src data:; worker-src blob:; connect-src 'none'; "
        "object-src 'none'; base-uri 'none'; form-action 'none'"
    )
    assets = "\n".join(
        f'<script type="text/plain" data-asset="{name}">{_packed(data)}</script>'
        for name, data in vendored.items()
    )
    scripts = json.dumps(texts).replace("<", "\\u003c")
    page = (SOURCES / "index.html").read_text("utf-8")
    page = re.sub(r'(Security-Policy" content=)"[^"]*"', rf'\1"{policy}"', page)
    page = page.replace("icon.svg", f"data:image/svg+xml;base64,{icon}")
    page = page.replace('<link rel="stylesheet" href="style.css">', f"<style>{style}</style>")
    page = re.sub(r'<script type="module".*\n', "", page)
    page = re.sub(r' *<a href="../index.html".*\n', "", page)
    page = page.replace(
        "</body>",
        f'{assets}\n<script type="application/json" id="modules">{scripts}</script>\n'
        f"<script>{start}</script>\n</body>",
    )
    path.write_text(page, "utf-8")


def _packed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, 6, mtime=0)).decode()


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the page for the browser.")
    parser.add_argument("--one-file", action="store_true", help="write one HTML file")
    parser.add_argument("path", type=Path, help="the folder, or the file")
    arguments = parser.parse_args()
    if arguments.one_file:
        try:
            build_one_file(arguments.path)
        except Unavailable as reason:
            raise SystemExit(f"Cannot build the file: {reason}. Install npm") from None
    elif missing := build_folder(arguments.path):
        print(f"Built without the evaluation of files: {missing}. Install npm to add it")


if __name__ == "__main__":
    main()
