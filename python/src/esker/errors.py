"""What calls raise, by what the caller can do about it."""

__all__ = [
    "CorruptError",
    "EskerError",
    "InvalidError",
    "MissingError",
    "StorageError",
    "UnavailableError",
]


class EskerError(Exception):
    """All that Esker raises, but for ``KeyboardInterrupt`` after Ctrl-C."""


class MissingError(EskerError, LookupError):
    """It is not there: no such vertex, edge or file."""


class InvalidError(EskerError, ValueError):
    """Fix the call: a name, a filter, a value, a target that makes no sense; the message says where."""


class UnavailableError(EskerError, ConnectionError):
    """Try again: the database's owner or server cannot be reached, or the database was closed."""


class StorageError(EskerError, OSError):
    """Fix the disk or the machine."""


class CorruptError(EskerError):
    """Fix the data: run ``esker check``, restore a backup."""
