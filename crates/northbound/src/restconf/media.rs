//! Encodings of requests and responses.

use http::{HeaderMap, StatusCode, header};

use super::fault::Fault;

/// An encoding of YANG data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// RFC 7951.
    Json,
    /// RFC 7950.
    Xml,
}

impl Media {
    /// The name in headers.
    pub fn name(self) -> &'static str {
        match self {
            Media::Json => "application/yang-data+json",
            Media::Xml => "application/yang-data+xml",
        }
    }

    /// The encoding of this media type. Plain JSON and XML are accepted as well.
    fn of(name: &str) -> Option<Media> {
        let name = name.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match name.as_str() {
            "application/yang-data+json" | "application/json" => Some(Media::Json),
            "application/yang-data+xml" | "application/xml" | "text/xml" => Some(Media::Xml),
            _ => None,
        }
    }

    /// The encoding of the response: the one the client prefers, JSON without a preference.
    ///
    /// # Errors
    /// When the client accepts neither.
    pub fn accepted(headers: &HeaderMap) -> Result<Media, Fault> {
        let mut best: Option<(u32, Media)> = None;
        let mut is_asked = false;
        for value in headers.get_all(header::ACCEPT) {
            let Ok(value) = value.to_str() else { continue };
            for one in value.split(',').filter(|one| !one.trim().is_empty()) {
                is_asked = true;
                let (name, rest) = one.split_once(';').unwrap_or((one, ""));
                let media = match name.trim() {
                    "*/*" | "application/*" => Some(Media::Json),
                    name => Media::of(name),
                };
                let quality = rest.split(';').find_map(|it| it.trim().strip_prefix("q="));
                let quality = quality.map_or(1.0, |text| text.trim().parse::<f64>().unwrap_or(0.0));
                // In thousandths, as in the header.
                let quality = (quality.clamp(0.0, 1.0) * 1_000.0).round() as u32;
                if let Some(media) = media
                    && quality > 0
                    && best.is_none_or(|(other, _)| quality > other)
                {
                    best = Some((quality, media));
                }
            }
        }
        match best {
            Some((_, media)) => Ok(media),
            None if !is_asked => Ok(Media::Json),
            None => Err(Fault::protocol(
                StatusCode::NOT_ACCEPTABLE,
                "invalid-value",
                "no acceptable encoding: accept application/yang-data+json or application/yang-data+xml",
            )),
        }
    }

    /// The encoding of errors: JSON, unless the client requests XML.
    pub fn for_faults(headers: &HeaderMap) -> Media {
        match Media::accepted(headers) {
            Ok(media) => media,
            Err(_) => Media::Json,
        }
    }

    /// The encoding of a body.
    ///
    /// # Errors
    /// When it is neither, or missing.
    pub fn content_type(headers: &HeaderMap) -> Result<Media, Fault> {
        let name = headers.get(header::CONTENT_TYPE).and_then(|name| name.to_str().ok());
        name.and_then(Media::of).ok_or_else(|| {
            Fault::protocol(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "invalid-value",
                "wrong or missing Content-Type: send application/yang-data+json or \
                 application/yang-data+xml",
            )
        })
    }
}

/// Text with XML escapes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            // Not representable in XML 1.0.
            letter if letter < ' ' && !matches!(letter, '\t' | '\n' | '\r') => out.push('?'),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(accept: &str) -> Option<Media> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        Media::accepted(&headers).ok()
    }

    #[test]
    fn the_preferred_encoding_is_used() {
        assert_eq!(accepted("*/*"), Some(Media::Json));
        assert_eq!(accepted("application/yang-data+xml"), Some(Media::Xml));
        let both = "application/yang-data+json;q=0.5, application/yang-data+xml;q=0.9";
        assert_eq!(accepted(both), Some(Media::Xml));
        assert_eq!(accepted("text/html, */*;q=0.1"), Some(Media::Json));
        assert_eq!(accepted("text/html"), None);
        assert_eq!(accepted("application/json;q=0"), None);
        assert_eq!(Media::accepted(&HeaderMap::new()).ok(), Some(Media::Json));
    }
}
