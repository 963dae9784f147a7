//! Asks a running server over HTTP: on its local socket, or at an address.

use super::listening_process::listens;
use crate::web::{process_of, socket_folders};
use serde::Deserialize;
use std::{
    fs,
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Where a server answers.
#[derive(Debug, Clone)]
pub(super) enum RunningServer {
    /// On its local socket.
    Socket(PathBuf),
    /// At an address, perhaps with a token.
    Address(SocketAddr, Option<String>),
}

impl RunningServer {
    /// The only server on this machine whose socket this user may use.
    ///
    /// # Errors
    ///
    /// If there is none, or more than one.
    pub(super) fn find() -> Result<Self, String> {
        let mut answering = Vec::new();
        let mut denied = None;
        for path in socket_folders().iter().flat_map(|folder| sockets(folder)) {
            match UnixStream::connect(&path) {
                Ok(_) => answering.push(path),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    denied = Some(path);
                }
                // Left over from a server that was killed.
                Err(_) => {}
            }
        }
        match (answering.as_slice(), denied) {
            ([], Some(path)) => Err(format!(
                "the server of socket {} belongs to another user; run the command as that user or as root",
                path.display()
            )),
            ([], None) => Err(
                "no server of this user runs here; start one with `busyhour serve`, or name one \
                 with --socket PATH or --http ADDRESS"
                    .into(),
            ),
            ([_], _) => Ok(Self::Socket(answering.remove(0))),
            (several, _) => {
                let several: Vec<_> = several.iter().map(|path| path.display()).collect();
                let several = several.iter().map(ToString::to_string).collect::<Vec<_>>();
                Err(format!(
                    "several servers run here; name one with --socket: {}",
                    several.join(", ")
                ))
            }
        }
    }

    /// The socket of the process that listens at an address, if this user may use it.
    pub(super) fn listening_at(address: SocketAddr) -> Option<Self> {
        let folders = socket_folders();
        let mut paths = folders.iter().flat_map(|folder| sockets(folder));
        let is_it = |path: &PathBuf| {
            let pid = process_of(path).and_then(|pid| u32::try_from(pid).ok());
            pid.is_some_and(|pid| listens(pid, address)) && UnixStream::connect(path).is_ok()
        };
        paths.find(is_it).map(Self::Socket)
    }

    /// With a token, if it needs one and there is one.
    pub(super) fn with_token(self, token: Option<String>) -> Self {
        match self {
            Self::Address(address, None) => Self::Address(address, token),
            named => named,
        }
    }

    /// The body of the answer to `GET path`.
    ///
    /// # Errors
    ///
    /// A sentence that names the server, and what can be done.
    pub(super) fn get(&self, path: &str) -> Result<String, String> {
        self.ask("GET", path)
    }

    /// The body of the answer to `DELETE path`.
    ///
    /// # Errors
    ///
    /// As for [`get`](Self::get).
    pub(super) fn delete(&self, path: &str) -> Result<String, String> {
        self.ask("DELETE", path)
    }

    /// As for [`get`](Self::get), without a body.
    pub(super) fn post(&self, path: &str) -> Result<String, String> {
        self.ask("POST", path)
    }

    fn ask(&self, method: &str, path: &str) -> Result<String, String> {
        let answer = match self {
            Self::Socket(socket) => UnixStream::connect(socket).and_then(|stream| {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                exchange(stream, &request(method, path, "localhost", None))
            }),
            Self::Address(address, token) => TcpStream::connect_timeout(address, PATIENCE)
                .and_then(|stream| {
                    stream.set_read_timeout(Some(PATIENCE))?;
                    stream.set_write_timeout(Some(PATIENCE))?;
                    exchange(
                        stream,
                        &request(method, path, &address.to_string(), token.as_deref()),
                    )
                }),
        };
        let name = self.name();
        let how = match self {
            Self::Socket(_) => "give its path with --socket PATH",
            Self::Address(..) => "give its address with --http ADDRESS",
        };
        let answer =
            answer.map_err(|error| format!("no server answers at {name} ({error}); {how}"))?;
        body_of(&answer).map_err(|reason| format!("the server at {name}: {reason}"))
    }

    /// The body of the answer to `GET path`, as it comes. A read fails with a timeout after
    /// each half second of silence, and may be tried again.
    ///
    /// # Errors
    ///
    /// A sentence that names the server, and what can be done.
    pub(super) fn stream(&self, path: &str) -> Result<Box<dyn Read>, String> {
        let silence = Some(SILENCE);
        let opened: io::Result<Box<dyn Read>> = match self {
            Self::Socket(socket) => UnixStream::connect(socket).and_then(|mut stream| {
                stream.write_all(request("GET", path, "localhost", None).as_bytes())?;
                stream.set_read_timeout(silence)?;
                Ok(Box::new(stream) as Box<dyn Read>)
            }),
            Self::Address(address, token) => TcpStream::connect_timeout(address, PATIENCE)
                .and_then(|mut stream| {
                    let host = address.to_string();
                    stream.write_all(request("GET", path, &host, token.as_deref()).as_bytes())?;
                    stream.set_read_timeout(silence)?;
                    Ok(Box::new(stream) as Box<dyn Read>)
                }),
        };
        let name = self.name();
        let mut stream =
            opened.map_err(|error| format!("no server answers at {name} ({error})"))?;
        let head =
            head_of(&mut stream).map_err(|error| format!("the server at {name}: {error}"))?;
        if head.split(' ').nth(1) == Some("200") {
            return Ok(stream);
        }
        let mut rest = String::new();
        // What was refused has a short body.
        let _ = stream.take(ANSWER_LEN_MAX).read_to_string(&mut rest);
        let refused = body_of(&format!("{head}{rest}")).err();
        Err(format!(
            "the server at {name}: {}",
            refused.unwrap_or_default()
        ))
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Socket(path) => path.display().to_string(),
            Self::Address(address, _) => address.to_string(),
        }
    }
}

