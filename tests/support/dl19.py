"""Three runs of TREC 2019 Deep Learning and their judgments, read by DuckDB's CSV reader."""

from support.paths import DL19

RUNS = ["BM25", "D_BERT_KD_TASB", "SPLADE_P_P_ENSEMBLE_DISTIL"]
TREC = "delim = ' ', header = false, quote = '', all_varchar = true"
JUDGMENTS = f"""
CREATE OR REPLACE TEMP TABLE judgments AS
SELECT query, item, rel::INTEGER AS rel
FROM read_csv('{DL19}/dl19.qrels', {TREC}, names = ['query', 'zero', 'item', 'rel'])
"""
RUN = f"""
CREATE OR REPLACE TEMP TABLE run AS
SELECT query, item, pos::INTEGER AS file_pos, score::DOUBLE AS score
FROM read_csv('{DL19}/%s.run', {TREC}, names = ['query', 'q0', 'item', 'pos', 'score', 'tag'])
"""
JOINED = """
CREATE OR REPLACE TEMP TABLE joined AS
SELECT query, item, rel, score, file_pos FROM judgments FULL JOIN run USING (query, item)
WHERE query IN (SELECT query FROM judgments)
"""
