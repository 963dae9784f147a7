//! Datagrams from node to node, without NATS: what a telephone sends in a datagram, and would send
//! again, may go so. It costs each of two nodes one system call more, where NATS costs four
//! changes between threads and a server.
//!
//! **Who may send.** All nodes know a secret that the database keeps. Each process has a key of its own,
//! derived from that, from its node and epoch, and from a random salt that it announces; with it it
//! seals what it sends (AES-256-GCM). So nobody reads, changes or invents a datagram who cannot read the
//! database. A number that only rises is the nonce, and who receives takes each number once. The
//! receiver's number is sealed with the rest: what was meant for one node is nothing to another.
//! Without the salt a database that fails over to a standby without its last commits could count an
//! epoch twice, and two processes would use one key with the same nonces.
//!
//! **Whether a path is open.** Every half second a node sends each other one a probe, which also
//! says whether it has heard that one lately. The path to a node is open as long as its probes say
//! that it hears us; so a firewall, or a direction that is cut, closes it within two seconds, and
//! then everything goes over NATS. Addresses are announced over NATS, sealed like the rest.
//!
//! **What may get lost** is sent again by who has sent it first, as over any UDP. So only what came
//! in a datagram, or leaves in one, goes so. What is longer than a packet goes in several
//! (`node_pieces`), once the other node has said that it joins them: a node of an earlier version does
//! not, and is told over NATS. What else a message says stands behind its SIP message in few bytes
//! (`message_trailer`), if the other node has said that it reads that. What belongs to connections goes over NATS, in order.

pub(super) mod node_paths;
mod message_trailer;
mod node_pieces;
mod node_seal;
mod peer_path;
