//! gNMI Set requests: paths resolve to one schema node or are rejected, and values become data below that node or
//! are rejected.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message;
use stoa_api::gnmi::SetRequest;
use stoa_northbound::gnmi::path::{Way, told};
use stoa_northbound::gnmi::set;

fuzz_target!(|bytes: &[u8]| {
    let Ok(request) = SetRequest::decode(bytes) else { return };
    let prefix = request.prefix.as_ref();
    for path in &request.delete {
        let Ok(way) = Way::read(prefix, Some(path)) else { continue };
        // A decoded path encodes to an equal path.
        let again = Way::read(None, Some(&told(&way.place.steps))).expect("it was read before");
        assert_eq!(again.place.data_path(), way.place.data_path());
        assert!(again.is_one());
    }
    for update in request.replace.iter().chain(&request.update) {
        let Ok(given) = set::given(prefix, update) else { continue };
        let tree = stoa_controller::datastore::parse(&given.body).expect("it was read before");
        drop(tree);
        assert!(given.body.starts_with('{'), "{}", given.body);
    }
});
