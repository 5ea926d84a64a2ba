"""Native decoders, which may crash, in child processes.

``decoder_pool`` keeps children that decode one file after another without access to its storage.
A whole file is checked within limits by ``validation.check_in_subprocess``.
"""
