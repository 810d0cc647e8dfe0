package lance_spark;

import java.io.IOException;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.spark.JobArtifactSet;
import org.apache.spark.JobArtifactState;
import org.apache.spark.sql.RuntimeConfig;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Cast;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Avg;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.expressions.aggregate.Sum;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.connector.read.colstats.Histogram;
import org.apache.spark.sql.connector.read.colstats.HistogramBin;
import org.apache.spark.sql.connector.read.partitioning.KeyGroupedPartitioning;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;
import scala.Option;

/**
 * Stands in for a Python object that implements Spark's interfaces, and gives the answers known beforehand.
 *
 * Spark repeats its calls, and each call to Python takes at least a tenth of a millisecond. So Python declares
 * beforehand which answers it knows, which to keep, and which arguments it wants as one text. Python's side is
 * proxies.py; bridge.py reads the texts. Compiled by Janino: no lambdas, raw types.
 */
public class Answers implements InvocationHandler {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map KINDS = new ConcurrentHashMap();
  private static final int MOST_SCHEMAS = 256;
  private static final int MOST_VALUES = 10000;
  private static final Map SCHEMAS = new ConcurrentHashMap();

  /** The common part of all objects of one Python class. */
  public static class Kind {
    final Class[] interfaces;
    final Set asked;
    final Set told;
    final Set kept;
    final Set defaults;
    final boolean same;

    Kind(JsonNode given) throws ClassNotFoundException {
      interfaces = new Class[given.get("interfaces").size()];
      for (int i = 0; i < interfaces.length; i++) {
        interfaces[i] = Class.forName(at(given.get("interfaces"), i).asText(), false, Answers.class.getClassLoader());
      }
      asked = texts(given.get("asked"));
      told = texts(given.get("told"));
      kept = texts(given.get("kept"));
      defaults = texts(given.get("defaults"));
      same = given.get("same").asBoolean();
    }
  }

  private final Kind kind;
  private final InvocationHandler python;
  private final String text;
  private final JsonNode told;
  private final byte[] content;
  private final UserDefinedPythonDataSource source;
  private final Map known = new ConcurrentHashMap();
  private Predicate[] taken = new Predicate[0];
  private boolean streams;

  private Answers(Kind kind, InvocationHandler python, JsonNode given, byte[] content, Object source) {
    this.kind = kind;
    this.python = python;
    this.text = given.get("text").isNull() ? null : given.get("text").asText();
    this.told = given.get("known");
    this.content = content;
    this.source = (UserDefinedPythonDataSource) source;
  }

  /** The entry points for Python. */
  public static class Maker {
    public Maker() {}

    /** The Java side of a Python object. */
    public Object make(Object python, String kind, String given, byte[] content, Object source) throws Exception {
      return Answers.make(python, kind, given, content, source);
    }

    /** A {@link Writes.Shape}: how a write sends its rows, as columns if there are kinds. */
    public Object shape(String kinds, byte[] schema, String column, boolean unix) throws Exception {
      Class made = Class.forName("lance_spark.Writes$Shape", true, Answers.class.getClassLoader());
      return made.getConstructors()[0].newInstance(new Object[] {kinds, schema, column, Boolean.valueOf(unix)});
    }

    /** A {@link Feed}: the rows of a change feed. */
    public Object feed(Object context, Object schema, Object rows) throws Exception {
      Class made = Class.forName("lance_spark.Feed", true, Answers.class.getClassLoader());
      return made.getConstructors()[0].newInstance(new Object[] {context, schema, rows});
    }

    /** A function of {@link Grouped}, by its name. */
    public Object function(String name) throws Exception {
      return Class.forName("lance_spark.Grouped$Named", true, Answers.class.getClassLoader())
          .getConstructors()[0].newInstance(new Object[] {name});
    }

