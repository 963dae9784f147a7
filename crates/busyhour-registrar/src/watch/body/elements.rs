//! Elements of a received XML document, rewritten so that they fit into our documents.
//!
//! A parser reads them, and they are written again: well-formed, without comments and
//! processing instructions, each with its namespace, and with room in each id for the
//! owner's name, so that ids of two owners differ.
//!
//! The output may be much longer than the input: a namespace that is declared once
//! appears in each of its elements, and a quote becomes six bytes. So the length is
//! bounded here as well, and checked after each step.

use crate::watch::{Unreadable, body::xml::Escaped};
use roxmltree::{Attribute, Document, Node, ParsingOptions};
use serde::{Deserialize, Serialize};
use std::{fmt::Write as _, io::Write as _};

/// The children of a root element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elements(Box<str>);

/// Reads a document, whose root must be `root` of `namespace`.
pub(in crate::watch) fn read<'x>(
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
    /// The children of the root that `wanted` wants, if they take no more than
    /// `len_max` bytes.
    pub(in crate::watch) fn of(
        document: &Document<'_>,
        wanted: impl Fn(Node<'_, '_>) -> bool,
        len_max: usize,
    ) -> Result<Self, Unreadable> {
        let root = document.root_element();
        let namespace = root.tag_name().namespace().unwrap_or("");
        let mut writing = Writing::new(len_max);
        for child in root
            .children()
            .filter(|child| child.is_element() && wanted(*child))
        {
            writing.put_element(child, namespace, 1)?;
            writing.out.push_str("\r\n");
        }
        writing.check_len()?;
        Ok(Self(writing.out.into()))
    }

    /// Elements that were written with a mark before each id, one a line.
    pub(in crate::watch) fn written(text: String) -> Self {
        Self(text.into())
    }

    /// The elements as they were before they had an owner.
    pub(in crate::watch) fn without_owner(&self) -> String {
        self.0.replace(OWNER, "")
    }

    /// No more bytes than this are appended, for any owner.
    pub(in crate::watch) fn len_max(&self) -> usize {
        self.0.len() + self.0.matches(OWNER).count() * OWNER_LEN_MAX
    }

    /// Appends them; `owner` tells their ids from those of others.
    pub(in crate::watch) fn write(&self, out: &mut Vec<u8>, owner: u64) {
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

    /// Whether a word stands in them anywhere.
    pub(in crate::watch) fn mentions(&self, word: &str) -> bool {
        self.0.contains(word)
    }

    /// Whether one of the root's children is called `name`.
    pub(in crate::watch) fn has(&self, name: &str) -> bool {
        self.0.lines().any(|line| {
            let rest = line
                .strip_prefix('<')
                .and_then(|rest| rest.strip_prefix(name));
            rest.is_some_and(|rest| rest.starts_with([' ', '>', '/']))
        })
    }
}

/// Elements on their way into a text.
struct Writing {
    out: String,
    /// What the owner's name will take beside it.
    owners_len: usize,
    len_max: usize,
}

impl Writing {
    fn new(len_max: usize) -> Self {
        Self {
            out: String::new(),
            owners_len: 0,
            len_max,
        }
    }

    fn check_len(&self) -> Result<(), Unreadable> {
        match self.out.len() + self.owners_len <= self.len_max {
            true => Ok(()),
            false => Err(Unreadable("Body Is Too Long Written Out")),
        }
    }

    fn put_element(
        &mut self,
        element: Node<'_, '_>,
        around: &str,
        depth: usize,
    ) -> Result<(), Unreadable> {
        self.check_len()?;
        if depth > DEPTH_MAX {
            return Err(Unreadable("Body Is Nested Too Deep"));
        }
        let name = element.tag_name();
        let namespace = name.namespace().unwrap_or("");
        self.out.push('<');
        self.out.push_str(name.name());
        if namespace != around {
            self.put_value("xmlns", namespace);
        }
        for (index, attribute) in element.attributes().enumerate() {
            self.put_attribute(index, &attribute, depth);
            self.check_len()?;
        }
        self.put_content(element, namespace, depth)
    }

