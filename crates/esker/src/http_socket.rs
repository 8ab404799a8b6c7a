//! Unix socket in the folder of a database, at which the server's process answers HTTP requests of local processes.
//!
//! The permissions of the folder `owner` decide which users may connect, as with the owner's other socket.

use crate::database::{Database, Role};
use crate::folder::Folder;
use crate::socket::SocketPath;
use esker_model::{Error, Result};
use esker_rpc::http::Endpoint;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

const NAME: &str = "http.sock";

/// A listening socket. Dropping it removes its name from the file system.
#[derive(Debug)]
pub struct HttpSocket {
    path: PathBuf,
}

impl Drop for HttpSocket {
    fn drop(&mut self) {
        // A leftover socket refuses connections, and the next owner replaces it.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn path_of(folder: &Folder) -> PathBuf {
    folder.owner().join(NAME)
}

impl Database {
    /// Listens for HTTP requests of processes on this machine. Only the owner of a database may.
    pub fn listen_http(&self) -> Result<(UnixListener, HttpSocket)> {
        let path = path_of(self.folder());
        let failed = |e| Error::io(format!("listening at `{}`", path.display()), e);
        let socket = SocketPath::new(&path).map_err(failed)?;
        // An owner that was killed has left its socket.
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let listener = UnixListener::bind(socket.address()).map_err(failed)?;
        Ok((listener, HttpSocket { path }))
    }

    /// HTTP endpoint of the process that has the database open; `None` if that is this process or it serves no HTTP.
    pub fn http_endpoint(&self) -> Option<Endpoint> {
        if !matches!(self.role(), Role::Attached { .. }) {
            return None;
        }
        http_endpoint_of(&self.folder().path)
    }
}

/// HTTP endpoint of the process that has the database in `folder` open, if it accepts connections.
pub fn http_endpoint_of(folder: &Path) -> Option<Endpoint> {
    let path = path_of(&Folder::at(folder));
    let socket = SocketPath::new(&path).ok()?;
    UnixStream::connect(socket.address()).ok()?;
    // The address of a long path is valid as long as its folder's descriptor, so the descriptor stays open until the
    // process ends.
    let place = Endpoint::Unix(socket.address().to_path_buf());
    std::mem::forget(socket);
    Some(place)
}
