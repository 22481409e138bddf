//! A router that is silent: its link stays up, but nothing comes from it and nothing arrives.

use stoa_lab::Result;

use super::FourRouters;

/// A MAC address that nobody has.
const NOBODY: &str = "02:00:00:00:00:fe";

impl FourRouters {
    /// Blackholes all packets of a router around Stoa while its link stays up: only protocols with timers detect it.
    /// What it sends goes to a MAC address that nobody has: a rule does not stop sockets that have found their route.
    ///
    /// # Errors
    /// When `ip` fails.
    pub fn silence(&self, label: &str) -> Result<()> {
        for six in [false, true] {
            let gateway = self.scenario.host(label).gateway(six)?.to_string();
            let neighbour = ["neigh", "replace", &gateway, "lladdr", NOBODY, "nud", "permanent"];
            self.around(label).ip(&[&neighbour[..], &["dev", "eth0"]].concat())?;
        }
        for family in ["-4", "-6"] {
            let rule = |words: &[&str]| self.around(label).ip(&[&[family, "rule"], words].concat());
            rule(&["add", "pref", "100", "lookup", "local"])?;
            rule(&["add", "pref", "1", "blackhole"])?;
            rule(&["del", "pref", "0"])?;
        }
        Ok(())
    }

    /// Reverts [`FourRouters::silence`].
    ///
    /// # Errors
    /// When `ip` fails.
    pub fn end_silence(&self, label: &str) -> Result<()> {
        for family in ["-4", "-6"] {
            let rule = |words: &[&str]| self.around(label).ip(&[&[family, "rule"], words].concat());
            rule(&["add", "pref", "0", "lookup", "local"])?;
            rule(&["del", "pref", "1"])?;
            rule(&["del", "pref", "100"])?;
        }
        for six in [false, true] {
            let gateway = self.scenario.host(label).gateway(six)?.to_string();
            self.around(label).ip(&["neigh", "del", &gateway, "dev", "eth0"])?;
        }
        Ok(())
    }
}
