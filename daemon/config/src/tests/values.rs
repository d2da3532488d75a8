//! Values of the wrong type or out of range, each with its line.

use super::one;

fn toml(text: &str, start: &str, part: &str) {
    one("pgfleet.toml", text, start, part);
}

#[test]
fn wrong_types_are_told_from_bad_values() {
    toml(
        "\n\nlisten_port = true\n",
        "3 listen_port must be a port from 1 to 65535, not true",
        "6432",
    );
    toml("user = 5\n", "1 user must be a string, not a number", "");
    toml("listen_port = [1]\n", "1 listen_port must be a port from 1 to 65535, not an array", "");
    toml("logfile = [\"a\"]\n", "1 logfile must be a path as a string, not an array", "");
    toml("query_timeout = 1979-05-27\n", "1 query_timeout must be a single value", "");
    toml("verbose = { a = 1 }\n", "1 verbose must be a single value", "");
    toml("admin_users = [[\"a\"]]\n", "1 admin_users must be a string with commas or an array", "");
    toml("databases = 5\n", "1 databases must be a table", "[databases]");
    toml(
        "[databases]\ndefault_pool_size = 5\n",
        "2 databases.default_pool_size must be",
        "move it above the first [section]",
    );
    toml(
        "auth_file = \"users.txt\"\n[databases.a.b]\nx = 1\n",
        "2 databases.a.b must be a single value",
        "[databases.\"a.b\"]",
    );
}

#[test]
fn values_out_of_range_are_refused() {
    toml("listen_port = 0\n", "1 listen_port must be a port", "");
    toml("listen_port = 65536\n", "1 listen_port must be a port", "");
    toml("max_client_conn = -1\n", "1 max_client_conn must be a whole number", "");
    toml("default_pool_size = 3000000000\n", "1 default_pool_size must be a whole number", "");
    toml("query_timeout = \"5 fortnights\"\n", "1 query_timeout must be seconds", "30s");
    toml("query_timeout = -1\n", "1 query_timeout must be seconds", "");
    toml("query_timeout = inf\n", "1 query_timeout must be seconds", "");
    toml("max_packet_size = \"4GiB\"\n", "1 max_packet_size must be bytes", "64KiB");
}

#[test]
fn values_that_make_no_sense_are_refused() {
    toml(
        "unix_socket_mode = \"777\"\n",
        "1 unix_socket_mode must be permissions in octal",
        "\"0777\"",
    );
    toml("workers = 129\n", "1 workers must be auto", "50%");
    toml("log_stats = 2\n", "1 log_stats must be true or false", "true");
    toml("max_client_conn = 0\n", "1 max_client_conn must be at least 1", "");
    toml("stats_period = 0\n", "1 stats_period must be more than 0", "");
    toml("heartbeat_timeout = 0\n", "1 heartbeat_timeout must be more than 0", "");
    toml("scram_iterations = 0\n", "1 scram_iterations must be at least 1", "");
}
