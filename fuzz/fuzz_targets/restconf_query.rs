//! RESTCONF query parameters: parsed or rejected, with a bounded number of `fields`.
#![no_main]

use http::Method;
use libfuzzer_sys::fuzz_target;
use stoa_northbound::restconf::query::{Field, Query};

fn count(fields: &[Field]) -> usize {
    fields.iter().map(|field| 1 + count(&field.below)).sum()
}

fuzz_target!(|raw: &str| {
    for method in [Method::GET, Method::POST, Method::DELETE] {
        let Ok(query) = Query::parse(raw, &method) else { continue };
        if let Some(fields) = &query.fields {
            let names = count(fields);
            assert!(method == Method::GET && (1..=1_000).contains(&names), "{names}");
        }
        assert!(query.insert.is_none() || method == Method::POST);
        assert!(query.depth.is_none_or(|depth| (1..=65_535).contains(&depth)));
    }
});
