"""The baseline: the same containers through stock Skein alone, as its documentation shows it.

``python raw_skein_submit.py QUEUE TASKS STAMPS NAME`` submits one application of one service with
TASKS containers of one GPU each; every container writes the time at which its command started to
``STAMPS/<container id>``, then sleeps. Prints the application's id. Hadoop's configuration is the
site's own: no shipped conf, no short heartbeats.
"""

from __future__ import annotations

import os
import sys

import skein

SCRIPT = """
date +%s.%N > {stamps}/$CONTAINER_ID.part && mv {stamps}/$CONTAINER_ID.part {stamps}/$CONTAINER_ID
exec sleep 600
"""


def main() -> None:
    queue, tasks, stamps, name = sys.argv[1:]
    service = skein.Service(
        instances=int(tasks),
        # What a yarnam task of one GPU asks for in the paired job.
        resources=skein.Resources(memory="1 GiB", vcores=1, gpus=1),
        script=SCRIPT.format(stamps=stamps),
    )
    spec = skein.ApplicationSpec(
        name=name, queue=queue, services={"worker": service}, max_attempts=1
    )
    with skein.Client(log=os.devnull) as client:
        print(client.submit(spec), flush=True)


if __name__ == "__main__":
    main()
