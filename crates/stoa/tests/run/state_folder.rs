//! A state folder has one router.

use super::*;

/// Two routers with one state folder would commit over each other.
#[test]
fn a_state_folder_has_one_router() {
    let router = Router::start(&config("10.2.0.1", 1));
    let second = |arguments: &[&str]| {
        let mut command = stoa(&router.path("other.sock"), arguments);
        let output = command.arg("--config").arg(router.path("stoa.json")).output().unwrap();
        assert!(!output.status.success());
        err(&output)
    };
    let refused = second(&["run"]);
    let state = router.path("stoa.state").display().to_string();
    let holder = format!("process {}", router.child.id());
    assert!(refused.contains(&state) && refused.contains(&holder), "{refused}");
    // Nor does a controller that systemd starts.
    let forwarder = router.path("forwarder.sock").display().to_string();
    let refused = second(&["controller", "--forwarder-socket", &forwarder]);
    assert!(refused.contains(&state) && refused.contains(&holder), "{refused}");
    router.end();
}
