//! Elements of somebody else's XML document, made fit to stand in ours.
//!
//! They are read by a parser and written anew: well-formed, without comments
//! and processing instructions, each naming its namespace, and with a place in
//! each id where the owner's name goes, so that ids of two owners differ.

use super::{publish::Unreadable, xml::Escaped};
use roxmltree::{Document, Node, ParsingOptions};
use std::{fmt::Write as _, io::Write as _};

/// The children of a root element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elements(Box<str>);

/// Reads a document, whose root must be `root` of `namespace`.
pub(super) fn read<'x>(
    text: &'x str,
    namespace: &str,
    root: &str,
) -> Result<Document<'x>, Unreadable> {
    let options = ParsingOptions {
        nodes_limit: NODES_MAX,
        ..ParsingOptions::default()
    };
    let document =
        Document::parse_with_options(text, options).map_err(|_| Unreadable("Body Is No XML"))?;
    match document.root_element().has_tag_name((namespace, root)) {
        true => Ok(document),
        false => Err(Unreadable("Body Has Another Root Element")),
    }
}

impl Elements {
    /// The children of the root that `wanted` wants.
    pub(super) fn of(
        document: &Document<'_>,
        wanted: impl Fn(Node<'_, '_>) -> bool,
    ) -> Result<Self, Unreadable> {
        let root = document.root_element();
        let namespace = root.tag_name().namespace().unwrap_or("");
        let mut out = String::new();
        for child in root
            .children()
            .filter(|child| child.is_element() && wanted(*child))
        {
            put_element(&mut out, child, namespace, 1)?;
            out.push_str("\r\n");
        }
        Ok(Self(out.into()))
    }

    /// Appends them; `owner` tells their ids from those of others.
    pub(super) fn write(&self, out: &mut Vec<u8>, owner: u64) {
        let mut pieces = self.0.split(OWNER);
        out.extend_from_slice(pieces.next().unwrap_or("").as_bytes());
        for piece in pieces {
            // Writing to a Vec can't fail.
            let _ = write!(out, "p{owner}-{piece}");
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of the root's children is called `name`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.lines().any(|line| {
            let rest = line
                .strip_prefix('<')
                .and_then(|rest| rest.strip_prefix(name));
            rest.is_some_and(|rest| rest.starts_with([' ', '>', '/']))
        })
    }
}

fn put_element(
    out: &mut String,
    element: Node<'_, '_>,
    around: &str,
    depth: usize,
) -> Result<(), Unreadable> {
    if depth > DEPTH_MAX {
        return Err(Unreadable("Body Is Nested Too Deep"));
    }
    let name = element.tag_name();
    let namespace = name.namespace().unwrap_or("");
    out.push('<');
    out.push_str(name.name());
    if namespace != around {
        put_attribute(out, "xmlns", namespace);
    }
    for (index, attribute) in element.attributes().enumerate() {
        let is_id = depth == 1 && attribute.name() == "id";
        match attribute.namespace() {
            None if is_id => put_id(out, attribute.value()),
            None => put_attribute(out, attribute.name(), attribute.value()),
            Some(XML) => {
                put_attribute(out, &format!("xml:{}", attribute.name()), attribute.value())
            }
            Some(other) => {
                put_attribute(out, &format!("xmlns:a{index}"), other);
                put_attribute(
                    out,
                    &format!("a{index}:{}", attribute.name()),
                    attribute.value(),
                );
            }
        }
    }
    put_content(out, element, namespace, depth)
}

fn put_content(
    out: &mut String,
    element: Node<'_, '_>,
    namespace: &str,
    depth: usize,
) -> Result<(), Unreadable> {
    if !element.has_children() {
        out.push_str("/>");
        return Ok(());
    }
    out.push('>');
    for child in element.children() {
        if child.is_element() {
            put_element(out, child, namespace, depth + 1)?;
        } else if let (true, Some(text)) = (child.is_text(), child.text()) {
            put_text(out, text);
        }
    }
    // Writing to a String can't fail.
    let _ = write!(out, "</{}>", element.tag_name().name());
    Ok(())
}

/// White space between elements says nothing, and each child of the root is a line.
fn put_text(out: &mut String, text: &str) {
    for (index, word) in text.split_ascii_whitespace().enumerate() {
        let space = if index == 0 { "" } else { " " };
        let _ = write!(out, "{space}{}", Escaped(word));
    }
}

fn put_attribute(out: &mut String, name: &str, value: &str) {
    let _ = write!(out, " {name}=\"{}\"", Escaped(value));
}

/// No text can hold the mark: it is no character of XML, and escaped away.
fn put_id(out: &mut String, value: &str) {
    let _ = write!(out, " id=\"{OWNER}{}\"", Escaped(value));
}

const OWNER: char = '\u{1}';
const XML: &str = "http://www.w3.org/XML/1998/namespace";
/// Presence of a person with many devices has less than a hundred.
const NODES_MAX: u32 = 2_000;
const DEPTH_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(text: &str) -> Result<String, Unreadable> {
        let elements = Elements::of(&read(text, "n", "r")?, |_| true)?;
        let mut out = Vec::new();
        elements.write(&mut out, 7);
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn they_stand_for_themselves_whatever_prefixes_they_had() {
        let text = "<?xml version=\"1.0\"?><p:r xmlns:p='n' xmlns:q='m' q:x='no'>\n\
            <!-- no --><p:t id='1' q:a='&lt;' xml:lang='en'><q:u>a &amp;\n b</q:u></p:t>\n\
            <q:person id=\"x\"/></p:r>";
        assert_eq!(
            elements(text).unwrap(),
            "<t id=\"p7-1\" xmlns:a1=\"m\" a1:a=\"&lt;\" xml:lang=\"en\">\
             <u xmlns=\"m\">a &amp; b</u></t>\r\n\
             <person xmlns=\"m\" id=\"p7-x\"/>\r\n"
        );
    }

    #[test]
    fn what_is_no_such_document_is_refused() {
        let deep = format!("<r xmlns='n'>{}{}</r>", "<a>".repeat(20), "</a>".repeat(20));
        let wide = format!("<r xmlns='n'>{}</r>", "<a/>".repeat(3_000));
        let entity = "<!DOCTYPE r [<!ENTITY a \"b\">]><r xmlns='n'>&a;</r>";
        for text in [
            "",
            "r",
            "<r/>",
            "<s xmlns='n'/>",
            "<r xmlns='n'>",
            &deep,
            &wide,
            entity,
        ] {
            assert!(elements(text).is_err(), "{text}");
        }
    }
}
