//! Servers that no one should meet.
