package lance_spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.Map;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.DataFrameWriter;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.distributions.UnspecifiedDistribution;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Sends the rows of a partition to Python as columns in Arrow's layout.
 *
 * Spark's own writer of Python data sources starts the worker, reports its errors and commits. The rows bypass it,
 * because making Arrow batches of narrow rows takes it longer than everything else in a write: this class stores them
 * column by column and sends them through a socket of its own. The only row that the worker gets from Spark holds the
 * address of that socket. Python's side is columns_spark.py. Compiled by Janino: no lambdas, raw types.
 */
public class Writes implements RequiresDistributionAndOrdering {
  private static final long ADVISED = 128L * 1024 * 1024; // bytes of a task's rows
  private final Write spark;
  private final Shape shape;

  public Writes(Write spark, Shape shape) {
    this.spark = spark;
    this.shape = shape;
  }

  /**
   * Rows that are only to be spread evenly stay where they are without adaptive execution, as in streams of some
   * Sparks: it joins small tasks, and each of 200 would leave a small file.
   */
  public Distribution requiredDistribution() {
    boolean spreads = shape.ordering.length == 0 && !(shape.distribution instanceof UnspecifiedDistribution);
    return spreads && !SQLConf.get().adaptiveExecutionEnabled() ? Distributions.unspecified() : shape.distribution;
  }

  /** A large partition may go to several tasks: then it has a file of each. */
  public boolean distributionStrictlyRequired() {
    return false;
  }

  public SortOrder[] requiredOrdering() {
    return shape.ordering;
  }

  public long advisoryPartitionSizeInBytes() {
    return requiredDistribution() instanceof UnspecifiedDistribution ? 0L : ADVISED;
  }

  public String toString() {
    return spark.toString();
  }

  public String description() {
    return spark.description();
  }

  public BatchWrite toBatch() {
    return shape.kinds == null ? spark.toBatch() : new Batch(spark.toBatch(), shape);
  }

  public StreamingWrite toStreaming() {
    return spark.toStreaming();
  }

  public CustomMetric[] supportedCustomMetrics() {
    return spark.supportedCustomMetrics();
  }

  public CustomTaskMetric[] reportDriverMetrics() {
    return spark.reportDriverMetrics();
  }

  /**
   * The columns' kinds, their Arrow schema for Python, and the name of the only column that Spark sends itself; no kinds
   * where Spark sends the rows. And how Spark brings them.
   */
  public static class Shape implements java.io.Serializable {
    private transient Distribution distribution = Distributions.unspecified();
    private transient SortOrder[] ordering = new SortOrder[0];
    final String[] kinds;
    final byte[] schema;
    final String column;
    final boolean unix;

    public Shape(String kinds, byte[] schema, String column, Boolean unix) {
      this.kinds = kinds == null ? null : kinds.split(",");
      this.schema = schema;
      this.column = column;
      this.unix = unix.booleanValue();
    }

    /** Makes Spark distribute and sort the rows: by hash of these columns, or by ranges of all in the order. */
    public Shape requiring(Expression[] clustered, SortOrder[] order) {
      ordering = order;
      distribution = clustered.length > 0 ? (Distribution) Distributions.clustered(clustered)
        : (Distribution) Distributions.ordered(order);
      return this;
    }

    /** Spark's builder of a write of Python's, whose writes are of this shape. */
    public WriteBuilder builder(WriteBuilder spark) {
      return new Builder(spark, this);
    }

    /**
     * Save rows in a format of that name, which a Python data source implements. Spark gets a class name instead of the
     * format's, in the modes that such sources support; it refuses other modes in a message that names the format.
     */
    public void save(DataFrameWriter writer, String path, String name) {
      SaveMode mode = writer.curmode();
      boolean known = mode == SaveMode.Append || mode == SaveMode.Overwrite;
      ClassLoader before = Thread.currentThread().getContextClassLoader();
      try {
        if (known) {
          Source.NEXT.set(new Object[] {name, this});
          Thread.currentThread().setContextClassLoader(Source.class.getClassLoader());
        }
        writer.format(known ? Source.class.getName() : name);
        if (path == null) writer.save();
        else writer.save(path);
      } finally {
        Source.NEXT.remove();
        Thread.currentThread().setContextClassLoader(before);
        writer.format(name);
      }
    }
  }

