"""Manifests: what a saved result was computed from, within its file, for `verify`.

A page has it as a script of type application/json, Markdown as a comment, JSON as its last key, and
Parquet as metadata. Its digest is that of the manifest and of the rest of the file, but not of the
rows of Parquet.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from rankql.core.base.errors import RankqlError, require
from rankql.core.base.writing import PARQUET

# What a manifest is before, and what is around it.
_PLACES = {
    ".html": ("</body>", '\n<script type="application/json" id="rankql-manifest">', "</script>\n"),
    ".md": ("\n", "\n\n<!-- rankql-manifest ", " -->"),
    ".json": ("}", ',\n  "rankql_manifest": ', "\n"),
}
MANIFEST_SUFFIXES = (*_PLACES, *PARQUET)
# Markdown and pages show the numbers, so their manifest has this alone.
_SHORT = ("query", "changed", "tables", "call", "version", "systems", "hash", "hashes")
# Numbers that differ by less are the same.
NOISE = 1e-12
# The length of the hash of the numbers of a metric.
HASH_LENGTH = 4


def embed_manifest(text: str, suffix: str, manifest: Mapping[str, Any]) -> str:
    """The text of a file with a manifest at its end."""
    if suffix != ".json":
        options = manifest["call"]["options"]
        options = {x: y for x, y in options.items() if y is not None or x == "interval"}
        manifest = {x: manifest[x] for x in _SHORT}
        manifest["call"] = {**manifest["call"], "options": options}
    place, opening, closing = _PLACES[suffix]
    start, end, rest = text.rpartition(place)
    before, after = f"{start.rstrip()}{opening}", f"{closing}{end}{rest}"
    return before + format_manifest(manifest, before + after) + after


def format_manifest(manifest: Mapping[str, Any], others: str = "") -> str:
    """A manifest as JSON, with the digest of itself and of the others in its file."""
    text = json.dumps(plain_manifest(manifest), separators=(",", ":"))
    for character in "<>&":  # which JSON has within strings only
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f'{text[:-1]}, "digest": "{_digest(text[:-1], others)}"}}'


def hash_numbers(numbers: Mapping[str, Any]) -> str:
    """A short hash of numbers by name, to nine significant digits; around 0 they are noise."""
    rounded = {
        x: f"{y if abs(y) > NOISE else 0:.9g}" if isinstance(y, int | float) else str(y)
        for x, y in numbers.items()
    }
    digest = hashlib.sha256(json.dumps(rounded).encode()).digest()
    return base64.b64encode(digest)[:HASH_LENGTH].decode()


def plain_manifest(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest as it is read from JSON, which has no infinity and no NaN."""
    text = json.dumps(manifest, default=str)
    plain: dict[str, Any] = json.loads(text, parse_constant=lambda _: None)
    return plain


def read_manifest(path: str | os.PathLike[str]) -> tuple[dict[str, Any], bool]:
    """The manifest of a file, and whether the file is as rankql wrote it."""
    named = isinstance(path, str | os.PathLike)
    require(named, f"the file must be a path, not a {type(path).__name__}")
    file, others = Path(path).expanduser(), ""
    if (suffix := file.suffix.lower()) not in MANIFEST_SUFFIXES:
        why = f"only {', '.join(MANIFEST_SUFFIXES)} files of evaluate, compare and report have one"
        raise RankqlError(f"{str(path)!r} has no manifest: {why}. Save the result as one of these")
    try:
        if suffix in PARQUET:
            found = pl.read_parquet_metadata(file).get("rankql", "")
        else:
            opening = _PLACES[suffix][1].split("\n")[-1].strip()
            start, _, found = file.read_text(encoding="utf-8").rpartition(opening)
            found = found.strip() if start else ""
        manifest, end = json.JSONDecoder().raw_decode(found) if found else ({}, 0)
        if suffix in _PLACES:
            others = start + opening + found[end:]
        manifest = manifest if isinstance(manifest, dict) else {}
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        why = str(getattr(error, "strerror", None) or error).partition("\n")[0]
        message = f"Cannot read the manifest of {str(path)!r}: {why}. Save the result again"
        raise RankqlError(message) from error
    call = manifest.get("call")
    if not isinstance(call, dict) or not isinstance(call.get("inputs"), dict):
        raise RankqlError(
            f"{str(path)!r} has no manifest: it lacks the options of the call and the hashes of "
            "its tables. It is not of evaluate, compare or report of runs, or an earlier version "
            "of rankql wrote it. Evaluate the runs again, and save the result"
        )
    text, _, rest = found[:end].rpartition('"digest":')
    text = text.rstrip().removesuffix(",")
    return manifest, rest.strip('} "\n') == _digest(text, others)


def _digest(manifest: str, others: str) -> str:
    """The digest of a manifest and the others in its file, whatever their white space."""
    return hashlib.sha256("".join((manifest + others).split()).encode()).hexdigest()


@dataclass
class Recording:
    """What evaluations read, for a result that will be saved, or that may fail."""

    # The order of the systems of a table; () for that of its rows.
    systems: Sequence[str] = ()
    # The tables of each evaluation.
    tables: list[dict[str, Any]] = field(default_factory=list)


# The recording of the call that is running.
RECORDING: ContextVar[Recording | None] = ContextVar("recording", default=None)


@contextmanager
def recording(systems: Sequence[str] = ()) -> Iterator[Recording]:
    """Keep what evaluations read."""
    recorded = Recording(systems)
    token = RECORDING.set(recorded)
    try:
        yield recorded
    finally:
        RECORDING.reset(token)
