"""Kerberos for HTTP (SPNEGO, RFC 4559), through the system's MIT library.

The library comes with ``libgssapi-krb5-2`` (Debian) or ``krb5-libs`` (RHEL), which every machine
that can run ``kinit`` has; the native HDFS client loads it too. It is called by ctypes: the Python
packages for it have no wheels, so each site would need a compiler. It takes the ticket of the
cache (``KRB5CCNAME``), or gets one itself from the keytab that ``KRB5_CLIENT_KTNAME`` names.
"""

from __future__ import annotations

import base64
import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from hdfs_utils.errors import NotAuthenticated, NotSupported
from hdfs_utils.protocols.kerberos_errors import explained

_LIBRARY = "libgssapi_krb5.so.2"

# Object identifiers, in DER without tag and length (RFC 2743, RFC 4121, RFC 4178).
_HOST_BASED_SERVICE = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04"
_KERBEROS = b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"
_SPNEGO = b"\x2b\x06\x01\x05\x05\x02"

_MUTUAL, _REPLAY, _SEQUENCE, _INTEGRITY = 2, 4, 8, 32
_INITIATE = 1
_CONTINUE = 1  # the service has to answer
_GSS_CODE, _MECHANISM_CODE = 1, 2
_ERROR_BITS = 0xFFFF0000  # calling and routine errors; the rest are remarks


class _Buffer(ctypes.Structure):
    _fields_ = (("length", ctypes.c_size_t), ("value", ctypes.c_void_p))


class _Pair(ctypes.Structure):
    _fields_ = (("key", ctypes.c_char_p), ("value", ctypes.c_char_p))


class _Pairs(ctypes.Structure):
    _fields_ = (("count", ctypes.c_uint32), ("elements", ctypes.POINTER(_Pair)))


class _Oid(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint32), ("elements", ctypes.c_char_p))


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this process is to Kerberos.

    Attributes:
        principal: as in ``ada@EXAMPLE.COM``.
        left_s: seconds until its ticket ends.
    """

    principal: str
    left_s: int

    @property
    def realm(self) -> str:
        return self.principal.rpartition("@")[2]


def negotiate_header(host: str) -> str:
    """The value of ``Authorization`` for one request to the HTTP service of ``host``.

    Raises:
        NotAuthenticated: there is no usable ticket, or the KDC does not know the service; the
            message says what to do.
        NotSupported: the machine has no Kerberos library.
    """
    service = f"HTTP@{host}"
    try:
        token = _first_token(service, _SPNEGO)
    except NotAuthenticated:
        # Why, only Kerberos itself says: SPNEGO says that it has found no way.
        _first_token(service, _KERBEROS)
        raise
    return f"Negotiate {base64.b64encode(token).decode()}"


def identity() -> Identity:
    """Who this process is, and for how long.

    Raises:
        NotAuthenticated: there is neither a ticket nor a keytab to get one with.
        NotSupported: the machine has no Kerberos library.
    """
    library = _library()
    credential = ctypes.c_void_p()
    with ExitStack() as stack:
        _call("gss_acquire_cred", None, 0, None, _INITIATE, ctypes.byref(credential), None, None)
        stack.callback(_release, library.gss_release_cred, credential)
        name, left_s = ctypes.c_void_p(), ctypes.c_uint32()
        _call("gss_inquire_cred", credential, ctypes.byref(name), ctypes.byref(left_s), None, None)
        stack.callback(_release, library.gss_release_name, name)
        with _output() as shown:
            _call("gss_display_name", name, ctypes.byref(shown), None)
            return Identity(_bytes(shown).decode(errors="replace"), left_s.value)


def _first_token(service: str, mechanism_id: bytes) -> bytes:
    """The initiator's first message; ``service`` is ``HTTP@host``."""
    library = _library()
    text = service.encode()
    given = _Buffer(len(text), ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p))
    name, context = ctypes.c_void_p(), ctypes.c_void_p()
    with ExitStack() as stack:
        kind = _Oid(len(_HOST_BASED_SERVICE), _HOST_BASED_SERVICE)
        _call("gss_import_name", ctypes.byref(given), ctypes.byref(kind), ctypes.byref(name))
        stack.callback(_release, library.gss_release_name, name)
        mechanism = _Oid(len(mechanism_id), mechanism_id)
        with _output() as token:
            stack.callback(_release_context, context)
            _call(
                "gss_init_sec_context", None, ctypes.byref(context), name, ctypes.byref(mechanism),
                _MUTUAL | _REPLAY | _SEQUENCE | _INTEGRITY, 0, None, None, None,
                ctypes.byref(token), None, None,
            )  # fmt: skip
            return _bytes(token)


