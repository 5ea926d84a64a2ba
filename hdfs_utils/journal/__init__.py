"""An append-only log of records that a restarted process can read back."""

from hdfs_utils.journal.log import AppendLog, JournalContent, read_journal

__all__ = ["AppendLog", "JournalContent", "read_journal"]
