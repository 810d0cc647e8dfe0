package lance_spark;

import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.Serializable;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.util.UUID;

import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BaseLargeVariableWidthVector;
import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.ValueVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Reads a partition as Arrow batches, which Spark's generated code reads in place.
 *
 * Spark's own reader of Python data sources starts the worker, passes the partition to it and its errors back. The
 * batches bypass that reader, which would convert them to rows: the worker sends them through a separate socket, whose
 * address follows its partition. Python's side is native/tasks.py. Compiled by Janino: no lambdas, raw types.
 */
public class Batches implements PartitionReaderFactory {
  private static final String DECIMAL = "lance_spark.decimal"; // in a field's metadata: precision and scale
  private final PartitionReaderFactory worker;
  private final boolean unix;

  /** Without unix, the socket is on the loopback interface. */
  public Batches(PartitionReaderFactory worker, boolean unix) {
    this.worker = worker;
    this.unix = unix;
  }

  public PartitionReader createReader(InputPartition partition) {
    throw new UnsupportedOperationException("This scan has batches only.");
  }

  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  public PartitionReader createColumnarReader(InputPartition partition) {
    Door door = new Door(unix);
    try {
      PythonInputPartition given = (PythonInputPartition) partition;
      ByteArrayOutputStream both = new ByteArrayOutputStream();
      both.writeBytes(given.pickedPartition());
      both.writeBytes(door.address().getBytes(StandardCharsets.UTF_8));
      return new Reader(worker.createReader(new PythonInputPartition(given.index(), both.toByteArray())), door);
    } catch (RuntimeException problem) {
      door.close();
      throw problem;
    }
  }

  /** Waits for the connection of one worker. */
  public static class Door {
    private static final int LONGEST_PATH = 100; // below the limit of 108 bytes for a socket's name
    private final String secret = UUID.randomUUID().toString();
    private final ServerSocketChannel server;
    private final Path path;
    private final String address;

    public Door(boolean unix) {
      try {
        path = unix ? free() : null;
        if (path != null) {
          server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
          server.bind(UnixDomainSocketAddress.of(path), 1);
          address = "unix:" + path;
        } else {
          server = ServerSocketChannel.open();
          server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
          InetSocketAddress bound = (InetSocketAddress) server.getLocalAddress();
          address = "tcp:" + bound.getAddress().getHostAddress() + " " + bound.getPort();
        }
      } catch (IOException problem) {
        throw new java.io.UncheckedIOException(problem);
      }
    }

    private static Path free() {
      String[] places = new String[] {System.getProperty("java.io.tmpdir"), "/tmp"};
      for (int i = 0; i < places.length; i++) {
        Path place = Paths.get(places[i], new String[0]).toAbsolutePath();
        if (Files.isDirectory(place) && Files.isWritable(place)) {
          Path found = place.resolve("lance-" + UUID.randomUUID());
          if (found.toString().getBytes(StandardCharsets.UTF_8).length <= LONGEST_PATH) return found;
        }
      }
      return null;
    }

    public String address() {
      return secret + address;
    }

    /** The worker, which is already connected. A connection without the secret is closed. */
    public SocketChannel admitted() throws IOException {
      while (true) {
        SocketChannel visitor = server.accept();
        try {
          ByteBuffer said = ByteBuffer.allocate(secret.length());
          while (said.hasRemaining() && visitor.read(said) >= 0) ;
          if (MessageDigest.isEqual(said.array(), secret.getBytes(StandardCharsets.UTF_8))) {
            close();
            return visitor;
          }
        } catch (IOException problem) {
          visitor.close();
          throw problem;
        }
        visitor.close();
      }
    }

    public void close() {
      try {
        server.close();
        if (path != null) Files.deleteIfExists(path);
      } catch (IOException problem) {
        throw new java.io.UncheckedIOException(problem);
      }
    }
  }

  public static class Reader implements PartitionReader {
    private final PartitionReader worker;
    private final Door door;
    private BufferAllocator allocator;
    private SocketChannel channel;
    private ArrowStreamReader stream;
    private ColumnVector[] columns;
    private ColumnarBatch batch;
    private long rows;
    private long bytes;
    private boolean finished;

    public Reader(PartitionReader worker, Door door) {
      this.worker = worker;
      this.door = door;
    }

