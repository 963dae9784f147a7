//! A packet lands in a pinned buffer, and a value decoded from it keeps it
//! alive: by a handle in Rust, by an interior address elsewhere.

use busyhour::buffer::{BufferPool, Error};

fn main() -> Result<(), Error> {
    let pool = BufferPool::builder().budget_bytes(16 << 20).build()?;

    // The network writes into a buffer as long as a datagram can be.
    let mut datagram = pool.alloc(65_535)?;
    let received = b"REGISTER sip:example.com SIP/2.0\r\nCall-ID: a84b4c76e66710\r\n\r\n";
    datagram[..received.len()].copy_from_slice(received);
    datagram.truncate(received.len());
    let packet = datagram.freeze();

    // A parser borrows; what it wants to keep shares the packet's memory.
    let value = packet
        .rsplit(|byte| *byte == b' ')
        .next()
        .unwrap_or_default();
    let call_id = packet.slice_ref(value.trim_ascii_end())?;

    // A decoder that knows pointers only pins the packet by one of them.
    let address = call_id.as_ptr();
    pool.pin(address)?;
    drop((packet, call_id));
    println!("alive by its pin: {:?}", pool.buffer_at(address)?);

    pool.unpin(address)?;
    match pool.pin(address) {
        Err(error) => println!("after the last unpin: {error}"),
        Ok(()) => unreachable!("nothing holds the packet any more"),
    }
    println!("{:#?}", pool.stats());
    Ok(())
}
