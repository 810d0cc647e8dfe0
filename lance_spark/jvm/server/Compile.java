import java.io.*;
import java.nio.file.*;
import java.util.*;
import java.util.zip.*;

/**
 * Compiles Java files into a jar by Spark's own compiler; run by that compiler, without a JDK.
 * Arguments: the jar, and the files in the order in which they need each other. One whose name ends with "?" may fail.
 */
public class Compile {
  public static void main(String[] given) throws Exception {
    ClassLoader loader = Thread.currentThread().getContextClassLoader();
    ZipOutputStream jar = new ZipOutputStream(new FileOutputStream(given[0]));
    for (int at = 1; at < given.length; at++) {
      boolean optional = given[at].endsWith("?");
      String path = optional ? given[at].substring(0, given[at].length() - 1) : given[at];
      org.codehaus.janino.SimpleCompiler compiler = new org.codehaus.janino.SimpleCompiler();
      compiler.setTargetVersion(8);
      compiler.setParentClassLoader(loader);
      try {
        compiler.cook(path, new ByteArrayInputStream(Files.readAllBytes(Paths.get(path, new String[0]))));
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
}
