//! MTUs above those of the devices are warnings of every commit, and of `commit check`.

use stoa_api::v1;

use super::{MANY, config, is_unsaved, prepared};
use crate::scenario::Scenario;

#[tokio::test]
async fn an_mtu_above_that_of_the_device_is_a_warning_of_a_part() {
    for (routes, interfaces) in [(MANY, 3), (3, MANY)] {
        let mut scenario = Scenario::new(&config(routes, interfaces));
        let _forwarder = scenario.forwarder();
        let (mut operator, _datastore) = prepared(&mut scenario).await;
        let mtu = "/ietf-interfaces:interfaces/interface[name='b']/ietf-ip:ipv4/mtu";
        let is_expected = |reply: &v1::CommitReply, mtu: &str| {
            let expected = format!("interface b: the MTU {mtu} is above that of its device");
            matches!(reply.warnings.as_slice(), [one] if one.starts_with(&expected))
        };
        assert_eq!(operator.set(mtu, "9000").await, []);
        let reply = operator.commit(0, false).await;
        assert!(is_expected(&reply, "9000"), "{reply:?}");
        assert!(is_unsaved(&scenario), "the commit took the short way");
        assert_eq!(operator.set(mtu, "8000").await, []);
        let request = v1::CommitRequest { is_check: true, ..v1::CommitRequest::default() };
        let checked = operator.client.commit(request).await.unwrap().into_inner();
        assert!(is_expected(&checked, "8000"), "{checked:?}");
        scenario.kill().await;
    }
}
