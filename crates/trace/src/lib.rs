//! Files that a program and its descendants open.
