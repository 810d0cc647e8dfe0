"""A model of text search: BM25 in numpy, over words as pylance splits them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from lance.lance import tokenize

from lance_spark.search.text_rules import BooleanQuery, BoostQuery, MatchQuery, MultiMatchQuery, PhraseQuery

K1, B = 1.2, 0.75
Scores = dict[int, float]


class Corpus:
    """Texts by row and column, and the rows that count; ``settings`` are those of the index."""

    def __init__(self, rows: Mapping[int, Mapping[str, str | None]], **settings: Any) -> None:
        self._settings = settings
        self._words = {
            column: {
                row: words
                for row, texts in rows.items()
                if texts[column] is not None and (words := self._split(texts[column]))  # others are no documents
            }
            for column in next(iter(rows.values()))
        }

    def search(self, query: Any, live: Any = None) -> list[tuple[int, float]]:
        """Rows and scores, the best first, ties by row."""
        scores = {row: score for row, score in self._scores(query).items() if live is None or row in live}
        return sorted(scores.items(), key=lambda each: (-np.float32(each[1]), each[0]))

    def _split(self, text: Any) -> list[tuple[str, int]]:
        return [(token.text, token.position) for token in tokenize(text, **self._settings)]

    def _scores(self, query: Any) -> Scores:
        if isinstance(query, MatchQuery):
            return {row: query.boost * score for row, score in self._match(query).items()}
        if isinstance(query, PhraseQuery):
            return self._phrase(query)
        if isinstance(query, MultiMatchQuery):
            best: Scores = {}
            for column, boost in zip(query.columns, query.boosts or (1.0,) * len(query.columns), strict=True):
                for row, score in self._scores(MatchQuery(query.query, column, operator=query.operator)).items():
                    best[row] = max(best.get(row, 0.0), boost * score)
            return best
        if isinstance(query, BoostQuery):
            minus = self._scores(query.negative)
            plus = self._scores(query.positive)
            return {row: score - query.negative_boost * minus.get(row, 0.0) for row, score in plus.items()}
        assert isinstance(query, BooleanQuery)
        must, should = ([self._scores(each) for each in group] for group in (query.must, query.should))
        rows = set.intersection(*(set(each) for each in must)) if must else set().union(*should)
        rows -= set().union(*(self._scores(each) for each in query.must_not))
        return {row: sum(each.get(row, 0.0) for each in (*must, *should)) for row in rows}

    def _match(self, query: MatchQuery) -> Scores:
        words = self._words[str(query.column)]
        if query.fuzziness:
            every = {word for text in words.values() for word, _ in text}
            asked = [
                {word for word in every if edits(given, word) <= query.fuzziness}
                for given in query.query.lower().split()
            ]
        else:
            asked = [{word} for word in dict(self._split(query.query))]
        scores: Scores = {}
        for word in sorted(set().union(*asked)):
            for row, score in self._word(query.column, word).items():
                scores[row] = scores.get(row, 0.0) + score
        if query.operator == "and":
            has = {row: {word for word, _ in words[row]} for row in scores}
            scores = {row: score for row, score in scores.items() if all(has[row] & each for each in asked)}
        return scores

    def _phrase(self, query: PhraseQuery) -> Scores:
        wanted = self._split(query.query)
        at = {row: set(text) for row, text in self._words[str(query.column)].items()}
        scores = self._match(MatchQuery(query.query, query.column, operator="and"))

        def stands(row: int) -> bool:
            first = wanted[0][1]
            return any(
                all((word, place + position - first) in at[row] for word, position in wanted)
                for word_, place in at[row]
                if word_ == wanted[0][0]
            )

        return {row: score for row, score in scores.items() if stands(row)}

    def _word(self, column: Any, word: str) -> Scores:
        words = self._words[column]
        lengths = np.array([len(text) for text in words.values()], float)
        counts = np.array([sum(each == word for each, _ in text) for text in words.values()], float)
        having = int((counts > 0).sum())
        idf = np.log(1 + (len(words) - having + 0.5) / (having + 0.5))
        norm = K1 * (1 - B + B * lengths / lengths.mean())
        scores = idf * counts * (K1 + 1) / (counts + norm)
        return {row: float(score) for row, score, count in zip(words, scores, counts, strict=True) if count}


def edits(one: str, other: str) -> int:
    """The Levenshtein distance."""
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, 1):
        before, row[0] = row[0], at
        for place, each in enumerate(other, 1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (letter != each))
    return row[-1]
