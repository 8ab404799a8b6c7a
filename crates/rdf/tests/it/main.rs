//! Queries and updates from their text to their answers.

mod smoke;
