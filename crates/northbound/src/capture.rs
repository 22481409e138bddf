//! `GET /capture`: a live capture as pcapng, limited in time, packets and bytes. It needs the right to call the
//! operation `stoa-forwarder:capture`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, header};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use stoa_api::v1::{CaptureDirection, CaptureReply, CaptureRequest};
use stoa_controller::capture::pcapng::PcapNg;
use stoa_controller::capture::{self, Sink};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::{Code, Status, Streaming};

use crate::audit::AuditRecord;
use crate::auth::Identity;
use crate::nacm::Rights;
use crate::server::app::origin::refusal as foreign;
use crate::server::app_state::{AppState, answer_denied, failure, peer};
use crate::server::quota::QuotaSlot;

/// The module of the operation.
pub const MODULE: &str = "stoa-forwarder";
/// The name of the operation.
pub const NAME: &str = "capture";
/// Maximum size of a capture: 256 MiB. It ends there.
const BYTES: usize = 256 << 20;
/// Interval between checks of the user's rights while no frames arrive.
const RIGHTS_INTERVAL: Duration = Duration::from_secs(1);
/// How long a client may read nothing.
const PATIENCE: Duration = Duration::from_secs(30);
/// Concurrent captures over HTTP; one client can have half of them.
const CAPTURES: usize = 4;
/// Chunks that wait for a slow client; further frames wait in the forwarder, or are lost there.
const PIECES: usize = 4;

/// The parameters of a capture, with the defaults of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureParameters {
    /// The interface, or "any".
    pub interface: String,
    /// Packets, 1 to 1,000,000.
    pub packets: u64,
    /// Time, 1 to 3,600 s.
    pub seconds: u64,
    /// Bytes of each frame, 0 to 65,535; 0: all.
    pub snap_length: u32,
    /// Directions; empty: received and sent.
    pub directions: Vec<CaptureDirection>,
    /// A filter as for tcpdump; "": every packet.
    pub filter: String,
}

impl Default for CaptureParameters {
    fn default() -> CaptureParameters {
        CaptureParameters {
            interface: "any".into(),
            packets: 1_000,
            seconds: 60,
            snap_length: 0,
            directions: Vec::new(),
            filter: String::new(),
        }
    }
}

impl CaptureParameters {
    /// Reads the parameters of a URL.
    ///
    /// # Errors
    /// The wrong parameter and its valid values.
    pub fn parse(query: &str) -> Result<CaptureParameters, String> {
        let mut parameters = CaptureParameters::default();
        let mut seen: Vec<&str> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if seen.contains(&name) && name != "direction" {
                return Err(format!("parameter {name} occurs twice: give it once"));
            }
            seen.push(name);
            // Forms encode a space as +.
            let value = value.replace('+', " ");
            let value = percent_decode_str(&value).decode_utf8();
            parameters.set(name, &value.map_err(|_| format!("{name} is not UTF-8"))?)?;
        }
        Ok(parameters)
    }

    /// Sets one parameter.
    ///
    /// # Errors
    /// When the parameter is unknown or its value is invalid.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = |low: u64, high: u64| {
            let number = value.parse::<u64>().ok().filter(|it| (low..=high).contains(it));
            number.ok_or_else(|| format!("{name} must be a number from {low} to {high}"))
        };
        let text = |most: usize| {
            let is_text = value.len() <= most && !value.contains(char::is_control);
            is_text.then(|| value.to_owned()).ok_or(format!(
                "{name} must have at most {most} characters, none of them control characters"
            ))
        };
        match name {
            "interface" if value.is_empty() => {
                return Err("interface must be a name, or any".into());
            }
            "interface" => self.interface = text(64)?,
            "packets" => self.packets = number(1, 1_000_000)?,
            "seconds" => self.seconds = number(1, 3_600)?,
            "snap-length" => self.snap_length = number(0, 65_535)? as u32,
            "filter" => self.filter = text(2_048)?,
            "direction" => self.directions.push(match value {
                "rx" => CaptureDirection::Rx,
                "tx" => CaptureDirection::Tx,
                "drop" => CaptureDirection::Drop,
                _ => return Err("direction must be rx, tx or drop".into()),
            }),
            _ => {
                let name: String = name.chars().take(64).collect();
                return Err(format!(
                    "unknown parameter {name:?}: use interface, packets, seconds, snap-length, \
                    direction and filter"
                ));
            }
        }
        Ok(())
    }

    /// The URL of this capture.
    pub fn url(&self) -> String {
        let text = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let mut url = format!("/capture?interface={}", text(&self.interface));
        url.push_str(&format!("&packets={}&seconds={}", self.packets, self.seconds));
        if self.snap_length > 0 {
            url.push_str(&format!("&snap-length={}", self.snap_length));
        }
        for direction in &self.directions {
            let name = match direction {
                CaptureDirection::Rx => "rx",
                CaptureDirection::Tx => "tx",
                CaptureDirection::Drop => "drop",
            };
            url.push_str(&format!("&direction={name}"));
        }
        if !self.filter.is_empty() {
            url.push_str(&format!("&filter={}", text(&self.filter)));
        }
        url
    }

    fn request(&self) -> CaptureRequest {
        CaptureRequest {
            interface: self.interface.clone(),
            directions: self.directions.iter().map(|one| (*one).into()).collect(),
            expression: self.filter.clone(),
            filter: Vec::new(),
            snap_length: self.snap_length,
            count: self.packets,
        }
    }

    /// The file name for a browser.
    fn file(&self) -> String {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        format!("stoa-{}.pcapng", self.interface.chars().map(plain).collect::<String>())
    }
}

