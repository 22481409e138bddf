//! Operations on logins of hosts: programs log hosts in and out.

use serde_json::{Value, json};
use stoa_api::login::Key;
use stoa_controller::login::sessions::{New, mac_of};
use stoa_controller::login::{Cause, Limits, Method, Session};

use super::call::Call;
use super::fault::{Fault, Faults};
use super::operation::Input;
use crate::auth::secret;

/// `stoa-login:log-in`.
pub fn log_in(call: &Call, input: &Input) -> Result<(), Faults> {
    let connection = call.app.datastore.connection();
    let interface = input.value("interface").unwrap_or_default();
    let mac = input.value("mac-address").and_then(|it| mac_of(&it));
    let mac = mac.ok_or_else(|| Fault::value("the MAC address is not one of a host"))?;
    let needs_login = connection.with_configuration(|it| {
        it.and_then(|it| it.interfaces.named(&interface)).is_some_and(|it| it.login.is_some())
    });
    if !needs_login {
        let words = format!(
            "hosts of \"{interface}\" need not log in: name an interface with stoa-login:login"
        );
        return Err(Fault::value(words).into());
    }
    let settings = connection.login();
    let some = |seconds: u32| (seconds != 0).then_some(seconds);
    let bytes = u64::from(settings.volume_limit) << 20;
    let new = New {
        host: Key { interface, mac },
        id: secret::number(),
        user: input.value("user").unwrap_or_else(|| "operator".to_owned()),
        method: Method::Api,
        limits: Limits {
            session_s: some(settings.session_timeout),
            idle_s: some(settings.idle_timeout),
            bytes: (bytes != 0).then_some(bytes),
        },
        // Programs know what they do.
        hosts_most: None,
        address: String::new(),
        class: Vec::new(),
        interim_s: None,
    };
    let begun = connection.logins().begin(new);
    begun.map_err(|_| Fault::value("all logins are in use: log out other hosts").into())
}

/// `stoa-login:log-out`.
pub fn log_out(call: &Call, input: &Input) -> Result<Value, Faults> {
    let [interface, user] = ["interface", "user"].map(|leaf| input.value(leaf));
    let mac = match input.value("mac-address") {
        None => None,
        Some(text) => {
            let wrong = || Fault::value("the MAC address is not one of a host");
            Some(mac_of(&text).ok_or_else(wrong)?)
        }
    };
    let meets = |it: &Session| {
        interface.as_ref().is_none_or(|asked| *asked == it.interface)
            && user.as_ref().is_none_or(|asked| *asked == it.user)
            && mac.is_none_or(|asked| asked == it.mac)
    };
    let ended = call.app.datastore.connection().logins().end(Cause::Operator, meets);
    Ok(json!({ "hosts": ended }))
}
