package yarnam;

import java.io.Closeable;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeMap;

import org.apache.hadoop.yarn.api.ApplicationMasterProtocol;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterRequest;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterResponse;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.NodeReport;
import org.apache.hadoop.yarn.api.records.NodeState;
import org.apache.hadoop.yarn.api.records.PreemptionContainer;
import org.apache.hadoop.yarn.api.records.PreemptionMessage;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceRequest;
import org.apache.hadoop.yarn.api.records.StrictPreemptionContract;
import org.apache.hadoop.yarn.exceptions.ApplicationAttemptNotFoundException;
import org.apache.hadoop.yarn.util.Records;

/** Plays heartbeats against the interceptor; test_allocate_interceptor.py reads what it prints. */
public final class InterceptorScenario {
  private static int sent;
  private static AllocateResponse next;
  private static Exception failure;
  private static int left;

  public static void main(String[] args) throws Exception {
    gate();
    responses(args[0]);
    heartbeats(args[0] + "-heartbeats");
    page(args[0] + "-page");
    kept(args[0] + "-kept");
    releases(args[0] + "-releases");
    priorities();
    System.out.println("done");
  }

  private static void check(boolean condition, String what) {
    if (!condition) {
      throw new AssertionError(what);
    }
  }

  private static void gate() {
    HeartbeatGate gate = new HeartbeatGate(3000);
    check(gate.isOpen(0), "the first heartbeat is sent");
    gate.sent(0);
    check(!gate.isOpen(250) && !gate.isOpen(2999), "an idle AM is quiet");
    check(gate.isOpen(3000), "but not for longer than the idle interval");
    gate.ask("1", 2);
    gate.ask("2", 1);
    check(gate.isOpen(1) && gate.isOpen(100_000), "all are sent while something is asked for");
    gate.ask("1", 0);
    gate.ask("2", 0);
    gate.sent(10_000);
    check(!gate.isOpen(10_250), "quiet again when all is granted");
    gate.expectMore(10_000);
    gate.sent(14_000);
    check(gate.isOpen(14_999) && !gate.isOpen(15_000), "more is expected for a while");
  }

  /** The part of Skein's ApplicationMaster that matters here. */
  private static final class Master {
    private final TreeMap<Priority, String> priorities = new TreeMap<>();
    private Exception failure;

    Thread allocator() {
      return new Thread() {
        @Override
        public void run() {
          try {
            PriorityOrder.mend(this);
          } catch (Exception thrown) {
            failure = thrown;
          }
        }
      };
    }
  }

  private static void priorities() throws Exception {
    Master master = new Master();
    for (int number : new int[] {3, 4, 11}) {
      master.priorities.put(Priority.newInstance(number), "request " + number);
    }
    check(master.priorities.lastKey().getPriority() == 3, "Hadoop orders downwards");
    Thread allocator = master.allocator();
    allocator.start();
    allocator.join();
    check(master.failure == null, "mended: " + master.failure);
    check(master.priorities.lastKey().getPriority() == 11, "the last one is the highest");
    check(master.priorities.size() == 3, "none is lost");
    check("request 4".equals(master.priorities.remove(Priority.newInstance(4))), "found");
    try {
      PriorityOrder.mend(Thread.currentThread());
      check(false, "a thread of nobody's");
    } catch (NoSuchFieldException expected) {
      check("this$0".equals(expected.getMessage()), "says what is missing");
    }
  }

  private static ContainerId container(int number) {
    ApplicationAttemptId attempt =
        ApplicationAttemptId.newInstance(ApplicationId.newInstance(1700000000000L, 1), 1);
    return ContainerId.newContainerId(attempt, number);
  }

  private static AllocateResponse marked(int... numbers) {
    List<PreemptionContainer> containers = new ArrayList<>();
    for (int number : numbers) {
      PreemptionContainer one = Records.newRecord(PreemptionContainer.class);
      one.setId(container(number));
      containers.add(one);
    }
    StrictPreemptionContract strict = Records.newRecord(StrictPreemptionContract.class);
    strict.setContainers(new java.util.HashSet<>(containers));
    PreemptionMessage message = Records.newRecord(PreemptionMessage.class);
    message.setStrictContract(strict);
    AllocateResponse response = empty();
    response.setPreemptionMessage(message);
    return response;
  }