    public boolean next() throws IOException {
      batch = null;
      if (finished) return false;
      if (stream == null) open();
      boolean more;
      try {
        more = stream.loadNextBatch();
      } catch (IOException problem) {
        lookForCause(problem);
        throw problem;
      }
      if (more) {
        VectorSchemaRoot root = stream.getVectorSchemaRoot();
        if (columns == null) columns = columnsOf(root);
        for (int i = 0; i < columns.length; i++) ((Column) columns[i]).turn();
        batch = new ColumnarBatch(columns, root.getRowCount());
        rows += root.getRowCount();
        return true;
      }
      finish();
      return false;
    }

    private void open() throws IOException {
      // The worker connects before its first row. If it fails before that, requesting the row raises its error.
      if (!worker.next()) throw new EOFException("The Python worker ended before it had sent anything.");
      channel = door.admitted();
      allocator = ArrowUtils.rootAllocator().newChildAllocator("batches of Lance", 0L, Long.MAX_VALUE);
      stream = new ArrowStreamReader(channel, allocator);
    }

    private static ColumnVector[] columnsOf(VectorSchemaRoot root) {
      ColumnVector[] made = new ColumnVector[root.getFieldVectors().size()];
      for (int i = 0; i < made.length; i++) made[i] = columnOf((FieldVector) root.getFieldVectors().get(i));
      return made;
    }

    private static Column columnOf(FieldVector vector) {
      String decimal = (String) vector.getField().getMetadata().get(DECIMAL);
      if (decimal != null) return new Unscaled(vector, decimal.split(","));
      if (vector instanceof BaseFixedWidthVector) return new Fixed(vector);
      if (vector instanceof BaseVariableWidthVector) return new Variable(vector, 4);
      if (vector instanceof BaseLargeVariableWidthVector) return new Variable(vector, 8);
      return new Column(vector);
    }

    /** A closed socket looks like the end of a stream: only the worker's last row proves that it is complete. */
    private void finish() throws IOException {
      long sent = -1;
      while (worker.next()) sent = ((InternalRow) worker.get()).getLong(0);
      if (sent != rows) {
        throw new EOFException("The Python worker sent " + sent + " rows, of which " + rows + " arrived.");
      }
      bytes = stream.bytesRead();
      finished = true;
      release();
    }

    /** Raises the worker's own error instead of the closed socket's. */
    private void lookForCause(IOException problem) throws IOException {
      if (channel.isOpen() && !Thread.currentThread().isInterrupted()) while (worker.next()) worker.get();
    }

    public Object get() {
      return batch;
    }

    public CustomTaskMetric[] currentMetricsValues() {
      CustomTaskMetric[] told = worker.currentMetricsValues();
      CustomTaskMetric[] made = new CustomTaskMetric[told.length];
      long received = stream == null ? bytes : stream.bytesRead();
      for (int i = 0; i < told.length; i++) {
        String name = told[i].name();
        if (name.equals("pythonDataReceived")) made[i] = new Metric(name, told[i].value() + received);
        else made[i] = told[i];
      }
      return made;
    }

    private void release() throws IOException {
      batch = null;
      columns = null;
      ArrowStreamReader open = stream;
      stream = null;
      BufferAllocator lent = allocator;
      allocator = null;
      try {
        if (open != null) open.close(); // its vectors, and the channel
        else if (channel != null) channel.close();
      } finally {
        if (lent != null) lent.close();
      }
    }

    public void close() throws IOException {
      finished = true;
      try {
        release();
      } finally {
        try {
          door.close();
        } finally {
          worker.close();
        }
      }
    }
  }

  /**
   * A column that Spark does not recognize as one of Arrow's.
   *
   * Spark 4.3 keeps Arrow's batches while a Python function works on them. A reader's batch is valid only until the
   * next one, so Spark would read its rows from released memory. Spark copies all other batches for Python.
   */
  public static class Column extends ColumnVector {
    protected final ArrowColumnVector values;

    public Column(ValueVector vector) {
      this(new ArrowColumnVector(vector));
    }

    private Column(ArrowColumnVector values) {
      this(values, values.dataType());
    }

    protected Column(ArrowColumnVector values, DataType type) {
      super(type);
      this.values = values;
    }

    /** Called when the next batch has been read into the vector. */
    public void turn() {}

    /** Does nothing: the reader releases the memory. A closed struct would lose its fields for the next batch. */
    public void close() {}

    /** Like close; Spark's generated code calls it after each batch. */
    public void closeIfFreeable() {}

    public boolean hasNull() {
      return values.hasNull();
    }

    public int numNulls() {
      return values.numNulls();
    }

    public boolean isNullAt(int row) {
      return values.isNullAt(row);
    }

