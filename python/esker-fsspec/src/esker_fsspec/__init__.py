"""File systems for fsspec: the namespace of a database, and remote files through a tier of Esker's site cache."""

from .database import EskerFileSystem
from .filesystem import EskerSiteFileSystem
from .tier import TierError

__all__ = ["EskerFileSystem", "EskerSiteFileSystem", "TierError"]
__version__ = "0.1.0"
