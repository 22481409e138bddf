//! Rule sets, keys and results of the classifier benchmark.

use stoa_tables::classifier::Prefix;

use super::*;

const KINDS: [Kind; 3] = [Kind::AccessList, Kind::Firewall, Kind::Chain];

#[test]
fn sets_are_valid_distinct_and_repeat() {
    for kind in KINDS {
        for is_ip6 in [false, true] {
            let set = RuleSet { kind, rules: 2000 };
            let rules = generate(set, is_ip6, 5);
            assert_eq!(rules, generate(set, is_ip6, 5));
            assert_ne!(rules, generate(set, is_ip6, 6));
            assert_eq!(rules.len(), 2000);
            assert_eq!(rules.last(), Some(&Rule::default()));
            let mut seen: Vec<_> = rules.iter().map(|rule| format!("{rule:?}")).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), 2000);
            for rule in &rules {
                assert_eq!(rule.check(), Ok(()), "{rule:?}");
                let prefixes = [rule.source, rule.destination];
                let is_family = |it: &Prefix| matches!(it, Prefix::Ip6 { .. }) == is_ip6;
                assert!(prefixes.iter().flatten().all(is_family));
            }
        }
    }
}

#[test]
fn results_are_plausible() {
    for (keys, distinct) in [(Keys::Matching, 1), (Keys::Random, 3000)] {
        for kind in KINDS {
            let rules = Rules::Generated(RuleSet { kind, rules: 300 });
            let workload = Workload { rules, keys, distinct, kernel: Kernel::Scalar };
            for figures in [run::<u32>(&workload, |_| ()), run::<u128>(&workload, |_| ())] {
                let figures = figures.unwrap();
                assert_eq!(
                    (figures.rules, figures.unmatched),
                    (300, 0.0),
                    "the last rule admits all"
                );
                assert!(figures.cycles_per_lookup > 0.0 && figures.bytes_per_rule > 0.0);
                assert!(figures.update_ms_most >= figures.update_ms);
            }
        }
    }
}

#[test]
fn rejects_invalid_workloads() {
    for wrong in ["acl", "acl:0", "acl:500001", "acl:x", "list:5", ""] {
        assert!(wrong.parse::<RuleSet>().is_err(), "{wrong}");
    }
    let rules: RuleSet = "chain:7".parse().unwrap();
    assert_eq!((rules.to_string().as_str(), rules.kind), ("chain:7", Kind::Chain));
    assert!("all".parse::<Keys>().is_err());
    let rules = Rules::Generated(rules);
    let workload = Workload { rules, keys: Keys::Random, distinct: 0, kernel: Kernel::Scalar };
    assert!(run::<u32>(&workload, |_| ()).is_err());
}
