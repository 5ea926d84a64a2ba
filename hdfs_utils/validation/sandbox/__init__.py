"""Decoders of foreign bytes in child processes with limits.

``decoder_pool`` keeps children that check one file after another without access to its storage.
A whole file is checked within limits by ``validation.check_in_subprocess``.
"""
