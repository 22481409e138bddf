//! The controller between an operator and a fake forwarder, over real sockets.

mod fake;
mod scenario;

use std::path::Path;

use scenario::{DEADLINE, Scenario, config, until};
use stoa_api::v1;
use stoa_controller::service::Error;
use stoa_yang::error::ValidationError;

#[tokio::test]
async fn the_desired_state_is_applied_and_shown() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let _forwarder = scenario.forwarder();
    scenario.start();
    let status = scenario.in_sync().await;
    assert_eq!(status.configuration, scenario.path("stoa.json").display().to_string());
    assert_eq!(status.forwarder.unwrap().version, "fake");
    let mut operator = scenario.operator().await;
    let interfaces = operator.show_interfaces(v1::ListInterfacesRequest::default()).await.unwrap();
    assert_eq!(interfaces.into_inner().interfaces[0].name, "if0");
    let mut routes =
        operator.show_routes(v1::ListRoutesRequest::default()).await.unwrap().into_inner();
    let mut seen = Vec::new();
    while let Some(route) = routes.message().await.unwrap() {
        seen.push(route.route.unwrap().prefix.unwrap().to_string());
    }
    assert_eq!(seen, ["10.0.0.0/24", "10.0.0.1/32"]);
    let nope = v1::ListRoutesRequest { vrf: "nope".into(), ..Default::default() };
    let refused = operator.show_routes(nope).await.unwrap_err();
    assert_eq!(refused.message(), "there is no VRF \"nope\": use default or all");
    assert!(operator.show_nodes(v1::ListNodesRequest {}).await.is_ok());
    assert!(operator.show_drops(v1::ListDropsRequest {}).await.is_ok());
    assert!(operator.show_workers(v1::ListWorkersRequest {}).await.is_ok());
    assert!(operator.show_neighbors(v1::ListNeighborsRequest {}).await.is_ok());
    assert!(operator.show_conservation(v1::GetConservationRequest {}).await.is_ok());
    // This forwarder is of a version without tables of rows: learned routes are audited all the same.
    let tables =
        operator.audit_tables(v1::AuditTablesRequest {}).await.unwrap().into_inner().tables;
    let routes = tables.iter().find(|table| table.name == "routes");
    assert!(routes.is_some_and(|table| table.is_sent), "{tables:?}");
    scenario.kill().await;
}

#[tokio::test]
async fn a_refused_reload_changes_nothing() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let _forwarder = scenario.forwarder();
    scenario.start();
    scenario.in_sync().await;

    let reply = scenario.reload(&config(&["10.0.0.1", "10.0.0.2"])).await;
    assert!(!reply.applied);
    assert!(reply.errors[0].cause.contains("10.0.0.0/24"), "{:?}", reply.errors);
    let reply = scenario.reload("{ not json").await;
    assert!(!reply.applied && reply.what.is_none());

    let reason = v1::ValidationError {
        path: "port \"if1\"".into(),
        cause: "no buffers".into(),
        fix: "add".into(),
        ..v1::ValidationError::default()
    };
    scenario.record.refuse.lock().unwrap().push(reason);
    let reply = scenario.reload(&config(&["10.0.0.1", "10.0.1.1"])).await;
    assert!(!reply.applied);
    assert_eq!(reply.errors[0].path, "port \"if1\"");
    assert_eq!(scenario.applied().len(), 1, "nothing new took effect");
    assert!(scenario.in_sync().await.in_sync);

    scenario.record.refuse.lock().unwrap().clear();
    let reply = scenario.reload(&config(&["10.0.0.1", "10.0.1.1"])).await;
    assert!(reply.applied && reply.what.unwrap().changed);
    assert_eq!(scenario.applied().last().unwrap().interfaces.len(), 2);
    scenario.kill().await;
}

#[tokio::test]
async fn a_restarted_forwarder_is_configured() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let forwarder = scenario.forwarder();
    scenario.start();
    let first = scenario.in_sync().await.forwarder.unwrap().boot_id;
    assert!(scenario.reload(&config(&["10.0.9.1"])).await.applied);
    drop(forwarder);
    let _again = scenario.forwarder();
    let record = scenario.record.clone();
    until("the state is sent again", async || {
        (record.applied.lock().unwrap().len() == 3).then_some(())
    })
    .await;
    assert_ne!(scenario.in_sync().await.forwarder.unwrap().boot_id, first);
    let by_key = |mut desired: v1::Desired| {
        desired.routes.sort_by_key(|route| format!("{route:?}"));
        desired.interfaces.sort_by_key(|interface| interface.name.clone());
        desired
    };
    let applied: Vec<v1::Desired> = scenario.applied().into_iter().map(by_key).collect();
    assert_eq!(applied[2], applied[1], "the reloaded configuration, not that of the start");
    assert_eq!(*record.changes.lock().unwrap(), 1, "the reload was sent as a change");
    scenario.kill().await;
}

