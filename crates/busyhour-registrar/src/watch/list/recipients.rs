//! The list that a SUBSCRIBE brings with it (RFC 5367): `application/resource-lists+xml`
//! (RFC 4826 §3.1).

use crate::watch::{ListEntry, Unreadable};
use roxmltree::{Document, Node, ParsingOptions};

/// Reads the entries of such a body in their order; those of lists within it stand in the place
/// of their list.
///
/// # Errors
///
/// [`Unreadable`] says why not. References to lists elsewhere are refused: the server fetches
/// nothing.
///
/// ```
/// use busyhour_registrar::watch::read_recipients;
///
/// let body = b"<resource-lists xmlns='urn:ietf:params:xml:ns:resource-lists'><list>\
///     <entry uri='sip:alice@example.com'><display-name>Alice</display-name></entry>\
///     </list></resource-lists>";
/// let entries = read_recipients(body, 10).unwrap();
/// assert_eq!(entries[0].uri, "sip:alice@example.com");
/// assert_eq!(entries[0].name.as_deref(), Some("Alice"));
/// ```
pub fn read_recipients(body: &[u8], entries_max: usize) -> Result<Vec<ListEntry>, Unreadable> {
    let text = std::str::from_utf8(body).map_err(|_| Unreadable("Body Is Not UTF-8"))?;
    // Each attribute of an element is compared with all others.
    if body
        .split(|byte| *byte == b'<')
        .any(|tag| tag.iter().filter(|byte| **byte == b'=').count() > ATTRIBUTES_MAX)
    {
        return Err(Unreadable("Element Has Too Many Attributes"));
    }
    let nodes_limit = u32::try_from(entries_max * NODES_PER_ENTRY + NODES_BESIDE);
    let options = ParsingOptions {
        nodes_limit: nodes_limit.unwrap_or(u32::MAX),
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options);
    let document = document.map_err(|_| Unreadable("Body Is No XML, Or Names Too Many"))?;
    let root = document.root_element();
    if !root.has_tag_name((NAMESPACE, "resource-lists")) {
        return Err(Unreadable("Body Has Another Root Element"));
    }
    let mut entries = Vec::new();
    for node in root.descendants().filter(Node::is_element) {
        let of_lists = node.tag_name().namespace() == Some(NAMESPACE);
        match node.tag_name().name() {
            "entry" if of_lists => entries.push(entry(node)?),
            "entry-ref" | "external" if of_lists => {
                return Err(Unreadable("Lists Elsewhere Are Not Fetched"));
            }
            _ => {}
        }
    }
    match entries.len() {
        0 => Err(Unreadable("List Without Entries")),
        count if count > entries_max => Err(Unreadable("List Names Too Many")),
        _ => Ok(entries),
    }
}

fn entry(node: Node<'_, '_>) -> Result<ListEntry, Unreadable> {
    let uri = node.attribute("uri").map(str::trim);
    let uri = uri.filter(|uri| !uri.is_empty());
    let is_name = |node: &Node<'_, '_>| node.has_tag_name((NAMESPACE, "display-name"));
    let name = node.children().find(is_name).and_then(|name| name.text());
    let name = name.map(str::trim).filter(|name| !name.is_empty());
    Ok(ListEntry {
        uri: uri.ok_or(Unreadable("Entry Without A URI"))?.to_owned(),
        name: name.map(str::to_owned),
    })
}

/// The namespace of RFC 4826 §3.2.
const NAMESPACE: &str = "urn:ietf:params:xml:ns:resource-lists";
/// An entry, its name, the text of that, and white space around each.
const NODES_PER_ENTRY: usize = 8;
/// The root, lists, and their names.
const NODES_BESIDE: usize = 256;
/// An entry has a few, with its namespaces.
const ATTRIBUTES_MAX: usize = 256;
