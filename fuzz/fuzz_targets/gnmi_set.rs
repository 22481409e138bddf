//! gNMI Set requests: paths resolve to one schema node or are rejected, and values become data below that node or
//! are rejected.
#![no_main]

use libfuzzer_sys::fuzz_target;
use prost::Message;
use stoa_api::gnmi::SetRequest;
use stoa_northbound::gnmi::path::{PathPattern, to_gnmi};
use stoa_northbound::gnmi::set;

fuzz_target!(|bytes: &[u8]| {
    let Ok(request) = SetRequest::decode(bytes) else { return };
    let prefix = request.prefix.as_ref();
    for path in &request.delete {
        let Ok(way) = PathPattern::read(prefix, Some(path)) else { continue };
        // A decoded path encodes to an equal path.
        let again = PathPattern::read(None, Some(&to_gnmi(&way.resource.steps)))
            .expect("it was read before");
        assert_eq!(again.resource.data_path(), way.resource.data_path());
        assert!(again.is_one());
    }
    for update in request.replace.iter().chain(&request.update) {
        let Ok(given) = set::decode_update(prefix, update) else { continue };
        let tree = stoa_yang::data::parse(&given.body).expect("it was read before");
        drop(tree);
        assert!(given.body.starts_with('{'), "{}", given.body);
    }
});
