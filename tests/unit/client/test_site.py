"""Which clusters a client opens at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from yarnam.client.site import open_site
from yarnam.errors import BadConfig


def configuration(folder: Path, authentication: str | None) -> Path:
    files = {
        "core-site.xml": {"fs.defaultFS": "hdfs://127.0.0.1:1"},
        "hdfs-site.xml": {},
        "yarn-site.xml": {"yarn.resourcemanager.hostname": "127.0.0.1"},
    }
    if authentication is not None:
        files["core-site.xml"]["hadoop.security.authentication"] = authentication
    for name, settings in files.items():
        rows = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>"
            for key, value in settings.items()
        )
        (folder / name).write_text(f"<configuration>{rows}</configuration>")
    return folder


@pytest.mark.parametrize("authentication", [None, "simple", "Simple "])
def test_a_site_with_simple_authentication_is_opened(
    tmp_path: Path, authentication: str | None
) -> None:
    found = open_site(configuration(tmp_path, authentication), environ={})
    assert found.files.uri == "hdfs://127.0.0.1:1"


@pytest.mark.parametrize("authentication", ["kerberos", "KERBEROS", "token"])
def test_another_site_is_refused_before_anything_is_sent(
    tmp_path: Path, authentication: str
) -> None:
    conf = configuration(tmp_path, authentication)
    with pytest.raises(BadConfig) as caught:
        open_site(conf, environ={})
    assert caught.value.message == (
        f"hadoop.security.authentication is {authentication.lower()}: "
        "yarnam supports clusters with simple authentication only"
    )
    assert "YARNAM_KERBEROS=try" in caught.value.hint
    assert open_site(conf, environ={"YARNAM_KERBEROS": "try"}).conf_dir == conf