    /** The values of a session's settings, as one text; null for those that have none. */
    public String settings(Object conf, String names) throws IOException {
      ArrayNode values = JSON.createArrayNode();
      for (Iterator each = JSON.readTree(names).elements(); each.hasNext();) {
        Option value = ((RuntimeConfig) conf).getOption(((JsonNode) each.next()).asText());
        values.add(value.isDefined() ? (String) value.get() : (String) null);
      }
      return values.toString();
    }

    /** The text of any value that Spark passes to a source. */
    public String text(Object given) {
      return Answers.plain(given).toString();
    }
  }

  private static Object make(Object python, String kind, String given, byte[] content, Object source) throws Exception {
    Kind known = (Kind) KINDS.get(kind);
    if (known == null) {
      known = new Kind(JSON.readTree(kind));
      KINDS.put(kind, known);
    }
    InvocationHandler handler = Proxy.getInvocationHandler(python);
    Answers made = new Answers(known, handler, JSON.readTree(given), content, source);
    return Proxy.newProxyInstance(Answers.class.getClassLoader(), known.interfaces, made);
  }

  public Object invoke(Object proxy, Method method, Object[] given) throws Throwable {
    String name = method.getName();
    int count = given == null ? 0 : given.length;
    if (method.getDeclaringClass() == Object.class) {
      if (name.equals("equals")) return Boolean.valueOf(isSame(proxy, given[0]));
      String shown = text == null ? (String) ask(proxy, "description") : text;
      if (name.equals("toString")) return shown;
      return Integer.valueOf(kind.same ? shown.hashCode() : System.identityHashCode(proxy));
    }
    if (count == 0) {
      if (streams && name.equals("columnarSupportMode")) return Scan.ColumnarSupportMode.UNSUPPORTED;
      if (name.equals("pushedPredicates")) return taken;
      Object answer = known.get(name);
      if (answer == null && told.has(name)) {
        answer = answer(told.get(name));
        known.put(name, answer);
      }
      if (answer != null) return answer;
    }
    boolean left = kind.defaults.contains(name + "/" + count);
    if (!left && kind.told.contains(name)) return tell(name, given);
    if (!left && kind.asked.contains(name)) {
      Object answer = python.invoke(proxy, method, given);
      if (count == 0 && answer != null && kind.kept.contains(name)) known.put(name, answer);
      if (name.equals("toMicroBatchStream")) streams = true;
      return answer;
    }
    if (method.isDefault()) return InvocationHandler.invokeDefault(proxy, method, given);
    throw new UnsupportedOperationException(this.text + " has no " + name + ".");
  }

  private boolean isSame(Object proxy, Object other) {
    if (proxy == other) return true;
    if (!kind.same || other == null || !Proxy.isProxyClass(other.getClass())) return false;
    return Proxy.getInvocationHandler(other) instanceof Answers && other.toString().equals(proxy.toString());
  }

  private Object ask(Object proxy, String name) throws Throwable {
    for (int i = 0; i < kind.interfaces.length; i++) {
      try {
        return invoke(proxy, kind.interfaces[i].getMethod(name, new Class[0]), null);
      } catch (NoSuchMethodException missing) {
        continue;
      }
    }
    return "Answers";
  }

  /** Call Python with the arguments as one text. For predicates it returns those it takes, and those left to Spark. */
  private Object tell(String name, Object[] given) throws Throwable {
    ArrayNode texts = JSON.createArrayNode();
    for (int i = 0; i < given.length; i++) {
      texts.add(name.equals("filter") ? shortened((Predicate[]) given[i]) : plain(given[i]));
    }
    Method apply = BiFunction.class.getMethod("apply", new Class[] {Object.class, Object.class});
    Object answer = python.invoke(null, apply, new Object[] {name, texts.toString()});
    if (!name.equals("pushPredicates")) return answer;
    JsonNode chosen = JSON.readTree((String) answer);
    taken = chosen((Predicate[]) given[0], chosen.get("taken"));
    return chosen((Predicate[]) given[0], chosen.get("left"));
  }

