"""The Skein application that carries a yarnam job, and the Hadoop configuration shipped with it.

``application_spec`` turns a JobRecord into a ``skein.ApplicationSpec``; ``hadoop_conf`` makes the
content of the ``hconf`` directory that both the AM's JVM and the agents read. Both only compute:
uploading and submitting is the client's work.
"""

from __future__ import annotations

from skein_specs.application import LocalizedFile, am_script, application_spec, launch_script
from skein_specs.hconf import hadoop_conf, host_addresses, read_site_conf
from skein_specs.interceptor import interceptor_jar, why_not_intercepted

__all__ = [
    "LocalizedFile",
    "am_script",
    "application_spec",
    "hadoop_conf",
    "host_addresses",
    "interceptor_jar",
    "launch_script",
    "read_site_conf",
    "why_not_intercepted",
]
