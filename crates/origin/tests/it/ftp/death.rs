//! Connections and servers that end with questions open.