#[tokio::test]
async fn workers_and_limits_that_change_are_sent_alone() {
    let with = |polling: &str| {
        let interfaces = config(&["10.0.0.1"]);
        let rest = interfaces.strip_prefix('{').unwrap();
        format!(r#"{{"stoa-system:system": {{"workers": {{"polling": "{polling}"}}}}, {rest}"#)
    };
    for (is_old, changes) in [(false, 1), (true, 0)] {
        let mut scenario = Scenario::new(&with("adaptive"));
        *scenario.record.is_old.lock().unwrap() = is_old;
        let _forwarder = scenario.forwarder();
        scenario.start();
        scenario.in_sync().await;
        assert!(scenario.reload(&with("interrupt")).await.applied);
        let applied = scenario.applied();
        let polling = applied.last().unwrap().workers.as_ref().unwrap().polling();
        assert_eq!((applied.len(), polling), (2, v1::Polling::Interrupt));
        let sent = *scenario.record.changes.lock().unwrap();
        assert_eq!(sent, changes, "an old forwarder gets the whole state");
        scenario.kill().await;
    }
}

#[tokio::test]
async fn a_restarted_controller_resumes_the_running_configuration() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let _forwarder = scenario.forwarder();
    scenario.start();
    scenario.in_sync().await;
    // Edited meanwhile, invalid, and not reloaded.
    std::fs::write(scenario.path("stoa.json"), "{ half an ed").unwrap();
    scenario.kill().await;
    scenario.start();
    scenario.in_sync().await;
    let applied = scenario.applied();
    assert_eq!(applied.len(), 2);
    assert_eq!(applied[0], applied[1]);
    scenario.kill().await;
}

/// A seed of flow hashes that is not configured is chosen once.
#[tokio::test]
async fn the_seed_of_flow_hashes_is_kept() {
    let plain = config(&["10.0.0.1"]);
    let mut scenario = Scenario::new(&plain);
    let _forwarder = scenario.forwarder();
    scenario.start();
    scenario.in_sync().await;
    let seed = |scenario: &Scenario| {
        scenario.applied().last().unwrap().multipath.unwrap_or_default().hash_seed
    };
    let chosen = seed(&scenario);
    assert_ne!(chosen, 0);
    let multipath = r#"{"stoa-system:system": {"stoa-ip:multipath": {"hash-seed": 7}}, "#;
    assert!(scenario.reload(&plain.replacen('{', multipath, 1)).await.applied);
    assert_eq!(seed(&scenario), 7);
    assert!(scenario.reload(&plain).await.applied);
    assert_eq!(seed(&scenario), chosen);
    scenario.kill().await;
    scenario.start();
    scenario.in_sync().await;
    assert_eq!(seed(&scenario), chosen);
    scenario.kill().await;
}

#[tokio::test]
async fn a_refused_first_configuration_ends_the_controller() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let reason = v1::ValidationError {
        path: "port \"if0\"".into(),
        cause: "no device".into(),
        fix: "make".into(),
        ..v1::ValidationError::default()
    };
    scenario.record.refuse.lock().unwrap().push(reason);
    let _forwarder = scenario.forwarder();
    scenario.start();
    let ended = tokio::time::timeout(DEADLINE, scenario.controller.take().unwrap()).await;
    assert_eq!(refused(ended.unwrap().unwrap())[0].cause, "no device");

    let mut scenario = Scenario::new("{}x");
    scenario.start();
    let ended = tokio::time::timeout(DEADLINE, scenario.controller.take().unwrap()).await;
    assert!(refused(ended.unwrap().unwrap())[0].cause.starts_with("not JSON"));
}

#[tokio::test]
async fn without_a_forwarder_the_controller_reports_it_and_waits() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    scenario.start();
    let mut operator = scenario.operator().await;
    let status = operator.status(v1::StatusRequest {}).await.unwrap().into_inner();
    assert!(!status.in_sync && status.forwarder.is_none());
    let error = operator.show_drops(v1::ListDropsRequest {}).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::Unavailable);
    let request = v1::ReloadRequest { path: path_text(&scenario.path("stoa.json")) };
    let error = operator.reload(request).await.unwrap_err();
    assert!(error.message().contains("stays"), "{error}");
    let _forwarder = scenario.forwarder();
    scenario.in_sync().await;
    scenario.kill().await;
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}

fn refused(ended: Result<(), Error>) -> Vec<ValidationError> {
    match ended {
        Err(Error::Refused(errors)) => errors,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn the_controller_compiles_filters() {
    let mut scenario = Scenario::new(&config(&["10.0.0.1"]));
    let _forwarder = scenario.forwarder();
    scenario.start();
    scenario.in_sync().await;
    let mut operator = scenario.operator().await;
    let request = |expression: &str| v1::StartTraceRequest {
        interface: "any".into(),
        expression: expression.into(),
        ..Default::default()
    };
    let reply = operator.start_trace(request("icmp")).await.unwrap().into_inner();
    assert_eq!(reply.count, 10);
    let traced = scenario.record.traced.lock().unwrap().clone();
    assert_eq!((traced.expression.as_str(), traced.filter.len()), ("icmp", 6));
    let refused = operator.start_trace(request("icmp and")).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    assert!(refused.message().starts_with("the filter \"icmp and\" is wrong: "), "{refused}");
    let request = v1::CaptureRequest { interface: "any".into(), ..Default::default() };
    let mut stream = operator.capture(request).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap().unwrap().missed, 3);
    assert_eq!(stream.message().await.unwrap(), None);
}
