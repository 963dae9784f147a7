//! Examples in the library's documentation: each public item has one, or one of its methods has.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Attribute, Expr, ImplItem, Item, Lit, Meta, TraitItem, Type, Visibility};

use crate::tidy::Tree;

/// Checks that each public type and function has an example.
pub fn check_examples(tree: &Tree) -> Vec<String> {
    let mut items = PublicItems::default();
    let library = (tree.text.iter())
        .filter(|file| file.path.starts_with(LIBRARY) && file.path.ends_with(".rs"));
    for file in library {
        if let Ok(parsed) = syn::parse_file(&file.text) {
            (parsed.items.iter()).for_each(|item| items.add(item, &file.path));
        }
    }
    items.complain()
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

    fn complain(&self) -> Vec<String> {
        let bare = (self.public.iter()).filter(|(name, _)| !self.with_example.contains(*name));
        let complaint = |(name, path): (&String, &String)| {
            format!("{path}: `{name}` has no example in its documentation, nor has a method of it")
        };
        bare.map(complaint).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_without_an_example_is_named() {
        let text = "/// ```\n/// ```\npub struct Shown;\npub struct Bare;\nstruct Hidden;\n\
                    pub struct Used;\nimpl<T> Used { /** ``` ``` */ pub fn f() {} }\n\
                    pub fn bare_too() {}\n";
        let mut tree = Tree::default();
        tree.add(format!("{LIBRARY}one.rs"), text.to_owned());
        let mut items = PublicItems::default();
        let parsed = syn::parse_file(text).unwrap();
        (parsed.items.iter()).for_each(|item| items.add(item, "one.rs"));
        let complaints = items.complain();
        assert_eq!(complaints.len(), 2);
        assert!(complaints[0].contains("`Bare`") && complaints[1].contains("`bare_too`"));
        let found = check_examples(&tree);
        assert!(found.iter().any(|complaint| complaint.contains("`Bare`")));
    }
}
