"""Text files with a row per line: CSV, also without a header, TREC and MS MARCO.

TREC runs have six columns, judgments four; runs of MS MARCO three or four.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain

import duckdb

from rankql.core.base.column_names import ADD_HEADER
from rankql.core.base.errors import BY_HAND, Question, parse_number
from rankql.core.base.writing import HeaderlessPath
from rankql.core.metrics.macros import literal, quote
from rankql.core.tables import files
from rankql.core.tables.private import in_transaction
from rankql.core.tables.reader import Reader
from rankql.core.tables.session import Source
from rankql.core.tables.tables import Table, repeated_names

# The judgments of Quepid have a line with the query alone if it has no rating.
_QUEPID = "query,docid,rating"
_READ_QUEPID = (
    "(FROM read_csv({path}, all_varchar = true, header = true, delim = ',', quote = '\"', "
    "null_padding = true) WHERE docid IS NOT NULL OR rating IS NOT NULL)"
)


def open_text(reader: Reader, source: Source) -> Table:
    """The table of a text file that the caller passes."""
    file, data = source.file, source.data
    if isinstance(data, HeaderlessPath) and is_headerless(file, data.columns):
        return load_headerless(reader, file, data.columns)
    return load_trec(reader, file) if is_trec(file) else load_csv(reader, file)


def load_csv(reader: Reader, file: files.File) -> Table:
    """The rows of a file with a header."""
    header = next(iter(file.lines), "")
    mark, names = files.split_line(header)
    template = "read_csv({path}, all_varchar = true, {quotes})"
    if header == _QUEPID:
        template = _READ_QUEPID
    elif mark in header and files.count_known(names):
        first = ", header = true, skip = 0" if file.start.startswith(header) else ""
        template = template.replace("all_varchar", f"delim = {literal(mark)}{first}, all_varchar")
    with reader.reading(file):
        tabs = mark in header and mark == "\t"
        read = partial(template.format, path=literal(file.pattern))
        table = _load_quoted(reader, file, lambda quotes: read(quotes=quotes), tabs)
    return replace(table, repeated=repeated_names(names))


def _load_quoted(reader: Reader, file: files.File, read: Callable[[str], str], tabs: bool) -> Table:
    """The rows of a CSV file. A quote is doubled, or if that cannot be read, escaped by \\.

    Between tabs it is a character as others, as in MS MARCO, if values would have line breaks.
    """
    plain = read(files.PLAIN)
    try:
        table = reader.load(file.label, read(files.QUOTED), ordered=True)
    except duckdb.InvalidInputException:
        escaped = read(files.QUOTED.replace("escape = '\"'", "escape = '\\'"))
        for other in [plain, escaped] if tabs else [escaped]:
            with suppress(duckdb.Error):
                return reader.load(file.label, other, ordered=True)
        raise
    texts = (f"contains({quote(name)}, chr(10))" for name in table.columns)
    broken = f"SELECT 1 FROM {table.sql} WHERE {' OR '.join(texts)} LIMIT 1"
    if tabs and not in_transaction(reader.con) and reader.rows(broken):
        with suppress(duckdb.Error):
            unquoted = reader.load(file.label, plain, ordered=True)
            same = [*unquoted.columns] == [*table.columns]
            reader.drop(table if same else unquoted)
            return unquoted if same else table
    return table


def is_headerless(file: files.File, columns: Sequence[Sequence[str]]) -> bool:
    """Is it a text file without a header, if the caller names these columns?"""
    if file.suffix in files.JSON:
        return False
    line = file.lines[0]
    if is_trec(file) and (words := len(line.split())) in (4, 6):
        return words in map(len, columns) or line.count("\t") + 1 in map(len, columns)
    # Words of a text between tabs are not names.
    marks = next((marks for marks in ("\t", ",;|") if {*marks} & {*line}), " ")
    return not files.count_known(files.split_line(line, marks)[1])


def load_headerless(reader: Reader, file: files.File, columns: Sequence[Sequence[str]]) -> Table:
    """The rows of a text file without a header, which has one of these lists of columns."""
    line = file.lines[0]  # between tabs, quotes may be characters as others
    marks = {"\t": line.count("\t") + 1}
    marks |= {mark: len(files.split_line(line, mark)[1]) for mark in ",;| "}
    mark = next((mark for mark in marks if marks[mark] in map(len, columns)), "")
    fitting = [each for each in columns if mark and len(each) == marks[mark]] or [()]
    names = fitting[-(file.label == "qrels")]
    if not names or len({*map(str.lower, names)} - {""}) < len(names):
        expected = " or ".join(",".join(each) for each in columns)
        what = f"has {max(marks.values())} columns without a header"
        raise file.error(f"{what}, not {expected}. Write a name of its own for each column")
    with reader.reading(file):
        read = partial(files.read_as_text, file.pattern, mark, names)
        return _load_quoted(reader, file, read, mark == "\t")


_QRELS = ("query", "iteration", "item", "rel")
_RUN = ("query", "q0", "item", "rank", "score", "tag")
_MARCO = ("query", "item", "rank", "score")


# A line such as "2 qid:1 1:0.5 # docid = d7": the grade, the query, features, a comment.
_RANKLIB = re.compile(r"\s*[-+]?[\d.]+\s+qid:\S+(\s+\d+:\S+)*\s*(#.*)?")


def _load_ranklib(reader: Reader, file: files.File) -> Table:
    """The judgments of a file of RankLib: the item is in the comment."""
    comment = "trim(regexp_extract(line, '#(.*)', 1))"
    ids = (f"nullif(regexp_extract({comment}, '{form}', 1), '')" for form in (
        r"(?i)\bdocid\s*=\s*(\S+)", r"^(\S+)"))  # fmt: skip
    problem = "'it has a line without an id in a comment, as in 2 qid:1 # d7: ''' || line || ''''"
    sql = f"""(SELECT regexp_extract(line, 'qid:(\\S+)', 1) AS query,
        coalesce({", ".join(ids)}, error({problem})) AS item,
        regexp_extract(line, '^\\s*(\\S+)', 1) AS rel FROM {files.read_as_text(file.pattern)}
        WHERE NOT regexp_matches(line, '^\\s*(#|$)'))"""
    with reader.reading(file):
        return reader.load(file.label, sql, ordered=True)


def is_trec(file: files.File) -> bool:
    """Is it a file of another suffix, or .tsv whose first line ends with numbers?"""
    if file.suffix == ".tsv":
        return bool(file.lines) and files.ends_with_number(file.lines[0].split("\t"))
    return file.suffix not in (*files.CSV, *files.JSON)


def load_trec(reader: Reader, file: files.File) -> Table:
    """The rows of the file.

    As in trec_eval 10, lines that begin with # are comments (those that look like other lines are
    counted), and words after the sixth column of a run are ignored. But if that column is a number,
    an id may contain a space: refused.
    """
    file.refuse_zero_bytes()
    lines = [line for line in file.lines if not line.lstrip().startswith("#")]
    if lines and _RANKLIB.fullmatch(lines[0]):
        if not any("#" in line for line in lines):
            raise file.error(
                "has labels and features, but no ids of items. Pass a frame with the columns "
                "query (its qid), rel (the label) and score (the prediction of your model)"
            )
        return _load_ranklib(reader, file)
    columns, header = _detect_columns(file, lines)
    # Columns separated by one character are read in parallel. An error would end a transaction.
    for mark in () if in_transaction(reader.con) else " \t":
        if all(line.split(mark) == line.split() for line in lines) and all(
            len(line.split()) == len(columns) for line in lines
        ):
            with suppress(duckdb.Error):
                sql = _read_roles(reader, files.read_as_text(file.pattern, mark, columns), columns)
                return _load_uncommented(reader, file, sql, columns, header)
    with reader.reading(file):
        return _load_uncommented(reader, file, _split_lines(file, columns), columns, header)


def _read_roles(reader: Reader, sql: str, columns: Sequence[str]) -> str:
    """SQL of the columns of a file that are read: reading all as text takes twice as long.

    The score is a number. One that DOUBLE rounds, or that only DuckDB reads, is an error.
    """
    others = reader.mentioned is None or reader.mentions("q0", "rank", "tag")
    if columns != _RUN or others:
        return sql
    unread = "contains(score, '_') OR (strlen(score) > 15 AND NOT contains(score, '.'))"
    score = f"CAST(CASE WHEN {unread} THEN 'text' ELSE score END AS DOUBLE) AS score"
    return f"(SELECT query, item, {score} FROM {sql})"


def _detect_columns(file: files.File, lines: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """The columns by the first lines, and whether the first has their names."""
    if not lines:
        raise file.error("is empty")
    first = lines[0].split()
    if files.count_known(first) > 1:
        return tuple(first), True
    if len(first) in (3, 4) and _is_marco(lines):
        return _MARCO[: len(first)], False
    scored = len(first) > 6 and parse_number(first[4]) is not None
    if scored and parse_number(first[5]) is None:
        return _RUN, False
    if len(first) not in (4, 6):
        raise Question(
            f"{file.label}: cannot read {file.paths[0]!r}: unknown format. Supported: Parquet, "
            f"CSV, JSON and TREC (4 or 6 columns; its first line has {len(first)}), optionally .gz "
            "or .zst",
            hints=[f"If it has commas or tabs, call it .csv or .tsv. Else see {BY_HAND('loop')}"],
            otherwise=f"{ADD_HEADER[0].upper()}{ADD_HEADER[1:]}",
            unnamed=True,
        )
    last = [line.split()[-1] for line in lines]
    if len(first) == 4 and all(x.isdecimal() and int(x) > _YEAR_1973 for x in last):
        names = ["query", "item", "rel", "time"]
        raise file.error(
            "has times in its last column, so it is not TREC. Name its columns, such as "
            f"columns={names!r}"
        )
    return _QRELS if len(first) == 4 else _RUN, False


# In seconds; no grade is so high.
_YEAR_1973 = 10**8


def _is_marco(lines: Sequence[str]) -> bool:
    """Are they query, item and rank, and not the judgments of TREC: do ranks go up by 1?"""
    rows = [line.split() for line in lines]
    if not all(len(row) == len(rows[0]) and row[2].isdecimal() for row in rows):
        return False
    ranks = [int(row[2]) for row in rows if row[0] == rows[0][0]]
    items = {row[1] for row in rows}
    # The iteration of judgments is the same in all lines.
    judgments = len(items) == 1 and (len(rows) > 1 or items <= {"0", "Q0"})
    return ranks == [*range(1, len(ranks) + 1)] and not judgments


def _split_lines(file: files.File, columns: Sequence[str]) -> str:
    """SQL that reads columns separated by any white space. A line with others is an error."""
    trimmed, many = "trim(line, ' ' || chr(9))", len(columns)
    words = f"SELECT string_split_regex({trimmed}, '\\s+') AS line "
    words += f"FROM {files.read_as_text(file.pattern)} WHERE {trimmed} <> ''"
    unlike = f"len(line) <> {many}"
    comment = f"starts_with(line[1], '#') AND {unlike}"
    if columns == _RUN:
        score, tag = (f"TRY_CAST(line[{i}] AS DOUBLE) IS NULL" for i in (5, 6))
        unlike = f"len(line) < 6 OR len(line) > 6 AND ({score} OR NOT {tag})"
    problem = f"'it has a line without {many} columns: ''' || array_to_string(line, ' ') || ''''"
    fields = ", ".join(f"line[{i}] AS {quote(name)}" for i, name in enumerate(columns, 1))
    return (
        f"(SELECT {fields} FROM ({words}) WHERE NOT ({comment}) "
        f"AND CASE WHEN {unlike} THEN error({problem}) ELSE true END)"
    )


def _find_collections(file: files.File) -> list[str]:
    """The files that rank other items of most queries that they share, each from the top, by their
    first lines.
    """
    queries = defaultdict[str, dict[str, dict[str, str]]](dict)
    for path in file.paths[:50] if len(file.paths) > 1 else ():
        for words in map(str.split, replace(file, paths=[path]).lines):
            if len(words) > 3:
                queries[words[0]].setdefault(os.path.basename(path), {})[words[2]] = words[3]
    shared = [x for x in queries.values() if len(x) > 1]

    def ranks_alone(items: Mapping[str, str]) -> bool:  # and not as parts of one run do
        return bool({"0", "1"} & {*items.values()}) and len({*items.values()}) == len(items)

    topped = [x for x in shared if all(map(ranks_alone, x.values()))]
    apart = [x for x in topped if sum(map(len, x.values())) == len({*chain(*x.values())})]
    return [*apart[0]] if 2 * len(apart) > len(shared) else []


def _load_uncommented(
    reader: Reader, file: files.File, sql: str, columns: Sequence[str], header: bool
) -> Table:
    """The rows without the header and comments, and a note on comments with all columns."""
    first = quote(columns[0])
    if header:
        sql = f"(FROM {sql} WHERE {first} <> {literal(columns[0])})"
    collections = _find_collections(file) if columns == _RUN else ()
    fields = {"trec": not header, "ordered": True, "collections": collections}
    table, comments = reader.load(file.label, sql, **fields), f"starts_with({first}, '#')"
    count = f"SELECT count(*), min({first}) FROM {table.sql} WHERE {comments}"
    skipped, example = reader.row(count)
    if not skipped:
        return table
    lines = "1 line begins" if skipped == 1 else f"{skipped:,} lines begin"
    reader.note(
        file.label,
        f"{lines} with # and count as comments, although they have all columns (such as "
        f"{example!r}). Write ids without #",
        "comments",
    )
    return reader.load(file.label, f"(FROM {sql} WHERE NOT {comments})", **fields)
