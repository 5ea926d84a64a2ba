package yarnam;

import java.util.HashSet;
import java.util.Set;

/**
 * Decides which heartbeats the ResourceManager gets: all while it has something to say soon, one
 * per idle interval otherwise. Times are in milliseconds of one clock.
 */
final class HeartbeatGate {
  /**
   * After a request or a response that says something: NodeManagers, on whose heartbeats (1 s) the
   * ResourceManager acts, have had several by then.
   */
  static final long LINGER_MS = 5000;

  private final long idleMs;
  private final Set<String> pending = new HashSet<>();
  private boolean hasSent;
  private long sentAt;
  private boolean isExpecting;
  private long expectedUntil;

  HeartbeatGate(long idleMs) {
    this.idleMs = idleMs;
  }

  /** A request for {@code count} containers in all under this key replaces the one before it. */
  void ask(String key, int count) {
    if (count > 0) {
      pending.add(key);
    } else {
      pending.remove(key);
    }
  }

  /** Something was said, by either side: more may follow soon. */
  void expectMore(long now) {
    isExpecting = true;
    expectedUntil = now + LINGER_MS;
  }

  void sent(long now) {
    hasSent = true;
    sentAt = now;
  }

  boolean isOpen(long now) {
    return !hasSent
        || !pending.isEmpty()
        || (isExpecting && now < expectedUntil)
        || now - sentAt >= idleMs;
  }
}
