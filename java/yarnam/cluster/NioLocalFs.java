package yarnam.cluster;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FsConstants;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, which sets permissions by a call of the JVM. Hadoop's own starts a
 * process ("chmod") for each file where its native library is missing: a NodeManager does so for
 * every file of every archive that it unpacks.
 */
public final class NioLocalFs extends ChecksumFs {
  /** Hadoop makes it by these arguments. */
  public NioLocalFs(URI uri, Configuration configuration) throws IOException, URISyntaxException {
    super(new Raw(configuration));
  }

  static final class Raw extends DelegateToFileSystem {
    Raw(Configuration configuration) throws IOException, URISyntaxException {
      super(
          FsConstants.LOCAL_FS_URI,
          new Local(),
          configuration,
          FsConstants.LOCAL_FS_URI.getScheme(),
          false);
    }

    // As Hadoop's RawLocalFs: files have no port, and any name.

    @Override
    public int getUriDefaultPort() {
      return -1;
    }

    @Override
    public boolean isValidName(String name) {
      return true;
    }
  }

  static final class Local extends RawLocalFileSystem {
    private static final int STICKY = 01000;

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      if (permission.toShort() >= STICKY) {
        super.setPermission(path, permission); // java.nio knows no sticky bit
        return;
      }
      Files.setPosixFilePermissions(
          pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
    }
  }
}
