//! Unix sockets under the contract: one way to listen, one way to connect.
//!
//! Both halves and the command line meet here, so a stale socket, a socket in
//! use and a path that is too long read the same everywhere.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use tokio::net::UnixListener;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

/// Longest path of a Unix socket on Linux, in bytes, without the closing zero.
pub const PATH_LIMIT_BYTES: usize = 107;

/// Who may connect: the owner and the group.
const MODE: u32 = 0o660;

/// What went wrong with a socket, and what to do.
#[derive(Debug)]
pub enum Error {
    /// The path does not fit into a socket address.
    PathTooLong(PathBuf),
    /// Somebody answers on the socket already.
    InUse(PathBuf),
    /// Something that is not a socket is in the way.
    NotASocket(PathBuf),
    /// Nobody listens there.
    NobodyThere(PathBuf),
    /// The system refused.
    System(PathBuf, io::Error),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::PathTooLong(path) => write!(
                f,
                "the socket path {} is longer than {PATH_LIMIT_BYTES} bytes: give a shorter one",
                path.display()
            ),
            Error::InUse(path) => write!(
                f,
                "somebody answers on {} already: stop that process or give another socket path",
                path.display()
            ),
            Error::NotASocket(path) => write!(
                f,
                "{} exists and is not a socket: move it away or give another socket path",
                path.display()
            ),
            Error::NobodyThere(path) => write!(f, "nobody listens on {}", path.display()),
            Error::System(path, error) => match error.kind() {
                io::ErrorKind::PermissionDenied => write!(
                    f,
                    "{}: permission denied: run as root, or as a member of the socket's group",
                    path.display()
                ),
                _ => write!(f, "{}: {error}", path.display()),
            },
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::System(_, error) => Some(error),
            _ => None,
        }
    }
}

/// Whether somebody accepts connections on `path`.
pub fn is_answered(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

/// Listens on `path` with mode 0660. A socket that nobody answers is replaced.
///
/// Must be called inside a Tokio runtime.
///
/// # Errors
/// When somebody answers there, when something else than a socket is in the
/// way, when the path is too long, or when the system refuses.
pub fn listen(path: &Path) -> Result<UnixListener, Error> {
    let system = |error| Error::System(path.to_owned(), error);
    let fresh = fresh_name(path);
    if fresh.as_os_str().len() > PATH_LIMIT_BYTES {
        return Err(Error::PathTooLong(path.to_owned()));
    }
    match std::fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => {
            return Err(Error::NotASocket(path.to_owned()));
        }
        Ok(_) if is_answered(path) => return Err(Error::InUse(path.to_owned())),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(system(error)),
    }
    // Made under another name and then renamed: nobody can connect before the
    // mode is set, and a stale socket is replaced in one step.
    let _ = std::fs::remove_file(&fresh);
    let listener = UnixListener::bind(&fresh).map_err(system)?;
    std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(MODE)).map_err(system)?;
    std::fs::rename(&fresh, path).map_err(system)?;
    Ok(listener)
}

/// A name beside `path` that no other process takes: "stoa.sock" -> "stoa.sock.4711".
fn fresh_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    PathBuf::from(name)
}

/// Connects to whoever listens on `path`.
///
/// # Errors
/// When nobody listens there, the path is too long, or the system refuses.
pub async fn connect(path: &Path) -> Result<Channel, Error> {
    if path.as_os_str().len() > PATH_LIMIT_BYTES {
        return Err(Error::PathTooLong(path.to_owned()));
    }
    if let Err(error) = tokio::net::UnixStream::connect(path).await {
        return Err(match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                Error::NobodyThere(path.to_owned())
            }
            _ => Error::System(path.to_owned(), error),
        });
    }
    Ok(connect_lazily(path))
}

/// A channel that connects to `path` when it is first used, and again after
/// the peer was started anew. Calls fail as unavailable while nobody is there.
///
/// Must be called inside a Tokio runtime.
pub fn connect_lazily(path: &Path) -> Channel {
    let target = path.to_owned();
    let connector = service_fn(move |_| {
        let target = target.clone();
        async move { tokio::net::UnixStream::connect(target).await.map(TokioIo::new) }
    });
    // The authority is never resolved: the connector knows where to go.
    Endpoint::from_static("http://stoa.invalid").connect_with_connector_lazy(connector)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("stoa-api-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[tokio::test]
    async fn stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = folder("stale");
        let path = folder.join("stoa.sock");
        drop(listen(&path).unwrap());
        assert!(path.exists(), "a socket outlives its listener");
        let listener = listen(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, MODE);
        assert!(matches!(listen(&path), Err(Error::InUse(_))));
        drop(listener);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[tokio::test]
    async fn other_files_are_left_alone() {
        let folder = folder("file");
        let path = folder.join("stoa.sock");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(listen(&path), Err(Error::NotASocket(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        assert!(matches!(connect(&folder.join("nobody")).await, Err(Error::NobodyThere(_))));
        let long = folder.join("x".repeat(200));
        assert!(matches!(listen(&long), Err(Error::PathTooLong(_))));
        assert!(matches!(connect(&long).await, Err(Error::PathTooLong(_))));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
