"""``notify`` in the spec: what is read, what is refused, and that no URL is ever quoted."""

from __future__ import annotations

from typing import Any

import pytest

from yarnam.core.model.job_spec import ENDS, ChannelKind
from yarnam.core.model.job_status import JobState
from yarnam.errors import BadSpec
from yarnam.spec import parse_spec_dict

HOOK = "https://hooks.example/services/T0K3N"


def parse(*notify: dict[str, Any], **environ: str) -> Any:
    spec = {"version": 1, "name": "a", "queue": "root.dl", "gpus": 1, "command": "true"}
    return parse_spec_dict({**spec, "notify": list(notify)}, user="me", environ=environ).notify


def test_channels_are_read() -> None:
    hook, slack, mail = parse(
        {"kind": "webhook", "url": HOOK, "states": ["running", "failed"]},
        {"kind": "slack", "url_from": "HOOK"},
        {"kind": "mail", "url": "smtps://u:p@mail.example", "to": ["a@b.c"], "sender": "y@b.c"},
        HOOK=HOOK,
    )
    assert (hook.kind, hook.url, hook.states) == (
        ChannelKind.WEBHOOK, HOOK, (JobState.RUNNING, JobState.FAILED),
    )  # fmt: skip
    assert (slack.kind, slack.url, slack.states) == (ChannelKind.SLACK, HOOK, ENDS)
    assert (mail.to, mail.sender) == (("a@b.c",), "y@b.c")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"kind": "slack"}, "notify[0]: needs either `url` or `url_from`"),
        ({"kind": "slack", "url": HOOK, "url_from": "H"}, "needs either `url` or `url_from`"),
        ({"kind": "slack", "url_from": "H"}, "H is not set in the submitting environment"),
        ({"kind": "slack", "url": "smtp://T0K3N"}, "notify[0].url: must be http://host... or"),
        ({"kind": "slack", "url": "https://me:T0K3N@x.y"}, "must be http://host... or https://"),
        ({"kind": "slack", "url": "https://x.y:T0K3N/"}, "must be http://host... or https://"),
        ({"kind": "webhook", "url": "https://x.y/T0K3N\nHost: z"}, "must be http://host..."),
        ({"kind": "mail", "url": HOOK, "to": ["a@b.c"]}, "must be smtp://host or smtps://host"),
        ({"kind": "mail", "url": "smtp://x"}, "a mail needs addresses in `to`"),
        ({"kind": "mail", "url": "smtp://x", "to": ["a@b\nBcc: z@z"]}, "must be an address such"),
        ({"kind": "slack", "url": HOOK, "to": ["a@b.c"]}, "only a mail has addresses"),
        ({"kind": "slack", "url": HOOK, "states": ["started"]}, "notify[0].states[0]"),
        ({"kind": "slack", "url": HOOK, "states": []}, "notify[0].states"),
        ({"kind": "slack", "url": 3}, "notify[0].url: must be text"),
    ],
)
def test_what_cannot_work_is_refused(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSpec) as caught:
        parse(entry)
    assert message in str(caught.value)
    assert "T0K3N" not in str(caught.value)