/// Answers a request for a capture.
pub async fn serve(State(app): State<Arc<AppState>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let identity = match app.identify(&parts).await {
        Ok(identity) => identity,
        Err(denied) => return answer_denied(&parts, &denied),
    };
    // A capture costs the router more than other reads: pages of other sites must not start one.
    if let Some(words) = foreign(&Method::POST, &parts.uri, &parts.headers) {
        return failure(StatusCode::FORBIDDEN, words);
    }
    let note = |is_done: bool, result: &str| {
        let parameters = parts.uri.path_and_query().map_or("", |parameters| parameters.as_str());
        let (what, from) = (format!("GET {parameters}"), Some(peer(&parts).address));
        let user = &identity.name;
        let record = AuditRecord { user, from, client: "capture", what: &what, result };
        app.audit.write_result(is_done, &record);
    };
    if !Rights::of(&identity, &app.management()).may_call(MODULE, NAME) {
        note(false, "forbidden");
        let words = "access denied: a capture needs the right to call \
                     stoa-forwarder:capture, see ietf-netconf-acm:nacm";
        return failure(StatusCode::FORBIDDEN, words);
    }
    match begin(&app, &parts, &identity).await {
        Ok(response) => {
            note(true, "begun");
            response
        }
        Err((status, words)) => {
            note(false, &words);
            let mut response = failure(status, words);
            if status == StatusCode::SERVICE_UNAVAILABLE {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            response
        }
    }
}

async fn begin(
    app: &Arc<AppState>,
    parts: &Parts,
    identity: &Identity,
) -> Result<Response, (StatusCode, String)> {
    let parameters = CaptureParameters::parse(parts.uri.query().unwrap_or_default());
    let parameters = parameters.map_err(|words| (StatusCode::BAD_REQUEST, words))?;
    let (from, most) = (peer(parts).address, CAPTURES / 2);
    let quota = app.captures.take(from, Some(&identity.name), most, CAPTURES);
    let quota = quota.ok_or_else(|| {
        let words = format!(
            "too many captures: the limit is {CAPTURES}, and {most} for one user or address: stop one"
        );
        (StatusCode::TOO_MANY_REQUESTS, words)
    })?;
    let frames = capture::open(app.datastore.connection(), parameters.request()).await;
    let frames = frames.map_err(|status| (status_of(&status), status.message().to_owned()))?;
    let broken = |error: io::Error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    let underway = ActiveCapture {
        frames,
        file: PcapNg::new(Vec::new(), parameters.snap_length).map_err(broken)?,
        left: BYTES,
        until: Instant::now() + Duration::from_secs(parameters.seconds),
        app: Arc::clone(app),
        identity: identity.clone(),
        _share: quota,
    };
    let (sender, receiver) = mpsc::channel(PIECES);
    tokio::spawn(underway.run(sender));
    let mut response = Body::from_stream(pieces(receiver)).into_response();
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-pcapng"));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let name = format!("attachment; filename=\"{}\"", parameters.file());
    if let Ok(name) = HeaderValue::try_from(name) {
        fields.insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

fn pieces(receiver: mpsc::Receiver<io::Result<Bytes>>) -> impl Stream<Item = io::Result<Bytes>> {
    stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|piece| (piece, receiver))
    })
}

