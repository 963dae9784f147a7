//! An independent decoder, tshark, reads every frame.

use crate::conversation::{register, release};
use crate::host::{Host, device};
use crate::wire::*;
use std::{net::SocketAddr, path::Path, process::Command};

#[test]
fn tshark_reads_every_frame_as_well_formed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("iax2.pcap");
    let capture = everything_that_is_ever_sent();
    std::fs::write(&path, pcap(&capture)).expect("written");
    let protocols = tshark(&path, &["-T", "fields", "-e", "frame.protocols"]);
    assert_eq!(protocols.lines().count(), capture.len());
    assert!(
        protocols.lines().all(|line| line.contains("iax2")),
        "{protocols}"
    );
    let bad = "_ws.malformed || _ws.expert.severity == \"Error\"";
    assert_eq!(tshark(&path, &["-Y", bad]), "");
    let summary = tshark(&path, &["-T", "fields", "-e", "iax2.iax.subclass"]);
    let seen = |subclass: u8| summary.lines().any(|line| line == subclass.to_string());
    for subclass in SENT {
        assert!(seen(subclass), "subclass {subclass}:\n{summary}");
    }
}

/// Conversations in which the server sends each kind of frame that it knows.
fn everything_that_is_ever_sent() -> Vec<(SocketAddr, SocketAddr, Vec<u8>)> {
    let mut host = Host::new();
    let here: SocketAddr = "[2001:db8::7]:4569".parse().expect("an address");
    for from in [device(), here] {
        register(&mut host, from, 5, "alice");
        release(&mut host, from, 6, "alice");
    }
    for subclass in [POKE, NEW, 99, REGREQ] {
        host.ask(device(), &bare(0, 0, subclass));
    }
    host.ask(device(), &bare(77, 0, LAGRQ));
    host.capture
        .retain(|(from, to, _)| from.is_ipv4() == to.is_ipv4());
    let hello = bare(0, 0, REGREQ).with(IE_USERNAME, "alice");
    let token = host.ask_one(device(), &hello.clone().with(IE_CALLTOKEN, ""));
    let token = token.element(IE_CALLTOKEN).expect("a token").to_vec();
    let regauth = host.ask_one(device(), &hello.with(IE_CALLTOKEN, token));
    let ours = regauth.scall;
    for (oseq, subclass) in [(1, LAGRQ), (2, 99), (9, LAGRQ), (1, LAGRQ), (3, REGREQ)] {
        host.ask(device(), &bare(ours, oseq, subclass));
    }
    host.pass(std::time::Duration::from_secs(30));
    host.sent();
    host.capture
}

fn bare(dcall: u16, oseq: u8, subclass: u8) -> Wire {
    Wire {
        scall: 9,
        dcall,
        oseq,
        subclass,
        ..Wire::default()
    }
}

fn tshark(path: &Path, options: &[&str]) -> String {
    let mut command = Command::new("tshark");
    let command = command.arg("-n").arg("-r").arg(path).args(options);
    let output = command
        .output()
        .expect("tshark, of Debian's package tshark; scripts/install-deps.sh test installs it");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The capture in the pcap format, with raw IP packets.
fn pcap(capture: &[(SocketAddr, SocketAddr, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, RAW_IP] {
        file.extend(word.to_le_bytes());
    }
    for (number, (from, to, payload)) in (0u32..).zip(capture) {
        let packet = ip(*from, *to, payload);
        let length = packet.len() as u32;
        for word in [number / 1000, number % 1000 * 1000, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

fn ip(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u16 + 8;
    let mut packet = Vec::new();
    match (from, to) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => {
            packet.extend([0x45, 0]);
            packet.extend((length + 20).to_be_bytes());
            packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
            packet.extend(from.ip().octets());
            packet.extend(to.ip().octets());
        }
        (SocketAddr::V6(from), SocketAddr::V6(to)) => {
            packet.extend([0x60, 0, 0, 0]);
            packet.extend(length.to_be_bytes());
            packet.extend([17, 64]);
            packet.extend(from.ip().octets());
            packet.extend(to.ip().octets());
        }
        _ => panic!("two families: {from} {to}"),
    }
    packet.extend(from.port().to_be_bytes());
    packet.extend(to.port().to_be_bytes());
    packet.extend(length.to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(payload);
    packet
}

const RAW_IP: u32 = 101;
/// Every subclass that the server sends.
const SENT: [u8; 11] = [
    PONG, ACK, REJECT, INVAL, LAGRP, REGAUTH, REGACK, REGREJ, VNAK, UNSUPPORT, CALLTOKEN,
];
