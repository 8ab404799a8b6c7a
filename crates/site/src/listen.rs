//! Listening address of a tier: a TCP port, or a Unix socket that only its owner can reach.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Prefix of a Unix socket's path.
const UNIX: &str = "unix:";

/// A listening port or socket.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, Socket),
}

/// File of a Unix socket, removed with its listener.
pub(crate) struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        // Another process may have removed it already.
        let _ = fs::remove_file(&self.0);
    }
}

/// Address of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listening {
    /// A TCP port.
    Tcp(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

/// An accepted connection of a client.
pub(crate) enum Stream {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl Stream {
    /// Returns the address of the client.
    pub(crate) fn ip(&self) -> IpAddr {
        match self {
            Self::Tcp(_, from) => from.ip(),
            Self::Unix(_) => Ipv4Addr::LOCALHOST.into(),
        }
    }
}

/// Returns the path in `unix:/PATH`.
pub(crate) fn socket(listen: &str) -> Option<&Path> {
    let path = listen.strip_prefix(UNIX)?;
    Some(Path::new(path.strip_prefix("//").unwrap_or(path)))
}

/// Removes a socket file without a listener.
async fn clear(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
        Ok(about) if !about.file_type().is_socket() => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is something other than a socket",
        )),
        Ok(_) => match UnixStream::connect(path).await {
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
            _ => Err(io::ErrorKind::AddrInUse.into()),
        },
    }
}

impl Listener {
    /// Listens at `HOST:PORT`, or at `unix:/PATH` with mode 0600.
    pub(crate) async fn bind(listen: &str) -> io::Result<Self> {
        let Some(path) = socket(listen) else {
            return Ok(Self::Tcp(TcpListener::bind(listen).await?));
        };
        clear(path).await?;
        let listener = UnixListener::bind(path)?;
        let socket = Socket(path.to_path_buf());
        // In addition, the kernel reports the user of each connection.
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        Ok(Self::Unix(listener, socket))
    }

    /// Returns the listening address.
    pub(crate) fn listening(&self) -> io::Result<Listening> {
        Ok(match self {
            Self::Tcp(listener) => Listening::Tcp(listener.local_addr()?),
            Self::Unix(_, socket) => Listening::Unix(socket.0.clone()),
        })
    }

    /// Accepts the next connection; returns its user, if the kernel reports it.
    pub(crate) async fn accept(&self) -> io::Result<(Stream, Option<u32>)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                let here = stream.local_addr();
                let user = here
                    .ok()
                    .and_then(|here| esker_access::peer::user_of(from, here));
                Ok((Stream::Tcp(stream, from), user))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred().ok().map(|c| c.uid());
                Ok((Stream::Unix(stream), user))
            }
        }
    }
}
