"""The names of all Spark classes that this package uses."""

from __future__ import annotations

_SQL = "org.apache.spark.sql"
_CATALOG = f"{_SQL}.connector.catalog"
_READ = f"{_SQL}.connector.read"
_WRITE = f"{_SQL}.connector.write"
_V2 = f"{_SQL}.execution.datasources.v2"
_LOGICAL = f"{_SQL}.catalyst.plans.logical"

# Public: the interfaces of Spark's DataSource V2, and their values.
OPTIONS = f"{_SQL}.util.CaseInsensitiveStringMap"
DATA_TYPE = f"{_SQL}.types.DataType"
IDENTIFIER = f"{_CATALOG}.Identifier"
NAMESPACES = f"{_CATALOG}.SupportsNamespaces"
STAGING_CATALOG = f"{_CATALOG}.StagingTableCatalog"
STAGED_TABLE = f"{_CATALOG}.StagedTable"
PROCEDURE_CATALOG = f"{_CATALOG}.ProcedureCatalog"
UNBOUND_PROCEDURE = f"{_CATALOG}.procedures.UnboundProcedure"
BOUND_PROCEDURE = f"{_CATALOG}.procedures.BoundProcedure"
FUNCTION_CATALOG = f"{_CATALOG}.FunctionCatalog"
PROCEDURE_PARAMETER = f"{_CATALOG}.procedures.ProcedureParameter"
SUPPORTS_WRITE = f"{_CATALOG}.SupportsWrite"
SUPPORTS_DELETE = f"{_CATALOG}.SupportsDeleteV2"
SUPPORTS_ROW_LEVEL = f"{_CATALOG}.SupportsRowLevelOperations"
ROW_LEVEL_BUILDER = f"{_WRITE}.RowLevelOperationBuilder"
SUPPORTS_DELTA = f"{_WRITE}.SupportsDelta"
DELTA_WRITE_BUILDER = f"{_WRITE}.DeltaWriteBuilder"
DELTA_WRITE = f"{_WRITE}.DeltaWrite"
WRITE_INFO = f"{_WRITE}.LogicalWriteInfo"
SUPPORTS_OVERWRITE = f"{_WRITE}.SupportsOverwriteV2"
SUPPORTS_DYNAMIC_OVERWRITE = f"{_WRITE}.SupportsDynamicOverwrite"
TRANSFORM = f"{_SQL}.connector.expressions.Transform"
SCAN_BUILDER = f"{_READ}.ScanBuilder"
TABLE = f"{_CATALOG}.Table"
CAPABILITY = f"{_CATALOG}.TableCapability"
CATALOG_CAPABILITY = f"{_CATALOG}.TableCatalogCapability"
SUPPORTS_READ = f"{_CATALOG}.SupportsRead"
METADATA_COLUMNS = f"{_CATALOG}.SupportsMetadataColumns"
METADATA_COLUMN = f"{_CATALOG}.MetadataColumn"
SCAN = f"{_READ}.Scan"
LOCAL_SCAN = f"{_READ}.LocalScan"
BATCH = f"{_READ}.Batch"
INPUT_PARTITION = f"{_READ}.InputPartition"
REPORT_STATISTICS = f"{_READ}.SupportsReportStatistics"
STATISTICS = f"{_READ}.Statistics"
DECIMAL = f"{_SQL}.types.Decimal"
COLUMN_STATISTICS = f"{_READ}.colstats.ColumnStatistics"
REPORT_PARTITIONING = f"{_READ}.SupportsReportPartitioning"
RUNTIME_FILTERING = f"{_READ}.SupportsRuntimeV2Filtering"
PUSH_COLUMNS = f"{_READ}.SupportsPushDownRequiredColumns"
PUSH_FILTERS = f"{_READ}.SupportsPushDownV2Filters"
PUSH_LIMIT = f"{_READ}.SupportsPushDownLimit"
PUSH_OFFSET = f"{_READ}.SupportsPushDownOffset"
PUSH_TOP_N = f"{_READ}.SupportsPushDownTopN"
PUSH_SAMPLE = f"{_READ}.SupportsPushDownTableSample"
PUSH_AGGREGATES = f"{_READ}.SupportsPushDownAggregates"
PREDICATE = f"{_SQL}.connector.expressions.filter.Predicate"
NAMED_REFERENCE = f"{_SQL}.connector.expressions.NamedReference"