    public boolean getBoolean(int row) {
      return values.getBoolean(row);
    }

    public byte getByte(int row) {
      return values.getByte(row);
    }

    public short getShort(int row) {
      return values.getShort(row);
    }

    public int getInt(int row) {
      return values.getInt(row);
    }

    public long getLong(int row) {
      return values.getLong(row);
    }

    public float getFloat(int row) {
      return values.getFloat(row);
    }

    public double getDouble(int row) {
      return values.getDouble(row);
    }

    public ColumnarArray getArray(int row) {
      return values.getArray(row);
    }

    public ColumnarMap getMap(int row) {
      return values.getMap(row);
    }

    public Decimal getDecimal(int row, int precision, int scale) {
      return values.getDecimal(row, precision, scale);
    }

    public UTF8String getUTF8String(int row) {
      return values.getUTF8String(row);
    }

    public byte[] getBinary(int row) {
      return values.getBinary(row);
    }

    public ColumnVector getChild(int place) {
      return values.getChild(place);
    }
  }

  /**
   * Values of one width, read from memory: Arrow's own getters would check each value's row and null again. Spark
   * requests the column's own type, and checks for nulls first.
   */
  public static class Fixed extends Column {
    protected final FieldVector vector;
    protected long data;
    private long valid; // 0 if no value is null
    private int nulls;

    public Fixed(FieldVector vector) {
      super(vector);
      this.vector = vector;
    }

    protected Fixed(FieldVector vector, DataType type) {
      super(new ArrowColumnVector(vector), type);
      this.vector = vector;
    }

    public void turn() {
      nulls = vector.getNullCount();
      valid = nulls == 0 ? 0 : vector.getValidityBufferAddress();
      data = vector.getDataBufferAddress();
    }

    public boolean hasNull() {
      return nulls > 0;
    }

    public int numNulls() {
      return nulls;
    }

    public boolean isNullAt(int row) {
      return valid != 0 && !bit(valid, row);
    }

    private static boolean bit(long address, int row) {
      return (Platform.getByte(null, address + (row >> 3)) >> (row & 7) & 1) != 0;
    }

    public boolean getBoolean(int row) {
      return bit(data, row);
    }

    public byte getByte(int row) {
      return Platform.getByte(null, data + row);
    }

    public short getShort(int row) {
      return Platform.getShort(null, data + 2L * row);
    }

    public int getInt(int row) {
      return Platform.getInt(null, data + 4L * row);
    }

    public long getLong(int row) {
      return Platform.getLong(null, data + 8L * row);
    }

    public float getFloat(int row) {
      return Platform.getFloat(null, data + 4L * row);
    }

    public double getDouble(int row) {
      return Platform.getDouble(null, data + 8L * row);
    }
  }

  /** Decimals sent as longs, which are half as wide. */
  public static class Unscaled extends Fixed {
    public Unscaled(FieldVector vector, String[] digits) {
      super(vector, DataTypes.createDecimalType(Integer.parseInt(digits[0]), Integer.parseInt(digits[1])));
    }

    public Decimal getDecimal(int row, int precision, int scale) {
      return isNullAt(row) ? null : Decimal.createUnsafe(getLong(row), precision, scale);
    }
  }

  /** Texts and bytes, read from memory. */
  public static class Variable extends Fixed {
    private final int width;
    private long offsets;

    /** Bytes per offset. */
    public Variable(FieldVector vector, int width) {
      super(vector);
      this.width = width;
    }

    public void turn() {
      super.turn();
      offsets = vector.getOffsetBufferAddress();
    }

    private long start(int row) {
      return width == 4 ? Platform.getInt(null, offsets + 4L * row) : Platform.getLong(null, offsets + 8L * row);
    }

    public UTF8String getUTF8String(int row) {
      if (isNullAt(row)) return null;
      long start = start(row);
      return UTF8String.fromAddress(null, data + start, (int) (start(row + 1) - start));
    }

    public byte[] getBinary(int row) {
      if (isNullAt(row)) return null;
      long start = start(row);
      byte[] made = new byte[(int) (start(row + 1) - start)];
      Platform.copyMemory(null, data + start, made, Platform.BYTE_ARRAY_OFFSET, made.length);
      return made;
    }
  }

  public static class Metric implements CustomTaskMetric, Serializable {
    private final String name;
    private final long value;

    public Metric(String name, long value) {
      this.name = name;
      this.value = value;
    }

    public String name() {
      return name;
    }

    public long value() {
      return value;
    }
  }
}
