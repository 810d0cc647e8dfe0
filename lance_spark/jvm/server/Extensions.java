package lance_spark;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.*;
import java.util.regex.Pattern;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.classic.SparkSession;
import scala.Function2;
import scala.Tuple2;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * For spark.sql.extensions: UPDATE, DELETE, MERGE, OPTIMIZE and similar statements about tables of this jar's catalogs.
 *
 * Spark's own tasks cannot change rows of a Lance table. A statement that the process beside the JVM takes for one of
 * its own becomes the CALL of a procedure, which the process executes. All others go to Spark's parser as they are.
 */
public class Extensions extends AbstractFunction1 {
  public Object apply(Object extensions) {
    Served.load();
    ((SparkSessionExtensions) extensions).injectParser((Function2) new Parsers());
    return BoxedUnit.UNIT;
  }

  public static class Parsers extends scala.runtime.AbstractFunction2 {
    public Object apply(Object session, Object parser) {
      return Proxy.newProxyInstance(
          Extensions.class.getClassLoader(), new Class[] {ParserInterface.class}, new Parser(session, parser));
    }
  }

  public static class Parser implements InvocationHandler {
    private static final Pattern OPENS = Pattern.compile(
        "^(?:\\s|--[^\\n]*\\n|/\\*.*?\\*/)*(?:UPDATE|DELETE|MERGE|WITH|DESC|DESCRIBE|OPTIMIZE|VACUUM|RESTORE|ALTER"
            + "|CREATE\\s+(?:OR\\s+REPLACE\\s+)?VIEW)\\b",
        Pattern.CASE_INSENSITIVE | Pattern.DOTALL);
    private static final String PREFIX = "spark.sql.catalog.";
    private final SparkSession session;
    private final Object parser;

    Parser(Object session, Object parser) {
      this.session = (SparkSession) session;
      this.parser = parser;
    }

    public Object invoke(Object proxy, Method method, Object[] given) throws Throwable {
      if (method.getName().equals("hashCode")) return Integer.valueOf(System.identityHashCode(proxy));
      if (method.getName().equals("equals")) return Boolean.valueOf(proxy == given[0]);
      Object[] passed = given;
      if (method.getName().equals("parsePlan") || method.getName().equals("parsePlanWithParameters")) {
        String call = call((String) given[0], given.length > 1 ? given[1] : null);
        if (call != null) {
          passed = (Object[]) given.clone();
          passed[0] = call;
        }
      }
      try {
        return method.invoke(parser, passed);
      } catch (InvocationTargetException problem) {
        throw problem.getCause();
      }
    }

    /** The CALL in place of a statement; null for all that is for Spark. */
    private String call(String text, Object parameters) {
      if (Helper.inside() || !OPENS.matcher(text).find()) return null;
      Object before = Helper.shared().get("process");
      String found = understood(text, parameters);
      // What came in the way of a process that had ended, or was just starting, is asked again: nothing was changed.
      boolean other = before != null && before != Helper.shared().get("process");
      return found == null && other ? understood(text, parameters) : found;
    }

    private String understood(String text, Object parameters) {
      String catalog = catalog();
      if (catalog == null) return null;
      try {
        String whole = parameters == null ? text : withValues(text, parameters);
        Map given = new HashMap();
        given.put("text", whole);
        if (!Served.ask(session, "understands", given, new ArrayList()).asBoolean()) return null;
        String told = Base64.getEncoder().encodeToString(whole.getBytes("UTF-8"));
        return "CALL `" + catalog.replace("`", "``") + "`.system.lance_spark_statement('" + told + "')";
      } catch (Exception problem) {
        System.err.println("lance_spark: a statement goes to Spark, as the process beside it did not answer: " + problem);
        return null; // what is wrong shows when Spark looks the table up
      }
    }

    /** The name of a catalog of this jar, after each of them is known to the process; null if there is none. */
    private String catalog() {
      String found = null;
      Iterator entries =
          scala.jdk.javaapi.CollectionConverters.asJava(session.conf().getAll()).entrySet().iterator();
      while (entries.hasNext()) {
        Map.Entry entry = (Map.Entry) entries.next();
        String key = (String) entry.getKey();
        String kind = (String) entry.getValue();
        if (!key.startsWith(PREFIX) || !(kind.equals("lance_spark.Catalog") || kind.equals("lance_spark.PathCatalog"))) {
          continue;
        }
        String name = key.substring(PREFIX.length());
        if (name.indexOf('.') >= 0) continue;
        try {
          ((Served) (Object) session.sessionState().catalogManager().catalog(name)).target();
          found = name;
        } catch (Exception problem) {
          continue; // said by a statement that names it
        }
      }
      return found;
    }

    private static String withValues(String text, Object parameters) throws Exception {
      Class handler = Class.forName("org.apache.spark.sql.catalyst.parser.ParameterHandler");
      Class context = Class.forName("org.apache.spark.sql.catalyst.parser.ParameterContext");
      Method substitute = handler.getMethod("substituteParameters", new Class[] {String.class, context});
      return (String) ((Tuple2) substitute.invoke(null, new Object[] {text, parameters}))._1();
    }
  }
}