  /** The filters of a join, of which a long list of values would take longer than it saves: the join checks them. */
  private static ArrayNode shortened(Predicate[] given) {
    ArrayNode made = JSON.createArrayNode();
    for (int i = 0; i < given.length; i++) {
      made.add(given[i].children().length > MOST_VALUES ? JSON.createArrayNode().add("other") : plain(given[i]));
    }
    return made;
  }

  private static Predicate[] chosen(Predicate[] all, JsonNode places) {
    Predicate[] found = new Predicate[places.size()];
    for (int i = 0; i < found.length; i++) found[i] = all[number(places, i)];
    return found;
  }

  // Python's answers in Spark's form.

  private Object answer(JsonNode given) throws Exception {
    String kind = at(given, 0).asText();
    JsonNode value = at(given, 1);
    if (kind.equals("text")) return value.asText();
    if (kind.equals("flag")) return Boolean.valueOf(value.asBoolean());
    if (kind.equals("schema")) return schema(value.asText());
    if (kind.equals("statistics")) return new Size(at(value, 0).asLong(), at(value, 1).asLong(), columns(at(value, 2)));
    if (kind.equals("references")) return references(value);
    if (kind.equals("capabilities")) return capabilities(value);
    if (kind.equals("row columns")) return rowColumns(value);
    if (kind.equals("no transforms")) return new Transform[0];
    if (kind.equals("columnar")) {
      return value.asBoolean() ? Scan.ColumnarSupportMode.SUPPORTED : Scan.ColumnarSupportMode.UNSUPPORTED;
    }
    if (kind.equals("python metrics")) return source.createPythonMetrics();
    if (kind.equals("rows")) return rows(value);
    if (kind.equals("partitions")) return partitions(value);
    if (kind.equals("grouped partitions")) return grouped(value);
    if (kind.equals("grouping")) return grouping(value);
    if (kind.equals("factory")) return factory(value);
    throw new IllegalArgumentException("Python answered with " + kind);
  }

  private static Set texts(JsonNode given) {
    Set found = new HashSet();
    for (int i = 0; i < given.size(); i++) found.add(at(given, i).asText());
    return found;
  }

  private static JsonNode at(JsonNode given, int place) {
    return (JsonNode) given.get(place); // Janino resolves the interface's method, which returns a supertype
  }

  private static int number(JsonNode given, int place) {
    return at(given, place).intValue();
  }

  private static StructType schema(String text) {
    Object made = SCHEMAS.get(text);
    if (made == null) {
      if (SCHEMAS.size() >= MOST_SCHEMAS) SCHEMAS.clear();
      made = DataType.fromJson(text);
      SCHEMAS.put(text, made);
    }
    return (StructType) made;
  }

  private static NamedReference[] references(JsonNode columns) {
    NamedReference[] made = new NamedReference[columns.size()];
    for (int i = 0; i < made.length; i++) {
      Iterator one = Collections.singletonList(at(columns, i).asText()).iterator();
      made[i] = new FieldReference(scala.jdk.javaapi.CollectionConverters.asScala(one).toSeq());
    }
    return made;
  }

  private static Map columns(JsonNode given) {
    Map made = new LinkedHashMap();
    for (int i = 0; i < given.size(); i++) {
      JsonNode each = at(given, i);
      Iterator one = Collections.singletonList(at(each, 0).asText()).iterator();
      made.put(new FieldReference(scala.jdk.javaapi.CollectionConverters.asScala(one).toSeq()), new Column(each));
    }
    return made;
  }

  private static Object end(String form, JsonNode given) {
    if (given.isNull()) return null;
    String text = given.asText();
    if (form.equals("flag")) return Boolean.valueOf(text);
    if (form.equals("int")) return Integer.valueOf(text);
    if (form.equals("long")) return Long.valueOf(text);
    if (form.equals("double")) return Double.valueOf(text);
    return org.apache.spark.sql.types.Decimal.apply(new java.math.BigDecimal(text));
  }