# Private: another version or a fork might lack or change them.
SESSION = f"{_SQL}.classic.SparkSession"
PYTHON_SOURCE = f"{_V2}.python.UserDefinedPythonDataSource"
PYTHON_PARTITION = f"{_V2}.python.PythonInputPartition"
PYTHON_READER_FACTORY = f"{_V2}.python.PythonPartitionReaderFactory"
RELATION = f"{_V2}.DataSourceV2Relation$"
DATASET = f"{_SQL}.classic.Dataset"
ARROW_CONVERTERS = f"{_SQL}.execution.arrow.ArrowConverters"
FIELD_REFERENCE = f"{_SQL}.connector.expressions.FieldReference"
UNSAFE_ROW = f"{_SQL}.catalyst.expressions.UnsafeRow"
INTERNAL_ROW = f"{_SQL}.catalyst.InternalRow"
NO_SUCH_TABLE = f"{_SQL}.catalyst.analysis.NoSuchTableException"
NO_SUCH_FUNCTION = f"{_SQL}.catalyst.analysis.NoSuchFunctionException"
NO_SUCH_NAMESPACE = f"{_SQL}.catalyst.analysis.NoSuchNamespaceException"
TABLE_EXISTS = f"{_SQL}.catalyst.analysis.TableAlreadyExistsException"
NAMESPACE_EXISTS = f"{_SQL}.catalyst.analysis.NamespaceAlreadyExistsException"
NAMESPACE_NOT_EMPTY = f"{_SQL}.catalyst.analysis.NonEmptyNamespaceException"
PYTHON_SOURCE_V2 = f"{_V2}.python.PythonDataSourceV2"
ARTIFACTS = "org.apache.spark.JobArtifactSet"

# Private, and only for statements that change rows: if one is missing, these are refused, and everything else works.
CHANGES_MODE = f"{_SQL}.execution.CommandExecutionMode"
CHANGES_WRITE = f"{_LOGICAL}.WriteDelta"
CHANGES_APPEND = f"{_LOGICAL}.AppendData"
CHANGES_MERGE_ROWS = f"{_LOGICAL}.MergeRows"
CHANGES_UPDATE = f"{_LOGICAL}.UpdateTable"
CHANGES_DELETE = f"{_LOGICAL}.DeleteFromTable"
CHANGES_MERGE = f"{_LOGICAL}.MergeIntoTable"
CHANGES_DELETE_BY_FILTERS = f"{_LOGICAL}.DeleteFromTableWithFilters"
CHANGES_PARSED_WITH = f"{_LOGICAL}.UnresolvedWith"
CHANGES_WITH = f"{_LOGICAL}.WithCTE"
CHANGES_PROJECT = f"{_LOGICAL}.Project"
CHANGES_NAMED_VALUE = f"{_SQL}.catalyst.expressions.Alias"
CHANGES_COLUMN = f"{_SQL}.catalyst.expressions.AttributeReference"
CHANGES_ALIAS = f"{_LOGICAL}.SubqueryAlias"
CHANGES_RELATION = f"{_V2}.DataSourceV2Relation"
CHANGES_CACHE = f"{_SQL}.execution.CacheManager"
CHANGES_STATE = f"{_SQL}.internal.SessionState"
CHANGES_NAMED = f"{_SQL}.catalyst.analysis.NameParameterizedQuery"
CHANGES_POSITIONAL = f"{_SQL}.catalyst.analysis.PosParameterizedQuery"
CHANGES_EXPRESSIONS = f"{_SQL}.classic.ColumnNodeToExpressionConverter$"

