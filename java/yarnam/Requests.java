package yarnam;

import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.records.ResourceBlacklistRequest;
import org.apache.hadoop.yarn.api.records.ResourceRequest;

/** What a heartbeat asks of the ResourceManager. */
final class Requests {
  private Requests() {}

  /** Reports to the gate what the request asks for, releases or changes. */
  static void observe(AllocateRequest request, HeartbeatGate gate, long now) {
    for (ResourceRequest ask : request.getAskList()) {
      // Every ask has a row for any host; its count is that of all containers still wanted.
      if (ResourceRequest.isAnyLocation(ask.getResourceName())) {
        gate.ask(
            ask.getPriority() + " " + ask.getCapability() + " " + ask.getAllocationRequestId(),
            ask.getNumContainers());
      }
    }
    ResourceBlacklistRequest blacklist = request.getResourceBlacklistRequest();
    boolean hasBlacklist =
        blacklist != null
            && !(blacklist.getBlacklistAdditions().isEmpty()
                && blacklist.getBlacklistRemovals().isEmpty());
    if (hasBlacklist
        || !request.getAskList().isEmpty()
        || !request.getReleaseList().isEmpty()
        || !request.getUpdateRequests().isEmpty()) {
      gate.expectMore(now);
    }
  }
}
