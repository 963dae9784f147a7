//! One Rust file read as a syntax tree: what it imports, where it is unsafe,
//! how long its functions are. Code under `#[cfg(test)]` does not count.

use std::collections::BTreeSet;

use proc_macro2::Span;
use syn::{
    Attribute, File, Ident, ImplItemFn, ItemEnum, ItemFn, ItemMod, ItemStruct, ItemType, ItemUnion,
    ItemUse, TraitItemFn, UseTree,
    spanned::Spanned,
    visit::{self, Visit},
};

/// A function and how many lines it spans, signature included.
pub struct Function {
    pub name: String,
    pub line: usize,
    pub lines: usize,
}

/// What tidy wants to know about a file.
#[derive(Default)]
pub struct Source {
    /// First segments after `crate::`, with the line of the first mention.
    pub crate_modules: BTreeSet<(String, usize)>,
    /// Lines with an `unsafe` block, function, impl or trait.
    pub unsafe_lines: Vec<usize>,
    pub functions: Vec<Function>,
    /// Structs, enums, traits, unions and aliases, with the line of each.
    pub types: Vec<(String, usize)>,
}

impl Source {
    pub fn parse(text: &str) -> syn::Result<Self> {
        let file: File = syn::parse_file(text)?;
        let mut source = Self::default();
        source.visit_file(&file);
        Ok(source)
    }

    fn function(&mut self, name: String, span: Span) {
        self.functions.push(Function {
            name,
            line: span.start().line,
            lines: span.end().line - span.start().line + 1,
        });
    }

    fn import(&mut self, tree: &UseTree, line: usize) {
        match tree {
            UseTree::Path(path) => {
                self.crate_modules.insert((path.ident.to_string(), line));
            }
            UseTree::Group(group) => group.items.iter().for_each(|item| self.import(item, line)),
            UseTree::Name(name) => {
                self.crate_modules.insert((name.ident.to_string(), line));
            }
            UseTree::Rename(rename) => {
                self.crate_modules.insert((rename.ident.to_string(), line));
            }
            UseTree::Glob(_) => {}
        }
    }

    fn names_type(&mut self, attributes: &[Attribute], name: &Ident) {
        if !is_test(attributes) {
            let line = name.span().start().line;
            self.types.push((name.to_string(), line));
        }
    }

    fn unsafe_at(&mut self, token: Option<Span>) {
        self.unsafe_lines
            .extend(token.map(|span| span.start().line));
    }
}

impl<'ast> Visit<'ast> for Source {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.names_type(&item.attrs, &item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.names_type(&item.attrs, &item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_union(&mut self, item: &'ast ItemUnion) {
        self.names_type(&item.attrs, &item.ident);
        visit::visit_item_union(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        self.names_type(&item.attrs, &item.ident);
        visit::visit_item_type(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if is_test(&item.attrs) {
            return;
        }
        self.unsafe_at(item.sig.unsafety.map(|token| token.span));
        let span = item.sig.span().join(item.block.span());
        self.function(item.sig.ident.to_string(), span.unwrap_or(item.span()));
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if is_test(&item.attrs) {
            return;
        }
        self.unsafe_at(item.sig.unsafety.map(|token| token.span));
        let span = item.sig.span().join(item.block.span());
        self.function(item.sig.ident.to_string(), span.unwrap_or(item.span()));
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.unsafe_at(item.sig.unsafety.map(|token| token.span));
        if let Some(block) = &item.default {
            let span = item.sig.span().join(block.span());
            self.function(item.sig.ident.to_string(), span.unwrap_or(item.span()));
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_test(&item.attrs) {
            self.unsafe_at(item.unsafety.map(|token| token.span));
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.names_type(&item.attrs, &item.ident);
        self.unsafe_at(item.unsafety.map(|token| token.span));
        visit::visit_item_trait(self, item);
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.unsafe_at(Some(block.unsafe_token.span));
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if is_test(&item.attrs) {
            return;
        }
        if let UseTree::Path(path) = &item.tree
            && path.ident == "crate"
        {
            self.import(&path.tree, item.span().start().line);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let mut segments = path.segments.iter();
        if segments.next().is_some_and(|first| first.ident == "crate")
            && let Some(module) = segments.next()
        {
            let line = path.span().start().line;
            self.crate_modules.insert((module.ident.to_string(), line));
        }
        visit::visit_path(self, path);
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute
                    .meta
                    .require_list()
                    .is_ok_and(|list| list.tokens.to_string().contains("test")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_unsafe_and_lengths_are_seen_and_tests_are_not() {
        let text = "use crate::{task::Task, pool};\nfn f() {\n    unsafe { g() }\n}\n\
                    fn h() { crate::clock::now(); }\nstruct Cache;\n#[cfg(test)]\nmod tests { use crate::bus; struct Cache; }\n";
        let source = Source::parse(text).unwrap();
        let modules: Vec<_> = source
            .crate_modules
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(modules, ["clock", "pool", "task"]);
        assert_eq!(source.types, [("Cache".to_owned(), 6)]);
        assert_eq!(source.unsafe_lines, [3]);
        assert_eq!(
            (source.functions[0].name.as_str(), source.functions[0].lines),
            ("f", 3)
        );
    }
}
