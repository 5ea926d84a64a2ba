import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;

/** Sets permissions as a NodeManager does; arguments: class of the file system, then mode and path, in turns. */
public final class LocalFsScenario {
  public static void main(String[] arguments) throws Exception {
    Configuration configuration = new Configuration();
    configuration.set("fs.AbstractFileSystem.file.impl", arguments[0]);
    FileContext files = FileContext.getLocalFSFileContext(configuration);
    for (int at = 1; at < arguments.length; at += 2) {
      short mode = Short.parseShort(arguments[at], 8);
      files.setPermission(new Path(arguments[at + 1]), new FsPermission(mode));
    }
    System.out.println(files.getDefaultFileSystem().getClass().getName());
  }
}
