"""A parameter server: two weights, read by GET and moved by POST of a gradient."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

weights = [0.0, 0.0]
lock = Lock()


class Parameters(BaseHTTPRequestHandler):
    def do_GET(self):
        with lock:
            self.answer(weights)

    def do_POST(self):
        gradient = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with lock:
            for place, slope in enumerate(gradient):
                weights[place] -= 0.05 * slope
            self.answer(weights)

    def answer(self, value):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def log_message(self, *_):
        pass


place = (os.environ["YARNAM_ADDRESS"], int(os.environ["YARNAM_PORT_PARAMETERS"]))
ThreadingHTTPServer(place, Parameters).serve_forever()
