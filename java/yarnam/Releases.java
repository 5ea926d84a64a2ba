package yarnam;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.records.ContainerId;

/**
 * Containers of earlier attempts that this one gives back, from a file in which the Python AM names
 * them, one a line: Skein cannot release what it has not asked for. Each goes out with the next
 * heartbeat, and all of them again once the AM has registered again. Throws nothing.
 */
final class Releases {
  /** More lines than YARN keeps containers of any job that runs here. */
  static final int MAX_BYTES = 1 << 20;

  private final Path file;
  private final Set<String> sent = new LinkedHashSet<>();
  private List<String> pending = new ArrayList<>();
  private FileTime seen;
  private boolean isUnable;

  /** No file: there is nothing to give back. */
  Releases(String file) {
    this.file = file.isEmpty() ? null : Paths.get(file);
  }

  /** Adds those that the ResourceManager has not been told of. */
  synchronized void addTo(AllocateRequest request) {
    if (isUnable || file == null) {
      return;
    }
    try {
      read();
      if (pending.isEmpty()) {
        return;
      }
      List<ContainerId> all = new ArrayList<>(request.getReleaseList());
      for (String id : pending) {
        all.add(ContainerId.fromString(id));
      }
      request.setReleaseList(all);
    } catch (Throwable failure) {
      isUnable = true;
      System.err.println("yarnam: containers of earlier attempts are not released: " + failure);
    }
  }

  /** The heartbeat has reached the ResourceManager. */
  synchronized void sent() {
    sent.addAll(pending);
    pending = new ArrayList<>();
  }

  /** The ResourceManager may have forgotten what it was told. */
  synchronized void registered() {
    sent.clear();
    seen = null;
  }

  private void read() throws Exception {
    if (!Files.exists(file)) {
      return;
    }
    FileTime written = Files.getLastModifiedTime(file);
    if (written.equals(seen) || Files.size(file) > MAX_BYTES) {
      return;
    }
    pending = new ArrayList<>();
    for (String line : Files.readAllLines(file, StandardCharsets.US_ASCII)) {
      String id = line.trim();
      if (!id.isEmpty() && !sent.contains(id)) {
        pending.add(id);
      }
    }
    seen = written;
  }
}
