"""Metadata of far files for fsspec, through a tier of Esker's site cache."""

from .filesystem import EskerSiteFileSystem
from .tier import TierError

__all__ = ["EskerSiteFileSystem", "TierError"]
__version__ = "0.1.0"
