//! The pages: HTML without scripts, in light and dark.

use axum::response::{Html, IntoResponse, Response};
use http::{StatusCode, header};
use stoa_controller::login::Session;

const STYLE: &str = include_str!("style.css");

/// The style of all pages.
pub(super) fn style() -> Response {
    let fields = [
        (header::CONTENT_TYPE, "text/css; charset=utf-8"),
        (header::CACHE_CONTROL, "max-age=3600"),
    ];
    (fields, STYLE).into_response()
}

/// The one place to which the portal redirects.
pub(super) fn home() -> Response {
    (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response()
}

/// A text in HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

fn page(title: &str, content: &str) -> Response {
    let title = escaped(title);
    Html(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <link rel=\"stylesheet\" href=\"/style.css\">\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
         {content}</main>\n</body>\n</html>\n"
    ))
    .into_response()
}

/// The form; `message` says why the last attempt failed, or is empty.
pub(super) fn log_in(title: &str, mark: &str, message: &str) -> Response {
    let message = match message {
        "" => "<p>Log in to use this network.</p>\n".to_owned(),
        words => format!("<p class=\"error\" role=\"alert\">{}</p>\n", escaped(words)),
    };
    page(
        title,
        &format!(
            "{message}<form method=\"post\" action=\"/log-in\">\n\
             <input type=\"hidden\" name=\"mark\" value=\"{}\">\n\
             <label for=\"user\">User</label>\n\
             <input id=\"user\" name=\"user\" autocomplete=\"username\" autocapitalize=\"none\" \
             spellcheck=\"false\" maxlength=\"64\" required autofocus>\n\
             <label for=\"password\">Password</label>\n\
             <input id=\"password\" name=\"password\" type=\"password\" \
             autocomplete=\"current-password\" maxlength=\"1024\" required>\n\
             <button>Log in</button>\n</form>\n",
            escaped(mark)
        ),
    )
}

/// Seconds as people say them.
fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Bytes as people say them.
fn volume(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{} KiB", bytes / 1_024),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes / 1_048_576),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

/// The login of a host, with its log-out.
pub(super) fn status(title: &str, mark: &str, now: u64, session: &Session) -> Response {
    let row = |name: &str, value: String| format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(&value));
    let mut rows = row("User", session.user.clone());
    rows += &row("Logged in for", duration(session.age_s(now)));
    if let Some(left) = session.remaining_s(now) {
        rows += &row("Time left", duration(left));
    }
    rows += &row("Sent", volume(session.total().in_bytes));
    rows += &row("Received", volume(session.total().out_bytes));
    if let Some(left) = session.remaining_bytes() {
        rows += &row("Volume left", volume(left));
    }
    page(
        title,
        &format!(
            "<p class=\"good\">You are logged in.</p>\n<dl>\n{rows}</dl>\n\
             <form method=\"post\" action=\"/log-out\">\n\
             <input type=\"hidden\" name=\"mark\" value=\"{}\">\n<button>Log out</button>\n</form>\n",
            escaped(mark)
        ),
    )
}

/// A page with words alone.
pub(super) fn words(title: &str, words: &str) -> Response {
    page(title, &format!("<p>{}</p>\n", escaped(words)))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn text(response: Response) -> String {
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn nothing_given_becomes_markup() {
        let page = text(log_in("<b>\"'&", "m\"", "<script>")).await;
        assert!(!page.contains("<script>") && !page.contains("<b>"), "{page}");
        assert!(page.contains("&lt;b&gt;&quot;&#39;&amp;"), "{page}");
        assert!(page.contains("value=\"m&quot;\""), "{page}");
    }

    #[test]
    fn times_and_volumes_are_short() {
        let times = [0, 119, 120, 7_199, 7_260, 172_800].map(duration);
        assert_eq!(times, ["0 s", "119 s", "2 min", "119 min", "2 h 1 min", "2 days"]);
        let volumes = [0, 2_048, 5 << 20, 3 << 29].map(volume);
        assert_eq!(volumes, ["0 KiB", "2 KiB", "5 MiB", "1.5 GiB"]);
    }
}