  private static AllocateResponse empty() {
    AllocateResponse response = Records.newRecord(AllocateResponse.class);
    response.setResponseId(7);
    response.setNumClusterNodes(4);
    response.setAvailableResources(Resource.newInstance(1024, 1));
    return response;
  }

  private static void responses(String file) throws Exception {
    ResponseLog log = new ResponseLog(file);
    check(!log.append(empty()), "nothing said");
    check(!log.append(marked()), "an empty strict contract says nothing");
    check(log.append(marked(2, 3)), "marked");
    check(log.append(marked(3, 2)), "still marked, and not written again");
    AllocateResponse ended = empty();
    ended.setCompletedContainersStatuses(
        Collections.singletonList(
            ContainerStatus.newInstance(
                container(2), ContainerState.COMPLETE, "taken \"now\"\n\u00e4\ud83d\ude00", -102)));
    NodeReport report = Records.newRecord(NodeReport.class);
    report.setNodeId(NodeId.newInstance("n1", 8041));
    report.setNodeState(NodeState.DECOMMISSIONING);
    report.setDecommissioningTimeout(40);
    ended.setUpdatedNodes(Collections.singletonList(report));
    check(log.append(ended), "ended");
    log.appendFailure(new IllegalStateException("broken"));
    ResponseLog full = new ResponseLog(file + "-full");
    char[] text = new char[ResponseLog.MAX_DIAGNOSTICS * 2];
    java.util.Arrays.fill(text, 'x');
    for (int i = 0; i < 2000; i++) {
      AllocateResponse one = empty();
      one.setCompletedContainersStatuses(
          Collections.singletonList(
              ContainerStatus.newInstance(
                  container(i), ContainerState.COMPLETE, new String(text), 1)));
      full.append(one);
    }
  }

  private static AllocateRequest request(int id, ResourceRequest... asks) {
    return AllocateRequest.newInstance(
        id, 0.5f, java.util.Arrays.asList(asks), new ArrayList<ContainerId>(), null);
  }

  private static void page(String file) throws Exception {
    PageUrl page = new PageUrl(file);
    AllocateRequest early = request(1);
    page.addTo("allocate", new Object[] {early});
    page.sent();
    check(early.getTrackingUrl() == null, "there is no page yet");
    Files.write(Paths.get(file), "http://n1:80/\n".getBytes(StandardCharsets.US_ASCII));
    for (int i = 0; i < 2; i++) {
      AllocateRequest lost = request(2);
      page.addTo("allocate", new Object[] {lost});
      check("http://n1:80/".equals(lost.getTrackingUrl()), "said until it has arrived");
    }
    page.sent();
    AllocateRequest later = request(3);
    page.addTo("allocate", new Object[] {later});
    page.sent();
    check(later.getTrackingUrl() == null, "said once");
    RegisterApplicationMasterRequest register =
        RegisterApplicationMasterRequest.newInstance("n1", 1, "http://n1:81/");
    page.addTo("registerApplicationMaster", new Object[] {register});
    check("http://n1:80/".equals(register.getTrackingUrl()), "said again to a new ResourceManager");
    new PageUrl("").addTo("allocate", new Object[] {later});
    page.addTo("finishApplicationMaster", new Object[] {null});
  }

  private static void kept(String file) throws Exception {
    ResponseLog log = new ResponseLog(file);
    RegisterApplicationMasterResponse first =
        Records.newRecord(RegisterApplicationMasterResponse.class);
    log.append(first);
    List<Container> containers = new ArrayList<>();
    for (int i = 2; i < 2 + ResponseLog.MAX_CONTAINERS + 1; i++) {
      containers.add(
          Container.newInstance(
              container(i), NodeId.newInstance("n1", 8041), "n1:8042", null, null, null));
    }
    first.setContainersFromPreviousAttempts(containers);
    log.append(first);
    AllocateResponse late = empty();
    late.setContainersFromPreviousAttempts(containers.subList(0, 1));
    check(log.append(late), "one more is handed over");
  }

  private static List<ContainerId> released(Releases releases) {
    AllocateRequest request = request(1);
    releases.addTo(request);
    return request.getReleaseList();
  }

