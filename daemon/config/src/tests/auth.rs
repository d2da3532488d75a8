//! What each method of authentication needs, and how secrets are looked up.

use super::{Ground, bad, good, one, permit};
use crate::{AuthType, hba::LdapFind};

#[test]
fn each_method_says_what_it_lacks() {
    let database = "[databases]\na = \"dbname=a\"\n";
    for (line, start, remedy) in [
        (
            "auth_type = \"hba\"",
            "- auth_hba_file auth_type hba needs a file with the rules",
            "auth_hba_file",
        ),
        ("auth_type = \"ldap\"", "- auth_ldap_options auth_type ldap needs to know", "ldapserver="),
        (
            "auth_type = \"scram-sha-256\"",
            "- auth_file auth_type scram-sha-256 needs a file",
            "auth_user",
        ),
        ("auth_type = \"any\"", "3 databases.a with auth_type any the database must say", "user="),
        (
            "auth_type = \"hba\"\nauth_hba_file = \"missing\"",
            "- - cannot read the file: ",
            "auth_hba_file",
        ),
        (
            "auth_type = \"ldap\"\nauth_ldap_options = \"colour=red\"",
            "2 auth_ldap_options unknown LDAP option",
            "ldapserver",
        ),
    ] {
        one("pgfleet.toml", &format!("{line}\n{database}"), start, remedy);
    }
    let found = bad("pgfleet.toml", &format!("auth_type = \"cert\"\n{database}"));
    assert!(
        found
            .iter()
            .any(|text| text.contains("client_tls_sslmode is disable, and auth_type cert needs")),
        "{found:?}"
    );
}

#[test]
#[cfg(not(feature = "pam"))]
fn pam_is_refused_by_a_build_without_it() {
    one(
        "pgfleet.toml",
        "auth_type = \"pam\"",
        "1 auth_type this build has no PAM",
        "--features pam",
    );
    let ground = Ground::new();
    ground.file("hba", "local all all trust\nlocal all all pam\n");
    let problems = ground
        .load("a.ini", "[pgbouncer]\nauth_type = hba\nauth_hba_file = $DIR/hba\n")
        .unwrap_err();
    assert!(problems[0].to_string().contains("line 2 uses pam"), "{problems:?}");
}

#[test]
fn secrets_are_never_looked_up_in_the_console() {
    one(
        "pgfleet.toml",
        "auth_dbname = \"pgbouncer\"",
        "1 auth_dbname \"pgbouncer\" is the console",
        "Postgres",
    );
    let entry = "auth_file = \"users.txt\"\n[databases]\na = \"auth_dbname=pgfleet\"\n";
    one("pgfleet.toml", entry, "3 databases.a.auth_dbname \"pgfleet\" is the console", "Postgres");
}

#[test]
fn an_entry_overrides_who_looks_up_and_where() {
    let settings = good(
        "pgfleet.toml",
        "auth_user = \"u\"\nauth_dbname = \"d\"\n[databases]\na = \"auth_user=v auth_query='select 1, $1'\"\nb = \"auth_dbname=e\"\n",
    );
    let lookup = |name: &str| settings.lookup(settings.database(name).as_ref()).unwrap();
    let (a, b, nowhere) = (lookup("a"), lookup("b"), lookup("nowhere"));
    assert_eq!(
        (a.user.as_str(), a.database.as_deref(), a.query.as_str()),
        ("v", Some("d"), "select 1, $1")
    );
    assert_eq!((b.user.as_str(), b.database.as_deref(), b.is_default()), ("u", Some("e"), true));
    assert_eq!((nowhere.user.as_str(), nowhere.database.as_deref()), ("u", Some("d")));
    let nobody = good("pgfleet.toml", "auth_dbname = \"d\"");
    assert_eq!(nobody.lookup(None), None);
}

#[test]
fn rules_and_maps_are_read_for_hba_and_stay_in_the_snapshot() {
    let ground = Ground::new();
    ground.file("hba", "hostssl all all 0.0.0.0/0 cert map=m\nlocal all all trust\n");
    ground.file("ident", "m a b\n");
    let text =
        "[pgbouncer]\nauth_type = hba\nauth_hba_file = $DIR/hba\nauth_ident_file = $DIR/ident\n";
    let settings = ground.load("a.ini", text).unwrap();
    assert_eq!(
        (settings.global.auth_type, settings.hba.len(), settings.ident.len()),
        (AuthType::Hba, 2, 1)
    );
    let bytes = postcard::to_stdvec(&settings).unwrap();
    let back: crate::Settings = postcard::from_bytes(&bytes).unwrap();
    assert!(back == settings);
    let text =
        "[pgbouncer]\nauth_type = ldap\nauth_ldap_options = ldapserver=h ldapprefix=\"uid=\"\n";
    let ldap = ground.load("b.ini", text).unwrap().ldap.unwrap();
    assert_eq!(ldap.find, LdapFind::Simple { prefix: "uid=".into(), suffix: String::new() });
}

#[test]
fn rules_with_a_password_are_not_for_others_to_read() {
    let ground = Ground::new();
    let rules = "local all all ldap ldapserver=h ldapbasedn=b ldapbinddn=c ldapbindpasswd=s3\n";
    let file = ground.file("hba", rules);
    let text = "[pgbouncer]\nauth_type = hba\nauth_hba_file = $DIR/hba\n";
    assert!(ground.load("a.ini", text).is_ok());
    permit(&file, 0o644);
    let problems = ground.load("a.ini", text).unwrap_err();
    assert_eq!(problems[0].reason, "others can read this file, and it holds a password");
    assert!(!format!("{problems:?}").contains("s3"));
}

#[test]
fn md5_secrets_that_scram_cannot_use_are_noted_by_user() {
    let ground = Ground::new();
    ground.file("users.txt", "\"a\" \"md5d41d8cd98f00b204e9800998ecf8427e\"\n\"b\" \"plain\"\n");
    let note = "auth_file: md5 secrets are of no use to scram-sha-256; give SCRAM secrets to a";
    for (auth_type, noted) in [("scram-sha-256", true), ("md5", false)] {
        let text = format!("[pgbouncer]\nauth_type = {auth_type}\nauth_file = $DIR/users.txt\n");
        let settings = ground.load("a.ini", &text).unwrap();
        assert_eq!(settings.notes.iter().any(|line| line == note), noted, "{:?}", settings.notes);
    }
}
