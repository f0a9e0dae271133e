"""The search of the site finds Chinese words of two characters; English words as Sphinx does.

Chinese has no blanks between words. A run of Chinese characters is indexed, and searched, as all
its pairs of neighbours: 置信区间 is 置信, 信区 and 区间.
"""

import re

from sphinx.search import SearchEnglish

HAN = r"[\u3400-\u9fff]"  # the same in Python and in JavaScript

SPLIT_QUERY = f"""
var splitQuery = (query) =>
  query
    .split(/[^\\p{{Letter}}\\p{{Number}}_\\p{{Emoji_Presentation}}]+/gu)
    .flatMap((word) => word.split(/({HAN}+)/u))
    .flatMap((part) =>
      /^{HAN}{{2}}/u.test(part) ? [...part].slice(1).map((last, i) => part[i] + last) : [part],
    )
    .filter((term) => term);
"""


class SearchEnglishAndChinese(SearchEnglish):
    """Sphinx's search in English, with pairs of Chinese characters."""

    js_splitter_code = SPLIT_QUERY

    def split(self, input: str) -> list[str]:
        parts = [part for word in super().split(input) for part in re.split(f"({HAN}+)", word)]
        return [term for part in parts if part for term in pairs(part)]


def pairs(part: str) -> list[str]:
    """The pairs of neighbours of a run of Chinese characters; another part as it is."""
    if not re.match(f"{HAN}{{2}}", part):
        return [part]
    return [part[i : i + 2] for i in range(len(part) - 1)]


def setup(app):
    app.add_search_language(SearchEnglishAndChinese)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
