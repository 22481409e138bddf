//! Query parameters of RFC 8040, section 4.8.

use http::Method;
use percent_encoding::percent_decode_str;
use yang5::data::DataPrinterFlags;

use super::fault::Fault;

/// How deep `fields` may be nested.
const NESTED: usize = 32;

/// How many names `fields` may have.
const NAMES: usize = 1_000;

/// Which of the data is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Configuration and facts.
    #[default]
    All,
    /// Configuration.
    Config,
    /// Facts.
    Nonconfig,
}

/// What becomes of values that are defaults (RFC 6243).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Defaults {
    /// What was configured, default or not.
    #[default]
    Explicit,
    /// All that holds.
    ReportAll,
    /// What is not the default.
    Trim,
}

impl Defaults {
    /// How libyang prints so.
    pub fn flags(self) -> DataPrinterFlags {
        match self {
            Defaults::Explicit => DataPrinterFlags::WD_EXPLICIT,
            Defaults::ReportAll => DataPrinterFlags::WD_ALL,
            Defaults::Trim => DataPrinterFlags::WD_TRIM,
        }
    }
}

/// A selection of `fields`: nodes by name, each with what is wanted below; nothing: all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The module, when it was said.
    pub module: Option<String>,
    /// The name.
    pub name: String,
    /// What is wanted below.
    pub below: Vec<Field>,
}

/// Where a new entry goes in a list that its users order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Insert {
    /// Before all others.
    First,
    /// After all others.
    Last,
    /// Before that one, by its path in a URL.
    Before(String),
    /// After that one.
    After(String),
}

/// All parameters of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Which data.
    pub content: Content,
    /// Levels below the target, itself counted; `None`: all.
    pub depth: Option<u32>,
    /// Which nodes; `None`: all.
    pub fields: Option<Vec<Field>>,
    /// What becomes of defaults.
    pub defaults: Defaults,
    /// Where a new entry goes.
    pub insert: Option<Insert>,
}

fn refused(message: String) -> Fault {
    Fault::value(message)
}

impl Query {
    /// The parameters of a URL.
    ///
    /// # Errors
    /// When one is unknown, comes twice, is not for this method, or has a value that it cannot have.
    pub fn parse(raw: &str, method: &Method) -> Result<Query, Fault> {
        let mut query = Query::default();
        let mut seen: Vec<String> = Vec::new();
        let (mut insert, mut point) = (None, None);
        for pair in raw.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8();
            let value = value.map_err(|_| refused(format!("{name} is not UTF-8")))?;
            if seen.iter().any(|one| one == name) {
                return Err(refused(format!("the parameter {name} is given twice")));
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

    /// Whether all of the target is asked for.
    pub fn is_whole(&self) -> bool {
        self.depth.is_none() && self.fields.is_none()
    }
}

fn content(value: &str) -> Result<Content, Fault> {
    match value {
        "all" => Ok(Content::All),
        "config" => Ok(Content::Config),
        "nonconfig" => Ok(Content::Nonconfig),
        _ => Err(refused("content is all, config or nonconfig".into())),
    }
}

fn depth(value: &str) -> Result<Option<u32>, Fault> {
    if value == "unbounded" {
        return Ok(None);
    }
    let number = value.parse::<u32>().ok().filter(|number| (1..=65_535).contains(number));
    let number = number.filter(|_| value.bytes().all(|byte| byte.is_ascii_digit()));
    number.map(Some).ok_or_else(|| refused("depth is unbounded, or 1 to 65535".into()))
}

fn defaults(value: &str) -> Result<Defaults, Fault> {
    match value {
        "explicit" => Ok(Defaults::Explicit),
        "report-all" => Ok(Defaults::ReportAll),
        "trim" => Ok(Defaults::Trim),
        _ => Err(refused("with-defaults is explicit, report-all or trim".into())),
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
            "insert is first or last, or before or after with the entry that is its point".into(),
        )),
    }
}

/// `a;b(c;d)/e`: names, paths, and selections below in brackets.
fn fields(text: &str) -> Result<Vec<Field>, Fault> {
    // Every name is compared with those beside it: more of them than any model has would cost their square.
    if text.matches([';', '/', '(']).count() >= NAMES {
        return Err(refused(format!("fields has more than {NAMES} names")));
    }
    let mut rest = text;
    let found = selection(&mut rest, 0)?;
    match rest.is_empty() {
        true => Ok(found),
        false => Err(refused(format!("fields cannot be read from {rest:?} on"))),
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

/// One path of the selection: the same node twice is wanted with all that is wanted below either.
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
            return Err(refused("fields has a name that is empty, or a path too long".into()));
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
