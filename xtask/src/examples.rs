//! Examples in the library's documentation: each public item has one, or one of its methods has.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Attribute, Expr, ImplItem, Item, Lit, Meta, TraitItem, Type, Visibility};

use crate::{rules::WITHOUT_EXAMPLE, tidy::Tree};

/// Checks that each public type and function has an example, and that the list of those that need
/// none has no other entry.
pub fn check_examples(tree: &Tree) -> Vec<String> {
    let mut items = PublicItems::default();
    let library = (tree.text.iter())
        .filter(|file| file.path.starts_with(LIBRARY) && file.path.ends_with(".rs"));
    for file in library {
        if let Ok(parsed) = syn::parse_file(&file.text) {
            (parsed.items.iter()).for_each(|item| items.add(item, &file.path));
        }
    }
    items.complain(WITHOUT_EXAMPLE)
}

#[derive(Default)]
struct PublicItems {
    /// The file of each.
    public: BTreeMap<String, String>,
    with_example: BTreeSet<String>,
}

impl PublicItems {
    fn add(&mut self, item: &Item, path: &str) {
        let (visibility, name, attributes) = match item {
            Item::Struct(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Enum(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Trait(item) => {
                let methods = item.items.iter().filter_map(|item| match item {
                    TraitItem::Fn(method) => Some(&method.attrs),
                    _ => None,
                });
                self.add_methods(&item.ident.to_string(), methods);
                (&item.vis, &item.ident, &item.attrs)
            }
            Item::Fn(item) => (&item.vis, &item.sig.ident, &item.attrs),
            Item::Impl(block) => return self.add_block(&block.self_ty, &block.items),
            _ => return,
        };
        if matches!(visibility, Visibility::Public(_)) {
            self.public.insert(name.to_string(), path.to_owned());
            self.add_methods(&name.to_string(), [attributes]);
        }
    }

    fn add_block(&mut self, of: &Type, items: &[ImplItem]) {
        let Type::Path(of) = of else { return };
        let Some(name) = of.path.segments.last() else {
            return;
        };
        let methods = items.iter().filter_map(|item| match item {
            ImplItem::Fn(method) => Some(&method.attrs),
            _ => None,
        });
        self.add_methods(&name.ident.to_string(), methods);
    }

    fn add_methods<'a>(
        &mut self,
        name: &str,
        documented: impl IntoIterator<Item = &'a Vec<Attribute>>,
    ) {
        if documented
            .into_iter()
            .any(|attributes| has_example(attributes))
        {
            self.with_example.insert(name.to_owned());
        }
    }

    fn complain(&self, exempt: &[&str]) -> Vec<String> {
        let is_bare = |name: &&String| !self.with_example.contains(*name);
        let bare: BTreeSet<&str> = (self.public.keys())
            .filter(is_bare)
            .map(String::as_str)
            .collect();
        let missing = (bare.iter()).filter(|name| !exempt.contains(name));
        let missing = missing.map(|name| {
            let path = &self.public[*name];
            format!("{path}: `{name}` has no example in its documentation, nor has a method of it")
        });
        let stale = (exempt.iter()).filter(|name| !bare.contains(*name));
        let stale = stale.map(|name| {
            format!("{RULES}: `{name}` of WITHOUT_EXAMPLE has an example, or does not exist")
        });
        missing.chain(stale).collect()
    }
}

fn has_example(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => text.value().contains("```"),
                _ => false,
            },
            _ => false,
        },
        _ => false,
    })
}

const LIBRARY: &str = "crates/busyhour/src/";
const RULES: &str = "xtask/src/rules.rs";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_without_an_example_is_named_and_so_is_a_stale_exemption() {
        let text = "/// ```\n/// ```\npub struct Shown;\npub struct Bare;\nstruct Hidden;\n\
                    pub struct Used;\nimpl<T> Used { /** ``` ``` */ pub fn f() {} }\n\
                    pub fn bare_too() {}\n";
        let mut tree = Tree::default();
        tree.add(format!("{LIBRARY}one.rs"), text.to_owned());
        let mut items = PublicItems::default();
        let parsed = syn::parse_file(text).unwrap();
        (parsed.items.iter()).for_each(|item| items.add(item, "one.rs"));
        let complaints = items.complain(&["bare_too", "Shown"]);
        assert_eq!(complaints.len(), 2);
        assert!(complaints[0].contains("`Bare`") && complaints[1].contains("`Shown`"));
        let found = check_examples(&tree);
        assert!(found.iter().any(|complaint| complaint.contains("`Bare`")));
    }
}
