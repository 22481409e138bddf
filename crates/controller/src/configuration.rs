//! A configuration: from the text of a file to the desired state.
//!
//! Three steps, each of which reports all its errors: the text is JSON, it is valid by the YANG modules, and the checks
//! of the capabilities accept it.

mod contents;
mod dependents;
mod part;
mod routes_of_part;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stoa_api::v1;
use stoa_yang::error::{ValidationError, ValidationErrors, counted as counted_errors, one};
use yang5::data::{DataFormat, DataTree};

use crate::acl;
use crate::capability::list;
use crate::config::addresses::Addressing;
use crate::config::data_path::predicate;
use crate::config::management::Management;
use crate::config::model::Login;
use crate::config::route_sources::RouteSourceConfig;
use crate::config::routes::{FloatingStaticRoutes, Key};
use crate::config::{self, Interfaces, host_bits};
pub use crate::configuration_text::ConfigurationText;
use crate::linux::peer::unknown_users;
use crate::linux::shared_namespaces;
use crate::rib::{self, RouteAnnotation, Routes};
use crate::warning::{PROTOCOL, Warning, interface_node};
use crate::{flow_sync, ipfix, ipsec, nat};
pub(crate) use part::{Bulk, ChangedPart};

/// Largest configuration file, in bytes.
pub const SIZE_LIMIT_BYTES: u64 = 256 << 20;

/// The number of workers.
const WORKERS: &str = "/stoa-system:system/workers/count";

/// Overlapping subnets that are listed.
const OVERLAPS_LIMIT: usize = 20;

/// Deepest nesting of arrays and objects.
const DEPTH_LIMIT: usize = 64;

/// The data of a configuration without defaults.
pub(crate) type Given = DataTree<'static>;

/// A valid configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// The file it came from.
    pub path: PathBuf,
    /// Its text.
    pub text: ConfigurationText,
    /// The desired state of the forwarder, without its interfaces and routes.
    pub desired: v1::Desired,
    /// The interfaces of the desired state, which configurations may share.
    pub interfaces: Interfaces,
    /// The routes of the desired state, which configurations may share.
    pub routes: Routes,
    /// Addresses and subnets of the interfaces, which decide about static routes.
    pub addressing: Arc<Addressing>,
    /// Whether direct routes hide static ones.
    pub(crate) has_hidden: bool,
    /// Notes on routes with recursive next hops.
    pub annotations: Arc<BTreeMap<Key, RouteAnnotation>>,
    /// StaticRoute routes that are weighed against learned ones.
    pub floating: Arc<FloatingStaticRoutes>,
    /// The route sources.
    pub route_sources: Arc<[RouteSourceConfig]>,
    /// The numbers of the kernel tables of VRFs.
    pub kernel_tables: Arc<[(String, u32)]>,
    /// Users, access rules and servers of the management.
    pub management: Arc<Management>,
    /// The portal where hosts log in, and their users.
    pub login: Arc<Login>,
}

impl Configuration {
    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    /// All errors, each with its path, cause and fix.
    pub fn read(path: &Path) -> Result<Configuration, Vec<ValidationError>> {
        Ok(Configuration::read_as_data(path)?.0)
    }

