package lance_spark;

import java.io.File;
import java.io.InputStream;
import java.lang.ref.WeakReference;
import java.util.*;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog that settings of Spark name, from a jar that "lance-catalog jar" wrote: the process beside the JVM has it.
 *
 * The jar's classes "Catalog" and "PathCatalog" extend this one; each of their methods calls the same one of target().
 * They are generated for a Spark, whose interfaces differ between versions. A catalog belongs to one session, which its
 * process must not keep alive.
 */
public abstract class Served {
  private static Properties build;
  private static boolean loaded;
  private String name;
  private Map options;
  private WeakReference session;
  private Object target;
  private Object servedBy;

  public void initialize(String name, CaseInsensitiveStringMap options) {
    load();
    this.name = name;
    this.options = new HashMap(options.asCaseSensitiveMap());
    this.session = new WeakReference(SparkSession.active());
  }

  public String name() { return name; }

  /** The catalog itself, which the process implements; of another process after that one has ended. */
  protected synchronized Object target() {
    SparkSession found = (SparkSession) session.get();
    if (found == null) throw new IllegalStateException("The session of catalog " + name + " has ended.");
    Map given = new HashMap();
    given.put("name", name);
    given.put("options", options);
    given.put("paths", Boolean.valueOf(getClass().getName().endsWith("PathCatalog")));
    List made = new ArrayList();
    start(found);
    Object process = Helper.shared().get("process");
    if (target == null || process != servedBy) {
      ask(found, "serve", given, made);
      target = made.get(0);
      servedBy = process;
    }
    return target;
  }

  /** The value of the process's answer; made gets what is not text. */
  static JsonNode ask(SparkSession session, String verb, Map given, List made) {
    try {
      Map request = new HashMap();
      request.put("verb", verb);
      request.put("session", "jvm:" + session.sessionUUID());
      given.put("build", build().getProperty("digest"));
      given.put("version", build().getProperty("version"));
      request.put("given", given);
      ObjectMapper mapper = new ObjectMapper();
      String answer = Helper.ask(start(session), session, mapper.writeValueAsString(request), made);
      JsonNode found = mapper.readTree(answer);
      if (found.has("value")) return found.get("value");
      if (found.has("failed")) throw new IllegalStateException(found.get("failed").get("text").asText());
      String hint = found.get("hint").isNull() ? "" : "\n  hint: " + found.get("hint").asText();
      throw new IllegalArgumentException(
          "lance_spark.errors." + found.get("error").asText() + ": " + found.get("message").asText() + hint);
    } catch (RuntimeException problem) {
      throw problem;
    } catch (Exception problem) {
      throw new IllegalStateException("lance_spark's process beside Spark: " + problem, problem);
    }
  }

  private static java.util.function.Function start(SparkSession session) {
    Map shared = Helper.shared();
    shared.putIfAbsent("loader-" + build().getProperty("digest"), Served.class.getClassLoader());
    String python = python(session.sparkContext());
    try {
      return Helper.helper(session, python, path());
    } catch (Exception problem) {
      throw new IllegalStateException("lance_spark's process beside Spark did not start with " + python
          + ", in which lance-spark and pyspark have to be installed (set spark.lance.python to another one): "
          + problem.getMessage(), problem);
    }
  }

  /**
   * Load all classes of the jar at once.
   *
   * A session of the Thrift server that ends closes the class loader of spark.jars: classes that it has not loaded by
   * then cannot be found any more, by no session.
   */
  static synchronized void load() {
    if (loaded) return;
    loaded = true;
    try {
      File file = new File(Served.class.getProtectionDomain().getCodeSource().getLocation().toURI());
      java.util.jar.JarFile jar = new java.util.jar.JarFile(file);
      Enumeration entries = jar.entries();
      while (entries.hasMoreElements()) {
        String entry = ((java.util.jar.JarEntry) entries.nextElement()).getName();
        if (!entry.startsWith("lance_spark/") || !entry.endsWith(".class")) continue;
        String found = entry.substring(0, entry.length() - 6).replace('/', '.');
        try {
          Class.forName(found, false, Served.class.getClassLoader());
        } catch (LinkageError problem) {
          continue; // this Spark lacks what it needs: said by whoever uses it
        }
      }
      jar.close();
      build();
    } catch (Exception problem) {
      System.err.println("lance_spark: not all classes of its jar could be loaded: " + problem);
    }
  }

  /** What the command wrote beside the classes. */
  static synchronized Properties build() {
    if (build != null) return build;
    Properties found = new Properties();
    try {
      InputStream file = Served.class.getResourceAsStream("/lance_spark/build.properties");
      if (file == null) throw new IllegalStateException("this class works from a jar that 'lance-catalog jar' wrote");
      found.load(file);
      file.close();
    } catch (java.io.IOException problem) {
      throw new IllegalStateException(problem);
    }
    build = found;
    return found;
  }

  private static String python(SparkContext context) {
    String written = build().getProperty("python");
    String[] wanted = new String[] {
      context.conf().get("spark.lance.python", ""), context.conf().get("spark.pyspark.driver.python", ""),
      context.conf().get("spark.pyspark.python", ""), String.valueOf(System.getenv("PYSPARK_PYTHON")),
      new File(written).canExecute() ? written : "",
    };
    for (int at = 0; at < wanted.length; at++) {
      if (!wanted[at].isEmpty() && !wanted[at].equals("null")) return wanted[at];
    }
    return "python3";
  }

  /** PYTHONPATH, with the PySpark that an unpacked Spark brings: a Python there has none of its own. */
  private static String path() {
    String known = System.getenv("PYTHONPATH");
    String home = System.getenv("SPARK_HOME");
    List parts = new ArrayList();
    if (known != null && !known.isEmpty()) parts.add(known);
    if (home != null && new File(home, "python/pyspark").isDirectory()) {
      parts.add(home + "/python");
      File[] files = new File(home, "python/lib").listFiles();
      for (int at = 0; files != null && at < files.length; at++) {
        if (files[at].getName().startsWith("py4j")) parts.add(files[at].getPath());
      }
    }
    return String.join(File.pathSeparator, (String[]) parts.toArray(new String[0]));
  }
}
