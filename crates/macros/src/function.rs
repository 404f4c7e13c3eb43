//! The annotated function: attributes, visibility and signature parsed, the body left as tokens.
//!
//! The body is not parsed so that errors in it are reported by the compiler at their own place,
//! and an editor can complete code in a body that is not yet valid.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Attribute, Error, Result, Signature, Visibility};

/// A function item with an unparsed body.
#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    /// The body with its braces.
    pub(crate) body: TokenTree,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let sig = input.parse()?;
        let body: TokenTree = input.parse()?;
        match &body {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {}
            other => return Err(Error::new(other.span(), "the function has no body")),
        }
        if !input.is_empty() {
            return Err(input.error("unexpected text after the function"));
        }
        Ok(Self {
            attrs,
            vis,
            sig,
            body,
        })
    }
}

impl Function {
    /// Checks what both attributes ask of a function, and what only a test or `main` must meet.
    ///
    /// # Errors
    ///
    /// All that is wrong, as one combined error.
    pub(crate) fn check(&self, is_test: bool) -> Result<()> {
        let mut errors = Vec::new();
        if self.sig.asyncness.is_none() {
            let message = "the `async` keyword is missing from the function declaration";
            errors.push(Error::new_spanned(self.sig.fn_token, message));
        }
        let no_arguments = if is_test {
            Some("a test function takes no arguments")
        } else if self.sig.ident == "main" {
            Some("the `main` function takes no arguments")
        } else {
            None
        };
        if let (Some(message), false) = (no_arguments, self.sig.inputs.is_empty()) {
            errors.push(Error::new(self.sig.inputs.span(), message));
        }
        if is_test {
            let second = self.attrs.iter().find(|attr| is_plain_test(attr));
            errors.extend(second.map(|attr| {
                let message =
                    "a second test attribute is given; `#[evenkeel::test]` adds `#[test]`";
                Error::new_spanned(attr, message)
            }));
        }
        combine(errors)
    }

    /// A function that stands in for one that has errors: it has the signature and does nothing.
    pub(crate) fn stub(&self) -> TokenStream {
        let mut stub = self.clone();
        if stub.sig.ident == "main" {
            // Its arguments have been reported; the compiler need not report them again.
            stub.sig.inputs.clear();
        }
        stub.with_body(&quote!({ loop {} }))
    }

    /// The function without `async` and with another body.
    pub(crate) fn with_body(&self, body: &TokenStream) -> TokenStream {
        let Self {
            attrs, vis, sig, ..
        } = self;
        let mut sig = sig.clone();
        sig.asyncness = None;
        let mut tokens = TokenStream::new();
        for attr in attrs {
            attr.to_tokens(&mut tokens);
        }
        vis.to_tokens(&mut tokens);
        sig.to_tokens(&mut tokens);
        body.to_tokens(&mut tokens);
        tokens
    }
}

/// Whether an attribute is `#[test]` itself, also written `#[core::prelude::v1::test]`.
fn is_plain_test(attr: &Attribute) -> bool {
    let path = attr.path();
    path.is_ident("test")
        || path
            .segments
            .iter()
            .map(|s| s.ident.to_string())
            .eq(["core", "prelude", "v1", "test"])
        || path
            .segments
            .iter()
            .map(|s| s.ident.to_string())
            .eq(["std", "prelude", "v1", "test"])
}

/// Joins errors into one, `Ok` when there is none.
pub(crate) fn combine(errors: Vec<Error>) -> Result<()> {
    let joined = errors.into_iter().reduce(|mut all, next| {
        all.combine(next);
        all
    });
    joined.map_or(Ok(()), Err)
}
