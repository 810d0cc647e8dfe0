package lance_spark;

import java.io.Serializable;
import java.time.LocalDate;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.Reducer;
import org.apache.spark.sql.connector.catalog.functions.ReducibleFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.read.HasPartitionKey;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Partitions with a key, and the functions that compute keys: Spark compares the functions of two tables by their
 * names, and computes them where it shuffles one side of a join only. Their values are those of key_rules.py.
 * Compiled by Janino: no lambdas, raw types.
 */
public class Grouped {
  private static final long MICROS_OF_HOUR = 3600000000L;
  private static final long MICROS_OF_DAY = 24 * MICROS_OF_HOUR;

  /** The input of a task whose rows all have one key. */
  public static class Part extends PythonInputPartition implements HasPartitionKey {
    private final UnsafeRow key;

    public Part(int index, byte[] content, int fields, byte[] key) {
      super(index, content);
      this.key = new UnsafeRow(fields);
      this.key.pointTo(key, (long) Platform.BYTE_ARRAY_OFFSET, key.length);
    }

    public InternalRow partitionKey() {
      return key;
    }
  }

  /** A function by its name: bucket, years, months, days, hours, or truncate_ and the width. */
  public static class Named implements UnboundFunction, Serializable {
    private final String name;

    public Named(String name) {
      this.name = name;
    }

    public String name() {
      return name;
    }

    public String description() {
      return name + ": the value by which a table is partitioned.";
    }

    public BoundFunction bind(StructType given) {
      int last = given.size() - 1;
      if (last != (name.equals("bucket") ? 1 : 0)) throw refused(given);
      if (last == 1 && !(given.apply(0).dataType() instanceof IntegerType)) throw refused(given);
      DataType kind = given.apply(last).dataType();
      boolean time = kind instanceof TimestampType || kind instanceof TimestampNTZType;
      boolean whole = kind instanceof ByteType || kind instanceof ShortType
          || kind instanceof IntegerType || kind instanceof LongType;
      // A text with a collation equals others with other bytes.
      boolean text = kind instanceof StringType && kind.equals(DataTypes.StringType);
      boolean known;
      if (name.equals("bucket")) {
        known = whole || text || time || kind instanceof BooleanType || kind instanceof DateType
            || kind instanceof FloatType || kind instanceof DoubleType;
      } else if (name.startsWith("truncate_")) {
        known = whole || text;
      } else {
        known = time || (kind instanceof DateType && !name.equals("hours"));
      }
      if (!known) throw refused(given);
      return new Bound(name, kind);
    }

    private UnsupportedOperationException refused(StructType given) {
      return new UnsupportedOperationException(name + " does not take " + given.simpleString() + ".");
    }
  }

  /** A function of columns of one type. */
  public static class Bound implements ScalarFunction, ReducibleFunction, Serializable {
    private final String name;
    private final DataType kind;

    public Bound(String name, DataType kind) {
      this.name = name;
      this.kind = kind;
    }

    public String name() {
      return name;
    }

    public DataType[] inputTypes() {
      if (name.equals("bucket")) return new DataType[] {DataTypes.IntegerType, kind};
      return new DataType[] {kind};
    }

    public DataType resultType() {
      if (!name.startsWith("truncate_")) return DataTypes.IntegerType;
      return kind instanceof StringType ? DataTypes.StringType : DataTypes.LongType;
    }

    public boolean isResultNullable() {
      return !name.equals("bucket");
    }

    /** The same for all catalogs of this package. A whole number has another hash as a long. */
    public String canonicalName() {
      return "lance_spark." + name + "(" + kind.simpleString() + ")";
    }

    public boolean equals(Object other) {
      return other instanceof Bound && ((Bound) other).canonicalName().equals(canonicalName());
    }

    public int hashCode() {
      return canonicalName().hashCode();
    }

    public String toString() {
      return name;
    }

    public Object produceResult(InternalRow row) {
      if (name.equals("bucket")) {
        return Integer.valueOf(row.isNullAt(1) ? 0 : (hash(row) & Integer.MAX_VALUE) % row.getInt(0));
      }
      if (row.isNullAt(0)) return null;
      if (name.startsWith("truncate_")) {
        int width = Integer.parseInt(name.substring(9));
        if (kind instanceof StringType) return row.getUTF8String(0).substring(0, width);
        long value = whole(row, 0);
        return Long.valueOf(value - Math.floorMod(value, (long) width));
      }
      if (kind instanceof DateType) return Integer.valueOf(date(name, row.getInt(0)));
      long micros = row.getLong(0);
      if (name.equals("hours")) return Integer.valueOf((int) Math.floorDiv(micros, MICROS_OF_HOUR));
      return Integer.valueOf(date(name, (int) Math.floorDiv(micros, MICROS_OF_DAY)));
    }

