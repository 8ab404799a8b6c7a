//! Requests of other processes on the owner's socket.

pub(crate) fn check(bytes: &[u8]) {
    esker::check_socket_input(bytes);
}