class Initiator:
    """An initiator's context with a service. Not thread-safe.

    Args:
        service: as in ``zookeeper@host``.
        keytab: whose first principal asks; if empty, the process's own credentials do.

    Raises:
        NotAuthenticated: the keytab gives no ticket.
        NotSupported: the machine has no Kerberos library.
    """

    def __init__(self, service: str, keytab: str = "") -> None:
        library = _library()
        self.is_established = False
        self._open = ExitStack()
        self._mechanism = _Oid(len(_KERBEROS), _KERBEROS)
        self._context, self._name = ctypes.c_void_p(), ctypes.c_void_p()
        self._credential = ctypes.c_void_p()
        self._open.callback(_release_context, self._context)
        kind = _Oid(len(_HOST_BASED_SERVICE), _HOST_BASED_SERVICE)
        text = service.encode()
        given = _buffer(text)
        _call("gss_import_name", ctypes.byref(given), ctypes.byref(kind), ctypes.byref(self._name))
        self._open.callback(_release, library.gss_release_name, self._name)
        if keytab:
            self._credential = _by_keytab(keytab)
            self._open.callback(_release, library.gss_release_cred, self._credential)

    def step(self, received: bytes) -> bytes:
        """The next token to send; ``received``: the service's last one, empty at first."""
        given = _buffer(received)
        with _output() as token:
            major = _call(
                "gss_init_sec_context", self._credential, ctypes.byref(self._context), self._name,
                ctypes.byref(self._mechanism), _MUTUAL | _REPLAY | _SEQUENCE | _INTEGRITY, 0, None,
                ctypes.byref(given) if received else None, None, ctypes.byref(token), None, None,
            )  # fmt: skip
            self.is_established = not major & _CONTINUE
            return _bytes(token)

    def wrap(self, content: bytes) -> bytes:
        """The content with its integrity protected."""
        given = _buffer(content)
        with _output() as found:
            _call("gss_wrap", self._context, 0, 0, ctypes.byref(given), None, ctypes.byref(found))
            return _bytes(found)

    def unwrap(self, received: bytes) -> bytes:
        """The content, if it is the service's own."""
        given = _buffer(received)
        with _output() as found:
            _call("gss_unwrap", self._context, ctypes.byref(given), ctypes.byref(found), None, None)
            return _bytes(found)

    def close(self) -> None:
        """Idempotent."""
        self._open.close()


def _by_keytab(keytab: str) -> ctypes.c_void_p:
    """A credential with a ticket of its own, in the memory of this process."""
    pairs = (_Pair * 2)(
        _Pair(b"client_keytab", f"FILE:{keytab}".encode()),
        _Pair(b"ccache", b"MEMORY:yarnam"),
    )
    store = _Pairs(len(pairs), pairs)
    found = ctypes.c_void_p()
    _call(
        "gss_acquire_cred_from", None, 0, None, _INITIATE, ctypes.byref(store),
        ctypes.byref(found), None, None,
    )  # fmt: skip
    return found


def _buffer(content: bytes) -> _Buffer:
    return _Buffer(len(content), ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p))


@cache
def _library() -> Any:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        message = (
            f"this machine has no {_LIBRARY}, which Kerberos needs; install libgssapi-krb5-2 "
            "(Debian, Ubuntu) or krb5-libs (RHEL)"
        )
        raise NotSupported(message, operation="kerberos") from error
    pointer, number = ctypes.c_void_p, ctypes.c_uint32
    minor = ctypes.POINTER(number)
    signatures: dict[str, tuple[Any, ...]] = {
        "gss_import_name": (pointer, pointer, pointer),
        "gss_release_name": (pointer,),
        "gss_release_buffer": (pointer,),
        "gss_release_cred": (pointer,),
        "gss_delete_sec_context": (pointer, pointer),
        "gss_display_name": (pointer, pointer, pointer),
        "gss_acquire_cred": (pointer, number, pointer, ctypes.c_int, pointer, pointer, pointer),
        "gss_inquire_cred": (pointer, pointer, pointer, pointer, pointer),
        "gss_acquire_cred_from": (
            pointer, number, pointer, ctypes.c_int, pointer, pointer, pointer, pointer,
        ),
        "gss_wrap": (pointer, ctypes.c_int, number, pointer, pointer, pointer),
        "gss_unwrap": (pointer, pointer, pointer, pointer, pointer),
        "gss_display_status": (number, ctypes.c_int, pointer, pointer, pointer),
        "gss_init_sec_context": (
            pointer, pointer, pointer, pointer, number, number, pointer, pointer, pointer,
            pointer, pointer, pointer,
        ),
    }  # fmt: skip
    for name, arguments in signatures.items():
        function = getattr(library, name)
        function.argtypes = (minor, *arguments)
        function.restype = number
    return library


# Guards the library's own state. One thread, not each, gets a ticket from the KDC.
_lock = threading.Lock()


def _call(function: str, *arguments: Any) -> int:
    """The major status, which has remarks only. Raises NotAuthenticated."""
    minor = ctypes.c_uint32()
    with _lock:
        major = getattr(_library(), function)(ctypes.byref(minor), *arguments)
    if major & _ERROR_BITS:
        parts = (_status(major, _GSS_CODE), _status(minor.value, _MECHANISM_CODE))
        message = "; ".join(part for part in parts if part)
        raise NotAuthenticated(explained(message), operation="kerberos")
    return int(major)


def _status(code: int, kind: int) -> str:
    """The library's text for a status."""
    minor, more = ctypes.c_uint32(), ctypes.c_uint32()
    with _output() as text:
        _library().gss_display_status(
            ctypes.byref(minor), code, kind, None, ctypes.byref(more), ctypes.byref(text)
        )
        return _bytes(text).decode(errors="replace").strip(" \0")


@contextmanager
def _output() -> Iterator[_Buffer]:
    buffer = _Buffer()
    try:
        yield buffer
    finally:
        minor = ctypes.c_uint32()
        _library().gss_release_buffer(ctypes.byref(minor), ctypes.byref(buffer))


def _bytes(buffer: _Buffer) -> bytes:
    return ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""


def _release(function: Callable[..., int], handle: ctypes.c_void_p) -> None:
    if handle.value:
        function(ctypes.byref(ctypes.c_uint32()), ctypes.byref(handle))


def _release_context(context: ctypes.c_void_p) -> None:
    if context.value:
        minor = ctypes.c_uint32()
        _library().gss_delete_sec_context(ctypes.byref(minor), ctypes.byref(context), None)