  private static Set capabilities(JsonNode named) {
    Set found = new HashSet();
    for (int i = 0; i < named.size(); i++) found.add(TableCapability.valueOf(at(named, i).asText()));
    return Collections.unmodifiableSet(found);
  }

  private static MetadataColumn[] rowColumns(JsonNode named) {
    MetadataColumn[] made = new MetadataColumn[named.size()];
    for (int i = 0; i < made.length; i++) made[i] = new RowColumn(at(named, i).asText());
    return made;
  }

  private byte[] piece(JsonNode place) {
    int first = number(place, 0);
    return Arrays.copyOfRange(content, first, first + number(place, 1));
  }

  private InternalRow[] rows(JsonNode given) {
    int fields = number(given, 0);
    JsonNode places = at(given, 1);
    InternalRow[] made = new InternalRow[places.size()];
    for (int i = 0; i < made.length; i++) {
      UnsafeRow row = new UnsafeRow(fields);
      byte[] bytes = piece(at(places, i));
      row.pointTo(bytes, (long) Platform.BYTE_ARRAY_OFFSET, bytes.length);
      made[i] = row;
    }
    return made;
  }

  private InputPartition[] partitions(JsonNode places) {
    InputPartition[] made = new InputPartition[places.size()];
    for (int i = 0; i < made.length; i++) made[i] = new PythonInputPartition(i, piece(at(places, i)));
    return made;
  }

  private InputPartition[] grouped(JsonNode given) throws Exception {
    java.lang.reflect.Constructor part =
        Class.forName("lance_spark.Grouped$Part", true, Answers.class.getClassLoader()).getConstructors()[0];
    Integer fields = Integer.valueOf(number(given, 0));
    JsonNode places = at(given, 1);
    InputPartition[] made = new InputPartition[places.size()];
    for (int i = 0; i < made.length; i++) {
      byte[] content = piece(at(at(places, i), 0));
      byte[] key = piece(at(at(places, i), 1));
      made[i] = (InputPartition) part.newInstance(new Object[] {Integer.valueOf(i), content, fields, key});
    }
    return made;
  }

  private static KeyGroupedPartitioning grouping(JsonNode given) {
    JsonNode functions = at(given, 0);
    Expression[] made = new Expression[functions.size()];
    for (int i = 0; i < made.length; i++) {
      JsonNode each = at(functions, i);
      String name = at(each, 0).asText();
      Iterator one = Collections.singletonList(at(each, 1).asText()).iterator();
      FieldReference column = new FieldReference(scala.jdk.javaapi.CollectionConverters.asScala(one).toSeq());
      if (name.equals("identity")) {
        made[i] = column;
      } else if (name.equals("bucket")) {
        made[i] = Expressions.bucket(number(each, 2), new String[] {column.describe()});
      } else {
        made[i] = Expressions.apply(name, new Expression[] {column});
      }
    }
    return new KeyGroupedPartitioning(made, number(given, 1));
  }

  private PartitionReaderFactory factory(JsonNode given) throws Exception {
    scala.Option artifacts = JobArtifactSet.getCurrentJobArtifactState();
    Object job = artifacts.isEmpty() ? null : ((JobArtifactState) artifacts.get()).uuid();
    // Spark 4.3 also takes a session that keeps its workers' logs: only for Spark's own sources.
    Object[] all = new Object[] {
      source, piece(at(given, 0)), schema(at(given, 1).asText()), scala.Option.apply(job), scala.Option.apply(null)
    };
    java.lang.reflect.Constructor made = PythonPartitionReaderFactory.class.getConstructors()[0];
    PartitionReaderFactory worker =
        (PartitionReaderFactory) made.newInstance(Arrays.copyOf(all, made.getParameterCount()));
    if (at(given, 2).isNull()) return worker;
    Class batches = Class.forName("lance_spark.Batches", true, Answers.class.getClassLoader());
    Object[] both = new Object[] {worker, Boolean.valueOf(at(given, 2).asBoolean())};
    return (PartitionReaderFactory) batches.getConstructors()[0].newInstance(both);
  }

