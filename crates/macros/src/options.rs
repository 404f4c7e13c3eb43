//! The options of an attribute: `(worker_threads = 2, io = "shared", crate = "renamed")`.
//!
//! Everything wrong in the list is reported at once, each at its own place: an unknown option with
//! the allowed ones, a value of the wrong type or range with what is allowed, an option given
//! twice.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Ident, Lit, Path, Result, Token};

use crate::function::combine;

/// The options known, in the order in which messages list them.
const KNOWN: [&str; 7] = [
    "worker_threads",
    "io",
    "thread_name",
    "thread_stack_size",
    "pin_threads",
    "max_blocking_threads",
    "crate",
];

/// What an attribute asks of the runtime it builds.
#[derive(Default)]
pub(crate) struct Options {
    /// Calls on the builder, in the order given: method and argument.
    settings: Vec<(Ident, Setting)>,
    /// The path under which the runtime crate is known; `::evenkeel` when `None`.
    krate: Option<Path>,
}

/// The argument of one builder call.
enum Setting {
    /// An expression passed on as it is.
    Literal(Lit),
    /// A variant of the runtime's `Io`.
    Io(Ident),
}

/// One `name = value`.
struct Pair {
    name: Ident,
    value: Expr,
}

impl Parse for Pair {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name = input.call(Ident::parse_any)?;
        if !input.peek(Token![=]) {
            let message = format!("`{name}` needs a value: `{name} = …`");
            return Err(Error::new(name.span(), message));
        }
        input.parse::<Token![=]>()?;
        Ok(Self {
            name,
            value: input.parse()?,
        })
    }
}

/// The list as written, not yet checked.
struct Pairs(Punctuated<Pair, Token![,]>);

impl Parse for Pairs {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        Punctuated::parse_terminated(input).map(Self)
    }
}

impl Options {
    /// Reads the text between an attribute's parentheses.
    ///
    /// # Errors
    ///
    /// All that is wrong, as one combined error.
    pub(crate) fn parse(args: TokenStream) -> Result<Self> {
        let pairs: Pairs = syn::parse2(args)?;
        let mut options = Self::default();
        let mut seen: Vec<String> = Vec::new();
        let mut errors = Vec::new();
        for pair in pairs.0 {
            let name = pair.name.to_string();
            if seen.contains(&name) {
                let message = format!("`{name}` is given twice");
                errors.push(Error::new(pair.name.span(), message));
                continue;
            }
            seen.push(name);
            errors.extend(options.set(pair).err());
        }
        combine(errors)?;
        Ok(options)
    }

    /// Takes one option over.
    fn set(&mut self, pair: Pair) -> Result<()> {
        let Pair { name, value } = pair;
        let setting = match name.to_string().as_str() {
            "worker_threads" | "thread_stack_size" | "max_blocking_threads" => {
                Setting::Literal(positive(&name, &value)?)
            }
            "pin_threads" => match literal(&value) {
                Some(lit @ Lit::Bool(_)) => Setting::Literal(lit.clone()),
                _ => return Err(wrong(&name, &value, "`true` or `false`")),
            },
            "thread_name" => match literal(&value) {
                Some(lit @ Lit::Str(_)) => Setting::Literal(lit.clone()),
                _ => return Err(wrong(&name, &value, "a string")),
            },
            "io" => Setting::Io(io(&name, &value)?),
            "crate" => {
                self.krate = Some(path(&name, &value)?);
                return Ok(());
            }
            other => return Err(Error::new(name.span(), unknown(other))),
        };
        self.settings.push((name, setting));
        Ok(())
    }

    /// The path of the runtime crate.
    pub(crate) fn krate(&self) -> TokenStream {
        match &self.krate {
            Some(path) => path.to_token_stream(),
            None => quote!(::evenkeel),
        }
    }

    /// The expression that makes the configured builder. `worker_threads` is used where the
    /// option is not given.
    pub(crate) fn builder(&self, worker_threads: Option<usize>) -> TokenStream {
        let krate = self.krate();
        let mut tokens = quote!(#krate::Builder::new());
        let is_given = self
            .settings
            .iter()
            .any(|(name, _)| name == "worker_threads");
        if let (false, Some(n)) = (is_given, worker_threads) {
            tokens.extend(quote!(.worker_threads(#n)));
        }
        for (name, setting) in &self.settings {
            let method = Ident::new(&name.to_string(), Span::call_site());
            tokens.extend(match setting {
                Setting::Literal(lit) => quote!(.#method(#lit)),
                Setting::Io(variant) => quote_spanned!(variant.span()=> .io(#krate::Io::#variant)),
            });
        }
        tokens
    }
}

/// The literal that an expression is, if it is one.
fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        _ => None,
    }
}

/// An integer literal of at least 1.
fn positive(name: &Ident, value: &Expr) -> Result<Lit> {
    match literal(value) {
        Some(lit @ Lit::Int(int)) if int.base10_parse::<usize>().is_ok_and(|n| n >= 1) => {
            Ok(lit.clone())
        }
        _ => Err(wrong(name, value, "an integer of at least 1")),
    }
}

/// The variant of the runtime's `Io` that a string names.
fn io(name: &Ident, value: &Expr) -> Result<Ident> {
    let variant = match literal(value) {
        Some(Lit::Str(text)) => match text.value().as_str() {
            "shared" => Some("Shared"),
            "dedicated" => Some("Dedicated"),
            "off" => Some("Off"),
            _ => None,
        },
        _ => None,
    };
    let allowed = "`\"shared\"`, `\"dedicated\"` or `\"off\"`";
    variant
        .map(|variant| Ident::new(variant, Span::call_site()))
        .ok_or_else(|| wrong(name, value, allowed))
}

/// The path that a string holds.
fn path(name: &Ident, value: &Expr) -> Result<Path> {
    let allowed = "a string that holds a path, such as `\"renamed\"` or `\"crate::rt\"`";
    match literal(value) {
        Some(Lit::Str(text)) => text
            .parse_with(Path::parse_mod_style)
            .map_err(|_| wrong(name, value, allowed)),
        _ => Err(wrong(name, value, allowed)),
    }
}

/// The error of a value that its option does not take.
fn wrong(name: &Ident, value: &Expr, allowed: &str) -> Error {
    let given = value.to_token_stream();
    let message = format!("`{name} = {given}` is not valid; allowed: {allowed}");
    Error::new(value.span(), message)
}

/// The message of an unknown option.
fn unknown(name: &str) -> String {
    let allowed = KNOWN.map(|known| format!("`{known}`")).join(", ");
    let why = match name {
        "flavor" => " (there is one kind of runtime; `worker_threads = 1` makes one worker)",
        "start_paused" => " (the runtime has no paused clock)",
        _ => "",
    };
    format!("unknown option `{name}`{why}; allowed: {allowed}")
}
