//! RESTCONF bodies in JSON and XML, parsed by libyang: one node below the resource of the URL, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stoa_northbound::restconf::body;
use stoa_northbound::restconf::media::Media;
use stoa_northbound::restconf::path;

const PLACES: [&str; 4] = [
    "",
    "ietf-interfaces:interfaces",
    "ietf-interfaces:interfaces/interface=lan",
    "ietf-routing:routing/control-plane-protocols/control-plane-protocol=ietf-routing%3Astatic,s",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let media = if kind & 1 == 0 { Media::Json } else { Media::Xml };
    let resource =
        path::parse(PLACES[usize::from(kind >> 1) % PLACES.len()]).expect("it is a path");
    if let Ok(given) = body::below(&resource, media, bytes) {
        let step = given.step.as_ref().expect("it brings one node");
        let text = given.text().expect("what was read can be printed");
        // The printed body parses to the same data at the same path.
        let again = body::parse(&text, Media::Json).expect("what was printed can be read");
        let mut steps = Vec::new();
        let mut here = again.reference();
        while let Some(node) = here.filter(|_| steps.len() < resource.steps.len()) {
            let children: Vec<_> = yang5::data::DataNodeRef::children(&node)
                .filter(|child| !child.schema().is_list_key())
                .collect();
            // An empty non-presence container is not printed.
            if children.is_empty() {
                return;
            }
            assert_eq!(children.len(), 1, "{text}");
            steps.push(node.schema().name().to_owned());
            here = children.into_iter().next();
        }
        let names: Vec<_> = resource.steps.iter().map(|step| step.name.clone()).collect();
        assert_eq!(steps, names, "{text}");
        let _ = body::place_of(&resource, step);
    }
    if let Ok(given) = body::whole(media, bytes) {
        let text = given.text().expect("what was read can be printed");
        body::parse(&text, Media::Json).expect("what was printed can be read");
    }
});
