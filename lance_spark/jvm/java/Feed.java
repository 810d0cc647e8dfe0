package lance_spark;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.TableScan;
import org.apache.spark.sql.types.StructType;

/**
 * The rows of a change feed, for a scan that Spark plans as one of its old data sources.
 *
 * Only such a scan may consist of more than one stage: pairing the rows before and after a commit takes a shuffle. Two
 * of them are never equal, so Spark does not take one feed for another. Compiled by Janino: no lambdas, raw types.
 */
public class Feed extends BaseRelation implements TableScan {
  private final SQLContext context;
  private final StructType schema;
  private final RDD rows;

  public Feed(SQLContext context, StructType schema, RDD rows) {
    this.context = context;
    this.schema = schema;
    this.rows = rows;
  }

  public SQLContext sqlContext() {
    return context;
  }

  public StructType schema() {
    return schema;
  }

  /** The rows are in Spark's internal form. */
  public boolean needConversion() {
    return false;
  }

  public RDD buildScan() {
    return rows;
  }
}
