package yarnam;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Collection;
import java.util.Collections;
import java.util.Set;
import java.util.TreeSet;

import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterResponse;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.NodeReport;
import org.apache.hadoop.yarn.api.records.PreemptionContainer;
import org.apache.hadoop.yarn.api.records.PreemptionMessage;

/**
 * What the ResourceManager's responses say, one JSON object a line, in a file beside the AM.
 *
 * <p>The file is replaced when it is full; the one before it stays under its name and ".1", so the
 * two together never take more than twice {@link #MAX_BYTES}.
 */
final class ResponseLog {
  static final long MAX_BYTES = 1 << 20;
  /** Characters. The ResourceManager's own limit is 64 KiB. */
  static final int MAX_DIAGNOSTICS = 2000;
  /** In one line: more than the largest gang has, and 64 KiB of text. */
  static final int MAX_CONTAINERS = 1000;

  private final Path file;
  private long size;
  private OutputStream out;
  private Set<String> strict = Collections.emptySet();

  ResponseLog(String file) throws IOException {
    this.file = Paths.get(file);
    open();
  }

  /** Whether the response says anything. */
  boolean append(AllocateResponse response) throws IOException {
    StringBuilder lines = new StringBuilder();
    boolean isMarked = appendPreemption(lines, response.getPreemptionMessage());
    for (ContainerStatus status : response.getCompletedContainersStatuses()) {
      lines.append("{\"kind\":\"completed\",\"container\":");
      quote(lines, status.getContainerId().toString(), 100);
      lines.append(",\"exit_status\":").append(status.getExitStatus()).append(",\"diagnostics\":");
      quote(lines, String.valueOf(status.getDiagnostics()), MAX_DIAGNOSTICS);
      lines.append("}\n");
    }
    for (NodeReport node : response.getUpdatedNodes()) {
      lines.append("{\"kind\":\"node\",\"node\":");
      quote(lines, node.getNodeId().toString(), 300);
      lines.append(",\"state\":");
      quote(lines, String.valueOf(node.getNodeState()), 40);
      if (node.getDecommissioningTimeout() != null) {
        lines.append(",\"timeout_s\":").append(node.getDecommissioningTimeout());
      }
      lines.append("}\n");
    }
    // After a restart of the ResourceManager some NodeManagers come later than the registration.
    if (response.getContainersFromPreviousAttempts() != null) {
      appendKept(lines, response.getContainersFromPreviousAttempts());
    }
    write(lines);
    return isMarked || lines.length() > 0 || !response.getAllocatedContainers().isEmpty();
  }

  /** What YARN hands over of earlier attempts: in several lines where it is much, one at least. */
  void append(RegisterApplicationMasterResponse response) throws IOException {
    StringBuilder lines = new StringBuilder();
    appendKept(lines, response.getContainersFromPreviousAttempts());
    lines.append("{\"kind\":\"registered\"}\n");
    write(lines);
  }

  private static void appendKept(StringBuilder lines, Collection<Container> containers) {
    Set<String> ids = new TreeSet<>();
    for (Container container : containers) {
      ids.add(container.getId().toString());
      if (ids.size() == MAX_CONTAINERS) {
        appendIds(lines, ids);
        ids.clear();
      }
    }
    if (!ids.isEmpty()) {
      appendIds(lines, ids);
    }
  }

  private static void appendIds(StringBuilder lines, Set<String> ids) {
    lines.append("{\"kind\":\"kept\",\"containers\":");
    array(lines, ids);
    lines.append("}\n");
  }

  /** The last line of a log that ends here. Throws nothing. */
  void appendFailure(Throwable failure) {
    try {
      StringBuilder line = new StringBuilder("{\"kind\":\"failed\",\"diagnostics\":");
      quote(line, failure.toString(), MAX_DIAGNOSTICS);
      write(line.append("}\n"));
    } catch (Throwable again) {
      System.err.println("yarnam: " + again);
    }
  }

  /** Whether containers are marked. A strict contract comes with every response until its end. */
  private boolean appendPreemption(StringBuilder lines, PreemptionMessage message) {
    Set<String> now = new TreeSet<>();
    Set<String> negotiable = new TreeSet<>();
    if (message != null && message.getStrictContract() != null) {
      addIds(now, message.getStrictContract().getContainers());
    }
    if (message != null && message.getContract() != null) {
      addIds(negotiable, message.getContract().getContainers());
    }
    boolean isNews = !negotiable.isEmpty() || !(now.isEmpty() || strict.containsAll(now));
    strict = now;
    if (isNews) {
      lines.append("{\"kind\":\"preemption\",\"strict\":");
      array(lines, now);
      lines.append(",\"negotiable\":");
      array(lines, negotiable);
      lines.append("}\n");
    }
    return !now.isEmpty() || !negotiable.isEmpty();
  }

  private static void addIds(Set<String> ids, Collection<PreemptionContainer> containers) {
    for (PreemptionContainer container : containers) {
      if (ids.size() < MAX_CONTAINERS) {
        ids.add(container.getId().toString());
      }
    }
  }

  private void write(CharSequence lines) throws IOException {
    byte[] bytes = lines.toString().getBytes(StandardCharsets.UTF_8);
    if (size > 0 && size + bytes.length > MAX_BYTES) {
      open();
    }
    if (bytes.length > 0) {
      out.write(bytes);
      out.flush();
      size += bytes.length;
    }
  }

  private void open() throws IOException {
    if (out != null) {
      out.close();
      Path previous = file.resolveSibling(file.getFileName() + ".1");
      Files.move(file, previous, StandardCopyOption.REPLACE_EXISTING);
    }
    Files.deleteIfExists(file);
    Files.createFile(
        file, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
    out = Files.newOutputStream(file, StandardOpenOption.WRITE);
    size = 0;
  }

  private static void array(StringBuilder text, Set<String> values) {
    char before = '[';
    for (String value : values) {
      text.append(before);
      quote(text, value, 100);
      before = ',';
    }
    text.append(values.isEmpty() ? "[]" : "]");
  }

  /** A JSON string in ASCII, so that no encoding and no cut can break it. */
  static void quote(StringBuilder text, String value, int maxLength) {
    text.append('"');
    for (int i = 0; i < Math.min(value.length(), maxLength); i++) {
      char c = value.charAt(i);
      boolean isHalf = Character.isSurrogate(c);
      if (c == '"' || c == '\\') {
        text.append('\\').append(c);
      } else if (isHalf) {
        text.append('?');
      } else if (c >= ' ' && c < 127) {
        text.append(c);
      } else {
        text.append(String.format("\\u%04x", (int) c));
      }
    }
    text.append('"');
  }
}