    fn put_attribute(&mut self, index: usize, attribute: &Attribute<'_, '_>, depth: usize) {
        let (name, value) = (attribute.name(), attribute.value());
        match attribute.namespace() {
            None if depth == 1 && name == "id" => self.put_id(value),
            None => self.put_value(name, value),
            Some(XML) => self.put_value(&format!("xml:{name}"), value),
            Some(other) => {
                self.put_value(&format!("xmlns:a{index}"), other);
                self.put_value(&format!("a{index}:{name}"), value);
            }
        }
    }

    fn put_content(
        &mut self,
        element: Node<'_, '_>,
        namespace: &str,
        depth: usize,
    ) -> Result<(), Unreadable> {
        if !element.has_children() {
            self.out.push_str("/>");
            return Ok(());
        }
        self.out.push('>');
        for child in element.children() {
            if child.is_element() {
                self.put_element(child, namespace, depth + 1)?;
            } else if let (true, Some(text)) = (child.is_text(), child.text()) {
                self.put_text(text);
            }
        }
        // Writing to a String can't fail.
        let _ = write!(self.out, "</{}>", element.tag_name().name());
        Ok(())
    }

    /// White space between elements says nothing, and each child of the root is a line.
    fn put_text(&mut self, text: &str) {
        for (index, word) in text.split_ascii_whitespace().enumerate() {
            let space = if index == 0 { "" } else { " " };
            let _ = write!(self.out, "{space}{}", Escaped(word));
        }
    }

    fn put_value(&mut self, name: &str, value: &str) {
        let _ = write!(self.out, " {name}=\"{}\"", Escaped(value));
    }

    /// No text can hold the mark: it is no character of XML, and escaped away.
    fn put_id(&mut self, value: &str) {
        let _ = write!(self.out, " id=\"{OWNER}{}\"", Escaped(value));
        self.owners_len += OWNER_LEN_MAX;
    }
}

/// Where the owner's name will stand.
pub(in crate::watch) const OWNER: char = '\u{1}';
/// A number of 64 bits between its letter and its hyphen.
const OWNER_LEN_MAX: usize = 22;
const XML: &str = "http://www.w3.org/XML/1998/namespace";
/// Presence of a person with many devices has less than a hundred.
const NODES_MAX: u32 = 2_000;
const DEPTH_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(text: &str) -> Result<String, Unreadable> {
        let elements = Elements::of(&read(text, "n", "r")?, |_| true, LEN_MAX)?;
        assert!(elements.len_max() <= LEN_MAX);
        let mut out = Vec::new();
        elements.write(&mut out, 7);
        Ok(String::from_utf8(out).unwrap())
    }

    const LEN_MAX: usize = 6 << 10;

    #[test]
    fn an_element_is_complete_whatever_prefixes_it_had() {
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
    fn another_kind_of_document_is_refused() {
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

    #[test]
    fn a_document_too_long_when_written_is_refused() {
        let quotes = "'".repeat(2_000);
        let space = |children: &str| format!("<r xmlns='n' xmlns:q=\"{quotes}\">{children}</r>");
        let attributes: String = (0..200).map(|index| format!(" q:a{index}=''")).collect();
        let nested = format!("{}{}", "<q:a><a>".repeat(8), "</a></q:a>".repeat(8));
        let ids: String = (0..300).map(|index| format!("<a id='{index}'/>")).collect();
        for text in [
            space(&"<q:a/>".repeat(330)),
            space(&format!("<a{attributes}/>")),
            space(&nested),
            format!("<r xmlns='n'><a>{quotes}</a></r>"),
            format!("<r xmlns='n'><a b=\"{quotes}\"/></r>"),
            format!("<r xmlns='n'>{ids}</r>"),
        ] {
            let refusal = Unreadable("Body Is Too Long Written Out");
            assert_eq!(elements(&text), Err(refusal), "{text}");
        }
        let long = format!("<r xmlns='n'><a>{}</a></r>", "x".repeat(4_000));
        assert!(elements(&long).is_ok());
    }
}
