//! A real sipp as a telephone that sleeps: its connection has ended, and the program that wakes it
//! starts it.

use crate::{
    http_receiver::{Answer, HttpReceiver, Received},
    support::{
        Place,
        ports::free_port,
        sipp::{Calls, Sipp, Transport},
        wait_until,
    },
};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

const PN: &str = "pn-provider=acme;pn-param=p;pn-prid=b0b";

/// Bob registers over a connection, and falls asleep.
fn register_and_sleep(server: SocketAddr) {
    let mut phone = TcpStream::connect(server).unwrap();
    write!(
        phone,
        "REGISTER sip:127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.1;branch=z9hG4bK1\r\n\
         Max-Forwards: 70\r\nFrom: <sip:bob@127.0.0.1>;tag=1\r\nTo: <sip:bob@127.0.0.1>\r\n\
         Call-ID: 1\r\nCSeq: 1 REGISTER\r\nContact: <sip:bob@127.0.0.1:9;transport=tcp;{PN};ob>\r\n\
         Content-Length: 0\r\n\r\n"
    )
    .unwrap();
    let (mut answer, mut byte) = (Vec::new(), [0]);
    while !answer.ends_with(b"\r\n\r\n") {
        phone.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    assert!(answer.contains("+sip.pns=\"acme\""), "{answer}");
}

/// What the push starts: a telephone that listens, and registers where.
fn wake(port: u16, place: &Place, server: SocketAddr) -> (Child, Sipp) {
    let listens = Command::new("sipp")
        .args(["-sn", "uas", "-m", "1", "-i", "127.0.0.1", "-nostdin"])
        .args(["-p", &port.to_string(), "-timeout", "60s"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sipp is there");
    let line = format!("bob;{port}");
    let calls = Calls {
        scenario: "wake",
        lines: &[line],
        rate: 1,
        transport: Transport::Udp,
    };
    let registers = Sipp::start_at(&calls, "wake", free_port(), server, place);
    (listens, registers)
}

#[test]
fn sipp_is_started_by_the_push_registers_and_takes_the_call() {
    let place = Arc::new(Place::new());
    let woken: Arc<Mutex<Vec<(Child, Sipp)>>> = Arc::default();
    let address: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
    let (started, where_to, files) = (woken.clone(), address.clone(), place.clone());
    let receiver = HttpReceiver::start(move |request: &Received| {
        assert!(
            request.text().contains("\"prid\":\"b0b\""),
            "{}",
            request.text()
        );
        let server = where_to.lock().unwrap().expect("it serves");
        started
            .lock()
            .unwrap()
            .push(wake(free_port(), &files, server));
        Answer::Now(200, String::new())
    });
    let server = place.server(&format!(
        "[sip]\nauth = \"open\"\ndomains = [\"127.0.0.1\"]\n[[push]]\nprovider = \"acme\"\n\
         service = \"webhook\"\nurl = \"{}\"\n",
        receiver.url("/wake")
    ));
    *address.lock().unwrap() = Some(server.sip);
    register_and_sleep(server.tcp);
    server.wait_for("/registrar/unreachable", |count| count == 1);
    let caller = Command::new("sipp")
        .args([
            "-sn",
            "uac",
            "-m",
            "1",
            "-s",
            "bob",
            "-i",
            "127.0.0.1",
            "-nostdin",
        ])
        .args([
            "-p",
            &free_port().to_string(),
            "-timeout",
            "60s",
            "-timeout_error",
        ])
        .arg(server.sip.to_string())
        .stdin(Stdio::null())
        .output()
        .expect("sipp is there");
    assert!(
        caller.status.success(),
        "{}",
        String::from_utf8_lossy(&caller.stdout)
    );
    let answered = || server.stat("/calls/outcomes/answered") == 1;
    wait_until(answered, || server.log());
    assert_eq!(server.stat("/push/woken"), 1);
    let (mut listens, registers) = woken.lock().unwrap().pop().expect("it was woken");
    registers.finish();
    assert!(listens.wait().unwrap().success());
    assert_eq!(receiver.received().len(), 1);
}