    /// As [`Configuration::read`], with the data.
    pub(crate) fn read_as_data(
        path: &Path,
    ) -> Result<(Configuration, Given), Vec<ValidationError>> {
        let file = path.display().to_string();
        let size = std::fs::metadata(path).map(|data| data.len());
        if let Ok(size) = size
            && size > SIZE_LIMIT_BYTES
        {
            return Err(one(
                file,
                format!("the file has {size} bytes, more than {SIZE_LIMIT_BYTES}"),
                "Use a smaller configuration.",
            ));
        }
        let bytes = std::fs::read(path).map_err(|error| {
            let fix = match error.kind() {
                std::io::ErrorKind::NotFound => "Check the path; examples/ has examples.",
                std::io::ErrorKind::PermissionDenied => "Make it readable for this user.",
                _ => "Check that it is a readable file.",
            };
            one(&file, format!("cannot be read: {error}"), fix)
        })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            one(&file, format!("byte {at} is not UTF-8 text"), "Save the file as UTF-8.")
        })?;
        Configuration::parse_as_data(path, text)
    }

    /// Checks a configuration that was read from `path`.
    ///
    /// # Errors
    /// As [`Configuration::read`].
    pub fn parse(path: &Path, text: String) -> Result<Configuration, Vec<ValidationError>> {
        Ok(Configuration::parse_as_data(path, text)?.0)
    }

    /// As [`Configuration::parse`], with the data.
    pub(crate) fn parse_as_data(
        path: &Path,
        text: String,
    ) -> Result<(Configuration, Given), Vec<ValidationError>> {
        json(path, &text)?;
        let parsed = stoa_yang::schema().parse(&text, DataFormat::JSON).and_then(|given| {
            let mut errors = ValidationErrors::default();
            host_bits::check(path, &text, &mut errors);
            Ok((Configuration::of(path, &text, &given, errors)?, given))
        });
        // A second pass validates the text itself, whose errors have line numbers.
        parsed.map_err(|errors| match stoa_yang::schema().errors_in(&text) {
            with_lines if with_lines.is_empty() => errors,
            with_lines => with_lines,
        })
    }

    /// Checks the data of a client; `text` is their text.
    ///
    /// # Errors
    /// As [`Configuration::read`].
    pub(crate) fn of_data(
        path: &Path,
        text: &str,
        given: &Given,
    ) -> Result<Configuration, Vec<ValidationError>> {
        Configuration::of(path, text, given, ValidationErrors::default())
    }

    /// Checks the whole configuration, and adds its errors to `errors`.
    fn of(
        path: &Path,
        text: &str,
        given: &Given,
        mut errors: ValidationErrors,
    ) -> Result<Configuration, Vec<ValidationError>> {
        let valid = stoa_yang::schema().validate(given)?;
        let translated = list::translate(&valid, &mut errors)?;
        if !errors.is_empty() {
            return Err(errors.into_vec());
        }
        let config::Translated { mut desired, addressing, statics, floating, .. } = translated;
        let rib::Rib { routes, annotations, has_hidden } = rib::routes(&addressing, &statics);
        let interfaces: Interfaces = std::mem::take(&mut desired.interfaces).into();
        let around = nat::Around {
            interfaces: &interfaces,
            addressing: &addressing,
            sources: &translated.route_sources,
            management: &translated.management,
            login: &translated.login,
        };
        nat::refuse_own_ports(&desired, around, &mut errors);
        if !errors.is_empty() {
            return Err(errors.into_vec());
        }
        nat::own_ports(&mut desired, around);
        Ok(Configuration {
            path: path.to_owned(),
            text: text.into(),
            interfaces,
            desired,
            routes,
            has_hidden,
            addressing: Arc::new(addressing),
            annotations: Arc::new(annotations),
            floating: Arc::new(floating),
            route_sources: translated.route_sources.into(),
            kernel_tables: translated.kernel_tables.into(),
            management: Arc::new(translated.management),
            login: Arc::new(translated.login),
        })
    }

    /// The whole desired state of the forwarder.
    pub fn whole_desired(&self) -> v1::Desired {
        v1::Desired { routes: self.routes.to_vec(), ..self.without_routes() }
    }

    /// The desired state of the forwarder without its routes, of which there may be a million.
    pub fn without_routes(&self) -> v1::Desired {
        v1::Desired { interfaces: self.interfaces.to_vec(), ..self.desired.clone() }
    }

    /// What the forwarder would refuse of it. `check` is the forwarder's own check.
    ///
    /// # Errors
    /// All errors of `check`.
    pub fn check_by(
        &self,
        check: impl Fn(&v1::Desired) -> Result<(), Vec<v1::ValidationError>>,
    ) -> Result<(), Vec<ValidationError>> {
        check(&self.whole_desired()).map_err(counted_errors)
    }

    /// Problems that are no errors, such as inactive routes; one line each.
    pub fn warnings(&self) -> Vec<Warning> {
        let workers = self.desired.workers.as_ref().map_or(1, |workers| workers.count);
        let unused = self.desired.ports.iter().filter(|port| port.software_rss && workers == 1);
        let unused = unused.map(|port| {
            let name = &port.interface;
            let text = format!(
                "interface {name}: software-rss does nothing with one worker: raise workers/count"
            );
            let mut warning =
                Warning::of_interface(name, &["stoa-interfaces:port/software-rss"], text);
            warning.nodes.push(WORKERS.into());
            warning
        });
        let annotated =
            self.annotations.iter().filter(|(_, annotation)| !annotation.reasons.is_empty());
        let line = |((vrf, prefix), annotation): (&Key, &RouteAnnotation)| {
            let vrf = if vrf.is_empty() { String::new() } else { format!(" of VRF {vrf}") };
            let how = if annotation.is_inactive { "inactive" } else { "partly active" };
            let text = format!("route {prefix}{vrf} is {how}: {}", annotation.reasons.join("; "));
            // The reasons tell about routes of other instances, and about VRFs.
            Warning { text, nodes: vec![PROTOCOL.to_owned()] }
        };
        let unknown = self.route_sources.iter().flat_map(|it| unknown_users(it).into_iter().map(|user| {
            let name = &it.source.name;
            let text = format!(
                "route source {name}: this machine has no user \"{user}\" (peer-user), so no daemon of that name can connect: \
                 create the user, or correct the name"
            );
            let node = format!("{PROTOCOL}{}/stoa-routing:route-source/peer-user", predicate("name", name));
            Warning { text, nodes: vec![node] }
        }));
        let found = annotated.map(line).chain(unused).chain(unknown);
        let shared = shared_namespaces::warnings(&self.interfaces, &self.routes);
        let (desired, interfaces) = (&self.desired, &self.interfaces);
        let of_acls = acl::warnings(&desired.acl_rules, (interfaces, &desired.zone_pairs));
        let of_zones =
            acl::zone_warnings(desired, (interfaces, &self.addressing), &self.route_sources);
        let of_cookies = acl::cookie_warnings(desired, interfaces);
        let around = nat::Around {
            interfaces,
            addressing: &self.addressing,
            sources: &self.route_sources,
            management: &self.management,
            login: &self.login,
        };
        let of_acls = of_acls.into_iter().chain(of_zones).chain(of_cookies);
        let of_acls = of_acls.chain(acl::flow_limit_warnings(desired, interfaces));
        let of_acls = of_acls.chain(nat::warnings(desired, around));
        let of_acls = of_acls.chain(ipfix::warnings(desired));
        let of_acls = of_acls.chain(flow_sync::warnings(desired)).chain(ipsec::warnings(desired));
        found.chain(self.overlaps()).chain(shared).chain(of_acls).collect()
    }

    /// Connected subnets that overlap.
    fn overlaps(&self) -> Vec<Warning> {
        let all = self.addressing.tables().flat_map(|(vrf, table)| {
            let within = if vrf.is_empty() { String::new() } else { format!(" in VRF {vrf}") };
            table.overlaps().map(move |(net, interface, larger, other)| {
                let family = if net.addr().is_ipv4() { "ietf-ip:ipv4" } else { "ietf-ip:ipv6" };
                let parts = if vrf.is_empty() { vec![family] } else { vec![family, "stoa-vrf:vrf"] };
                let text = format!(
                    "interface {interface}: its subnet {net} is part of {larger} of interface {other}{within}: packets \
                     to {net} leave by {interface}"
                );
                let mut warning = Warning::of_interface(interface, &parts, text);
                warning.nodes.extend(parts.iter().map(|part| interface_node(other, part)));
                warning
            })
        });
        all.take(OVERLAPS_LIMIT).collect()
    }

    /// A warning if the file contains secrets that others than its owner can read.
    pub fn exposed_secrets(&self) -> Option<String> {
        stoa_yang::secrets::exposed(&self.path, &self.text.get().unwrap_or_default())
    }

    /// A summary in one line.
    pub fn summary(&self) -> String {
        let desired = &self.desired;
        let ports = desired.ports.len();
        let subs = self.interfaces.len() - ports;
        let fixed = v1::Protocol::Static as i32;
        let active = self.routes.iter().filter(|route| route.protocol == fixed).count();
        let inactive =
            self.annotations.values().filter(|annotation| annotation.is_inactive).count();
        let idle = if inactive > 0 { format!(" ({inactive} inactive)") } else { String::new() };
        let workers = desired.workers.as_ref().map_or(1, |workers| workers.count);
        format!(
            "{}, {}, {}{idle}, {}",
            counted(ports, "port"),
            counted(subs, "sub-interface"),
            counted(active + inactive + self.floating.len(), "static route"),
            counted(workers as usize, "worker"),
        )
    }
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Checks that the text is one JSON object of bounded depth. serde_json reports line and column, libyang does not.
fn json(path: &Path, text: &str) -> Result<(), Vec<ValidationError>> {
    let parsed: Result<serde::de::IgnoredAny, _> = serde_json::from_str(text);
    let place = |line, column| format!("{}:{line}:{column}", path.display());
    if text.trim().is_empty() {
        return Err(one(
            path.display().to_string(),
            "the file is empty",
            "Write a configuration into it, as in examples/two-hosts.json.",
        ));
    }
    if text.starts_with('\u{feff}') {
        return Err(one(
            place(1, 1),
            "the file begins with a byte order mark (bytes EF BB BF)",
            "Save it as UTF-8 without a byte order mark (BOM).",
        ));
    }
    if let Err(error) = parsed {
        return Err(one(
            place(error.line(), error.column()),
            format!("not JSON: {error}"),
            "Check for a missing or extra comma, quote or brace just before that position.",
        ));
    }
    let zero = text.find('\0').or_else(|| text.find("\\u0000"));
    if let Some(offset) = zero {
        let before = &text[..offset];
        let line = before.matches('\n').count() + 1;
        let column = before.len() - before.rfind('\n').map_or(0, |end| end + 1) + 1;
        return Err(one(place(line, column), "the text holds a zero character", "Remove it."));
    }
    if depth(text) > DEPTH_LIMIT {
        return Err(one(
            place(1, 1),
            format!("values are nested more than {DEPTH_LIMIT} levels deep"),
            "Compare it with examples/: no configuration needs that depth.",
        ));
    }
    if !text.trim_start().starts_with('{') {
        return Err(one(
            place(1, 1),
            "the configuration is not a JSON object",
            "Put it in braces, as in examples/two-hosts.json.",
        ));
    }
    Ok(())
}

/// The nesting depth of arrays and objects in a JSON text.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut quoted, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