  // Spark's values as one text.

  private static JsonNode plain(Object given) {
    if (given == null) return JSON.nullNode();
    if (given instanceof Object[]) {
      ArrayNode all = JSON.createArrayNode();
      Object[] items = (Object[]) given;
      for (int i = 0; i < items.length; i++) all.add(plain(items[i]));
      return all;
    }
    if (given instanceof Identifier) {
      Identifier name = (Identifier) given;
      ArrayNode parts = (ArrayNode) plain(name.namespace());
      parts.add(name.name());
      ArrayNode made = JSON.createArrayNode();
      made.add(parts);
      made.add(name.toString());
      return made;
    }
    if (given instanceof StructType) return JSON.getNodeFactory().textNode(((StructType) given).json());
    if (given instanceof Aggregation) return aggregation((Aggregation) given);
    if (given instanceof SortOrder) {
      SortOrder order = (SortOrder) given;
      ArrayNode made = JSON.createArrayNode();
      made.add(plain(order.expression()));
      made.add(order.direction().toString());
      made.add(order.nullOrdering().toString());
      return made;
    }
    if (given instanceof Expression) return expression((Expression) given);
    if (given instanceof CaseInsensitiveStringMap) {
      ObjectNode made = JSON.createObjectNode();
      Iterator entries = ((CaseInsensitiveStringMap) given).asCaseSensitiveMap().entrySet().iterator();
      while (entries.hasNext()) {
        Map.Entry entry = (Map.Entry) entries.next();
        made.put((String) entry.getKey(), (String) entry.getValue());
      }
      return made;
    }
    if (given instanceof Boolean) return JSON.getNodeFactory().booleanNode(((Boolean) given).booleanValue());
    if (given instanceof Float || given instanceof Double) {
      return JSON.getNodeFactory().numberNode(((Number) given).doubleValue());
    }
    if (given instanceof Number) return JSON.getNodeFactory().numberNode(((Number) given).longValue());
    return JSON.getNodeFactory().textNode(given.toString());
  }

  private static ArrayNode aggregation(Aggregation given) {
    ArrayNode functions = JSON.createArrayNode();
    AggregateFunc[] asked = given.aggregateExpressions();
    for (int i = 0; i < asked.length; i++) functions.add(function(asked[i]));
    ArrayNode made = JSON.createArrayNode();
    made.add(functions);
    made.add(plain(given.groupByExpressions()));
    return made;
  }

  private static ArrayNode function(AggregateFunc given) {
    Expression column = null;
    boolean distinct = false;
    if (given instanceof Count) {
      column = ((Count) given).column();
      distinct = ((Count) given).isDistinct();
    } else if (given instanceof Sum) {
      column = ((Sum) given).column();
      distinct = ((Sum) given).isDistinct();
    } else if (given instanceof Avg) {
      column = ((Avg) given).column();
      distinct = ((Avg) given).isDistinct();
    } else if (given instanceof Min) {
      column = ((Min) given).column();
    } else if (given instanceof Max) {
      column = ((Max) given).column();
    }
    ArrayNode made = JSON.createArrayNode();
    made.add(given.getClass().getSimpleName());
    made.add(plain(column));
    made.add(distinct);
    return made;
  }

  private static ArrayNode expression(Expression given) {
    ArrayNode made = JSON.createArrayNode();
    if (given instanceof FieldReference) {
      made.add("column");
      made.add(plain(((FieldReference) given).fieldNames()));
    } else if (given instanceof LiteralValue) {
      literal(made, (LiteralValue) given);
    } else if (given instanceof Cast) {
      Cast cast = (Cast) given;
      made.add("cast");
      made.add(plain(cast.expression()));
      made.add(cast.expressionDataType() == null ? "" : cast.expressionDataType().simpleString());
      made.add(cast.dataType().simpleString());
    } else if (given instanceof GeneralScalarExpression) {
      made.add("call");
      made.add(((GeneralScalarExpression) given).name());
      made.add(plain(given.children()));
    } else {
      made.add("other");
    }
    return made;
  }

