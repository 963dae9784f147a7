//! Both versions, over real WebSockets.

use crate::{
    Hub, Line, Member, Room, Told, WAITING_MAX, measure::join, routes, with_busyhour, with_tokio,
};
use futures_util::{FutureExt, SinkExt, StreamExt};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn who_joins_is_told_the_last_line_of_each_user_and_then_every_line() {
    check_join::<with_busyhour::Rooms>().await;
    check_join::<with_tokio::Rooms>().await;
}

async fn check_join<H: Hub>() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let hub = Arc::new(H::open().expect("a hub"));
    tokio::spawn(axum::serve(listener, routes(hub)).into_future());
    let mut ann = join(address, "hall/ann").await.expect("ann");
    for text in ["1", "2"] {
        ann.send(Message::text(text)).await.expect("said");
    }
    // Who speaks is told as well, so both have been said.
    assert_eq!(
        [text(&mut ann).await, text(&mut ann).await],
        ["ann: 1", "ann: 2"]
    );
    let mut elsewhere = join(address, "yard/cid").await.expect("cid");
    let mut bob = join(address, "hall/bob").await.expect("bob");
    assert_eq!(text(&mut bob).await, "ann: 2");
    bob.send(Message::text("3")).await.expect("said");
    assert_eq!(
        [text(&mut ann).await, text(&mut bob).await],
        ["bob: 3", "bob: 3"]
    );
    elsewhere.send(Message::text("4")).await.expect("said");
    assert_eq!(text(&mut elsewhere).await, "cid: 4");
}

async fn text<S>(connection: &mut S) -> String
where
    S: StreamExt<Item = Result<Message, tokio_tungstenite::tungstenite::Error>> + Unpin,
{
    let message = connection.next().await.expect("not the end");
    message
        .expect("a message")
        .into_text()
        .expect("a text")
        .to_string()
}

#[tokio::test]
async fn a_slow_member_is_told_how_much_was_left_out() {
    let (last, left_out) = fall_behind::<with_busyhour::Rooms>();
    assert_eq!(last, ["0: 1000", "1: 999"], "brought up to date");
    assert!(left_out > 0);
    let (_, left_out) = fall_behind::<with_tokio::Rooms>();
    assert!(left_out > 0);
}

/// A member that has joined and reads nothing while two users say a thousand lines; what it reads then last, and
/// how many lines it is told as left out.
fn fall_behind<H: Hub>() -> (Vec<String>, u64) {
    let hub = H::open().expect("a hub");
    let room = hub.room("hall").expect("a room");
    let mut slow = room.join();
    assert!(slow.next().now_or_never().is_none(), "nobody has spoken");
    for number in 1..=1_000 {
        let user = (number % 2).to_string();
        let text = format!("{user}: {number}").into();
        let user = user.into();
        assert!(room.say(Line { user, text }));
    }
    let (mut texts, mut left_out) = (Vec::new(), 0);
    while let Some(Some(told)) = slow.next().now_or_never() {
        match told {
            Told::Line(line) => texts.push(line.text.to_string()),
            Told::Lost(count) => left_out += count,
        }
    }
    assert!(texts.len() <= WAITING_MAX + 2, "{} waited", texts.len());
    // The last line of each user, in no order.
    let mut last = texts.split_off(texts.len() - 2);
    last.sort_unstable();
    (last, left_out)
}
