"""Each worker pushes its rank plus one; all pull the sum. Importing mxnet makes scheduler and
servers of their processes, which do not come back from it until the workers have ended."""

from __future__ import annotations

import mxnet as mx

store = mx.kv.create("dist_sync")
store.init("sum", mx.nd.zeros(1))
store.push("sum", mx.nd.ones(1) * (store.rank + 1))
found = mx.nd.zeros(1)
store.pull("sum", out=found)
print(f"worker {store.rank} of {store.num_workers} has pulled {found.asscalar():.0f}", flush=True)
