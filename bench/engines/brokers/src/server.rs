//! The process of a broker on a free loopback port; it ends with the engine.

use std::{
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

pub struct Server {
    child: Child,
    pub port: u16,
}

impl Server {
    /// Starts `program`; `args` makes its arguments from the port.
    pub fn start(program: &str, args: impl Fn(u16) -> Vec<String>) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|l| l.local_addr())
            .expect("a free port")
            .port();
        let mut command = Command::new(program);
        command
            .args(args(port))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().expect("the broker starts");
        Self { child, port }
    }

    /// Returns a connection as soon as the broker accepts one.
    pub fn connect(&self) -> TcpStream {
        for _ in 0..500 {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", self.port)) {
                stream.set_nodelay(true).expect("a TCP option");
                return stream;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the broker does not answer on port {}", self.port);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