/// The HTTP status for an error of the forwarder.
pub fn status_of(status: &Status) -> StatusCode {
    match status.code() {
        Code::InvalidArgument | Code::FailedPrecondition => StatusCode::BAD_REQUEST,
        Code::NotFound => StatusCode::NOT_FOUND,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// A running capture. It ends on drop.
struct ActiveCapture {
    frames: Streaming<CaptureReply>,
    file: PcapNg<Vec<u8>>,
    left: usize,
    until: Instant,
    app: Arc<AppState>,
    identity: Identity,
    _share: QuotaSlot,
}

impl ActiveCapture {
    /// Sends until the capture ends. It is a task of its own, so that a client that reads nothing occupies no slot
    /// beyond its time.
    async fn run(mut self, sender: mpsc::Sender<io::Result<Bytes>>) {
        loop {
            let piece = match self.piece(&sender).await {
                Ok(Some(piece)) => Ok(piece),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            let is_last = piece.is_err();
            let patience = self.until.min(Instant::now() + PATIENCE);
            let sent = tokio::time::timeout_at(patience, sender.send(piece)).await;
            if is_last || !matches!(sent, Ok(Ok(()))) {
                return;
            }
        }
    }

    /// The next bytes; `None` at the end of the capture.
    async fn piece(
        &mut self,
        sender: &mpsc::Sender<io::Result<Bytes>>,
    ) -> io::Result<Option<Bytes>> {
        loop {
            let management = self.app.management();
            // A removed user, or one without the right, receives no more.
            let Some(identity) = self.app.authenticator.reauthenticate(&management, &self.identity)
            else {
                return Ok(None);
            };
            if !Rights::of(&identity, &management).may_call(MODULE, NAME) {
                return Ok(None);
            }
            self.identity = identity;
            if self.left == 0 || sender.is_closed() || Instant::now() >= self.until {
                return Ok(None);
            }
            let next = tokio::time::timeout_at(
                self.until.min(Instant::now() + RIGHTS_INTERVAL),
                self.frames.message(),
            );
            let reply = match next.await {
                Err(_) => continue,
                Ok(reply) => {
                    reply.map_err(|status| io::Error::other(status.message().to_owned()))?
                }
            };
            let Some(reply) = reply else { return Ok(None) };
            self.file.interfaces(&reply.interfaces)?;
            for frame in &reply.frames {
                // A block adds 64 bytes and a comment to the frame.
                let size = frame.data.len() + 512;
                if size > self.left {
                    self.left = 0;
                    break;
                }
                self.left -= size;
                self.file.frame(frame)?;
            }
            let piece = std::mem::take(self.file.out());
            if !piece.is_empty() {
                return Ok(Some(piece.into()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parameters_have_bounds() {
        let parameters = CaptureParameters::parse(
            "interface=wan%2F1&packets=5&direction=rx&direction=drop&filter=icmp+or+arp",
        );
        let parameters = parameters.unwrap();
        assert_eq!(
            (parameters.interface.as_str(), parameters.packets, parameters.seconds),
            ("wan/1", 5, 60)
        );
        assert_eq!(parameters.directions, [CaptureDirection::Rx, CaptureDirection::Drop]);
        assert_eq!(parameters.filter, "icmp or arp");
        assert_eq!(parameters.file(), "stoa-wan-1.pcapng");
        assert_eq!(
            CaptureParameters::parse(parameters.url().split_once('?').unwrap().1),
            Ok(parameters)
        );
        for wrong in [
            "packets=0",
            "packets=1000001",
            "packets=-1",
            "seconds=3601",
            "snap-length=65536",
            "direction=up",
            "color=red",
            "packets=1&packets=1",
            "interface=",
            "filter=%ff",
            "interface=a%0Ab",
        ] {
            assert!(CaptureParameters::parse(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_query_is_read_or_refused(query in "[a-z0-9=&%+-]{0,60}|.{0,40}") {
            if let Ok(parameters) = CaptureParameters::parse(&query) {
                prop_assert!(parameters.packets >= 1 && parameters.seconds <= 3_600);
                let url = parameters.url();
                prop_assert_eq!(CaptureParameters::parse(url.split_once('?').unwrap().1), Ok(parameters));
            }
        }
    }
}
