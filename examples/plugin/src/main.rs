//! A router that drops packets by DSCP: everything that `stoa` is, and a plugin with one part for each layer.
#![forbid(unsafe_code)]

mod controller;
mod forwarder;
mod node;
mod show;

use std::process::ExitCode;

use stoa::plugin::Plugin;

/// The plugin's name, which is that of its YANG module.
const NAME: &str = "dscp-filter";

fn main() -> ExitCode {
    let text = include_str!("../yang/dscp-filter.yang");
    let plugin = Plugin {
        module: stoa_yang::Module { name: NAME, text, features: &[] },
        forwarder: forwarder::PLUGIN,
        controller: Box::new(controller::DscpFilter),
        topics: vec![Box::new(show::DscpFilter)],
    };
    stoa::Router::default().with(plugin).main()
}
