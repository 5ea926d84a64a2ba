"""Airflow's connection to a cluster."""

from __future__ import annotations

from functools import cache
from typing import Any

from yarnam.airflow.airflow_names import AirflowNotFoundException, BaseHook
from yarnam.client import AsyncClient, Client
from yarnam.client.site import find_conf_dir, site_at, user_name
from yarnam.errors import BadConfig, YarnamError


class YarnamHook(BaseHook):
    """A connection of the type ``yarnam``.

    Its login is the user name under simple authentication; its extra may name the Hadoop client
    configuration: ``{"conf_dir": "/etc/hadoop/conf"}``. Without them, and without a connection of
    the default name, HADOOP_USER_NAME and HADOOP_CONF_DIR of the Airflow process count.
    """

    conn_name_attr = "yarnam_conn_id"
    default_conn_name = "yarnam_default"
    conn_type = "yarnam"
    hook_name = "yarnam"

    def __init__(self, yarnam_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.yarnam_conn_id = yarnam_conn_id

    @staticmethod
    def get_ui_field_behaviour() -> dict[str, Any]:
        """The form of the connection in Airflow's pages."""
        return {
            "hidden_fields": ["host", "port", "schema", "password"],
            "relabeling": {"login": "User name"},
            "placeholders": {"extra": '{"conf_dir": "/etc/hadoop/conf"}'},
        }

    def settings(self) -> tuple[str, str]:
        """The directory of the Hadoop configuration, and the user name. Raises BadConfig."""
        try:
            connection = self.get_connection(self.yarnam_conn_id)
        except AirflowNotFoundException:
            if self.yarnam_conn_id != self.default_conn_name:
                raise
            return str(find_conf_dir()), user_name()
        extra = connection.extra_dejson
        if not isinstance(extra, dict):
            raise BadConfig(
                f"the extra of the Airflow connection {self.yarnam_conn_id} is not an object",
                hint='Write it like this: {"conf_dir": "/etc/hadoop/conf"}',
            )
        conf_dir = extra.get("conf_dir") or str(find_conf_dir())
        return str(conf_dir), connection.login or user_name()

    def get_conn(self) -> Client:
        """A client of this cluster. All of one process share its adapters."""
        return Client(site=site_at(*self.settings()))

    def test_connection(self) -> tuple[bool, str]:
        """Whether the ResourceManager answers, for Airflow's button."""
        try:
            info = self.get_conn().site.rm.info()
        except YarnamError as error:
            return False, str(error)
        return True, f"ResourceManager {info.get('resourceManagerVersion', '')}"


@cache
def shared_async_client(conf_dir: str, user: str) -> AsyncClient:
    """One for all triggers of a triggerer, which has one event loop: hundreds of tasks that wait
    cost the ResourceManager one request every 2 s."""
    return AsyncClient(site=site_at(conf_dir, user))
