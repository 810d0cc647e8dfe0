import java.io.*;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.*;
import java.util.*;
import java.util.zip.*;

/**
 * Compiles Java files into a jar by Spark's own compiler; run by that compiler, without a JDK.
 * Arguments: the jar, and the files in the order in which they need each other. One whose name ends with "?" may fail.
 * An argument "Name=interface,interface" is a class that passes each method of these on to the target of its base.
 */
public class Compile {
  public static void main(String[] given) throws Exception {
    ClassLoader loader = Thread.currentThread().getContextClassLoader();
    ZipOutputStream jar = new ZipOutputStream(new FileOutputStream(given[0]));
    for (int at = 1; at < given.length; at++) {
      boolean optional = given[at].endsWith("?");
      String path = optional ? given[at].substring(0, given[at].length() - 1) : given[at];
      int equals = path.indexOf('=');
      org.codehaus.janino.SimpleCompiler compiler = new org.codehaus.janino.SimpleCompiler();
      compiler.setTargetVersion(8);
      compiler.setParentClassLoader(loader);
      try {
        byte[] source = equals < 0
            ? Files.readAllBytes(Paths.get(path, new String[0]))
            : passing(path.substring(0, equals), path.substring(equals + 1).split(","), loader).getBytes("UTF-8");
        compiler.cook(path, new ByteArrayInputStream(source));
      } catch (Exception problem) {
        if (!optional) throw problem;
        continue;
      }
      loader = compiler.getClassLoader();
      Iterator entries = compiler.getBytecodes().entrySet().iterator();
      while (entries.hasNext()) {
        Map.Entry entry = (Map.Entry) entries.next();
        jar.putNextEntry(new ZipEntry(((String) entry.getKey()).replace('.', '/') + ".class"));
        jar.write((byte[]) entry.getValue());
      }
    }
    jar.close();
  }

  /** The source of a class of the package lance_spark that extends Served. */
  private static String passing(String name, String[] interfaces, ClassLoader loader) throws Exception {
    StringBuilder text = new StringBuilder("package lance_spark;\npublic class " + name + " extends Served implements ");
    text.append(String.join(", ", interfaces)).append(" {\n");
    Set seen = new HashSet(Arrays.asList(new String[] {"name()", "initialize"}));
    for (int at = 0; at < interfaces.length; at++) {
      Class kind = Class.forName(interfaces[at], false, loader);
      Method[] methods = kind.getMethods();
      for (int each = 0; each < methods.length; each++) {
        Method method = methods[each];
        if (Modifier.isStatic(method.getModifiers()) || method.isBridge()) continue;
        StringBuilder taken = new StringBuilder();
        StringBuilder passed = new StringBuilder();
        Class[] parameters = method.getParameterTypes();
        for (int p = 0; p < parameters.length; p++) {
          taken.append(p == 0 ? "" : ", ").append(parameters[p].getCanonicalName()).append(" p").append(p);
          passed.append(p == 0 ? "" : ", ").append("p").append(p);
        }
        if (!seen.add(method.getName() + "(" + taken + ")") || method.getName().equals("initialize")) continue;
        boolean nothing = method.getReturnType() == void.class;
        text.append("  public ").append(method.getReturnType().getCanonicalName()).append(" ");
        text.append(method.getName()).append("(").append(taken).append(")");
        Class[] thrown = method.getExceptionTypes();
        for (int t = 0; t < thrown.length; t++) {
          text.append(t == 0 ? " throws " : ", ").append(thrown[t].getCanonicalName());
        }
        text.append(" { ").append(nothing ? "" : "return ").append("((").append(interfaces[at]).append(") target()).");
        text.append(method.getName()).append("(").append(passed).append("); }\n");
      }
    }
    return text.append("}\n").toString();
  }
}
