//! Logins with a password: users of the configuration or of RADIUS servers, one attempt after the other, and the
//! lockout after failures.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use stoa_controller::config::management::{Management, Radius, User};

use super::account::Account;
use super::attempt_queue::AttemptQueues;
use super::lockout::Lockout;
use super::password::Passwords;
use super::radius::packet::Station;
use super::radius::{NoRadiusReply, Servers};
use super::{Denied, find, is_name};

/// The parts of a password login. A login goes on when the client disconnects.
#[derive(Debug, Default)]
pub struct PasswordLogin {
    passwords: Passwords,
    pub(super) servers: Servers,
    pub(super) lockout: Lockout,
    attempts: AttemptQueues,
    /// Logins that RADIUS servers decide. They may wait long and must not delay users of the configuration.
    radius_attempts: AttemptQueues,
}

/// Where a password is verified.
#[derive(Debug)]
enum PasswordSource {
    /// The hash of this user; `None`: unknown user, for whom the hash of another one is compared.
    Hash(Option<User>, Option<String>),
    /// These RADIUS servers.
    Servers(Radius),
}

impl PasswordSource {
    /// Users of the configuration take precedence over RADIUS.
    fn of(management: &Management, name: &str, passwords: &Passwords) -> PasswordSource {
        let user = find(management, name);
        if user.is_some() || management.radius.server.is_empty() || !is_name(name) {
            let other = passwords.other(name, &management.user);
            return PasswordSource::Hash(user.cloned(), other);
        }
        PasswordSource::Servers(management.radius.clone())
    }
}

/// Where a login comes from: an address, and the host if one logs in.
type Origin = (IpAddr, Option<Station>);

impl PasswordLogin {
    /// The RADIUS servers.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Verifies a name and password of a user of the router, or of the user of a host.
    ///
    /// # Errors
    /// When they are wrong, or were wrong too often.
    pub async fn log_in(
        self: &Arc<Self>,
        management: &Management,
        from: Origin,
        name: &str,
        password: &str,
    ) -> Result<Account, Denied> {
        let source = PasswordSource::of(management, name, &self.passwords);
        // Recently verified credentials are no guess: an attacker at the same address cannot lock them out.
        if let Some(account) = self.was_verified(name, password, &from, &source) {
            self.lockout.succeeded(name, from.0, Instant::now());
            return Ok(account);
        }
        let login = Arc::clone(self);
        let (name, password) = (name.to_owned(), password.to_owned());
        let claimed = name.clone();
        // A task of its own: the attempt counts even when the client disconnects.
        let tried =
            tokio::spawn(async move { login.try_password(from, &name, &password, &source).await });
        tried.await.unwrap_or(Err(Denied::Busy(claimed)))
    }

    /// The account, if these credentials were verified recently.
    fn was_verified(
        &self,
        name: &str,
        password: &str,
        from: &Origin,
        source: &PasswordSource,
    ) -> Option<Account> {
        match source {
            PasswordSource::Hash(user, _) => {
                let user = user.as_ref()?;
                let hash = user.password_hash.as_deref();
                let was_verified = self.passwords.was_verified(name, password, hash);
                was_verified.then(|| Account::local(user))
            }
            // A server may count the hosts of a user.
            PasswordSource::Servers(_) if from.1.is_some() => None,
            PasswordSource::Servers(settings) => {
                self.servers.was_verified(settings, name, password)
            }
        }
    }

    /// One attempt, after those before it in the queue. A locked-out client is refused without a comparison.
    async fn try_password(
        &self,
        origin: Origin,
        name: &str,
        password: &str,
        source: &PasswordSource,
    ) -> Result<Account, Denied> {
        let from = origin.0;
        let wait = || match self.lockout.wait(name, from, Instant::now()) {
            Some(wait) => Err(Denied::Wait(name.to_owned(), wait)),
            None => Ok(()),
        };
        wait()?;
        let busy = || Denied::Busy(name.to_owned());
        let attempts = match source {
            PasswordSource::Hash(..) => &self.attempts,
            PasswordSource::Servers(_) => &self.radius_attempts,
        };
        let is_known = self.lockout.is_known(name, from, Instant::now());
        let slot = attempts.slot(from, is_known || from.is_loopback()).ok_or_else(busy)?;
        let _turn = slot.turn.acquire().await.map_err(|_| busy())?;
        let account = match self.was_verified(name, password, &origin, source) {
            Some(account) => Some(account),
            None => {
                wait()?;
                self.compare(&origin, name, password, source).await?
            }
        };
        let account = account.ok_or_else(|| self.wrong(name, from))?;
        self.lockout.succeeded(name, from, Instant::now());
        Ok(account)
    }

    async fn compare(
        &self,
        (from, station): &Origin,
        name: &str,
        password: &str,
        source: &PasswordSource,
    ) -> Result<Option<Account>, Denied> {
        match source {
            PasswordSource::Hash(user, other) => {
                let hash = user.as_ref().and_then(|user| user.password_hash.as_deref());
                let is_right = self.passwords.check(name, password, (hash, other.as_deref())).await;
                Ok(user.as_ref().filter(|_| is_right).map(Account::local))
            }
            PasswordSource::Servers(settings) => {
                let from = (*from, station.as_ref());
                let asked = self.servers.ask(settings, from, name, password).await;
                asked.map_err(|NoRadiusReply| Denied::NoRadiusReply(name.to_owned()))
            }
        }
    }

    pub(super) fn wrong(&self, name: &str, from: IpAddr) -> Denied {
        let delay = self.lockout.failed(name, from, Instant::now());
        tracing::warn!(
            user = name.chars().take(64).collect::<String>(),
            %from,
            delay_s = delay.as_secs(),
            "login failed"
        );
        Denied::Wrong(name.to_owned(), delay)
    }
}
