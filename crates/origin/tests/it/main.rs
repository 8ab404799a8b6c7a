//! Origins as people run them: real servers on loopback, started and stopped by the tests.

mod ftp;
