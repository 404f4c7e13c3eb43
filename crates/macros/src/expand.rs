//! Puts options and function together.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::Result;

use crate::function::Function;
use crate::options::Options;

/// Which attribute is expanded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `#[evenkeel::main]`
    Main,
    /// `#[evenkeel::test]`
    Test,
}

/// Expands an attribute with its arguments on an item.
///
/// On an error the result holds the error and, where the function's signature could be read, a
/// function of that signature, so that no second error says that the function does not exist.
pub(crate) fn attribute(kind: Kind, args: TokenStream, item: TokenStream) -> TokenStream {
    let function: Function = match syn::parse2(item) {
        Ok(function) => function,
        Err(error) => {
            let mut error = error;
            error.combine(syn::Error::new(Span::call_site(), only_functions(kind)));
            return error.into_compile_error();
        }
    };
    match try_expand(kind, args, &function) {
        Ok(tokens) => tokens,
        Err(error) => {
            let error = error.into_compile_error();
            let stub = function.stub();
            quote!(#error #stub)
        }
    }
}

/// Says what the attribute may stand on.
fn only_functions(kind: Kind) -> &'static str {
    match kind {
        Kind::Main => "`#[evenkeel::main]` stands on an `async fn`",
        Kind::Test => "`#[evenkeel::test]` stands on an `async fn`",
    }
}

/// Expands where nothing is wrong, and returns everything that is wrong otherwise.
fn try_expand(kind: Kind, args: TokenStream, function: &Function) -> Result<TokenStream> {
    let options = match (Options::parse(args), function.check(kind == Kind::Test)) {
        (Ok(options), Ok(())) => options,
        (Err(mut first), Err(second)) => {
            first.combine(second);
            return Err(first);
        }
        (Err(error), Ok(())) | (Ok(_), Err(error)) => return Err(error),
    };
    let workers = match kind {
        Kind::Main => None,
        Kind::Test => Some(1),
    };
    let builder = options.builder(workers);
    let body = &function.body;
    // The statements carry the place of the body's closing brace: a type error in the last
    // expression is then reported there and not at the attribute.
    let place = match body {
        TokenTree::Group(group) => group.span_close(),
        other => other.span(),
    };
    let run = quote_spanned! {place.resolved_at(Span::mixed_site())=>
        {
            let body = async #body;
            #[allow(clippy::expect_used, clippy::diverging_sub_expression, clippy::needless_return)]
            {
                return #builder
                    .build()
                    .expect("the evenkeel runtime could not be built")
                    .block_on(body);
            }
        }
    };
    let function = function.with_body(&run);
    Ok(match kind {
        Kind::Main => function,
        Kind::Test => quote! {
            #[::core::prelude::v1::test]
            #function
        },
    })
}
