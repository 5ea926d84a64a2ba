"""Keys of TonY that the spec does not have, and why.

Names: ``TonyConfigurationKeys.java`` and ``tony-default.xml`` of TonY 0.1 to 0.5.
"""

from __future__ import annotations

from yarnam.spec.importers.conversion import Source

OF_TONY = {
    r"tony\.(history|portal|https|http|keytab|secret|init|version-info)\..*": "of TonY's own "
    "servers and files; see `yarnam history`",
    r"tony\.task\.executor\.execution-timeout-ms": "TonY ends a process after this time; "
    "`time_limit` ends the whole job",
    r"tony\.task\.max-total-.*": "TonY's client only checks it",
    r"tony\.task\..*": "of TonY's executors; the agents' limits are in `am` of the spec",
    r"tony\.horovod\..*": "of TonY's Horovod driver, which is not needed",
    r"tony\.(application\.)?docker\..*": "no image is started: tony.docker.enabled is not true",
    r"tony\.am\.startup-timeout": "yarnam does not limit how long YARN takes to start the job",
    r"tony\.am\.wait-client-signal-stop-timeout-sec": "of TonY's client",
    r"tony\.am\.command": "nothing of the user's runs in the ApplicationMaster",
    r"tony\.am\..*": "the ApplicationMaster asks for what it needs; see `am` of the spec",
    r"tony\.application\.dependency\..*\.ignored": "nothing is limited that could be ignored",
    r"tony\.application\.group\..*": "only the dependencies on a group need it",
    r"tony\.application\.(placement-spec|hdfs-conf-path|yarn-conf-path|mapred-conf-path)": "yarnam "
    "reads the site's configuration, and `placement` says where tasks run",
    r"tony\.application\.hadoop\..*": "processes need no Hadoop",
    r"tony\.application\.enable-preprocess": "nothing of the user's runs in the ApplicationMaster; "
    "a role can start `after` another has ended",
    r"tony\.application\.(type|security\.enabled)": "of TonY's client",
    r"tony\.application\.single-node": "nothing of the user's runs in the ApplicationMaster",
    r"tony\.application\.test\..*": "of TonY's own tests",
    r"tony\.application\.num-client-rm-connect-retries": "of TonY's client",
    r"tony\.application\.tensorboard-log-dir": "no role tensorboard is started, and the "
    "chief has TB_PORT; run `yarnam tensorboard JOB` beside the job",
    r"tony\.other\.namenodes": "tokens are fetched for every file system that the spec names",
    r"tony\.gpu-exec-path": "agents find nvidia-smi on the PATH",
    r"tony\.[a-z]+\.max-instances": "TonY's client only checks it",
    r"tony\.[a-z]+\.timeout": "yarnam does not limit how long a role runs",
    r"tony\.chief\.(name|index)": "the role chief decides, else the first worker",
    r"tony\.[a-z]+\.(placement-spec|allocation-tags)": "`placement` says where tasks run",
}
"""Patterns of the keys that are dropped, and why."""

OF_ROLES = (
    r"tony\.(?!am\.|containers\.)([a-z]+)\.(memory|vcores|gpus|command|resources|node-label|image|timeout|"
    r"max-instances|depends-on|placement-spec|allocation-tags)"
)


def drop_the_rest(source: Source) -> None:
    """Drop the keys that are known and were not taken, those of roles without instances, and those
    that are not TonY's."""
    for pattern, why in OF_TONY.items():
        source.drop_all(pattern, why)
    source.drop_all(OF_ROLES, "the role has no instances")
    source.drop_all(r"(?!tony\.).*", "not a key of TonY")
