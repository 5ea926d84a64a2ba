package yarnam;

import java.io.Closeable;
import java.io.IOException;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.InetSocketAddress;
import java.util.Objects;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.api.ApplicationMasterProtocol;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterResponse;
import org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException;
import org.apache.hadoop.yarn.ipc.HadoopYarnProtoRPC;
import org.apache.hadoop.yarn.util.Records;

/**
 * The {@code yarn.ipc.rpc.class} of a job's ApplicationMaster: Hadoop's own, with an interceptor in
 * front of {@code allocate}, the AM's heartbeat.
 *
 * <p>It answers heartbeats that would change nothing without the ResourceManager (see
 * {@link HeartbeatGate}), and writes what responses say and Skein drops to a file (see
 * {@link ResponseLog}). Before the first one it mends how Skein counts priorities (see {@link
 * PriorityOrder}). It writes down which containers of earlier attempts YARN hands over at the
 * registration, and gives back those that the Python AM does not want (see {@link Releases}). Every
 * other call and every other protocol passes untouched. When anything in here fails, it steps aside
 * for good and heartbeats pass as if it were not there.
 *
 * <p>When the ResourceManager does not know this attempt any more, another one has taken over: this
 * JVM ends at once. Skein would delete the application's directory first, in an attempt whose number
 * is am.attempts or more.
 *
 * <p>Configuration: {@value #FILE_KEY}, {@value #IDLE_KEY}, {@value #PAGE_KEY}, {@value
 * #RELEASES_KEY}.
 */
public final class AllocateInterceptor extends HadoopYarnProtoRPC {
  static final String FILE_KEY = "yarnam.am.response-log.file";
  static final String IDLE_KEY = "yarnam.am.heartbeat.idle-interval-ms";
  static final String PAGE_KEY = "yarnam.am.page-url.file";
  static final String RELEASES_KEY = "yarnam.am.releases.file";
  private static final int IDLE_MS = 3000;
  private static final int EXIT_CODE = 75;

  /** Of this JVM's AM. Hadoop makes a proxy for each ResourceManager that it fails over to. */
  private static State state;

  @Override
  @SuppressWarnings("rawtypes")
  public Object getProxy(Class protocol, InetSocketAddress address, Configuration conf) {
    Object target = super.getProxy(protocol, address, conf);
    if (protocol != ApplicationMasterProtocol.class) {
      return target;
    }
    try {
      return intercept(target, stateOf(conf));
    } catch (Throwable failure) {
      System.err.println("yarnam: heartbeats are not intercepted: " + failure);
      return target;
    }
  }

  /** The protocol as {@code target} offers it, with what it says written down. */
  static ApplicationMasterProtocol intercept(
      Object target,
      HeartbeatGate gate,
      ResponseLog log,
      PageUrl page,
      Releases releases,
      Runnable leave) {
    return intercept(target, new State(gate, log, page, releases, leave));
  }

  private static ApplicationMasterProtocol intercept(Object target, State state) {
    return (ApplicationMasterProtocol)
        Proxy.newProxyInstance(
            AllocateInterceptor.class.getClassLoader(),
            new Class<?>[] {ApplicationMasterProtocol.class, Closeable.class},
            new Handler(target, state));
  }

  private static synchronized State stateOf(Configuration conf) throws IOException {
    if (state == null) {
      String file = Objects.requireNonNull(conf.get(FILE_KEY), FILE_KEY);
      HeartbeatGate gate = new HeartbeatGate(conf.getInt(IDLE_KEY, IDLE_MS));
      PageUrl page = new PageUrl(conf.get(PAGE_KEY, ""));
      Releases releases = new Releases(conf.get(RELEASES_KEY, ""));
      state =
          new State(gate, new ResponseLog(file), page, releases, AllocateInterceptor::leave);
    }
    return state;
  }

  private static void leave() {
    System.err.println("yarnam: this attempt is over for YARN, another one has taken its place");
    Runtime.getRuntime().halt(EXIT_CODE);
  }

