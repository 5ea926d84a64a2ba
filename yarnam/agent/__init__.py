"""The process in each GPU container: parks at the barrier, starts the user's processes, watches.

Two processes share the work. The *agent* (asyncio, gRPC) talks to the AM and to readers of logs.
The *keeper* (forked first, standard library only) is the parent of the user's processes and makes
sure that they end, whatever becomes of the agent. See docs/explanation/agent.md.
"""
