"""Learns y = 3 x + 1 from samples of its own, against the parameter server."""

import json
import os
import random
from urllib.request import urlopen

server = f"http://{os.environ['YARNAM_ADDRESSES_PARAMETERS']}/"
dice = random.Random(os.environ["YARNAM_TASK_INDEX"])

weights = json.load(urlopen(server))
for _ in range(600):
    x = dice.uniform(-1, 1)
    error = weights[0] * x + weights[1] - (3 * x + 1)
    gradient = json.dumps([error * x, error]).encode()
    weights = json.load(urlopen(server, data=gradient))
print(f"y = {weights[0]:.2f} x + {weights[1]:.2f}")