# Private, of newer versions only.
MAYBE_INSERT_ONLY = f"{_LOGICAL}.InsertOnlyMerge"
MAYBE_MERGE_WRITER = f"{_SQL}.classic.MergeIntoWriter"
MAYBE_EVOLUTION = f"{_CATALOG}.SupportsSchemaEvolution"

# Public, but new: only SQL's CHANGES needs them.
MAYBE_CHANGELOG = f"{_CATALOG}.Changelog"
MAYBE_V1_SCAN = f"{_READ}.V1Scan"
MAYBE_COLUMN = f"{_CATALOG}.Column"

# Private; without them, a write does not know what its statement reads.
MAYBE_EXECUTION = f"{_SQL}.execution.SQLExecution"
MAYBE_SCAN_RELATION = f"{_V2}.DataSourceV2ScanRelation"
MAYBE_CACHED = f"{_SQL}.execution.columnar.InMemoryRelation"

# Public; only tables with a layout need them. The last one is private.
MAYBE_EXPRESSIONS = f"{_SQL}.connector.expressions.Expressions"
MAYBE_EXPRESSION = f"{_SQL}.connector.expressions.Expression"
MAYBE_SORT_ORDER = f"{_SQL}.connector.expressions.SortOrder"
MAYBE_SORT_DIRECTION = f"{_SQL}.connector.expressions.SortDirection"
MAYBE_NULL_ORDERING = f"{_SQL}.connector.expressions.NullOrdering"
MAYBE_CLUSTERED = f"{_SQL}.connector.expressions.ClusterByTransform"

# Private, of Spark 4.2 or 4.3 on: partitions of one key are joined by a step of the plan, and not by each scan.
MAYBE_GROUPS = f"{_V2}.GroupPartitionsExec"

# Private; the latter before 4.2.
MAYBE_KEYED = tuple(
    f"{_SQL}.catalyst.plans.physical.{name}" for name in ("KeyedPartitioning", "KeyGroupedPartitioning")
)

# Private; only a catalog of complete publishes needs it.
MAYBE_ANALYSIS = f"{_SQL}.catalyst.analysis.AnalysisContext"

# Only a process beside a server needs these; the first ones are what PySpark's own classes expect to find.
MAYBE_IMPORTED = (
    "org.apache.spark.SparkConf",
    "org.apache.spark.api.java.*",
    "org.apache.spark.api.python.*",
    f"{_SQL}.*",
    f"{_SQL}.api.python.*",
    "scala.Tuple2",
)
MAYBE_CONTEXT = "org.apache.spark.api.java.JavaSparkContext"
MAYBE_CONNECT_PLANNER = f"{_SQL}.connect.planner.SparkConnectPlanner"
MAYBE_CONNECT_KEY = f"{_SQL}.connect.service.SessionKey"
MAYBE_RELATION = "org.apache.spark.connect.proto.Relation"
MAYBE_MERGE = "org.apache.spark.connect.proto.MergeIntoTableCommand"
MAYBE_CONNECT_SERVICE = f"{_SQL}.connect.service.SparkConnectService"

MAYBE_CREATES = tuple(
    f"{_LOGICAL}.{name}" for name in ("CreateTable", "CreateTableAsSelect", "ReplaceTable", "ReplaceTableAsSelect")
)

_ALL = {key: value for key, value in sorted(globals().items()) if key.isupper() and not key.startswith("_")}
CLASSES = tuple(value for key, value in _ALL.items() if not key.startswith(("CHANGES_", "MAYBE_")))
"""Names required to register a session."""
FOR_CHANGES = tuple(value for key, value in _ALL.items() if key.startswith("CHANGES_"))
"""Additional names required by statements that change rows."""
