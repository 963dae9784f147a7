//! The body of a NOTIFY for a list: `multipart/related`, of which the root says which resources
//! follow (RLMI, RFC 4662 §5), and a part for each state.

use crate::watch::{
    ListForm, ListedResource, Package, ResourceList, ResourceStanding, body::xml::Escaped,
};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    io::Write,
};

/// A body that is being written.
pub(in crate::watch) struct Multipart<'l> {
    list: &'l ResourceList,
    boundary: &'l str,
    version: u32,
    form: ListForm,
    /// The elements of the root part.
    resources: Vec<u8>,
    parts: Vec<u8>,
}

impl<'l> Multipart<'l> {
    /// `version` counts the NOTIFYs of the subscription; nothing in a part may begin a line with
    /// the `boundary`.
    pub(in crate::watch) fn new(
        list: &'l ResourceList,
        boundary: &'l str,
        version: u32,
        form: ListForm,
    ) -> Self {
        Self {
            list,
            boundary,
            version,
            form,
            resources: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// What it would have with this much more.
    pub(in crate::watch) fn len_with(&self, resource_len: usize, part_len: usize) -> usize {
        self.resources.len() + self.parts.len() + resource_len + part_len + ROOT_LEN_USUAL
    }

    /// Adds a resource and its state.
    pub(in crate::watch) fn add(&mut self, resource: &[u8], part: &[u8]) {
        self.resources.extend_from_slice(resource);
        self.parts.extend_from_slice(part);
    }

    /// Adds resources without a state; it follows in a later NOTIFY.
    pub(in crate::watch) fn announce(&mut self, resources: &[u8]) {
        self.resources.extend_from_slice(resources);
    }

    /// Appends all of it to `out`.
    pub(in crate::watch) fn write(&self, is_full: bool, out: &mut Vec<u8>) {
        let Self {
            list,
            boundary,
            version,
            form,
            ..
        } = self;
        // Writing to a Vec can't fail.
        let _ = write!(
            out,
            "--{boundary}\r\nContent-Transfer-Encoding: binary\r\n{}\r\n\
             Content-Type: application/rlmi+xml;charset=\"UTF-8\"\r\n\r\n\
             <?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n\
             <list xmlns=\"urn:ietf:params:xml:ns:rlmi\" uri=\"{}\" version=\"{version}\" \
             fullState=\"{is_full}\">\r\n",
            form.content_id(format_args!("rlmi.{version}@busyhour")),
            Escaped(&list.uri)
        );
        write_name(out, list.name.as_deref());
        out.extend_from_slice(&self.resources);
        out.extend_from_slice(b"</list>\r\n");
        out.extend_from_slice(&self.parts);
        let _ = write!(out, "\r\n--{boundary}--\r\n");
    }

    /// The type of the body. The boundary is a token and not in quotes, which liblinphone takes for
    /// a part of it.
    pub(in crate::watch) fn content_type(&self) -> String {
        let Self {
            boundary, version, ..
        } = self;
        format!(
            "multipart/related;type=\"application/rlmi+xml\";start=\"<rlmi.{version}@busyhour>\";\
             boundary={boundary}"
        )
    }

    /// Writes the element of a resource, with its state in the part `number` if it has one.
    pub(in crate::watch) fn write_resource(
        &self,
        out: &mut Vec<u8>,
        resource: &ListedResource,
        number: u32,
    ) {
        write_open(out, resource);
        let id = instance_id(resource);
        let _ = match resource.standing {
            ResourceStanding::Watched => write!(
                out,
                "<instance id=\"{id:016x}\" state=\"active\" cid=\"{number}.{}@busyhour\"/>",
                self.version
            ),
            ResourceStanding::NotFound => write!(
                out,
                "<instance id=\"{id:016x}\" state=\"terminated\" reason=\"noresource\"/>"
            ),
            ResourceStanding::Rejected => write!(
                out,
                "<instance id=\"{id:016x}\" state=\"terminated\" reason=\"rejected\"/>"
            ),
        };
        out.extend_from_slice(b"</resource>\r\n");
    }

    /// Writes the part of a state.
    pub(in crate::watch) fn write_part(
        &self,
        out: &mut Vec<u8>,
        package: Package,
        number: u32,
        body: &[u8],
    ) {
        let _ = write!(
            out,
            "\r\n--{}\r\nContent-Transfer-Encoding: binary\r\n{}\r\nContent-Type: {}\r\n\r\n",
            self.boundary,
            self.form
                .content_id(format_args!("{number}.{}@busyhour", self.version)),
            package.content_type()
        );
        out.extend_from_slice(body);
    }
}

/// Writes the element of a resource of which no state is told yet.
pub(in crate::watch) fn write_announced(out: &mut Vec<u8>, resource: &ListedResource) {
    write_open(out, resource);
    out.extend_from_slice(b"</resource>\r\n");
}

fn write_open(out: &mut Vec<u8>, resource: &ListedResource) {
    let _ = write!(out, "<resource uri=\"{}\">", Escaped(&resource.resource));
    write_name(out, resource.name.as_deref());
}

fn write_name(out: &mut Vec<u8>, name: Option<&str>) {
    if let Some(name) = name {
        let _ = write!(out, "<name>{}</name>", Escaped(name));
    }
}

/// The same in every NOTIFY, also after the list has changed (RFC 4662 §5.4).
fn instance_id(resource: &ListedResource) -> u64 {
    let mut hasher = DefaultHasher::new();
    resource.resource.as_str().hash(&mut hasher);
    hasher.finish()
}

/// What stands around the resources: the root part's own headers and element, and the last
/// boundary.
const ROOT_LEN_USUAL: usize = 420;