  /** Spark's source of a Python data source, for one save. */
  public static class Source extends PythonDataSourceV2 {
    static final ThreadLocal NEXT = new ThreadLocal();
    private final Object[] told = (Object[]) NEXT.get();

    public Source() {}

    public void setShortName(String ignored) {
      super.setShortName((String) told[0]);
    }

    public Table getTable(StructType schema, Transform[] partitions, Map properties) {
      super.getTable(schema, partitions, properties); // refuses what it cannot do
      return new Target(this, (String) told[0], schema, (Shape) told[1]);
    }
  }

  public static class Target extends PythonTable {
    private final Shape shape;

    public Target(PythonDataSourceV2 source, String name, StructType schema, Shape shape) {
      super(source, name, schema);
      this.shape = shape;
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      return shape.builder(super.newWriteBuilder(info));
    }
  }

  /** Wraps Spark's builder, and what it builds. */
  public static class Builder implements SupportsTruncate {
    private final Shape shape;
    private WriteBuilder spark;

    public Builder(WriteBuilder spark, Shape shape) {
      this.spark = spark;
      this.shape = shape;
    }

    public WriteBuilder truncate() {
      spark = ((SupportsTruncate) spark).truncate();
      return this;
    }

    public Write build() {
      return new Writes(spark.build(), shape);
    }
  }

  public static class Batch implements BatchWrite {
    private final BatchWrite spark;
    private final Shape shape;

    public Batch(BatchWrite spark, Shape shape) {
      this.spark = spark;
      this.shape = shape;
    }

    public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
      DataWriterFactory made = spark.createBatchWriterFactory(info);
      PythonBatchWriterFactory all = (PythonBatchWriterFactory) made;
      Object[] parts = new Object[all.productArity()];
      for (int i = 0; i < parts.length; i++) parts[i] = all.productElement(i);
      for (int i = 0; i < parts.length; i++) {
        if (parts[i] instanceof StructType) {
          parts[i] = new StructType().add(shape.column, DataTypes.BinaryType, false);
        }
      }
      try {
        Object told = PythonBatchWriterFactory.class.getConstructors()[0].newInstance(parts);
        return new Factory((DataWriterFactory) told, shape);
      } catch (ReflectiveOperationException problem) {
        throw new IllegalStateException(problem);
      }
    }

    public boolean useCommitCoordinator() {
      return spark.useCommitCoordinator();
    }

    public void onDataWriterCommit(WriterCommitMessage message) {
      spark.onDataWriterCommit(message);
    }

    public void commit(WriterCommitMessage[] messages) {
      spark.commit(messages);
    }

