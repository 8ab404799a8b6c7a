"""Exceptions, classified by the remedy."""

__all__ = [
    "BusyError",
    "CorruptError",
    "EskerError",
    "InUseError",
    "InvalidError",
    "MissingError",
    "StorageError",
    "UnavailableError",
    "UndecidedError",
]


class EskerError(Exception):
    """Base class of all exceptions of Esker, except ``KeyboardInterrupt`` after Ctrl-C."""


class MissingError(EskerError, LookupError):
    """The vertex, edge or file does not exist."""


class InvalidError(EskerError, ValueError):
    """Fix the call: a name, a filter, a value or a target is invalid; the message says where."""


class UnavailableError(EskerError, ConnectionError):
    """Try again later: the database's owner or server cannot be reached, or the database was closed."""


class BusyError(UnavailableError):
    """Try again soon: others use the same data, or all of a resource. Nothing was done."""


class UndecidedError(UnavailableError):
    """Repeat the change with its idempotency key, or read what is there: whether it was made is not known."""


class InUseError(UnavailableError):
    """End the process that has the database or the file to itself, or go through it."""


class StorageError(EskerError, OSError):
    """Fix the disk or the machine."""


class CorruptError(EskerError):
    """Fix the data: run ``esker check``, restore a backup."""