  private static void literal(ArrayNode made, LiteralValue given) {
    Object value = given.value();
    String type = given.dataType().simpleString();
    made.add("literal");
    if (value == null || value instanceof Boolean) {
      made.add("plain");
      made.add(plain(value));
    } else if (value instanceof Float || value instanceof Double) {
      made.add("float"); // as text: JSON has neither NaN nor infinity
      made.add(value.toString());
    } else if (value instanceof Number && !(value instanceof java.math.BigDecimal)) {
      made.add("plain");
      made.add(((Number) value).longValue());
    } else if (value instanceof byte[]) {
      made.add("bytes");
      made.add(Base64.getEncoder().encodeToString((byte[]) value));
    } else {
      boolean decimal = value instanceof org.apache.spark.sql.types.Decimal || value instanceof java.math.BigDecimal;
      made.add(decimal ? "decimal" : "plain");
      made.add(value.toString());
    }
    made.add(type);
  }

  /** Spark's statistics: rows, and bytes of the result columns. */
  public static class Size implements Statistics {
    private final long bytes;
    private final long rows;
    private final Map columns;

    public Size(long bytes, long rows, Map columns) {
      this.bytes = bytes;
      this.rows = rows;
      this.columns = columns;
    }

    public Map columnStats() {
      return columns;
    }

    public OptionalLong sizeInBytes() {
      return OptionalLong.of(bytes);
    }

    public OptionalLong numRows() {
      return OptionalLong.of(rows);
    }
  }

  /** Spark's statistics of a column. */
  public static class Column implements ColumnStatistics {
    private final long[] numbers = new long[4];
    private final Object low;
    private final Object high;
    private final Histogram histogram;

    public Column(JsonNode given) {
      for (int i = 0; i < 4; i++) numbers[i] = at(given, i + 1).asLong();
      low = end(at(given, 5).asText(), at(given, 6));
      high = end(at(given, 5).asText(), at(given, 7));
      histogram = at(given, 9).size() == 0 ? null : new Bins(at(given, 8).asDouble(), at(given, 9));
    }

    public OptionalLong distinctCount() {
      return OptionalLong.of(numbers[0]);
    }

    public OptionalLong nullCount() {
      return OptionalLong.of(numbers[1]);
    }

    public OptionalLong avgLen() {
      return OptionalLong.of(numbers[2]);
    }

    public OptionalLong maxLen() {
      return OptionalLong.of(numbers[3]);
    }

    public Optional min() {
      return Optional.ofNullable(low);
    }

    public Optional max() {
      return Optional.ofNullable(high);
    }

    public Optional histogram() {
      return Optional.ofNullable(histogram);
    }
  }

  /** Spark's histogram of a column. */
  public static class Bins implements Histogram {
    private final double height;
    private final HistogramBin[] bins;

    public Bins(double height, JsonNode given) {
      this.height = height;
      bins = new HistogramBin[given.size()];
      for (int i = 0; i < bins.length; i++) bins[i] = new Bin(at(given, i));
    }

    public double height() {
      return height;
    }

    public HistogramBin[] bins() {
      return bins;
    }
  }

  /** A bin of a histogram. */
  public static class Bin implements HistogramBin {
    private final double low;
    private final double high;
    private final long distinct;

    public Bin(JsonNode given) {
      low = at(given, 0).asDouble();
      high = at(given, 1).asDouble();
      distinct = at(given, 2).asLong();
    }

    public double lo() {
      return low;
    }

    public double hi() {
      return high;
    }

    public long ndv() {
      return distinct;
    }
  }

  /** A numeric metadata column of each row, read on request. */
  public static class RowColumn implements MetadataColumn {
    private final String name;

    public RowColumn(String name) {
      this.name = name;
    }

    public String name() {
      return name;
    }

    public DataType dataType() {
      return DataTypes.LongType;
    }

    public boolean isNullable() {
      return false;
    }
  }
}
