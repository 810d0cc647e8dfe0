"""Which kinds of indexes fit which columns, and which settings they take."""

import pyarrow as pa
import pytest

from lance_spark.errors import InvalidOption, NotFound, Refused, SchemaMismatch
from lance_spark.indexes import index_rules as rules

pytestmark = pytest.mark.pure

SCALARS = {"btree", "bitmap", "zonemap", "bloomfilter"}
VECTORS = {name for name in rules.KINDS if name.startswith("ivf_")}


@pytest.mark.parametrize(
    ("type", "kinds"),
    [
        (pa.int8(), SCALARS),
        (pa.bool_(), SCALARS),
        (pa.float64(), SCALARS),
        (pa.date32(), SCALARS),
        (pa.timestamp("us", "UTC"), SCALARS),
        (pa.decimal128(10, 2), SCALARS),
        (pa.binary(4), SCALARS),
        (pa.string(), SCALARS | {"ngram", "inverted"}),
        (pa.large_string(), SCALARS | {"ngram", "inverted"}),
        (pa.list_(pa.string()), {"label_list", "inverted"}),
        (pa.list_(pa.int32()), {"label_list"}),
        (pa.list_(pa.float32(), 8), VECTORS),
        (pa.list_(pa.float16(), 8), VECTORS),
        (pa.list_(pa.uint8(), 8), {"ivf_flat", "ivf_hnsw_flat"}),
        (pa.list_(pa.int32(), 8), set()),
        (pa.struct([("a", pa.int64())]), set()),
        (pa.map_(pa.string(), pa.int64()), set()),
    ],
    ids=lambda value: "-".join(sorted(value)) if isinstance(value, set | frozenset) else str(value),
)
def test_which_kinds_fit_a_type(type, kinds):
    refused = {}
    for name, kind in rules.KINDS.items():
        try:
            rules.check_type(kind, "x", type)
        except SchemaMismatch as problem:
            refused[name] = problem.hint
    fitting = rules.KINDS.keys() - refused.keys()
    assert fitting == kinds
    assert all(kind in hint for hint in refused.values() for kind in kinds)


@pytest.mark.parametrize(("name", "found"), [("BTree", "btree"), ("FTS", "inverted"), ("IVF_HNSW_SQ", "ivf_hnsw_sq")])
def test_names_of_kinds(name, found):
    assert rules.find_kind(name).name == found


def test_an_unknown_kind_is_refused_with_near_names():
    with pytest.raises(InvalidOption, match="'btree'"):
        rules.find_kind("btrees")
    with pytest.raises(InvalidOption, match="ivf_pq"):
        rules.find_kind("zzz")


@pytest.mark.parametrize(
    ("described", "name"),
    [("BTree", "btree"), ("LabelList", "label_list"), ("ZoneMap", "zonemap"), ("IVF_PQ", "ivf_pq"), ("RTree", None)],
)
def test_kinds_as_pylance_describes_them(described, name):
    kind = rules.described_kind(described)
    assert (kind.name if kind else None) == name


def test_columns_and_fields_of_structs():
    schema = pa.schema([("a", pa.struct([("b", pa.int64())])), ("a.c", pa.int32())])
    assert rules.find_column(schema, "a.b").type == pa.int64()
    assert rules.find_column(schema, "a.c").type == pa.int32()
    for name in ("b", "a.x", "a.b.c", ""):
        with pytest.raises(NotFound):
            rules.find_column(schema, name)


@pytest.mark.parametrize(
    ("kind", "given", "why"),
    [
        ("btree", {"metric": "l2"}, "no setting 'metric'"),
        ("ivf_flat", {"num_sub_vectors": 2}, "no setting"),
        ("ivf_pq", {"metric": "hamming"}, "no metric"),
        ("ivf_pq", {"num_partitions": 0}, "at least 1"),
        ("ivf_pq", {"num_partitions": True}, "of type int"),
        ("ivf_pq", {"num_partitions": "3"}, "of type int"),
        ("inverted", {"with_position": 1}, "of type bool"),
        ("ivf_pq", {"num_partition": 3}, "'num_partitions'"),
        ("ivf_flat", {"metric": "haming"}, "Did you mean 'hamming'"),
    ],
)
def test_settings_that_cannot_be(kind, given, why):
    with pytest.raises(InvalidOption, match=why):
        rules.check_settings(rules.find_kind(kind), given)


def test_settings_that_can():
    given = {"metric": "Cosine", "num_partitions": 3, "m": None, "num_segments": 2}
    assert rules.check_settings(rules.find_kind("ivf_hnsw_sq"), given) == {
        "metric": "cosine",
        "num_partitions": 3,
        "num_segments": 2,
    }


