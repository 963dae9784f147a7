//! FreeSWITCH's directory: XML files of domains, groups and users, with variables and includes
//! of its preprocessor.

use super::{
    files::{identity, matching},
    foreign_account::ForeignAccount,
    source::{Source, SourceKind},
};
use busyhour_store::AccountEntry;
use roxmltree::{Document, Node};
use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

/// The users of all files, of those that they include, and of all files of a folder. Variables of
/// one file are good in all that are read after it; those named `vars.xml` are read first.
///
/// With `has_domain`, a user whose domain has no name here has one anyway.
pub(super) fn read(sources: &[Source], has_domain: bool) -> Result<Vec<ForeignAccount>, String> {
    let mut reader = DirectoryReader {
        has_domain,
        ..DirectoryReader::default()
    };
    let is_of_variables = |source: &&Source| source.stem() == "vars";
    let (first, others): (Vec<&Source>, Vec<&Source>) = sources.iter().partition(is_of_variables);
    for source in [first, others].concat() {
        reader.take(source)?;
    }
    Ok(reader.accounts)
}

#[derive(Default)]
struct DirectoryReader {
    has_domain: bool,
    /// Files that were read.
    done: HashSet<PathBuf>,
    variables: HashMap<String, String>,
    accounts: Vec<ForeignAccount>,
}

/// What the elements around a user say.
#[derive(Clone, Default)]
struct Around {
    domain: Option<String>,
    params: HashMap<String, String>,
    /// How many there are.
    level: usize,
}

/// A file that is read.
struct DirectoryFile<'f> {
    path: &'f Path,
    name: &'f str,
    depth: usize,
}

impl DirectoryReader {
    fn take(&mut self, source: &Source) -> Result<(), String> {
        if source.kind == SourceKind::Xml {
            return match self.done.contains(&identity(source.path())) {
                true => Ok(()),
                false => {
                    let (path, name) = (source.path(), source.shown());
                    let reading = DirectoryFile {
                        path,
                        name,
                        depth: 0,
                    };
                    self.parse(&reading, &source.text, &Around::default())
                }
            };
        }
        let mut files = matching(&source.path().join("*.xml"))?;
        if files.is_empty() {
            return Err(format!("{}: no file of it ends in .xml", source.shown()));
        }
        files.sort_by_key(|file| file.file_name().is_none_or(|name| name != "vars.xml"));
        for file in files {
            if !self.done.contains(&identity(&file)) {
                self.read(&file, &Around::default(), 0)?;
            }
        }
        Ok(())
    }

    fn read(&mut self, path: &Path, around: &Around, depth: usize) -> Result<(), String> {
        let name = &path.display().to_string();
        if depth > DEPTH_MAX {
            return Err(format!(
                "{name}: files include each other more than {DEPTH_MAX} deep"
            ));
        }
        let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        self.parse(&DirectoryFile { path, name, depth }, &text, around)
    }

    fn parse(
        &mut self,
        source: &DirectoryFile<'_>,
        text: &str,
        around: &Around,
    ) -> Result<(), String> {
        self.done.insert(identity(source.path));
        // A file that is included may have several elements.
        let wrapped;
        let text = match text.trim_start().starts_with("<?xml") {
            true => text,
            false => {
                wrapped = format!("<include>{text}</include>");
                &wrapped
            }
        };
        let document =
            Document::parse(text).map_err(|error| format!("{}: {error}", source.name))?;
        self.walk(&document, document.root_element(), around, source)
    }

    fn walk(
        &mut self,
        document: &Document<'_>,
        element: Node<'_, '_>,
        around: &Around,
        source: &DirectoryFile<'_>,
    ) -> Result<(), String> {
        let mut around = around.clone();
        around.level += 1;
        if around.level > LEVELS_MAX {
            let place = place(document, element, source);
            return Err(format!(
                "{place}: elements are more than {LEVELS_MAX} deep in each other"
            ));
        }
        // The users of other sections, such as dialplan, are none.
        if element.has_tag_name("section") && element.attribute("name") != Some("directory") {
            return Ok(());
        }
        if element.has_tag_name("domain") {
            around.domain = element.attribute("name").map(|name| self.expanded(name));
        }
        if element.has_tag_name("user") {
            self.user(document, element, &around, source);
            return Ok(());
        }
        let params = element
            .children()
            .filter(|child| child.has_tag_name("params"));
        around
            .params
            .extend(params.flat_map(|params| self.pairs(params)));
        for child in element.children().filter(Node::is_element) {
            match child.tag_name().name() {
                "X-PRE-PROCESS" => self.preprocess(document, child, &around, source)?,
                "params" | "variables" => {}
                _ => self.walk(document, child, &around, source)?,
            }
        }
        Ok(())
    }

