package yarnam;

import java.lang.reflect.Field;
import java.util.Comparator;
import java.util.Map;
import java.util.TreeMap;

import org.apache.hadoop.yarn.api.records.Priority;

/**
 * Makes Skein count on from the highest priority that is outstanding.
 *
 * <p>Skein gives each request a priority of its own, by which it knows what a granted container is
 * for. After each response that says something it counts on from {@code priorities.lastKey()}. But
 * Hadoop orders priorities downwards, so that is the lowest one: with several requests outstanding
 * the next ones get the numbers of others. Of two requests with one number Skein forgets the first
 * and gives back what the ResourceManager grants for it, so a gang waits for a container that never
 * comes.
 */
final class PriorityOrder {
  private PriorityOrder() {}

  /**
   * @param allocator Skein's thread that sends heartbeats, an inner class of its
   *     ApplicationMaster; nothing was outstanding before its first one but what is in the map
   */
  @SuppressWarnings("unchecked")
  static void mend(Thread allocator) throws ReflectiveOperationException {
    Object master = field(allocator, "this$0").get(allocator);
    Field field = field(master, "priorities");
    Map<Priority, Object> outstanding = (Map<Priority, Object>) field.get(master);
    synchronized (outstanding) {
      Map<Priority, Object> upwards = new TreeMap<>(Comparator.comparingInt(Priority::getPriority));
      upwards.putAll(outstanding);
      field.set(master, upwards);
    }
  }

  private static Field field(Object owner, String name) throws ReflectiveOperationException {
    Field field = owner.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }
}
