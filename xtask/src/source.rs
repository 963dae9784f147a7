//! One Rust file, read as a syntax tree: its imports, its unsafe code, and the
//! lengths of its functions. Code under `#[cfg(test)]` does not count.

use std::collections::BTreeSet;

use proc_macro2::Span;
use syn::{
    Attribute, File, Ident, ImplItemFn, Item, ItemEnum, ItemFn, ItemMod, ItemStruct, ItemType,
    ItemUnion, ItemUse, TraitItemFn, UseTree,
    spanned::Spanned,
    visit::{self, Visit},
};

/// A function and the number of its lines, signature included.
pub struct Function {
    pub name: String,
    pub line: usize,
    pub lines: usize,
}

/// One name that a module gives to an item of another one.
pub struct Import {
    /// `None`: all names of the module at `path`.
    pub name: Option<String>,
    /// As it is written.
    pub path: Vec<String>,
}

/// The facts about a file that tidy needs.
#[derive(Default)]
pub struct Source {
    /// Imports and paths as they are written, if they begin with `crate`,
    /// `super` or `self`, with the line of each.
    pub paths: BTreeSet<(Vec<String>, usize)>,
    /// Lines with an `unsafe` block, function, impl or trait.
    pub unsafe_lines: Vec<usize>,
    /// Lines with a `let` inside a longer condition.
    pub let_chain_lines: Vec<usize>,
    pub functions: Vec<Function>,
    /// Structs, enums, traits, unions and aliases, with the line of each.
    pub types: Vec<(String, usize)>,
    /// The imports at the top of the file; other modules reach them by its path.
    pub imports: Vec<Import>,
    /// The names of the items at the top of the file.
    pub items: BTreeSet<String>,
    /// The number of modules with a body around the current item.
    inline_depth: usize,
}

impl Source {
    pub fn parse(text: &str) -> syn::Result<Self> {
        let file: File = syn::parse_file(text)?;
        let mut source = Self::default();
        source.visit_file(&file);
        file.items.iter().for_each(|item| source.declare(item));
        Ok(source)
    }

    /// Lists an item of the file's top.
    fn declare(&mut self, item: &Item) {
        let name = match item {
            Item::Use(item) if !is_test(&item.attrs) => return self.name_import(&item.tree, &[]),
            Item::Struct(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Union(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Const(item) => &item.ident,
            Item::Static(item) => &item.ident,
            _ => return,
        };
        self.items.insert(name.to_string());
    }

    fn name_import(&mut self, tree: &UseTree, before: &[String]) {
        let path_with = |ident: &Ident| [before, &[ident.to_string()]].concat();
        let (name, path) = match tree {
            UseTree::Path(path) => return self.name_import(&path.tree, &path_with(&path.ident)),
            UseTree::Group(group) => {
                return (group.items.iter()).for_each(|item| self.name_import(item, before));
            }
            UseTree::Name(name) if name.ident == "self" => {
                (before.last().cloned(), before.to_vec())
            }
            UseTree::Name(name) => (Some(name.ident.to_string()), path_with(&name.ident)),
            UseTree::Rename(it) => (Some(it.rename.to_string()), path_with(&it.ident)),
            UseTree::Glob(_) => (None, before.to_vec()),
        };
        self.imports.push(Import { name, path });
    }

    fn function(&mut self, name: String, span: Span) {
        self.functions.push(Function {
            name,
            line: span.start().line,
            lines: span.end().line - span.start().line + 1,
        });
    }

    fn import(&mut self, tree: &UseTree, before: &[String], line: usize) {
        let path_with = |ident: &Ident| [before, &[ident.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.import(&path.tree, &path_with(&path.ident), line),
            UseTree::Group(group) => {
                (group.items.iter()).for_each(|item| self.import(item, before, line));
            }
            UseTree::Name(name) => self.mention(path_with(&name.ident), line),
            UseTree::Rename(rename) => self.mention(path_with(&rename.ident), line),
            UseTree::Glob(_) => self.mention(before.to_vec(), line),
        }
    }

    /// Records a path as if it were at the top of the file.
    fn mention(&mut self, mut path: Vec<String>, line: usize) {
        let is_local = |path: &[String]| path.first().is_none_or(|first| first != "crate");
        if is_local(&path) && self.inline_depth > 0 {
            let supers = path.iter().take_while(|part| *part == "super").count();
            if supers < self.inline_depth {
                return;
            }
            path.drain(..self.inline_depth);
            path.insert(0, "self".to_owned());
        }
        let is_rooted = |first: &String| ["crate", "super", "self"].contains(&first.as_str());
        if path.len() > 1 && path.first().is_some_and(is_rooted) {
            self.paths.insert((path, line));
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
            self.inline_depth += 1;
            visit::visit_item_mod(self, item);
            self.inline_depth -= 1;
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

    fn visit_expr_binary(&mut self, condition: &'ast syn::ExprBinary) {
        let is_let = |side: &syn::Expr| matches!(side, syn::Expr::Let(_));
        if is_let(&condition.left) || is_let(&condition.right) {
            self.let_chain_lines.push(condition.span().start().line);
        }
        visit::visit_expr_binary(self, condition);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if is_test(&item.attrs) {
            return;
        }
        self.import(&item.tree, &[], item.span().start().line);
    }

    /// A `pub(in path)` does not count as a use of the module that it names.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter();
        let segments = segments.map(|segment| segment.ident.to_string()).collect();
        self.mention(segments, path.span().start().line);
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
                    pub(in crate::ring) fn h() { crate::clock::now(); }\nstruct Cache;\n#[cfg(test)]\nmod tests { use crate::bus; struct Cache; }\n\
                    mod inner { use super::super::queue::Queue; use super::Cache; }\n";
        let source = Source::parse(text).unwrap();
        let paths: Vec<_> = (source.paths.iter())
            .map(|(path, _)| path.join("::"))
            .collect();
        assert_eq!(
            paths,
            [
                "crate::clock::now",
                "crate::pool",
                "crate::task::Task",
                "self::Cache",
                "self::super::queue::Queue"
            ]
        );
        assert_eq!(source.types, [("Cache".to_owned(), 6)]);
        assert_eq!(source.unsafe_lines, [3]);
        assert_eq!(
            (source.functions[0].name.as_str(), source.functions[0].lines),
            ("f", 3)
        );
    }
}
