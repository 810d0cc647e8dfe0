package lance_spark;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.api.python.Py4JServer;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog without tables, by which a client of a Spark server talks to a Python process beside the server.
 *
 * Listing the namespaces of a namespace hands over a request: the namespace's name is that of a setting of the session,
 * which has the request and is removed. So secrets stand in no statement, which the server would show. The one
 * namespace in the result is the answer, as text in base64.
 *
 * Each session has a class loader of its own, and this class with it. What all of them share lies in the properties of
 * the JVM, and has only classes of Java and of Spark: a session that ends must leave nothing behind.
 */
public class Helper implements SupportsNamespaces, Runnable {
  static final String SHARED = "lance_spark.helper";

  private String name;
  private String python;
  private String path;
  private Process watched;

  public String name() { return name; }

  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    this.python = options.get("python");
    this.path = options.get("path");
  }

  public String[][] listNamespaces(String[] given) {
    org.apache.spark.sql.classic.SparkSession session = org.apache.spark.sql.classic.SparkSession.active();
    String request = session.conf().get(given[0]);
    session.conf().unset(given[0]);
    try {
      String answer = ask(helper(session, python, path), session, request, new ArrayList());
      byte[] bytes = answer.getBytes("UTF-8");
      return new String[][] {{Base64.getEncoder().encodeToString(bytes)}};
    } catch (Exception problem) {
      throw new IllegalStateException("lance_spark's process on the server: " + problem, problem);
    }
  }

  /** What all sessions of the server share: "process", "call", "server", and what the process was asked to keep. */
  static Map shared() {
    Map properties = System.getProperties();
    synchronized (properties) {
      Map found = (Map) properties.get(SHARED);
      if (found == null) {
        found = new ConcurrentHashMap();
        found.put("kept", new ConcurrentHashMap());
        found.put("inside", new ConcurrentHashMap());
        properties.put(SHARED, found);
      }
      return found;
    }
  }

  /** The process's function for requests; starts the process if there is none. */
  static java.util.function.Function helper(
      org.apache.spark.sql.classic.SparkSession session, String python, String path) throws Exception {
    Map shared = shared();
    synchronized (shared) {
      Process process = (Process) shared.get("process");
      if (process == null || !process.isAlive()) start(shared, session.sparkContext(), python, path);
      return (java.util.function.Function) shared.get("call");
    }
  }

  /** The answer to a request, which is executed in this thread. */
  static String ask(java.util.function.Function process, Object session, String request, List made) {
    Map inside = (Map) shared().get("inside");
    Object thread = Thread.currentThread();
    Object before = inside.put(thread, Boolean.TRUE);
    try {
      return (String) process.apply(new Object[] {session, request, made});
    } finally {
      if (before == null) inside.remove(thread);
    }
  }

  /** Whether the process executes something in this thread: what it parses is for Spark. */
  static boolean inside() {
    return ((Map) shared().get("inside")).containsKey(Thread.currentThread());
  }

  private static void start(Map shared, org.apache.spark.SparkContext context, String python, String path)
      throws Exception {
    Py4JServer old = (Py4JServer) shared.remove("server");
    if (old != null) old.shutdown();
    shared.remove("call");
    Py4JServer server = served(context.conf());
    ProcessBuilder builder = new ProcessBuilder(new String[] {python, "-m", "lance_spark.spark.helper"});
    Map environment = builder.environment();
    environment.put("PYSPARK_GATEWAY_PORT", "" + server.getListeningPort());
    environment.put("PYSPARK_GATEWAY_SECRET", server.secret());
    environment.put("PYSPARK_PIN_THREAD", "true");
    environment.put("PYTHONPATH", path);
    String workers = context.conf().get("spark.pyspark.python", environment.getOrDefault("PYSPARK_PYTHON", python) + "");
    environment.put("PYSPARK_PYTHON", workers);
    environment.remove("SPARK_REMOTE");
    environment.remove("SPARK_LOCAL_REMOTE");
    environment.remove("SPARK_CONNECT_MODE_ENABLED");
    environment.remove("SPARK_API_MODE");
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    Process process = builder.start();
    shared.put("server", server);
    shared.put("context", context);
    shared.put("process", process);
    String ready = new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
    if (!"ready".equals(ready) || shared.get("call") == null) {
      process.destroyForcibly();
      throw new IllegalStateException("it did not start (" + ready + "); the log of the server tells why");
    }
    Helper watcher = new Helper();
    watcher.python = python;
    watcher.path = path;
    watcher.watched = process;
    Thread thread = new Thread(watcher, "lance_spark helper");
    thread.setDaemon(true);
    thread.start();
  }

  /** A program in Scala never ended: the JVM waited for py4j's threads, which are daemons if the one is that makes them. */
  private static Py4JServer served(final org.apache.spark.SparkConf conf) throws InterruptedException {
    final Py4JServer[] made = new Py4JServer[1];
    Thread maker = new Thread() {
      public void run() {
        Py4JServer server = new Py4JServer(conf);
        server.start();
        made[0] = server;
      }
    };
    maker.setDaemon(true);
    maker.start();
    maker.join();
    if (made[0] == null) throw new IllegalStateException("py4j did not start; the log tells why");
    return made[0];
  }

  /** Waits for the end of the process, and starts another one: the catalogs of living sessions come back with it. */
  public void run() {
    Map shared = shared();
    long began = System.currentTimeMillis();
    try {
      watched.waitFor();
      if (System.currentTimeMillis() - began < 10000) return; // it would not live longer: the next request tells why
      synchronized (shared) {
        org.apache.spark.SparkContext context = (org.apache.spark.SparkContext) shared.get("context");
        if (shared.get("process") == watched && !context.isStopped()) start(shared, context, python, path);
      }
    } catch (Exception problem) {
      System.err.println("lance_spark's process on the server ended, and another one did not start: " + problem);
    }
  }

  // --- There are no namespaces

  public String[][] listNamespaces() { return new String[0][]; }

  public boolean namespaceExists(String[] namespace) { return true; }

  public Map loadNamespaceMetadata(String[] namespace) { return new HashMap(); }

  public void createNamespace(String[] namespace, Map metadata) { throw new UnsupportedOperationException(); }

  public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
    throw new UnsupportedOperationException();
  }

  public boolean dropNamespace(String[] namespace, boolean cascade) { return false; }
}
