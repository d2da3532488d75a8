//! A throwaway LDAP server: Debian's slapd with a few people in it.
//! It never touches a directory of the machine: the files are in a scratch directory, the port is a free one.
//! The suite of LDAP logins starts one.

use std::{
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{account, port, scratch::Scratch, wait};

/// The base of all entries.
pub const BASE: &str = "dc=example,dc=com";

/// Who may search, and with what; nobody else may.
pub const SEARCHER: (&str, &str) = ("cn=searcher,dc=example,dc=com", "s3arch");

const SLAPD: &str = "/usr/sbin/slapd";

const CONFIG: &str = "\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
database mdb
maxsize 16777216
suffix dc=example,dc=com
rootdn cn=root,dc=example,dc=com
directory $DIR/data
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact=cn=searcher,dc=example,dc=com read by anonymous auth by * none
";

const ENTRIES: &str = "\
dn: dc=example,dc=com
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: cn=searcher,dc=example,dc=com
objectClass: person
cn: searcher
sn: searcher
userPassword: s3arch

dn: ou=people,dc=example,dc=com
objectClass: organizationalUnit
ou: people

";

/// A running slapd.
#[derive(Debug)]
pub struct Directory {
    port: u16,
    server: Child,
    _scratch: Scratch,
}

impl Directory {
    /// One with these people, each with a password, as `uid=NAME,ou=people,dc=example,dc=com`.
    pub fn start(people: &[(&str, &str)]) -> Self {
        assert!(Path::new(SLAPD).exists(), "{SLAPD} is missing: run scripts/setup.sh test");
        let scratch = Scratch::make("ldap");
        scratch.dir("data", 0o700);
        let path = scratch.path().display().to_string();
        let config = scratch.write("slapd.conf", 0o600, &CONFIG.replace("$DIR", &path));
        let entries = people.iter().fold(ENTRIES.to_owned(), |text, (name, password)| {
            text + &format!(
                "dn: uid={name},ou=people,{BASE}\nobjectClass: inetOrgPerson\nuid: {name}\ncn: {name}\nsn: {name}\nuserPassword: {password}\n\n"
            )
        });
        let entries = scratch.write("entries.ldif", 0o600, &entries);
        let mut load = Command::new("/usr/sbin/slapadd");
        load.arg("-f").arg(&config).arg("-l").arg(&entries);
        let loaded = account::unprivileged(&mut load).output().expect("slapadd can be started");
        assert!(loaded.status.success(), "slapadd: {}", String::from_utf8_lossy(&loaded.stderr));
        let port = port::free();
        let mut serve = Command::new(SLAPD);
        serve.arg("-f").arg(&config).arg("-h").arg(format!("ldap://127.0.0.1:{port}"));
        serve.args(["-d", "0"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = account::unprivileged(&mut serve).spawn().expect("slapd can be started");
        wait::until("slapd takes connections", || TcpStream::connect(("127.0.0.1", port)).ok());
        Self { port, server, _scratch: scratch }
    }

    /// Its port, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // It fails only if the server has gone already.
        drop(self.server.kill());
        drop(self.server.wait());
    }
}
