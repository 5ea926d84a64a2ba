package yarnam;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;

import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterRequest;

/**
 * Where the job's page is, from a file that the Python AM writes once: it becomes the application's
 * tracking URL with the next heartbeat, and again whenever the AM registers. Before Hadoop 3.2
 * (YARN-7974) a heartbeat cannot say it, and the tracking URL stays Skein's. Throws nothing.
 */
final class PageUrl {
  /** Longer than any host name. */
  static final int MAX_BYTES = 1000;

  private final Path file;
  private String url;
  private String offered;
  private String accepted;
  private boolean isUnable;

  /** No file: there is no page. */
  PageUrl(String file) {
    this.file = file.isEmpty() ? null : Paths.get(file);
  }

  /** Adds it to a request that can say it and has not said it yet. */
  synchronized void addTo(String method, Object[] args) {
    boolean isHeartbeat = method.equals("allocate");
    if (isUnable || !(isHeartbeat || method.equals("registerApplicationMaster"))) {
      return;
    }
    try {
      String found = read();
      offered = null;
      if (found == null || (isHeartbeat && found.equals(accepted))) {
        return;
      }
      if (isHeartbeat) {
        ((AllocateRequest) args[0]).setTrackingUrl(found);
      } else {
        ((RegisterApplicationMasterRequest) args[0]).setTrackingUrl(found);
      }
      offered = found;
    } catch (Throwable failure) {
      isUnable = true;
      System.err.println("yarnam: the tracking URL stays that of Skein: " + failure);
    }
  }

  /** The request has reached the ResourceManager. */
  synchronized void sent() {
    if (offered != null) {
      accepted = offered;
      offered = null;
    }
  }

  private String read() throws Exception {
    if (url == null && file != null && Files.exists(file) && Files.size(file) <= MAX_BYTES) {
      url = new String(Files.readAllBytes(file), StandardCharsets.US_ASCII).trim();
    }
    return url;
  }
}
