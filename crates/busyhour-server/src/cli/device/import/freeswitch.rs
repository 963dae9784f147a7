//! FreeSWITCH's directory: XML files of domains, groups and users, with variables and includes
//! of its preprocessor.

use super::{foreign_account::ForeignAccount, pjsip_conf::matching};
use busyhour_store::AccountEntry;
use roxmltree::{Document, Node};
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

/// The users of a file and of those that it includes; of a folder, of all its files.
pub(super) fn read(path: &Path) -> Result<Vec<ForeignAccount>, String> {
    let mut reader = DirectoryReader::default();
    let files = match path.is_dir() {
        true => matching(&path.join("*.xml"))?,
        false => vec![path.to_owned()],
    };
    for file in files {
        reader.read(&file, &Around::default(), 0)?;
    }
    Ok(reader.accounts)
}

#[derive(Default)]
struct DirectoryReader {
    variables: HashMap<String, String>,
    accounts: Vec<ForeignAccount>,
}

/// What the elements around a user say.
#[derive(Clone, Default)]
struct Around {
    domain: Option<String>,
    params: HashMap<String, String>,
}

/// A file that is read.
struct Source<'f> {
    path: &'f Path,
    depth: usize,
}

impl DirectoryReader {
    fn read(&mut self, path: &Path, around: &Around, depth: usize) -> Result<(), String> {
        let name = path.display();
        if depth > DEPTH_MAX {
            return Err(format!(
                "{name}: files include each other more than {DEPTH_MAX} deep"
            ));
        }
        let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        // A file that is included may have several elements.
        let text = match text.trim_start().starts_with("<?xml") {
            true => text,
            false => format!("<include>{text}</include>"),
        };
        let document = Document::parse(&text).map_err(|error| format!("{name}: {error}"))?;
        let source = Source { path, depth };
        self.walk(&document, document.root_element(), around, &source)
    }

    fn walk(
        &mut self,
        document: &Document<'_>,
        element: Node<'_, '_>,
        around: &Around,
        source: &Source<'_>,
    ) -> Result<(), String> {
        let mut around = around.clone();
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
        source: &Source<'_>,
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
                let files = self.included(&folder.join(&data));
                let files = files.map_err(|error| format!("{place}: {error}"))?;
                for file in files {
                    self.read(&file, around, source.depth + 1)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn included(&self, path: &Path) -> Result<Vec<PathBuf>, String> {
        matching(path)
    }

    fn user(
        &mut self,
        document: &Document<'_>,
        element: Node<'_, '_>,
        around: &Around,
        source: &Source<'_>,
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
        self.accounts.push(ForeignAccount {
            place: place(document, element, source),
            domain: around.domain.clone(),
            // FreeSWITCH challenges with the domain.
            realm: around.domain.clone(),
            entry,
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

    /// `$${name}` stands for a variable of the preprocessor; one that is not known stays.
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

fn place(document: &Document<'_>, element: Node<'_, '_>, source: &Source<'_>) -> String {
    let line = document.text_pos_at(element.range().start).row;
    format!("{}: line {line}", source.path.display())
}

const DEPTH_MAX: usize = 16;
