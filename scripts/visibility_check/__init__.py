"""Parts of scripts/visibility-check.py, which compares what a server shows to users with what their processes may see."""