  private static void releases(String file) throws Exception {
    check(released(new Releases("")).isEmpty(), "no file");
    Releases releases = new Releases(file);
    check(released(releases).isEmpty(), "no file yet");
    Files.write(
        Paths.get(file), (container(2) + "\n").getBytes(StandardCharsets.US_ASCII));
    for (int i = 0; i < 2; i++) {
      check(
          released(releases).equals(Collections.singletonList(container(2))),
          "released until it has arrived");
    }
    releases.sent();
    check(released(releases).isEmpty(), "released once");
    Files.write(
        Paths.get(file),
        (container(2) + "\n" + container(3) + "\n").getBytes(StandardCharsets.US_ASCII));
    Files.setLastModifiedTime(Paths.get(file), java.nio.file.attribute.FileTime.fromMillis(1));
    AllocateRequest both = request(1);
    both.setReleaseList(Collections.singletonList(container(9)));
    releases.addTo(both);
    check(
        both.getReleaseList().equals(java.util.Arrays.asList(container(9), container(3))),
        "beside those that Skein releases");
    releases.sent();
    releases.registered();
    check(released(releases).size() == 2, "all again to a new ResourceManager");
    releases.sent();
    Files.write(Paths.get(file), "nonsense\n".getBytes(StandardCharsets.US_ASCII));
    check(released(releases).isEmpty(), "what makes no sense releases nothing");
  }

  private static ResourceRequest ask(int count) {
    return ResourceRequest.newInstance(
        Priority.newInstance(1), ResourceRequest.ANY, Resource.newInstance(512, 1), count);
  }

  private static void heartbeats(String file) throws Exception {
    InvocationHandler manager =
        (proxy, method, arguments) -> {
          sent++;
          if (failure != null) {
            throw failure;
          }
          return next;
        };
    Class<?>[] kinds = {ApplicationMasterProtocol.class, Closeable.class};
    ClassLoader loader = InterceptorScenario.class.getClassLoader();
    ApplicationMasterProtocol target =
        (ApplicationMasterProtocol) Proxy.newProxyInstance(loader, kinds, manager);
    // A gate that never lets an idle heartbeat pass shows which ones are not idle.
    HeartbeatGate gate = new HeartbeatGate(Long.MAX_VALUE);
    ApplicationMasterProtocol am =
        AllocateInterceptor.intercept(
            target, gate, new ResponseLog(file), new PageUrl(""), new Releases(""), () -> left++);
    next = empty();
    am.allocate(request(0));
    check(sent == 1, "the first");
    AllocateResponse idle = am.allocate(request(7));
    check(sent == 1, "an idle one is not sent");
    check(idle.getResponseId() == 7, "the id that the ResourceManager expects next");
    check(idle.getNumClusterNodes() == 4, "what it said last");
    check(idle.getAvailableResources().getMemorySize() == 1024, "what it said last");
    check(idle.getAMRMToken() == null && idle.getNMTokens().isEmpty(), "no tokens");
    check(idle.getAllocatedContainers().isEmpty(), "no containers");
    check(idle.getCompletedContainersStatuses().isEmpty(), "no ends");
    check(idle.getUpdatedContainers().isEmpty() && idle.getAMCommand() == null, "no commands");
    am.allocate(request(7, ask(2)));
    am.allocate(request(8));
    check(sent == 3, "all are sent while something is asked for");
    failure = new IllegalStateException("not registered");
    try {
      am.allocate(request(8));
      check(false, "a failure is passed on");
    } catch (IllegalStateException expected) {
      check(expected == failure, "as it is");
    }
    check(left == 0, "another attempt has not taken over");
    failure = new ApplicationAttemptNotFoundException("not in the cache");
    beat(am);
    check(left == 1, "an attempt that YARN has given up leaves");
    try {
      am.finishApplicationMaster(null);
    } catch (ApplicationAttemptNotFoundException expected) {
      check(left == 1, "only a heartbeat tells");
    }
    beat(am);
    check(left == 1, "one that has said goodbye goes on to its end");
    failure = null;
    int before = sent;
    ((Closeable) am).close();
    check(sent == before + 1, "a close is passed on");
  }

  private static void beat(ApplicationMasterProtocol am) throws Exception {
    try {
      am.allocate(request(8));
      check(false, "a failure is passed on");
    } catch (ApplicationAttemptNotFoundException expected) {
      check(expected == failure, "as it is");
    }
  }
}
