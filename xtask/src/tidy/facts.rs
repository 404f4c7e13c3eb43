//! What the checks need to know about one Rust file, found with a real parser.
//!
//! Function bodies come from `syn`. The contents of macro calls and definitions, which `syn` keeps
//! as tokens, are searched token by token, so that a long function or an `unsafe` inside
//! `proptest!` or `macro_rules!` counts as well.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Lines from and to, both included, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) first: usize,
    pub(crate) last: usize,
}

impl Lines {
    fn of(first: proc_macro2::Span, last: proc_macro2::Span) -> Lines {
        Lines {
            first: first.start().line,
            last: last.end().line,
        }
    }

    /// Tells whether `line` lies within.
    pub(crate) fn contain(self, line: usize) -> bool {
        (self.first..=self.last).contains(&line)
    }

    /// Returns the number of lines.
    pub(crate) fn count(self) -> usize {
        self.last - self.first + 1
    }
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// From the line of `fn` (or of its visibility) to the closing brace, without attributes.
    pub(crate) lines: Lines,
}

/// What an `unsafe` introduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsafe {
    /// `unsafe {`.
    Block,
    /// `unsafe impl`.
    Impl,
    /// `unsafe fn`, `unsafe trait`, `unsafe extern`, `#[unsafe(…)]`: a duty for somebody else.
    Other,
}

/// What the parser found in one file.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) has_module_docs: bool,
    pub(crate) forbids_unsafe: bool,
    pub(crate) functions: Vec<Function>,
    /// Line and kind of every `unsafe`.
    pub(crate) unsafes: Vec<(usize, Unsafe)>,
    /// Line of every call to a function named `sleep`, `sleep_ms` or `sleep_until`.
    pub(crate) sleeps: Vec<usize>,
    /// Items under `#[cfg(test)]`, and test functions.
    pub(crate) test_items: Vec<Lines>,
    /// Names in `#[cfg(test)] mod name;`.
    pub(crate) test_file_modules: Vec<String>,
    /// Integer and `Duration` constants: name and defining expression.
    pub(crate) constants: Vec<(String, syn::Expr)>,
}

impl Facts {
    /// Parses `text`.
    ///
    /// # Errors
    ///
    /// Returns the parser's error when `text` is not a Rust file.
    pub(crate) fn parse(text: &str) -> Result<Facts, syn::Error> {
        let file = syn::parse_file(text)?;
        let mut facts = Facts {
            has_module_docs: file.attrs.iter().any(|attr| attr.path().is_ident("doc")),
            forbids_unsafe: file.attrs.iter().any(forbids_unsafe),
            ..Facts::default()
        };
        facts.visit_file(&file);
        let code = text
            .strip_prefix("#!")
            .filter(|rest| !rest.starts_with('['))
            .map_or(text, |_| text.split_once('\n').map_or("", |(_, rest)| rest));
        facts.scan(code.parse().map_err(syn::Error::from)?);
        Ok(facts)
    }

    /// Returns the innermost function around `line`.
    pub(crate) fn function_at(&self, line: usize) -> Option<&Function> {
        let around = self
            .functions
            .iter()
            .filter(|function| function.lines.contain(line));
        around.min_by_key(|function| function.lines.count())
    }

    fn add_function(&mut self, name: &syn::Ident, first: proc_macro2::Span, body: &syn::Block) {
        let lines = Lines::of(first, body.span());
        self.functions.push(Function {
            name: name.to_string(),
            lines,
        });
    }

    /// Records an item that is compiled for tests only.
    fn note_test_item(&mut self, attrs: &[syn::Attribute], item: proc_macro2::Span) {
        if attrs.iter().any(is_test_attribute) {
            self.test_items.push(Lines::of(item, item));
        }
    }