/// A server that listens on a wildcard address is reached over the loopback.
pub(super) fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// The files in a folder that are called as sockets are.
fn sockets(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut paths: Vec<_> = paths
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "sock")
        })
        .collect();
    paths.sort_unstable();
    paths
}

/// HTTP/1.0 sends the answer in one piece and ends the connection after it.
fn request(method: &str, path: &str, host: &str, token: Option<&str>) -> String {
    let token = token.map_or(String::new(), |token| {
        format!("Authorization: Bearer {token}\r\n")
    });
    format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\n{token}\r\n")
}

fn exchange(mut stream: impl Read + Write, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_LEN_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}

/// The status line and the headers, with the empty line.
fn head_of(stream: &mut impl Read) -> io::Result<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    let begun = Instant::now();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => head.push(byte[0]),
            Err(_silence) if begun.elapsed() < PATIENCE => {}
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn body_of(answer: &str) -> Result<String, String> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let status = head.lines().next().unwrap_or("");
    match status.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        Some("404") if body.trim().is_empty() => {
            Err("it does not know this; it may be of an older version".into())
        }
        _ if body.trim().is_empty() => Err(format!("it answered {status:?}")),
        _ => Err(detail_of(body)),
    }
}

/// The sentence of a refusal: of a problem (RFC 9457), or the text itself.
fn detail_of(body: &str) -> String {
    #[derive(Deserialize)]
    struct RefusedRequest {
        detail: String,
    }
    let problem = serde_json::from_str::<RefusedRequest>(body);
    problem.map_or_else(|_| body.trim().to_owned(), |problem| problem.detail)
}

/// Longer than a node of a cluster waits for the answers of the others, which it may ask twice.
const PATIENCE: Duration = Duration::from_secs(15);
const ANSWER_LEN_MAX: u64 = 64 << 20;
/// After it, a reader of a stream may look at the clock.
const SILENCE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_body_or_a_sentence() {
        assert_eq!(body_of("HTTP/1.0 200 OK\r\na: b\r\n\r\n{}").unwrap(), "{}");
        let refused = body_of("HTTP/1.0 401 Unauthorized\r\n\r\nreading needs a token\n");
        assert_eq!(refused.unwrap_err(), "reading needs a token");
        let missing = body_of("HTTP/1.0 404 Not Found\r\n\r\nnothing is registered\n");
        assert_eq!(missing.unwrap_err(), "nothing is registered");
        let problem =
            body_of("HTTP/1.0 409 Conflict\r\n\r\n{\"status\":409,\"detail\":\"it is full\"}");
        assert_eq!(problem.unwrap_err(), "it is full");
        let old = body_of("HTTP/1.0 404 Not Found\r\n\r\n").unwrap_err();
        assert!(old.contains("older version"), "{old}");
        let odd = body_of("SSH-2.0-x");
        assert_eq!(odd.unwrap_err(), "it answered \"SSH-2.0-x\"");
    }

    #[test]
    fn a_wildcard_is_reached_over_the_loopback() {
        for (listen, reached) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            ("192.0.2.1:80", "192.0.2.1:80"),
        ] {
            assert_eq!(reachable(listen.parse().unwrap()).to_string(), reached);
        }
    }
}
