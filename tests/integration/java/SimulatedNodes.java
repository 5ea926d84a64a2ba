import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.yarn.api.ApplicationClientProtocol;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.protocolrecords.GetNewApplicationRequest;
import org.apache.hadoop.yarn.api.protocolrecords.SubmitApplicationRequest;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ApplicationSubmissionContext;
import org.apache.hadoop.yarn.api.records.Container;
import org.apache.hadoop.yarn.api.records.ContainerId;
import org.apache.hadoop.yarn.api.records.ContainerState;
import org.apache.hadoop.yarn.api.records.ContainerLaunchContext;
import org.apache.hadoop.yarn.api.records.ContainerStatus;
import org.apache.hadoop.yarn.api.records.NodeId;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.ResourceUtilization;
import org.apache.hadoop.yarn.api.records.YarnApplicationState;
import org.apache.hadoop.yarn.client.ClientRMProxy;
import org.apache.hadoop.yarn.client.api.AMRMClient;
import org.apache.hadoop.yarn.client.api.AMRMClient.ContainerRequest;
import org.apache.hadoop.yarn.client.api.YarnClient;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.api.ResourceTracker;
import org.apache.hadoop.yarn.server.api.ServerRMProxy;
import org.apache.hadoop.yarn.server.api.protocolrecords.NodeHeartbeatRequest;
import org.apache.hadoop.yarn.server.api.protocolrecords.NodeHeartbeatResponse;
import org.apache.hadoop.yarn.server.api.protocolrecords.RegisterNodeManagerRequest;
import org.apache.hadoop.yarn.server.api.protocolrecords.RegisterNodeManagerResponse;
import org.apache.hadoop.yarn.server.api.records.MasterKey;
import org.apache.hadoop.yarn.server.api.records.NodeHealthStatus;
import org.apache.hadoop.yarn.server.api.records.NodeStatus;
import org.apache.hadoop.yarn.util.Records;

/**
 * Many nodes without NodeManagers, for one real ResourceManager: each registers and sends heartbeats
 * by YARN's own ResourceTracker protocol.
 *
 * Arguments: the number of nodes; memory in MiB, vcores and GPUs of each; heartbeat in milliseconds.
 * Prints "nodes N" when all are registered. Then takes commands, a line each:
 *
 * "heartbeat": the nodes send heartbeats from now on, so that containers are granted on them.
 * "submit QUEUE MEMORY VCORES GPUS": an application whose ApplicationMaster needs so much, and never
 * starts. Prints "submitted ID".
 * "ask QUEUE": one application, whose ApplicationMaster runs here too, fills all GPUs, and then asks
 * for one small container again and again. Prints "full N", then for each "delay MS", how long it
 * has waited.
 *
 * Ends when its standard input does.
 */
public final class SimulatedNodes {
  private static final int THREADS = 8;
  private static final ResourceUtilization USE = ResourceUtilization.newInstance(1024, 2048, 0.5f);

  private final YarnConfiguration conf = new YarnConfiguration();
  private final ResourceTracker tracker =
      ServerRMProxy.createRMProxy(conf, ResourceTracker.class);
  private final ApplicationClientProtocol client =
      ClientRMProxy.createRMProxy(conf, ApplicationClientProtocol.class);
  private final Resource size;
  private final List<Node> nodes = new ArrayList<>();

  private SimulatedNodes(Resource size) throws Exception {
    this.size = size;
  }

  private static Resource amount(int memory, int cores, int gpus) {
    Resource found = Resource.newInstance(memory, cores);
    found.setResourceValue("yarn.io/gpu", gpus);
    return found;
  }

  /** One node: its registration, then its heartbeats. */
  private final class Node implements Runnable {
    private final NodeId id;
    private final int httpPort;
    private int responseId;
    private MasterKey containerKey;
    private MasterKey nmKey;
    private final List<ContainerStatus> ended = new ArrayList<>();

    Node(int number) {
      // The ResourceManager puts an address that it can resolve into each container's token.
      String host = String.format("127.200.%d.%d", number / 250, number % 250 + 1);
      id = NodeId.newInstance(host, 8041);
      httpPort = 8042;
    }

    void register() throws Exception {
      RegisterNodeManagerResponse reply =
          tracker.registerNodeManager(
              RegisterNodeManagerRequest.newInstance(
                  id, httpPort, size, "3.4.1", Collections.emptyList(),
                  Collections.emptyList(), null));
      containerKey = reply.getContainerTokenMasterKey();
      nmKey = reply.getNMTokenMasterKey();
    }

    @Override
    public void run() {
      try {
        NodeStatus status =
            NodeStatus.newInstance(
                id, responseId, new ArrayList<>(ended), Collections.emptyList(),
                NodeHealthStatus.newInstance(true, "", System.currentTimeMillis()), USE, USE, null);
        ended.clear();
        NodeHeartbeatResponse reply =
            tracker.nodeHeartbeat(
                NodeHeartbeatRequest.newInstance(status, containerKey, nmKey, null));
        responseId = reply.getResponseId();
        if (reply.getContainerTokenMasterKey() != null) {
          containerKey = reply.getContainerTokenMasterKey();
        }
        if (reply.getNMTokenMasterKey() != null) {
          nmKey = reply.getNMTokenMasterKey();
        }
        for (ContainerId container : reply.getContainersToCleanup()) {
          ended.add(ContainerStatus.newInstance(container, ContainerState.COMPLETE, "", 0));
        }
      } catch (Exception error) {
        System.err.println(id + ": " + error);
      }
    }
  }

