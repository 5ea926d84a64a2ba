"""Advice on errors of Kerberos, found by the texts of MIT's library and of Hadoop."""

from __future__ import annotations

# Parts of messages, in lower case, as MIT krb5 1.20, Java 17 and Hadoop 3.4.1 write them; the first
# that fits counts. Clock skew has to come before "expired": both may be in one message.
_ADVICE = (
    (
        ("clock skew too great", "clock_skew", "skew"),
        "this machine's clock and the KDC's differ by more than 300 s: set it by NTP",
    ),
    (
        (
            "ticket expired",
            "credentials have expired",
            "credential has expired",
            "tgt expired",
            "ticket is expired",
        ),
        "the Kerberos ticket has expired: run kinit, or set KRB5_CLIENT_KTNAME to your keytab",
    ),
    (
        ("contains no suitable keys", "no suitable keys"),
        "the keytab is of another principal: klist -k -t FILE lists those it has",
    ),
    (
        ("key table file", "keytab", "key table entry not found"),
        "KRB5_CLIENT_KTNAME names a keytab that cannot be read: check its path and its mode",
    ),
    (
        (
            "no kerberos credentials available",
            "no credentials cache found",
            "gss_s_no_cred",
            "no valid credentials",
            "failed to find any kerberos tgt",
            "client cannot authenticate via:[token, kerberos]",
        ),
        "there is no Kerberos ticket: run kinit, or set KRB5_CLIENT_KTNAME to your keytab",
    ),
    (
        ("cannot find kdc for realm", "cannot determine realm", "configuration file does not"),
        "the realm has no KDC in krb5.conf: check its [realms] section, and KRB5_CONFIG",
    ),
    (
        ("cannot contact any kdc", "cannot resolve network address for kdc"),
        "the KDC does not answer: check that this machine reaches the kdc of krb5.conf",
    ),
    (
        ("not found in kerberos database", "server not found"),
        "the KDC knows no such service: check its host name, and domain_realm in krb5.conf",
    ),
    (
        ("encryption type", "etype", "enctype"),
        "client, KDC and server share no encryption type: have the keytab made again, with AES",
    ),
    (
        ("preauthentication failed", "decrypt integrity check failed"),
        "the password or the keytab is out of date: have the keytab made again",
    ),
    (
        ("can't be found in cache", "token has expired", "token is expired"),
        "the delegation token has expired or was cancelled: the job needs a new one",
    ),
)


def advice(text: str) -> str:
    """Advice on an error with this text; empty if it is not one of Kerberos's known errors."""
    lower = text.lower()
    return next((help_ for parts, help_ in _ADVICE if any(part in lower for part in parts)), "")


def explained(text: str) -> str:
    """The text, with what to do about it."""
    found = advice(text)
    return f"{text}; {found}" if found else text
