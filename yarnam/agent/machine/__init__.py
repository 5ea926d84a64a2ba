"""The agent's decisions, as one pure machine: ``agent_machine.step``.

The values here are named tuples and not frozen dataclasses: each agent makes these classes when it
starts, and a dataclass takes four times as long to make.
"""
