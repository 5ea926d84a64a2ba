"""JPEG, PNG, WebP, TIFF, GIF and BMP: decoded completely with Pillow.

PNG has a CRC for every chunk. The others have no checksums: a changed byte may only change the
picture.
"""

from __future__ import annotations

import io
import struct
import zlib
from contextlib import suppress

from hdfs_utils.validation.findings import (
    Corrupt,
    Findings,
    NotSupported,
    OverLimit,
    Reason,
    first_line,
    needed,
)
from hdfs_utils.validation.input_format import InputFormat
from hdfs_utils.validation.sources import Source

PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
_BY_MAGIC = (
    (b"\xff\xd8\xff", "JPEG"),
    (PNG_MAGIC, "PNG"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"BM", "BMP"),
)


# 4 bytes of each pixel are held, so this is 512 MiB of the 2 GiB that a check has.
MAX_PIXELS = 128 << 20
# Pixels of all frames: some 20 s of decoding. A few KB may announce any number of them.
MAX_PIXELS_OF_ALL = 4 << 30


def image_kind(data: bytes) -> str:
    """By the first bytes; empty means none of those that are known here."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WEBP"
    return next((kind for magic, kind in _BY_MAGIC if data.startswith(magic)), "")


_NOT_CHECKED = (
    (b"\0\0\0\x0cjP  \r\n", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
    (b"\xff\x0a", "JPEG XL"),
    (b"\0\0\0\x0cJXL ", "JPEG XL"),
    (b"8BPS", "Photoshop"),
    (b"v/1\x01", "OpenEXR"),
    (b"#?RADIANCE", "Radiance HDR"),
    (b"\0\0\x01\0", "ICO"),
    (b"DDS ", "DDS"),
    (b"qoif", "QOI"),
)


def _other_kind(data: bytes) -> str:
    """The name of a format that Pillow or another library reads, whatever the file is called; empty
    means none that is known here."""
    if data[4:8] == b"ftyp" and data[8:12] in {
        b"avif",
        b"avis",
        b"heic",
        b"heix",
        b"mif1",
        b"msf1",
    }:
        return "AVIF or HEIF"
    if data[:1] == b"P" and data[1:2] in b"1234567" and data[2:3].isspace():
        return "a portable pixmap"
    return next((kind for magic, kind in _NOT_CHECKED if data.startswith(magic)), "")


def check_image(source: Source, found: Findings) -> None:
    """Structure where the format has one to check, then all frames decoded."""
    data = source.whole()
    kind = image_kind(data)
    if not kind and (other := _other_kind(data)):
        raise NotSupported(f"{other}, a format that is not checked here")
    if not kind:
        raise Corrupt(Reason.BAD_MAGIC, "is not an image of a known format", 0)
    expected = _kind_of_name(source.name)
    if expected and kind != expected:
        found.note(Reason.OTHER_FORMAT, f"named as {expected}, but it is {kind}")
    if kind == "PNG":
        _check_png(data)
    elif kind == "JPEG":
        _check_jpeg_end(data)
    elif kind == "WEBP":
        _check_riff(data)
    if kind != "PNG":
        found.note(Reason.UNPROTECTED, f"{kind} has no checksums: a changed byte may go unseen")
    _decode(data, found)


def _kind_of_name(name: str) -> str:
    ending = name.rpartition(".")[2].lower()
    return {
        "jpg": "JPEG",
        "jpeg": "JPEG",
        "png": "PNG",
        "webp": "WEBP",
        "tif": "TIFF",
        "tiff": "TIFF",
        "gif": "GIF",
        "bmp": "BMP",
    }.get(ending, "")


def _decode(data: bytes, found: Findings) -> None:
    pil, image_module = needed("PIL", "pillow"), needed("PIL.Image", "pillow")
    # Pillow warns above this and raises above twice as much; the size is looked at below.
    image_module.MAX_IMAGE_PIXELS = MAX_PIXELS
    pixels = 0
    try:
        with image_module.open(io.BytesIO(data)) as image:
            for frame in range(getattr(image, "n_frames", 1)):
                image.seek(frame)
                width, height = image.size
                pixels += width * height
                if width * height > MAX_PIXELS or pixels > MAX_PIXELS_OF_ALL:
                    raise OverLimit(f"{width} x {height} pixels in frame {frame}: too large")
                image.load()
                found.records += 1
    except image_module.DecompressionBombError as error:
        raise OverLimit(f"an image too large to decode: {error}") from error
    except (pil.UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError) as error:
        raise _corrupt(error) from error
    except (TypeError, KeyError, IndexError, struct.error, zlib.error) as error:
        raise _corrupt(error) from error  # what Pillow's parsers raise about bad fields


def _corrupt(error: BaseException) -> Corrupt:
    text = first_line(error)
    reason = Reason.TRUNCATED if "truncated" in text else Reason.BAD_DATA
    return Corrupt(reason, f"cannot be decoded: {text}")


def _check_png(data: bytes) -> None:
    """Every chunk's length and CRC, and that the last one is IEND."""
    at = len(PNG_MAGIC)
    while True:
        if at + 12 > len(data):
            raise Corrupt(Reason.TRUNCATED, "ends before its IEND chunk", at)
        length = int.from_bytes(data[at : at + 4], "big")
        end = at + 12 + length
        if end > len(data):
            raise Corrupt(Reason.TRUNCATED, "ends within a chunk, or its length is wrong", at)
        if zlib.crc32(data[at + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            raise Corrupt(Reason.BAD_CRC, "the CRC of a chunk does not fit", at)
        if data[at + 4 : at + 8] == b"IEND":
            return
        at = end


def _check_jpeg_end(data: bytes) -> None:
    """Cameras add things after the end, so the mark is looked for and not expected last."""
    if data.rfind(b"\xff\xd9") < 2:
        raise Corrupt(Reason.TRUNCATED, "has no mark of its end", len(data))


def _check_riff(data: bytes) -> None:
    with suppress(struct.error):
        size = struct.unpack_from("<I", data, 4)[0]
        if size + 8 > len(data):
            message = f"ends {size + 8 - len(data)} bytes early"
            raise Corrupt(Reason.TRUNCATED, message, len(data))


FORMATS = (
    InputFormat(
        "image",
        (".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".gif", ".bmp"),
        "PNG every byte; the others only what decoding trips over",
        check_image,
        # BMP begins with two letters: too few to tell.
        recognizes=lambda head: image_kind(head) not in ("", "BMP"),
    ),
)
