//! Asterisk's `pjsip.conf`: sections with templates, inheritance and includes.

use super::{
    asterisk::Objects,
    files::{identity, matching},
    source::Source,
    tables::TableRow,
};
use busyhour_store::ForeignRow;
use std::{
    collections::{HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

/// The objects in all files and in those that they include: an endpoint and its `auth` may be in
/// different ones.
pub(super) fn read(sources: &[Source]) -> Result<Objects, String> {
    let mut reader = PjsipReader::default();
    for source in sources {
        if reader.done.contains(&identity(source.path())) {
            continue;
        }
        let folder = source.path().parent().unwrap_or(Path::new("."));
        folder.clone_into(&mut reader.folder);
        reader.take(source.shown(), &source.text, 0)?;
        reader.done.insert(identity(source.path()));
    }
    Ok(reader.objects())
}

#[derive(Default)]
struct PjsipReader {
    /// What files include is in this folder, wherever they are themselves.
    folder: PathBuf,
    /// Files that were read to their end; each is read once.
    done: HashSet<PathBuf>,
    sections: Vec<Section>,
    /// Where the last section of a name is, for those that inherit from it.
    by_name: HashMap<String, usize>,
    is_comment: bool,
}

struct Section {
    name: String,
    place: String,
    is_template: bool,
    fields: ForeignRow,
}

impl PjsipReader {
    fn read(&mut self, path: &Path, depth: usize) -> Result<(), String> {
        let name = path.display().to_string();
        if depth > DEPTH_MAX {
            return Err(format!(
                "{name}: files include each other more than {DEPTH_MAX} deep"
            ));
        }
        let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        self.take(&name, &text, depth)?;
        self.done.insert(identity(path));
        Ok(())
    }

    fn take(&mut self, name: &str, text: &str, depth: usize) -> Result<(), String> {
        for (index, line) in text.lines().enumerate() {
            let place = format!("{name}: line {}", index + 1);
            let line = self.without_comment(line);
            let line = line.trim();
            if let Some(included) = line.strip_prefix("#include") {
                self.include(included, depth, true)
                    .map_err(|why| format!("{place}: {why}"))?;
            } else if let Some(included) = line.strip_prefix("#tryinclude") {
                self.include(included, depth, false)
                    .map_err(|why| format!("{place}: {why}"))?;
            } else if line.starts_with("#exec") {
                return Err(format!(
                    "{place}: #exec is not run; write its output to a file"
                ));
            } else if let Some(head) = line.strip_prefix('[') {
                self.begin(head, &place)?;
            } else if let Some((key, value)) = line.split_once('=') {
                self.set(key.trim(), value.trim_start_matches('>').trim());
            }
        }
        Ok(())
    }

    /// `;` begins a comment unless a backslash is before it; `;--` and `--;` enclose one.
    fn without_comment(&mut self, line: &str) -> String {
        let mut kept = String::new();
        let mut rest = line;
        loop {
            if self.is_comment {
                match rest.split_once("--;") {
                    Some((_, behind)) => (self.is_comment, rest) = (false, behind),
                    None => return kept,
                }
            }
            let Some(place) = rest.find(';') else {
                return kept + rest;
            };
            if rest[..place].ends_with('\\') {
                kept += &rest[..place - 1];
                kept.push(';');
                rest = &rest[place + 1..];
                continue;
            }
            kept += &rest[..place];
            if !rest[place..].starts_with(";--") || rest[place..].starts_with(";---") {
                return kept;
            }
            (self.is_comment, rest) = (true, &rest[place + 3..]);
        }
    }

    fn include(&mut self, named: &str, depth: usize, must: bool) -> Result<(), String> {
        let named = named.trim().trim_matches(['"', '<', '>']);
        let mut files = matching(&self.folder.join(named))?;
        if files.is_empty() && must {
            return Err(format!("`{named}` is not there"));
        }
        files.retain(|file| !self.done.contains(&identity(file)));
        files.iter().try_for_each(|file| self.read(file, depth + 1))
    }

    /// `name](!)`, `name](template,other)`, `name](+)`.
    fn begin(&mut self, head: &str, place: &str) -> Result<(), String> {
        let (name, options) = head.split_once(']').unwrap_or((head, ""));
        let options = options.trim().trim_start_matches('(');
        let options = options.split(')').next().unwrap_or_default();
        let options: Vec<&str> = options.split(',').map(str::trim).collect();
        let name = name.trim().to_owned();
        if options.contains(&"+") {
            let known = self.by_name.get(&name).copied();
            let known =
                known.ok_or_else(|| format!("{place}: there is no section [{name}] to add to"))?;
            // What follows belongs to it, so it becomes the last one.
            let section = self.sections.remove(known);
            self.sections.push(section);
            self.index();
            return Ok(());
        }
        let mut fields = ForeignRow::new();
        for template in options
            .iter()
            .filter(|option| !option.is_empty() && **option != "!")
        {
            let known = self.by_name.get(*template);
            let known =
                known.ok_or_else(|| format!("{place}: there is no template [{template}]"))?;
            fields.extend(self.sections[*known].fields.clone());
        }
        self.by_name.insert(name.clone(), self.sections.len());
        self.sections.push(Section {
            name,
            place: place.to_owned(),
            is_template: options.contains(&"!"),
            fields,
        });
        Ok(())
    }

    fn index(&mut self) {
        let names = self.sections.iter().enumerate();
        self.by_name = names
            .map(|(index, section)| (section.name.clone(), index))
            .collect();
    }

    fn set(&mut self, key: &str, value: &str) {
        if let Some(section) = self.sections.last_mut() {
            section.fields.insert(key.to_lowercase(), value.to_owned());
        }
    }

    fn objects(self) -> Objects {
        let mut objects = Objects::default();
        for section in self
            .sections
            .into_iter()
            .filter(|section| !section.is_template)
        {
            let kind = section.fields.get("type").cloned().unwrap_or_default();
            let row = TableRow {
                place: section.place,
                fields: section.fields,
            };
            match kind.as_str() {
                "auth" => objects.auths.push((section.name, row)),
                "endpoint" => objects.endpoints.push((section.name, row)),
                "aor" => objects.aors.push((section.name, row)),
                _ => {}
            }
        }
        objects
    }
}

const DEPTH_MAX: usize = 16;