    fn preprocess(
        &mut self,
        document: &Document<'_>,
        element: Node<'_, '_>,
        around: &Around,
        source: &DirectoryFile<'_>,
    ) -> Result<(), String> {
        let data = self.expanded(element.attribute("data").unwrap_or_default());
        let place = place(document, element, source);
        match element.attribute("cmd") {
            Some("set") => {
                if let Some((name, value)) = data.split_once('=') {
                    self.variables
                        .insert(name.trim().to_owned(), value.to_owned());
                }
                Ok(())
            }
            Some("include") => {
                let folder = source.path.parent().unwrap_or(Path::new("."));
                let files = matching(&folder.join(&data));
                let files = files.map_err(|error| format!("{place}: {error}"))?;
                if files.is_empty() && !data.contains(['*', '?', '[']) {
                    return Err(format!("{place}: `{data}` is not there"));
                }
                for file in files {
                    self.read(&file, around, source.depth + 1)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn user(
        &mut self,
        document: &Document<'_>,
        element: Node<'_, '_>,
        around: &Around,
        source: &DirectoryFile<'_>,
    ) {
        // It only points to a user of another place.
        if element.attribute("type") == Some("pointer") {
            return;
        }
        let mut params = around.params.clone();
        let own = element
            .children()
            .filter(|child| child.has_tag_name("params"));
        params.extend(own.flat_map(|own| self.pairs(own)));
        let attribute = |name| element.attribute(name).map(|value| self.expanded(value));
        let user = attribute("id").unwrap_or_default();
        let alias = attribute("number-alias").filter(|alias| *alias != user);
        let entry = AccountEntry {
            aliases: Vec::from_iter(alias),
            mailbox: attribute("mailbox").filter(|mailbox| *mailbox != user),
            user,
            ..AccountEntry::default()
        };
        let given = |name: &str| params.get(name).filter(|value| !value.is_empty()).cloned();
        let entry = match (given("a1-hash"), given("password")) {
            (Some(hash), _) => Ok(AccountEntry {
                md5: Some(hash.to_lowercase()),
                ..entry
            }),
            (None, Some(password)) => Ok(AccountEntry {
                password: Some(password),
                ..entry
            }),
            (None, None) => Err("it has neither the param password nor a1-hash".to_owned()),
        };
        let domain = around.domain.clone();
        let domain = domain.filter(|domain| !self.has_domain || unset_in(domain).is_none());
        self.accounts.push(ForeignAccount {
            place: place(document, element, source),
            entry: entry.and_then(|entry| without_unset(entry, domain.as_deref())),
            // FreeSWITCH challenges with the domain.
            realm: domain.clone(),
            domain,
        });
    }

    /// Names and values of `param` elements.
    fn pairs(&self, params: Node<'_, '_>) -> Vec<(String, String)> {
        let params = params
            .children()
            .filter(|child| child.has_tag_name("param"));
        let pairs = params.filter_map(|param| {
            let (name, value) = (param.attribute("name")?, param.attribute("value")?);
            Some((name.to_owned(), self.expanded(value)))
        });
        pairs.collect()
    }

    /// `$${name}` stands for a variable of the preprocessor. One that is not known stays, and is
    /// an error where it is used.
    fn expanded(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("$${") {
            out += before;
            let Some((name, behind)) = behind.split_once('}') else {
                return out + "$${" + behind;
            };
            match self.variables.get(name) {
                Some(value) => out += value,
                None => out += &format!("$${{{name}}}"),
            }
            rest = behind;
        }
        out + rest
    }
}

/// What an account uses must be known; FreeSWITCH sets some variables itself, and others are of a
/// file that was not given.
fn without_unset(entry: AccountEntry, domain: Option<&str>) -> Result<AccountEntry, String> {
    let texts = [
        ("id", Some(entry.user.as_str())),
        ("a1-hash", entry.md5.as_deref()),
        ("password", entry.password.as_deref()),
        ("number-alias", entry.aliases.first().map(String::as_str)),
        ("mailbox", entry.mailbox.as_deref()),
    ];
    for (what, text) in texts {
        if let Some(name) = text.and_then(unset_in) {
            return Err(format!(
                "{what}: no file that was read sets the variable `{name}`; name that file too, \
                 such as vars.xml"
            ));
        }
    }
    match domain.and_then(unset_in) {
        Some(name) => Err(format!(
            "its domain: no file that was read sets the variable `{name}`; name that file too, \
             such as vars.xml, or give --domain"
        )),
        None => Ok(entry),
    }
}

/// The first variable in a text that has no value.
fn unset_in(text: &str) -> Option<&str> {
    let (_, behind) = text.split_once("$${")?;
    behind.split_once('}').map(|(name, _)| name)
}

fn place(document: &Document<'_>, element: Node<'_, '_>, source: &DirectoryFile<'_>) -> String {
    let line = document.text_pos_at(element.range().start).row;
    format!("{}: line {line}", source.name)
}

const DEPTH_MAX: usize = 16;
const LEVELS_MAX: usize = 64;
