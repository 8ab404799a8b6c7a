//! What goes out comes back.
