"""The provider for Apache Airflow: an operator that runs a job, its trigger, and the hook with the
connection. Needs ``pip install 'yarnam[airflow]'``; nothing else of yarnam imports it."""

from __future__ import annotations

from typing import Any

from yarnam._version import __version__


def get_provider_info() -> dict[str, Any]:
    """What Airflow's registry asks a provider (the entry point ``apache_airflow_provider``)."""
    return {
        "package-name": "yarnam",
        "name": "yarnam",
        "description": "Distributed deep-learning jobs as gangs on Hadoop YARN",
        "versions": [__version__],
        "integrations": [
            {"integration-name": "yarnam", "external-doc-url": "https://yarnam.readthedocs.io"}
        ],
        "hooks": [{"integration-name": "yarnam", "python-modules": ["yarnam.airflow.yarnam_hook"]}],
        "operators": [
            {"integration-name": "yarnam", "python-modules": ["yarnam.airflow.job_operator"]}
        ],
        "triggers": [
            {"integration-name": "yarnam", "python-modules": ["yarnam.airflow.job_trigger"]}
        ],
        "connection-types": [
            {
                "connection-type": "yarnam",
                "hook-class-name": "yarnam.airflow.yarnam_hook.YarnamHook",
            }
        ],
    }
