//! Instance paths, which name a node of the data: `/module:list[key='value']/leaf` (RFC 7950, section 9.13).

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// The name as written, with or without its module.
    pub name: &'a str,
    /// What selects an entry, in the order of the path.
    pub predicates: Vec<Predicate<'a>>,
    /// Where the step ends in the path, behind its predicates: a byte.
    pub end: usize,
}

/// A predicate of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predicate<'a> {
    /// The key as written, with or without its module; `.`: the value of a leaf-list; "": the entry has this position.
    pub key: &'a str,
    /// Its value without quotes.
    pub value: &'a str,
}

/// A name without its module.
pub fn bare(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, bare)| bare)
}

/// The steps of an absolute path; none for the root, "/" or "". `None`: it has anything but names, keys with quoted
/// values, and positions.
pub fn steps(path: &str) -> Option<Vec<Step<'_>>> {
    let (mut rest, mut steps) = (path, Vec::new());
    while !matches!(rest, "" | "/") {
        rest = rest.strip_prefix('/')?;
        let end = rest.find(['/', '[']).unwrap_or(rest.len());
        let (name, mut predicates) = (rest[..end].trim(), Vec::new());
        if !is_name(name) {
            return None;
        }
        rest = &rest[end..];
        while let Some(inside) = rest.strip_prefix('[') {
            let (predicate, after) = predicate(inside)?;
            predicates.push(predicate);
            rest = after.trim_start();
        }
        steps.push(Step { name, predicates, end: path.len() - rest.len() });
    }
    Some(steps)
}

/// A predicate behind its bracket, and what follows it.
fn predicate(inside: &str) -> Option<(Predicate<'_>, &str)> {
    let digits = inside.trim_start();
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    if end > 0 {
        let after = digits[end..].trim_start().strip_prefix(']')?;
        return Some((Predicate { key: "", value: &digits[..end] }, after));
    }
    let (key, after) = inside.split_once('=')?;
    let after = after.trim_start();
    let quote = after.chars().next().filter(|first| matches!(first, '\'' | '"'))?;
    let (value, after) = after[1..].split_once(quote)?;
    let after = after.trim_start().strip_prefix(']')?;
    let key = key.trim();
    (key == "." || is_name(key)).then_some((Predicate { key, value }, after))
}

/// Whether this may be a name, with or without its module: nothing of a predicate is in it.
fn is_name(text: &str) -> bool {
    let is_foreign = |letter: char| letter.is_whitespace() || "[]=/'\"".contains(letter);
    !text.is_empty() && !text.contains(is_foreign)
}

/// A path without its predicates. What is no instance path, as some places of libyang, stays as it is.
pub fn without_predicates(path: &str) -> String {
    let Some(steps) = steps(path) else { return path.to_owned() };
    steps.iter().flat_map(|step| ["/", step.name]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, predicates, and the path up to the end of the step.
    type Part<'a> = (&'a str, Vec<(&'a str, &'a str)>, &'a str);

    fn parts(path: &str) -> Option<Vec<Part<'_>>> {
        let mut parts = Vec::new();
        for step in steps(path)? {
            let predicates = step.predicates.iter().map(|it| (it.key, it.value)).collect();
            parts.push((step.name, predicates, &path[..step.end]));
        }
        Some(parts)
    }

    #[test]
    fn a_path_has_names_and_predicates() {
        assert_eq!(parts("/"), Some(vec![]));
        assert_eq!(parts(""), Some(vec![]));
        let route = "/r:routing/rib[ name = \"a/b\" ][m:af='it]s\"']/route[3]/x";
        let expected = [
            ("r:routing", vec![], "/r:routing"),
            (
                "rib",
                vec![("name", "a/b"), ("m:af", "it]s\"")],
                "/r:routing/rib[ name = \"a/b\" ][m:af='it]s\"']",
            ),
            ("route", vec![("", "3")], "/r:routing/rib[ name = \"a/b\" ][m:af='it]s\"']/route[3]"),
            ("x", vec![], route),
        ];
        assert_eq!(parts(route), Some(expected.to_vec()));
        assert_eq!(parts("/a:b/"), Some(vec![("a:b", vec![], "/a:b")]));
        assert_eq!(parts("/a/b[.='ü']").unwrap()[1].1, [(".", "ü")]);
        assert_eq!((bare("a:b"), bare("b")), ("b", "b"));
    }

    #[test]
    fn other_text_is_no_path() {
        for text in
            ["a", "/a//b", "/a[b]", "/a[b=c]", "/a[b='c'", "/a[b='c']d", "/a[b='c]", "/a[1", "//"]
                .into_iter()
                .chain(["/list[a]/x[b='c']", "/a]/b", "/a b", "/a='b'", "/a[='b']", "/a[b c='d']"])
        {
            assert_eq!(parts(text), None, "{text}");
        }
        assert_eq!(without_predicates("/a:b[c='/d']/e[2]"), "/a:b/e");
        assert_eq!(without_predicates("a[b]"), "a[b]");
    }
}