  private void register(int count) throws Exception {
    for (int number = 0; number < count; number++) {
      Node node = new Node(number);
      node.register();
      nodes.add(node);
    }
    System.out.println("nodes " + count);
  }

  private void sendHeartbeats(int heartbeatMs) {
    ScheduledExecutorService pool = Executors.newScheduledThreadPool(THREADS);
    int count = nodes.size();
    for (int number = 0; number < count; number++) {
      pool.scheduleAtFixedRate(
          nodes.get(number), (long) heartbeatMs * number / count, heartbeatMs,
          TimeUnit.MILLISECONDS);
    }
  }

  private void submit(String queue, Resource am) throws Exception {
    ApplicationId application =
        client.getNewApplication(GetNewApplicationRequest.newInstance()).getApplicationId();
    ApplicationSubmissionContext context =
        Records.newRecord(ApplicationSubmissionContext.class);
    context.setApplicationId(application);
    context.setApplicationName("simulated load");
    context.setQueue(queue);
    context.setResource(am);
    context.setMaxAppAttempts(1);
    context.setAMContainerSpec(
        ContainerLaunchContext.newInstance(null, null, null, null, null, null));
    client.submitApplication(SubmitApplicationRequest.newInstance(context));
    System.out.println("submitted " + application);
  }

  private void ask(String queue) throws Exception {
    YarnClient yarn = YarnClient.createYarnClient();
    yarn.init(conf);
    yarn.start();
    ApplicationSubmissionContext context =
        yarn.createApplication().getApplicationSubmissionContext();
    ApplicationId application = context.getApplicationId();
    context.setApplicationName("simulated load");
    context.setUnmanagedAM(true);
    context.setQueue(queue);
    context.setPriority(Priority.newInstance(0));
    context.setResource(amount(1024, 1, 0));
    context.setAMContainerSpec(
        ContainerLaunchContext.newInstance(null, null, null, null, null, null));
    yarn.submitApplication(context);
    while (yarn.getApplicationReport(application).getYarnApplicationState()
            != YarnApplicationState.ACCEPTED
        || yarn.getAMRMToken(application) == null) {
      Thread.sleep(100);
    }
    Token<?> token = yarn.getAMRMToken(application);
    UserGroupInformation.getCurrentUser().addToken(token);
    AMRMClient<ContainerRequest> am = AMRMClient.createAMRMClient();
    am.init(conf);
    am.start();
    am.registerApplicationMaster("localhost", 0, "");
    fill(am, nodes.size(), (int) size.getResourceValue("yarn.io/gpu"));
    AtomicInteger asked = new AtomicInteger();
    while (true) {
      System.out.println("delay " + delayMs(am));
      Thread.sleep(200 + 37L * (asked.getAndIncrement() % 10));
    }
  }

  private void fill(AMRMClient<ContainerRequest> am, int nodes, int gpus) throws Exception {
    for (int number = 0; number < nodes; number++) {
      am.addContainerRequest(
          new ContainerRequest(amount(1024, 1, gpus), null, null, Priority.newInstance(1)));
    }
    int held = 0;
    while (held < nodes) {
      held += am.allocate(0.5f).getAllocatedContainers().size();
      Thread.sleep(100);
    }
    System.out.println("full " + held);
  }

  private long delayMs(AMRMClient<ContainerRequest> am) throws Exception {
    ContainerRequest request =
        new ContainerRequest(amount(1024, 1, 0), null, null, Priority.newInstance(2));
    long began = System.nanoTime();
    am.addContainerRequest(request);
    while (true) {
      AllocateResponse reply = am.allocate(0.5f);
      for (Container container : reply.getAllocatedContainers()) {
        am.removeContainerRequest(request);
        am.releaseAssignedContainer(container.getId());
        am.allocate(0.5f);
        return (System.nanoTime() - began) / 1_000_000;
      }
      Thread.sleep(20);
    }
  }

  private void inBackground(String queue) {
    Thread asker =
        new Thread(
            () -> {
              try {
                ask(queue);
              } catch (Exception error) {
                error.printStackTrace();
              }
            });
    asker.setDaemon(true);
    asker.start();
  }

  public static void main(String[] args) throws Exception {
    int[] numbers = Arrays.stream(args).mapToInt(Integer::parseInt).toArray();
    SimulatedNodes nodes = new SimulatedNodes(amount(numbers[1], numbers[2], numbers[3]));
    nodes.register(numbers[0]);
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    for (String line = commands.readLine(); line != null; line = commands.readLine()) {
      String[] words = line.split(" ");
      if (words[0].equals("heartbeat")) {
        nodes.sendHeartbeats(numbers[4]);
      } else if (words[0].equals("submit")) {
        Resource am =
            amount(
                Integer.parseInt(words[2]), Integer.parseInt(words[3]), Integer.parseInt(words[4]));
        nodes.submit(words[1], am);
      } else if (words[0].equals("ask")) {
        nodes.inBackground(words[1]);
      } else {
        throw new IllegalArgumentException(line);
      }
    }
    System.exit(0);
  }
}
