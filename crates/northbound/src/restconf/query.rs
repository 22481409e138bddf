//! Query parameters of RFC 8040, section 4.8.

use http::Method;
use percent_encoding::percent_decode_str;
use yang5::data::DataPrinterFlags;

use super::fault::Fault;

/// Maximum nesting of `fields`.
const NESTED: usize = 32;

/// Maximum number of names in `fields`.
const NAMES: usize = 1_000;

/// The `content` parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Configuration and state.
    #[default]
    All,
    /// Configuration.
    Config,
    /// State.
    Nonconfig,
}

/// The `with-defaults` parameter (RFC 6243).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Defaults {
    /// What was configured, default or not.
    #[default]
    Explicit,
    /// All values, including defaults.
    ReportAll,
    /// Values that differ from the default.
    Trim,
}

impl Defaults {
    /// The flags for libyang's printer.
    pub fn flags(self) -> DataPrinterFlags {
        match self {
            Defaults::Explicit => DataPrinterFlags::WD_EXPLICIT,
            Defaults::ReportAll => DataPrinterFlags::WD_ALL,
            Defaults::Trim => DataPrinterFlags::WD_TRIM,
        }
    }
}

/// A node of `fields`, with the selection below it; empty: all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The module, if the name has one.
    pub module: Option<String>,
    /// The name.
    pub name: String,
    /// The selection below.
    pub below: Vec<Field>,
}

/// The position of a new entry in a list that is ordered-by user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Insert {
    /// Before all others.
    First,
    /// After all others.
    Last,
    /// Before this entry, by its path in a URL.
    Before(String),
    /// After this entry.
    After(String),
}

/// All query parameters of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The content.
    pub content: Content,
    /// Levels, with the target as the first; `None`: all.
    pub depth: Option<u32>,
    /// The selected nodes; `None`: all.
    pub fields: Option<Vec<Field>>,
    /// How to report defaults.
    pub defaults: Defaults,
    /// The position of a new entry.
    pub insert: Option<Insert>,
}

fn refused(message: String) -> Fault {
    Fault::value(message)
}

impl Query {
    /// Reads the parameters of a URL.
    ///
    /// # Errors
    /// When one is unknown, occurs twice, is not for this method, or has an invalid value.
    pub fn parse(raw: &str, method: &Method) -> Result<Query, Fault> {
        let mut query = Query::default();
        let mut seen: Vec<String> = Vec::new();
        let (mut insert, mut point) = (None, None);
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8();
            let value = value.map_err(|_| refused(format!("{name} is not UTF-8")))?;
            if seen.iter().any(|one| one == name) {
                return Err(refused(format!("parameter {name} occurs twice: give it once")));
            }
            seen.push(name.to_owned());
            let reads = method == Method::GET || method == Method::HEAD;
            let makes = method == Method::POST || method == Method::PUT;
            match name {
                "content" if reads => query.content = content(&value)?,
                "depth" if reads => query.depth = depth(&value)?,
                "fields" if reads => query.fields = Some(fields(&value)?),
                "with-defaults" if reads => query.defaults = defaults(&value)?,
                "insert" if makes => insert = Some(value.into_owned()),
                "point" if makes => point = Some(value.into_owned()),
                _ => {
                    let short: String = name.chars().take(64).collect();
                    return Err(refused(format!("{method} has no parameter {short:?}")));
                }
            }
        }
        query.insert = place(insert.as_deref(), point)?;
        Ok(query)
    }

    /// Whether nothing is filtered.
    pub fn is_whole(&self) -> bool {
        self.depth.is_none() && self.fields.is_none()
    }
}

fn content(value: &str) -> Result<Content, Fault> {
    match value {
        "all" => Ok(Content::All),
        "config" => Ok(Content::Config),
        "nonconfig" => Ok(Content::Nonconfig),
        _ => Err(refused("content must be all, config or nonconfig".into())),
    }
}

fn depth(value: &str) -> Result<Option<u32>, Fault> {
    if value == "unbounded" {
        return Ok(None);
    }
    let number = value.parse::<u32>().ok().filter(|number| (1..=65_535).contains(number));
    let number = number.filter(|_| value.bytes().all(|byte| byte.is_ascii_digit()));
    number.map(Some).ok_or_else(|| refused("depth must be unbounded, or 1 to 65535".into()))
}

fn defaults(value: &str) -> Result<Defaults, Fault> {
    match value {
        "explicit" => Ok(Defaults::Explicit),
        "report-all" => Ok(Defaults::ReportAll),
        "trim" => Ok(Defaults::Trim),
        _ => Err(refused("with-defaults must be explicit, report-all or trim".into())),
    }
}

fn place(insert: Option<&str>, point: Option<String>) -> Result<Option<Insert>, Fault> {
    match (insert, point) {
        (None, None) => Ok(None),
        (Some("first"), None) => Ok(Some(Insert::First)),
        (Some("last"), None) => Ok(Some(Insert::Last)),
        (Some("before"), Some(point)) => Ok(Some(Insert::Before(point))),
        (Some("after"), Some(point)) => Ok(Some(Insert::After(point))),
        _ => Err(refused(
            "insert must be first or last, or before or after together with point".into(),
        )),
    }
}

