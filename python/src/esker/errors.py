"""Exceptions, classified by the remedy."""

__all__ = [
    "CorruptError",
    "EskerError",
    "InvalidError",
    "MissingError",
    "StorageError",
    "UnavailableError",
]


class EskerError(Exception):
    """Base class of all exceptions of Esker, except ``KeyboardInterrupt`` after Ctrl-C."""


class MissingError(EskerError, LookupError):
    """The vertex, edge or file does not exist."""


class InvalidError(EskerError, ValueError):
    """Fix the call: a name, a filter, a value or a target is invalid; the message says where."""


class UnavailableError(EskerError, ConnectionError):
    """Try again: the database's owner or server cannot be reached, or the database was closed."""


class StorageError(EskerError, OSError):
    """Fix the disk or the machine."""


class CorruptError(EskerError):
    """Fix the data: run ``esker check``, restore a backup."""