BYTES, FLOATS = pa.list_(pa.uint8(), 8), pa.list_(pa.float32(), 8)


def test_bytes_have_their_own_metric():
    kind = rules.find_kind("ivf_flat")
    assert rules.settings_for(kind, "h", BYTES, {"num_partitions": 2}) == {"num_partitions": 2, "metric": "hamming"}
    assert rules.settings_for(kind, "h", BYTES, {"metric": "hamming"}) == {"metric": "hamming"}
    assert rules.settings_for(kind, "v", FLOATS, {"metric": "dot"}) == {"metric": "dot"}
    assert rules.settings_for(kind, "v", FLOATS, {}) == {}
    assert rules.settings_for(rules.find_kind("btree"), "id", pa.int64(), {}) == {}
    with pytest.raises(InvalidOption, match="need the metric hamming, not l2"):
        rules.settings_for(kind, "h", BYTES, {"metric": "l2"})
    with pytest.raises(InvalidOption, match="hamming compares bytes, but column 'v'"):
        rules.settings_for(kind, "v", FLOATS, {"metric": "hamming"})


@pytest.mark.parametrize(
    ("kind", "details", "settings"),
    [
        ("btree", {}, {}),
        (
            "ivf_pq",
            {"metric_type": "COSINE", "compression": {"type": "pq", "num_bits": 8, "num_sub_vectors": 4}},
            {"metric": "cosine", "num_bits": 8, "num_sub_vectors": 4},
        ),
        (
            "ivf_hnsw_sq",
            {
                "metric_type": "L2",
                "hnsw": {"max_connections": 12, "construction_ef": 77},
                "compression": {"num_bits": 8},
            },
            {"metric": "l2", "m": 12, "ef_construction": 77},
        ),
        ("ivf_flat", {}, None),
        ("ivf_flat", {"metric_type": "HAMMING"}, {"metric": "hamming"}),
        ("ivf_pq", {"metric_type": "HAMMING"}, None),
        ("ivf_flat", {"metric_type": "JACCARD"}, None),
        ("inverted", {}, None),
        ("inverted", {"stem": False, "language": "German", "block_size": 128}, {"stem": False, "language": "German"}),
    ],
)
def test_settings_of_an_index_that_is_there(kind, details, settings):
    assert rules.settings_of(rules.find_kind(kind), details) == settings


@pytest.mark.parametrize(
    ("kind", "settings", "rows", "partitions", "rate"),
    [
        ("ivf_flat", {}, 1_000_000, 1000, 256),
        ("ivf_flat", {}, 100_000_000, 4096, 256),
        ("ivf_flat", {}, 10_000, 100, 100),
        ("ivf_flat", {}, 3, 1, 3),
        ("ivf_flat", {"num_partitions": 8}, 10_000, 8, 256),
        ("ivf_flat", {"num_partitions": 8, "sample_rate": 16}, 10_000, 8, 16),
        ("ivf_flat", {"num_partitions": 100}, 1_000, 100, 10),
    ],
)
def test_a_sample_never_has_more_rows_than_there_are(kind, settings, rows, partitions, rate):
    training = rules.plan_training(rules.find_kind(kind), settings, 32, rows)
    assert (training.partitions, training.sample_rate) == (partitions, rate)
    assert training.partitions * training.sample_rate <= rows


@pytest.mark.parametrize(
    ("dimension", "given", "parts"), [(32, None, 2), (24, None, 3), (30, 5, 5), (30, None, None), (32, 5, None)]
)
def test_parts_of_vectors(dimension, given, parts):
    kind = rules.find_kind("ivf_pq")
    settings = {} if given is None else {"num_sub_vectors": given}
    if parts is None:
        with pytest.raises(InvalidOption, match="num_sub_vectors"):
            rules.plan_training(kind, settings, dimension, 10_000)
    else:
        training = rules.plan_training(kind, settings, dimension, 10_000)
        assert (training.sub_vectors, training.codebook_rate) == (parts, 39)


def test_too_few_rows():
    assert rules.least_rows(rules.find_kind("ivf_pq"), {}) == 512
    assert rules.least_rows(rules.find_kind("ivf_pq"), {"num_bits": 4}) == 32
    with pytest.raises(Refused, match="512 rows"):
        rules.plan_training(rules.find_kind("ivf_pq"), {}, 16, 511)
    with pytest.raises(InvalidOption, match="at most 50"):
        rules.plan_training(rules.find_kind("ivf_sq"), {"num_partitions": 51}, 16, 101)
