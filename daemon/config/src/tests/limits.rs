//! How many workers there may be.

use super::good;
use crate::{Workers, cores::usable_cores, limits::count, worker_count};

const FILE: &str = "auth_file = \"users.txt\"\nmin_pool_size = 1\nreserve_pool_size = 1\n[databases]\na = \"pool_size=3\"\nb = \"pool_size=0 max_db_client_connections=6\"\n[users.u]\nmax_user_connections = 4\n";

#[test]
fn auto_is_capped_at_the_smallest_hard_limit() {
    let settings = good("pgfleet.toml", FILE);
    assert_eq!(count(&settings, Workers::Auto, 2).unwrap(), (2, vec![]));
    let (workers, notes) = count(&settings, Workers::Auto, 16).unwrap();
    assert_eq!((workers, notes.len()), (3, 1));
    assert!(
        notes[0].contains("3 instead of 16") && notes[0].contains("databases.a.pool_size = 3"),
        "{notes:?}"
    );
    assert_eq!(count(&settings, Workers::Percent(25), 16).unwrap().0, 3);
}

#[test]
fn percentages_are_rounded_down_to_at_least_one() {
    let settings = good("pgfleet.toml", "");
    for (percent, cores, workers) in [(50, 5, 2), (1, 5, 1), (100, 7, 7), (50, 4000, 20)] {
        assert_eq!(count(&settings, Workers::Percent(percent), cores).unwrap().0, workers);
    }
    let wide = good("pgfleet.toml", "max_client_conn = 9000\ndefault_pool_size = 0\n");
    assert_eq!(count(&wide, Workers::Auto, usize::MAX).unwrap().0, 128);
}

#[test]
fn an_explicit_number_above_a_limit_is_refused_with_the_ways_out() {
    let settings = good("pgfleet.toml", FILE);
    assert_eq!(worker_count(&settings, Some(Workers::Count(3))).unwrap(), (3, vec![]));
    let problems = worker_count(&settings, Some(Workers::Count(5))).unwrap_err();
    let keys: Vec<_> = problems.iter().filter_map(|problem| problem.key.as_deref()).collect();
    assert_eq!(keys, ["databases.a.pool_size", "users.u.max_user_connections"]);
    assert_eq!(problems[0].reason, "3 cannot be divided over 5 workers, each needs at least 1");
    assert_eq!(
        problems[0].remedy,
        "raise it to 5 or more, use at most 3 workers, or set it to 0 for no limit"
    );
    let all = worker_count(&settings, Some(Workers::Count(120))).unwrap_err();
    assert_eq!(all.len(), 5);
    assert!(all.iter().any(|problem| problem.key.as_deref() == Some("max_client_conn")
        && !problem.remedy.contains("0 for no limit")));
}

#[test]
fn the_file_and_this_machine_agree() {
    assert!(usable_cores() >= 1);
    let settings = good("pgfleet.toml", "workers = 7\n");
    assert_eq!(worker_count(&settings, None).unwrap(), (7, vec![]));
}