  /** What survives a fail-over. Guarded by itself. */
  private static final class State {
    final HeartbeatGate gate;
    final ResponseLog log;
    final PageUrl page;
    final Releases releases;
    final Runnable leave;
    AllocateResponse last;
    boolean isBroken;
    private boolean isEnding;
    private boolean hasOrder;

    State(
        HeartbeatGate gate, ResponseLog log, PageUrl page, Releases releases, Runnable leave) {
      this.gate = gate;
      this.log = log;
      this.page = page;
      this.releases = releases;
      this.leave = leave;
    }

    /** Before the first heartbeat, in the thread that sends them. */
    synchronized void orderPriorities() {
      if (hasOrder) {
        return;
      }
      hasOrder = true;
      try {
        PriorityOrder.mend(Thread.currentThread());
      } catch (Throwable failure) {
        System.err.println("yarnam: priorities stay as Skein counts them: " + failure);
      }
    }

    /** After this the ResourceManager forgets the attempt, as it should. */
    synchronized void observeEnd() {
      isEnding = true;
    }

    void observe(Throwable failure) {
      synchronized (this) {
        if (isEnding || !(failure instanceof ApplicationAttemptNotFoundException)) {
          return;
        }
      }
      leave.run();
    }

    /** The response to a heartbeat that need not be sent, or null. */
    synchronized AllocateResponse idleResponse(AllocateRequest request) {
      if (isBroken) {
        return null;
      }
      try {
        Requests.observe(request, gate, now());
        if (last == null || gate.isOpen(now())) {
          return null;
        }
        AllocateResponse response = Records.newRecord(AllocateResponse.class);
        // The client sends this id with its next request: the one that the ResourceManager expects.
        response.setResponseId(request.getResponseId());
        response.setNumClusterNodes(last.getNumClusterNodes());
        response.setAvailableResources(last.getAvailableResources());
        return response;
      } catch (Throwable failure) {
        stepAside(failure);
        return null;
      }
    }

    synchronized void observe(AllocateResponse response) {
      if (isBroken) {
        return;
      }
      try {
        last = response;
        gate.sent(now());
        if (log.append(response)) {
          gate.expectMore(now());
        }
      } catch (Throwable failure) {
        stepAside(failure);
      }
    }

    synchronized void observe(RegisterApplicationMasterResponse response) {
      if (isBroken) {
        return;
      }
      try {
        releases.registered();
        log.append(response);
      } catch (Throwable failure) {
        stepAside(failure);
      }
    }

    private void stepAside(Throwable failure) {
      isBroken = true;
      System.err.println("yarnam: heartbeats are no longer intercepted: " + failure);
      log.appendFailure(failure);
    }

    private static long now() {
      return System.nanoTime() / 1_000_000;
    }
  }

  private static final class Handler implements InvocationHandler {
    private final Object target;
    private final State state;

    Handler(Object target, State state) {
      this.target = target;
      this.state = state;
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] args) throws Throwable {
      if (method.getDeclaringClass() == Closeable.class) {
        if (target instanceof Closeable) {
          ((Closeable) target).close();
        }
        return null;
      }
      boolean isHeartbeat = method.getName().equals("allocate");
      if (isHeartbeat) {
        state.orderPriorities();
        state.releases.addTo((AllocateRequest) args[0]);
        AllocateResponse idle = state.idleResponse((AllocateRequest) args[0]);
        if (idle != null) {
          return idle;
        }
      }
      if (method.getName().equals("finishApplicationMaster")) {
        state.observeEnd();
      }
      state.page.addTo(method.getName(), args);
      Object result;
      try {
        result = method.invoke(target, args);
      } catch (InvocationTargetException failure) {
        if (isHeartbeat) {
          state.observe(failure.getCause());
        }
        throw failure.getCause();
      }
      state.page.sent();
      if (isHeartbeat) {
        state.releases.sent();
        state.observe((AllocateResponse) result);
      } else if (method.getName().equals("registerApplicationMaster")) {
        state.observe((RegisterApplicationMasterResponse) result);
      }
      return result;
    }
  }
}
