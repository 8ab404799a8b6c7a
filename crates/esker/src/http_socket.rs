//! The Unix socket at which a server's process answers HTTP to processes of its machine, in the folder of its database.
//!
//! Who may go into the folder `owner` may ask, as with the owner's other socket.

use crate::database::{Database, Role};
use crate::folder::Folder;
use crate::socket::SocketPath;
use esker_model::{Error, Result};
use esker_rpc::http::Place;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

const NAME: &str = "http.sock";

/// A socket that is listened at; its name goes with it.
#[derive(Debug)]
pub struct HttpSocket {
    path: PathBuf,
}

impl Drop for HttpSocket {
    fn drop(&mut self) {
        // If it stays, nobody answers there, and the next owner replaces it.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn path_of(folder: &Folder) -> PathBuf {
    folder.owner().join(NAME)
}

impl Database {
    /// Listens for HTTP of processes on this machine. Only a database's owner may.
    pub fn listen_http(&self) -> Result<(UnixListener, HttpSocket)> {
        let path = path_of(self.folder());
        let failed = |e| Error::io(format!("listening at `{}`", path.display()), e);
        let socket = SocketPath::new(&path).map_err(failed)?;
        // An owner that died left its own.
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let listener = UnixListener::bind(socket.address()).map_err(failed)?;
        Ok((listener, HttpSocket { path }))
    }

    /// Where the process that has the database open answers HTTP, if it is another one and does.
    pub fn http_place(&self) -> Option<Place> {
        if !matches!(self.role(), Role::Attached { .. }) {
            return None;
        }
        http_place_of(&self.folder().path)
    }
}

/// Where the process that has the database of a folder open answers HTTP, if there is one that does.
pub fn http_place_of(folder: &Path) -> Option<Place> {
    let path = path_of(&Folder::at(folder));
    let socket = SocketPath::new(&path).ok()?;
    UnixStream::connect(socket.address()).ok()?;
    // A path that is too long for an address lives as long as the descriptor behind it: as long as the process.
    let place = Place::Unix(socket.address().to_path_buf());
    std::mem::forget(socket);
    Some(place)
}
