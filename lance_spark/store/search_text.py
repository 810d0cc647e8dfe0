"""Text queries as pylance takes them; made where they are used, since they do not pickle."""

from __future__ import annotations

from typing import Any

from lance_spark.searching.text import BooleanQuery, BoostQuery, MatchQuery, MultiMatchQuery, PhraseQuery, TextQuery


def lance_query(query: TextQuery) -> Any:
    """The query as pylance takes it; each part of the one that is given has its column."""
    from lance import query as lance

    if isinstance(query, MatchQuery):
        return lance.MatchQuery(
            query.query,
            query.column,
            boost=query.boost,
            fuzziness=query.fuzziness,
            max_expansions=query.max_expansions,
            operator=lance.FullTextOperator(query.operator.upper()),
            prefix_length=query.prefix_length,
        )
    if isinstance(query, PhraseQuery):
        return lance.PhraseQuery(query.query, query.column, slop=query.slop)
    if isinstance(query, MultiMatchQuery):
        return lance.MultiMatchQuery(
            query.query,
            list(query.columns),
            boosts=list(query.boosts) or None,
            operator=lance.FullTextOperator(query.operator.upper()),
        )
    if isinstance(query, BoostQuery):
        return lance.BoostQuery(
            lance_query(query.positive), lance_query(query.negative), negative_boost=query.negative_boost
        )
    return _boolean(query)


def _boolean(query: BooleanQuery) -> Any:
    from lance import query as lance

    groups = (
        (lance.Occur.MUST, query.must),
        (lance.Occur.SHOULD, query.should),
        (lance.Occur.MUST_NOT, query.must_not),
    )
    return lance.BooleanQuery([(occur, lance_query(each)) for occur, group in groups for each in group])
