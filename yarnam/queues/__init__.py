"""Order among jobs that wait for the same GPUs. Fairness among queues stays YARN's."""

from yarnam.queues.clear import clear_of
from yarnam.queues.looks import look_after_change_s, look_interval_s, second_look_s
from yarnam.queues.turns import turn

__all__ = ["clear_of", "look_after_change_s", "look_interval_s", "second_look_s", "turn"]