    public void abort(WriterCommitMessage[] messages) {
      spark.abort(messages);
    }
  }

  public static class Factory implements DataWriterFactory {
    private final DataWriterFactory spark;
    private final Shape shape;

    public Factory(DataWriterFactory spark, Shape shape) {
      this.spark = spark;
      this.shape = shape;
    }

    public DataWriter createWriter(int partition, long task) {
      return new Writer(spark.createWriter(partition, task), shape);
    }
  }

  public static class Writer implements DataWriter {
    private static final long PATIENCE = 10000; // milliseconds that a worker has to clean up
    private final DataWriter spark;
    private final Shape shape;
    private Columns columns;

    public Writer(DataWriter spark, Shape shape) {
      this.spark = spark;
      this.shape = shape;
    }

    /** Spark's own writer takes no single rows either. */
    public void write(Object row) throws IOException {
      throw new UnsupportedOperationException("This writer takes all rows at once.");
    }

    public void writeAll(Iterator rows) throws IOException {
      TaskContext context = TaskContext.get();
      Worker worker = new Worker(spark, shape, context);
      columns = new Columns(shape.kinds, worker.door);
      worker.start();
      Lost lost = null;
      boolean ended = false; // the worker knows that no more rows come
      try {
        columns.takeAll(rows, context);
        ended = true;
      } catch (Lost problem) {
        lost = problem; // the worker's error has the reason
        ended = true;
      } finally {
        columns.close();
        if (!ended) worker.leave(PATIENCE);
      }
      worker.await(context);
      if (lost != null) throw lost;
    }

    public WriterCommitMessage commit() throws IOException {
      return spark.commit();
    }

    public void abort() throws IOException {
      spark.abort();
    }

    public void close() throws IOException {
      spark.close();
    }

    public CustomTaskMetric[] currentMetricsValues() {
      CustomTaskMetric[] told = spark.currentMetricsValues();
      CustomTaskMetric[] made = new CustomTaskMetric[told.length];
      long sent = columns == null ? 0 : columns.sent;
      for (int i = 0; i < told.length; i++) {
        String name = told[i].name();
        if (name.equals("pythonDataSent")) made[i] = new Batches.Metric(name, told[i].value() + sent);
        else made[i] = told[i];
      }
      return made;
    }
  }

  /** The socket failed. The worker's own error is thrown instead, if it has one. */
  public static class Lost extends IOException {
    public Lost(Throwable cause) {
      super("The connection to the Python worker was lost.", cause);
    }
  }

  /**
   * Runs Spark's own writer, which returns when Python has written everything, in a thread of its own. The task's thread
   * computes the rows, as everywhere in Spark.
   */
  public static class Worker extends Thread {
    final Batches.Door door;
    private final DataWriter spark;
    private final byte[] cell;
    private final TaskContext context;
    private volatile Throwable failure;

    public Worker(DataWriter spark, Shape shape, TaskContext context) {
      super(Thread.currentThread().getName() + ", writer of Lance");
      setDaemon(true);
      this.spark = spark;
      this.context = context;
      door = new Batches.Door(shape.unix);
      byte[] address = door.address().getBytes(StandardCharsets.UTF_8);
      ByteBuffer both = ByteBuffer.allocate(4 + address.length + shape.schema.length).order(ByteOrder.LITTLE_ENDIAN);
      both.putInt(address.length).put(address).put(shape.schema);
      cell = both.array();
    }

    public void run() {
      org.apache.spark.TaskContext$.MODULE$.setTaskContext(context);
      try {
        spark.writeAll(Collections.singletonList(new GenericInternalRow(new Object[] {cell})).iterator());
      } catch (Throwable problem) {
        failure = problem;
      } finally {
        org.apache.spark.TaskContext$.MODULE$.unset();
        door.close(); // a worker that has ended does not connect
      }
    }

    /** Wait until everything is written. Throws what Spark's writer threw. */
    void await(TaskContext context) {
      try {
        while (isAlive()) {
          join(500);
          context.killTaskIfInterrupted();
        }
      } catch (InterruptedException problem) {
        Platform.throwException(problem);
      }
      if (failure != null) Platform.throwException(failure);
    }

    /** Wait for the worker of a failed task to delete what it wrote. Its own error does not matter. */
    void leave(long patience) {
      try {
        join(patience);
      } catch (InterruptedException problem) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Rows as columns, laid out as Arrow has them in memory. */
  public static class Columns {
    private static final int FEWEST = 1024;
    private static final int MOST = 65536;
    private static final long BYTES = 16L << 20;
    private static final int PIECE = 256 * 1024; // bytes of one write: the JDK copies them out of the heap
    private static final int WORDS = 4; // numbers in the header for each column
    long sent;
    private final Column[] columns;
    private final Batches.Door door;
    private final int most;
    private final ByteBuffer header;
    private SocketChannel channel;
    private int capacity = FEWEST;

    public Columns(String[] kinds, Batches.Door door) {
      this.door = door;
      columns = new Column[kinds.length];
      long width = 0;
      for (int i = 0; i < kinds.length; i++) {
        columns[i] = columnOf(kinds[i].split(" "), i);
        columns[i].room(FEWEST);
        width += columns[i].width;
      }
      most = (int) Math.max(FEWEST, Math.min(MOST, BYTES / width));
      header = ByteBuffer.allocate(8 * (1 + WORDS * kinds.length)).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static Column columnOf(String[] kind, int at) {
      String name = kind[0];
      if (name.equals("boolean")) return new Bits(at);
      if (name.equals("byte")) return new Bytes(at);
      if (name.equals("short")) return new Shorts(at);
      if (name.equals("int")) return new Ints(at);
      if (name.equals("long")) return new Longs(at);
      if (name.equals("float")) return new Floats(at);
      if (name.equals("double")) return new Doubles(at);
      if (name.equals("text")) return new Texts(at);
      if (name.equals("binary")) return new Binaries(at);
      if (name.equals("decimal")) return new Decimals(at, Integer.parseInt(kind[1]), Integer.parseInt(kind[2]));
      throw new IllegalArgumentException(name);
    }

    void takeAll(Iterator rows, TaskContext context) throws IOException {
      Column[] columns = this.columns;
      int count = 0;
      long bytes = 0;
      while (rows.hasNext()) {
        InternalRow row = (InternalRow) rows.next();
        if (count == capacity) grow();
        for (int i = 0; i < columns.length; i++) bytes += columns[i].take(row, count);
        count++;
        if (count == most || bytes >= BYTES) {
          context.killTaskIfInterrupted();
          send(count);
          count = 0;
          bytes = 0;
        }
      }
      if (count > 0) send(count);
      end();
    }

    private void grow() {
      capacity = Math.min(most, 2 * capacity);
      for (int i = 0; i < columns.length; i++) columns[i].room(capacity);
    }

    private void send(int count) throws IOException {
      header.clear();
      header.putLong(count);
      for (int i = 0; i < columns.length; i++) columns[i].describe(header, count);
      write(header.array(), header.position());
      for (int i = 0; i < columns.length; i++) {
        Column column = columns[i];
        if (column.nulls > 0) write(column.valid, padded((count + 7) / 8));
        write(column.values, padded(column.used(count)));
        if (column.length > 0) write(column.data, padded(column.length));
        column.clear();
      }
    }

    /** A lost connection looks like the end of the rows: only this number says that all of them were sent. */
    private void end() throws IOException {
      header.clear();
      header.putLong(-1);
      write(header.array(), 8);
    }

    private void write(byte[] bytes, int length) throws IOException {
      try {
        if (channel == null) channel = door.admitted();
        ByteBuffer all = ByteBuffer.wrap(bytes, 0, length);
        while (all.position() < length) {
          all.limit(Math.min(length, all.position() + PIECE));
          channel.write(all);
        }
        sent += length;
      } catch (IOException problem) {
        throw new Lost(problem);
      }
    }

    void close() throws IOException {
      try {
        if (channel != null) channel.close();
      } finally {
        door.close();
      }
    }
  }

  /** The next multiple of 64, where Arrow likes a buffer to begin. */
  static int padded(int length) {
    return (length + 63) & -64;
  }

  public abstract static class Column {
    protected static final long FIRST = Platform.BYTE_ARRAY_OFFSET;
    final int width;
    byte[] valid = new byte[0];
    byte[] values = new byte[0];
    byte[] data = new byte[0]; // of strings and binaries, whose values are offsets
    int length;
    int nulls;
    protected final int place;

    Column(int place, int width) {
      this.place = place;
      this.width = width;
    }

    /** Make room for so many rows. */
    void room(int rows) {
      int before = valid.length;
      valid = Arrays.copyOf(valid, padded((rows + 7) / 8));
      Arrays.fill(valid, before, valid.length, (byte) -1);
      values = Arrays.copyOf(values, padded(used(rows)));
    }

    /** Bytes of the values of so many rows. */
    int used(int rows) {
      return rows * width;
    }

    /** Store the value of a row; returns the bytes that it takes beyond the column's width. */
    int take(InternalRow row, int at) {
      if (row.isNullAt(place)) {
        setNull(at);
        return 0;
      }
      return put(row, at);
    }

    abstract int put(InternalRow row, int at);

    void setNull(int at) {
      valid[at >> 3] &= (byte) ~(1 << (at & 7));
      nulls++;
    }

    void describe(ByteBuffer header, int rows) {
      header.putLong(nulls);
      header.putLong(nulls > 0 ? (rows + 7) / 8 : 0);
      header.putLong(used(rows));
      header.putLong(length);
    }

    void clear() {
      if (nulls > 0) Arrays.fill(valid, (byte) -1);
      nulls = 0;
    }
  }

  public static class Bits extends Column {
    Bits(int place) {
      super(place, 1);
    }

    int used(int rows) {
      return (rows + 7) / 8;
    }

    int put(InternalRow row, int at) {
      if (row.getBoolean(place)) values[at >> 3] |= (byte) (1 << (at & 7));
      return 0;
    }

    void clear() {
      super.clear();
      Arrays.fill(values, (byte) 0);
    }
  }

  public static class Bytes extends Column {
    Bytes(int place) {
      super(place, 1);
    }

    int put(InternalRow row, int at) {
      values[at] = row.getByte(place);
      return 0;
    }
  }

  public static class Shorts extends Column {
    Shorts(int place) {
      super(place, 2);
    }

    int put(InternalRow row, int at) {
      Platform.putShort(values, FIRST + 2L * at, row.getShort(place));
      return 0;
    }
  }

  public static class Ints extends Column {
    Ints(int place) {
      super(place, 4);
    }

    int put(InternalRow row, int at) {
      Platform.putInt(values, FIRST + 4L * at, row.getInt(place));
      return 0;
    }
  }

  public static class Longs extends Column {
    Longs(int place) {
      super(place, 8);
    }

    int put(InternalRow row, int at) {
      Platform.putLong(values, FIRST + 8L * at, row.getLong(place));
      return 0;
    }
  }

  public static class Floats extends Column {
    Floats(int place) {
      super(place, 4);
    }

    int put(InternalRow row, int at) {
      Platform.putFloat(values, FIRST + 4L * at, row.getFloat(place));
      return 0;
    }
  }

  public static class Doubles extends Column {
    Doubles(int place) {
      super(place, 8);
    }

    int put(InternalRow row, int at) {
      Platform.putDouble(values, FIRST + 8L * at, row.getDouble(place));
      return 0;
    }
  }

  /** Decimals of 16 bytes each, for any precision, as in Arrow. */
  public static class Decimals extends Column {
    private static final int LONG_DIGITS = 18;
    private final int precision;
    private final int scale;

    Decimals(int place, int precision, int scale) {
      super(place, 16);
      this.precision = precision;
      this.scale = scale;
    }

    int put(InternalRow row, int at) {
      if (precision <= LONG_DIGITS && row instanceof UnsafeRow) {
        long value = row.getLong(place);
        store(at, value, value >> 63);
        return 0;
      }
      Decimal value = row.getDecimal(place, precision, scale);
      if (!value.changePrecision(precision, scale)) {
        setNull(at); // as Spark does
      } else {
        java.math.BigInteger digits = value.toJavaBigDecimal().unscaledValue();
        store(at, digits.longValue(), digits.shiftRight(64).longValue());
      }
      return 0;
    }

    private void store(int at, long low, long high) {
      Platform.putLong(values, FIRST + 16L * at, low);
      Platform.putLong(values, FIRST + 16L * at + 8, high);
    }
  }

  public abstract static class Variable extends Column {
    private static final int LARGE = 64 << 20;

    Variable(int place) {
      super(place, 4);
    }

    int used(int rows) {
      return 4 * (rows + 1);
    }

    void setNull(int at) {
      super.setNull(at);
      Platform.putInt(values, FIRST + 4L * (at + 1), length);
    }

    /** Append bytes, from the heap or from outside of it. */
    int append(Object base, long offset, int count, int at) {
      int end = Math.addExact(length, count);
      if (end > data.length) data = Arrays.copyOf(data, larger(end));
      Platform.copyMemory(base, offset, data, FIRST + length, count);
      length = end;
      Platform.putInt(values, FIRST + 4L * (at + 1), end);
      return count;
    }

    private int larger(int wanted) {
      long most = Integer.MAX_VALUE - 63L; // a multiple of 64, because padding is sent as well
      long chosen = Math.min(most, Math.max(2L * data.length, (wanted + 63L) & -64L));
      if (chosen < wanted) throw new OutOfMemoryError("A value has more bytes than an array can have.");
      return (int) chosen & -64;
    }

    void clear() {
      super.clear();
      length = 0;
      if (data.length > LARGE) data = new byte[0];
    }
  }

  public static class Texts extends Variable {
    Texts(int place) {
      super(place);
    }

    int put(InternalRow row, int at) {
      UTF8String value = row.getUTF8String(place);
      return append(value.getBaseObject(), value.getBaseOffset(), value.numBytes(), at);
    }
  }

  public static class Binaries extends Variable {
    Binaries(int place) {
      super(place);
    }

    int put(InternalRow row, int at) {
      byte[] value = row.getBinary(place);
      return append(value, Platform.BYTE_ARRAY_OFFSET, value.length, at);
    }
  }
}