/// `a;b(c;d)/e`: names, paths, and selections in parentheses.
fn fields(text: &str) -> Result<Vec<Field>, Fault> {
    // Each name is compared with its siblings: the cost is quadratic.
    if text.matches([';', '/', '(']).count() >= NAMES {
        return Err(refused(format!("fields has more than {NAMES} names")));
    }
    let mut rest = text;
    let found = selection(&mut rest, 0)?;
    match rest.is_empty() {
        true => Ok(found),
        false => Err(refused(format!("syntax error in fields at {rest:?}"))),
    }
}

fn selection(rest: &mut &str, nested: usize) -> Result<Vec<Field>, Fault> {
    if nested > NESTED {
        return Err(refused(format!("fields are nested more than {NESTED} deep")));
    }
    let mut found: Vec<Field> = Vec::new();
    loop {
        join(&mut found, path(rest, nested)?);
        match rest.strip_prefix(';') {
            Some(after) => *rest = after,
            None => return Ok(found),
        }
    }
}

/// Adds a path to the selection: the same node twice has both selections.
fn join(found: &mut Vec<Field>, field: Field) {
    let same = |one: &&mut Field| one.name == field.name && one.module == field.module;
    match found.iter_mut().find(same) {
        Some(there) if there.below.is_empty() => {}
        Some(there) if field.below.is_empty() => there.below.clear(),
        Some(there) => field.below.into_iter().for_each(|one| join(&mut there.below, one)),
        None => found.push(field),
    }
}

fn path(rest: &mut &str, nested: usize) -> Result<Field, Fault> {
    let mut names = Vec::new();
    let below = loop {
        let end = rest.find(['/', '(', ')', ';']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if name.is_empty() || names.len() > NESTED {
            return Err(refused("fields has an empty name, or a path that is too long".into()));
        }
        names.push(name);
        *rest = after;
        if let Some(after) = rest.strip_prefix('/') {
            *rest = after;
        } else if let Some(after) = rest.strip_prefix('(') {
            *rest = after;
            let below = selection(rest, nested + names.len())?;
            let closed = rest.strip_prefix(')');
            *rest = closed.ok_or_else(|| refused("fields lacks a closing bracket".into()))?;
            break below;
        } else {
            break Vec::new();
        }
    };
    let field = |below: Vec<Field>, name: &str| {
        let (module, name) = match name.split_once(':') {
            Some((module, name)) => (Some(module.to_owned()), name),
            None => (None, name),
        };
        vec![Field { module, name: name.to_owned(), below }]
    };
    let mut made = names.iter().rev().fold(below, |below, name| field(below, name));
    made.pop().ok_or_else(|| refused("fields is empty".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(raw: &str) -> Result<Query, Fault> {
        Query::parse(raw, &Method::GET)
    }

    fn shown(fields: &[Field]) -> String {
        let one = |field: &Field| match field.below.is_empty() {
            true => field.name.clone(),
            false => format!("{}({})", field.name, shown(&field.below)),
        };
        fields.iter().map(one).collect::<Vec<_>>().join(";")
    }

    #[test]
    fn parameters_are_those_of_the_rfc() {
        let query = read("depth=2&content=config&with-defaults=report-all").unwrap();
        assert_eq!((query.depth, query.content), (Some(2), Content::Config));
        assert_eq!(query.defaults, Defaults::ReportAll);
        assert_eq!(read("depth=unbounded").unwrap(), Query::default());
        let fields = |text: &str| shown(&read(&format!("fields={text}")).unwrap().fields.unwrap());
        assert_eq!(fields("a;b(c;d)"), "a;b(c;d)");
        assert_eq!(fields("a%2Fb(c%3Bd)%3Ba"), "a");
        assert_eq!(fields("a/b;a/c(d)"), "a(b;c(d))");
        let insert = Query::parse("insert=after&point=%2Fa", &Method::POST).unwrap().insert;
        assert_eq!(insert, Some(Insert::After("/a".into())));
    }

    #[test]
    fn wrong_parameters_are_refused() {
        let wrong = [
            "depth=0",
            "depth=65536",
            "depth=+1",
            "depth=",
            "depth=1&depth=1",
            "content=some",
            "with-defaults=report-all-tagged",
            "x=1",
            "fields=",
            "fields=a(",
            "fields=a)",
            "fields=a(b",
            "fields=;",
            "fields=a//b",
            "insert=first",
            "depth=%ff",
        ];
        for raw in wrong {
            assert!(read(raw).is_err(), "{raw}");
        }
        assert!(read(&format!("fields={}", "a(".repeat(10_000))).is_err());
        assert!(read(&format!("fields={}", "a/".repeat(10_000))).is_err());
        let many = |number: usize| {
            let names: Vec<String> = (0..number).map(|it| format!("a{it}(b;c/d)")).collect();
            read(&format!("fields={}", names.join(";")))
        };
        assert!(many(200).is_ok() && many(20_000).is_err());
        for raw in ["insert=before", "point=x", "insert=odd", "insert=first&point=x", "depth=1"] {
            assert!(Query::parse(raw, &Method::POST).is_err(), "{raw}");
        }
    }
}
