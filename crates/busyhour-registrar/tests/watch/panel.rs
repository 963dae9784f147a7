//! A panel of lamps: what a watcher of a list shows after the NOTIFYs that it got, as RFC 4662
//! §5 tells it to read them. It knows nothing of the code under test.

use roxmltree::Document;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct Panel {
    /// The state of each resource: its body, or why there is none; `None` until it is told.
    pub lamps: BTreeMap<String, Option<String>>,
    pub names: BTreeMap<String, String>,
    /// Of the last NOTIFY.
    pub version: Option<u32>,
    pub is_full: bool,
    /// States in the last NOTIFY.
    pub told: usize,
}

impl Panel {
    pub fn take(&mut self, notify: &str) {
        let (head, body) = notify.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("\r\nRequire: eventlist\r\n"), "{head}");
        let content_type = head.split("\r\nContent-Type: ").nth(1).unwrap();
        let content_type = content_type.split("\r\n").next().unwrap();
        assert!(
            content_type.starts_with("multipart/related;type=\"application/rlmi+xml\";"),
            "{content_type}"
        );
        let (_, boundary) = content_type.split_once(";boundary=").unwrap();
        assert!(boundary.bytes().all(is_of_token), "{content_type}");
        let parts = parts(body, boundary);
        let root = &parts[&param(content_type, "start")];
        let rlmi = Document::parse(root).unwrap();
        let list = rlmi.root_element();
        let version: u32 = list.attribute("version").unwrap().parse().unwrap();
        if self.version == Some(version) {
            return; // It came again.
        }
        self.is_full = list.attribute("fullState") == Some("true");
        assert!(
            self.is_full || self.version == Some(version.wrapping_sub(1)),
            "{version} follows {:?}",
            self.version
        );
        self.version = Some(version);
        self.told = 0;
        if self.is_full {
            self.lamps.clear();
        }
        for resource in list
            .children()
            .filter(|it| it.has_tag_name((RLMI, "resource")))
        {
            self.take_resource(resource, &parts);
        }
    }

    fn take_resource(&mut self, resource: roxmltree::Node<'_, '_>, parts: &Parts) {
        let uri = resource.attribute("uri").unwrap().to_owned();
        let children = || resource.children().filter(roxmltree::Node::is_element);
        for name in children().filter(|it| it.has_tag_name((RLMI, "name"))) {
            self.names
                .insert(uri.clone(), name.text().unwrap().to_owned());
        }
        let mut instances = children().filter(|it| it.has_tag_name((RLMI, "instance")));
        let Some(instance) = instances.next() else {
            self.lamps.entry(uri).or_default();
            return;
        };
        let lamp = match instance.attribute("state").unwrap() {
            "active" => parts[&format!("<{}>", instance.attribute("cid").unwrap())].clone(),
            other => format!("{other} {}", instance.attribute("reason").unwrap()),
        };
        self.told += 1;
        self.lamps.insert(uri, Some(lamp));
    }
}

type Parts = BTreeMap<String, String>;

/// The parts of a body by their Content-ID.
fn parts(body: &str, boundary: &str) -> Parts {
    let (inner, rest) = body.split_once(&format!("\r\n--{boundary}--")).unwrap();
    assert_eq!(rest, "\r\n");
    let inner = format!("\r\n{inner}");
    let line = format!("\r\n--{boundary}\r\n");
    let pieces = inner.split(&line).skip(1);
    let part = |piece: &str| {
        let (head, body) = piece.split_once("\r\n\r\n").unwrap();
        let id = head.split("Content-ID: ").nth(1).unwrap();
        (id.split("\r\n").next().unwrap().to_owned(), body.to_owned())
    };
    pieces.map(part).collect()
}

fn param(content_type: &str, name: &str) -> String {
    let value = content_type.split(&format!(";{name}=\"")).nth(1).unwrap();
    value.split('"').next().unwrap().to_owned()
}

/// RFC 3261 §25.1; liblinphone takes quotes for a part of the boundary.
fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-.!%*_+`'~".contains(&byte)
}

const RLMI: &str = "urn:ietf:params:xml:ns:rlmi";