    private int hash(InternalRow row) {
      if (kind instanceof StringType) {
        byte[] text = row.getUTF8String(1).getBytes();
        return Murmur3_x86_32.hashUnsafeBytes(text, (long) Platform.BYTE_ARRAY_OFFSET, text.length, 0);
      }
      if (kind instanceof BooleanType) return Murmur3_x86_32.hashInt(row.getBoolean(1) ? 1 : 0, 0);
      if (kind instanceof FloatType) {
        float value = row.getFloat(1);
        return Murmur3_x86_32.hashInt(Float.floatToIntBits(value == 0f ? 0f : value), 0);
      }
      if (kind instanceof DoubleType) {
        double value = row.getDouble(1);
        return Murmur3_x86_32.hashLong(Double.doubleToLongBits(value == 0d ? 0d : value), 0);
      }
      if (kind instanceof ByteType || kind instanceof ShortType || kind instanceof IntegerType) {
        return Murmur3_x86_32.hashInt((int) whole(row, 1), 0);
      }
      if (kind instanceof DateType) return Murmur3_x86_32.hashInt(row.getInt(1), 0);
      return Murmur3_x86_32.hashLong(row.getLong(1), 0);
    }

    private long whole(InternalRow row, int at) {
      if (kind instanceof ByteType) return row.getByte(at);
      if (kind instanceof ShortType) return row.getShort(at);
      return kind instanceof IntegerType ? row.getInt(at) : row.getLong(at);
    }

    /** How keys of this function become those of another one with fewer values; null if they do not. */
    public Reducer reducer(int own, ReducibleFunction other, int others) {
      if (!REMEMBERS || !equals(other) || !name.equals("bucket")) return null;
      int common = own;
      for (int rest = others; rest > 0;) {
        int next = common % rest;
        common = rest;
        rest = next;
      }
      return common == own || common == 1 ? null : new Smaller("bucket", common);
    }

    public Reducer reducer(ReducibleFunction given) {
      if (!REMEMBERS || !(given instanceof Bound) || !((Bound) given).kind.equals(kind)) return null;
      String to = ((Bound) given).name;
      if (rank(name) < 0 || rank(to) <= rank(name)) return null;
      return new Smaller(name + " to " + to, 0);
    }
  }

  /**
   * Whether Spark remembers that a join has reduced keys. Others take them for the ones before, and the next join by
   * the key loses rows.
   */
  static final boolean REMEMBERS = remembers();

  private static boolean remembers() {
    try {
      Class.forName("org.apache.spark.sql.catalyst.expressions.TransformExpression", false, Bound.class.getClassLoader())
          .getMethod("reducedWith", new Class[0]);
      return true;
    } catch (ReflectiveOperationException missing) {
      return false;
    }
  }

  private static int rank(String name) {
    if (name.equals("hours")) return 0;
    if (name.equals("days")) return 1;
    return name.equals("months") ? 2 : name.equals("years") ? 3 : -1;
  }

  private static int date(String name, int days) {
    if (name.equals("days")) return days;
    LocalDate date = LocalDate.ofEpochDay(days);
    int years = date.getYear() - 1970;
    return name.equals("years") ? years : years * 12 + date.getMonthValue() - 1;
  }

  /** Keys of one function as those of another one. */
  public static class Smaller implements Reducer, Serializable {
    private final String how;
    private final int buckets;

    public Smaller(String how, int buckets) {
      this.how = how;
      this.buckets = buckets;
    }

    public Object reduce(Object given) {
      if (given == null) return null;
      int value = ((Number) given).intValue();
      if (buckets > 0) return Integer.valueOf(value % buckets);
      String to = how.substring(how.lastIndexOf(' ') + 1);
      if (how.startsWith("months")) return Integer.valueOf(Math.floorDiv(value, 12));
      return Integer.valueOf(date(to, how.startsWith("hours") ? Math.floorDiv(value, 24) : value));
    }

    public DataType resultType() {
      return DataTypes.IntegerType;
    }

    public String displayName() {
      return buckets > 0 ? how + "(" + buckets + ")" : how;
    }

    public boolean equals(Object other) {
      return other instanceof Smaller && ((Smaller) other).displayName().equals(displayName());
    }

    public int hashCode() {
      return displayName().hashCode();
    }
  }
}