    /// Searches every token of the file for `unsafe` and for calls that sleep.
    fn scan(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            let next = tokens.get(index + 1);
            match token {
                TokenTree::Ident(ident) if ident == "unsafe" => {
                    self.unsafes
                        .push((ident.span().start().line, kind_of_unsafe(next)));
                }
                TokenTree::Ident(ident)
                    if is_sleep(&ident.to_string())
                        && is_group(next, Delimiter::Parenthesis)
                        && !is_definition_or_method(index.checked_sub(1).map(|i| &tokens[i])) =>
                {
                    self.sleeps.push(ident.span().start().line);
                }
                TokenTree::Group(group) => self.scan(group.stream()),
                _ => {}
            }
        }
    }

    /// Searches the tokens of a macro for functions with a body.
    fn scan_functions(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.scan_functions(group.stream()),
                TokenTree::Ident(keyword) if keyword == "fn" => {
                    let Some(TokenTree::Ident(name)) = tokens.get(index + 1) else {
                        continue;
                    };
                    let Some(body) = body_after(&tokens[index..]) else {
                        continue;
                    };
                    let lines = Lines::of(keyword.span(), body);
                    self.functions.push(Function {
                        name: name.to_string(),
                        lines,
                    });
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Facts {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        self.note_test_item(attributes(item), item.span());
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.content.is_none() && item.attrs.iter().any(is_test_attribute) {
            self.test_file_modules.push(item.ident.to_string());
        }
        visit::visit_item_mod(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.constants
            .push((item.ident.to_string(), (*item.expr).clone()));
        visit::visit_item_const(self, item);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.constants
            .push((item.ident.to_string(), item.expr.clone()));
        visit::visit_impl_item_const(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add_function(&item.sig.ident, item.sig.span(), &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.note_test_item(&item.attrs, item.span());
        self.add_function(&item.sig.ident, item.sig.span(), &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.add_function(&item.sig.ident, item.sig.span(), body);
        }
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.scan_functions(item.tokens.clone());
        visit::visit_macro(self, item);
    }
}

/// Returns the span of the first braces after `fn name`, unless the signature ends with `;`.
fn body_after(tokens: &[TokenTree]) -> Option<proc_macro2::Span> {
    for token in tokens {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ';' => return None,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                return Some(group.span());
            }
            _ => {}
        }
    }
    None
}

fn kind_of_unsafe(next: Option<&TokenTree>) -> Unsafe {
    if is_group(next, Delimiter::Brace) {
        Unsafe::Block
    } else if is_ident(next, "impl") {
        Unsafe::Impl
    } else {
        Unsafe::Other
    }
}

fn is_group(token: Option<&TokenTree>, delimiter: Delimiter) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == delimiter)
}

fn is_ident(token: Option<&TokenTree>, name: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == name)
}

/// Tells, from the token before a name, that this is its definition, or a call of a method: no
/// method sleeps in the standard library or in Tokio.
fn is_definition_or_method(before: Option<&TokenTree>) -> bool {
    is_ident(before, "fn") || matches!(before, Some(TokenTree::Punct(p)) if p.as_char() == '.')
}

fn is_sleep(name: &str) -> bool {
    matches!(name, "sleep" | "sleep_ms" | "sleep_until")
}

fn forbids_unsafe(attr: &syn::Attribute) -> bool {
    attr.path().is_ident("forbid")
        && attr
            .meta
            .require_list()
            .is_ok_and(|list| mentions(&list.tokens, "unsafe_code"))
}

/// Tells whether an attribute marks test code: `cfg(…test…)`, or anything called `test`.
fn is_test_attribute(attr: &syn::Attribute) -> bool {
    let last = attr.path().segments.last();
    let is_test = last.is_some_and(|segment| segment.ident == "test");
    let is_cfg = attr.path().is_ident("cfg");
    is_test
        || (is_cfg
            && attr
                .meta
                .require_list()
                .is_ok_and(|l| mentions(&l.tokens, "test")))
}

/// Tells whether `name` occurs in the predicate `tokens` outside `not(…)`.
fn mentions(tokens: &TokenStream, name: &str) -> bool {
    let mut negated = false;
    for token in tokens.clone() {
        match token {
            TokenTree::Ident(ident) if ident == name => return true,
            TokenTree::Ident(ident) => negated = ident == "not",
            TokenTree::Group(group) if !negated && mentions(&group.stream(), name) => return true,
            _ => {}
        }
    }
    false
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        _ => &[],
    }
}
