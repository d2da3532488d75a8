//! The settings that are one word out of a few.
//! Each enum is written once; its words, parser, printer and table entry come from that.
//! It never guesses: a word that is not in the list is refused with the list.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{fault::Fault, form::Form, key::Kind, raw::Raw};

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// The words of this setting, as a file may have them.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word of this value.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }

        impl FromStr for $name {
            type Err = String;

            /// Reads the word; the error names the words that there are.
            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(format!("must be one of {}", Self::WORDS.join(", "))),
                }
            }
        }

        impl Form<$name> for $name {
            const KIND: Kind = Kind::Choice($name::WORDS);

            fn read(raw: &Raw) -> Result<$name, Fault> {
                raw.word().and_then(|word| word.parse().ok()).ok_or_else(|| Fault::expected(Self::KIND, raw))
            }

            fn show(value: &$name) -> String {
                value.word().to_owned()
            }
        }
    };
}

choice! {
    /// When a client gives its server back.
    PoolMode {
        /// When the client leaves.
        #[default] Session = "session",
        /// When its transaction ends.
        Transaction = "transaction",
        /// When its statement ends.
        Statement = "statement",
    }
}

choice! {
    /// How clients prove who they are.
    AuthType {
        /// No proof, and the user name is replaced by that of the database entry.
        Any = "any",
        /// No proof, but the user must be known.
        Trust = "trust",
        /// The password in clear text.
        Plain = "plain",
        /// MD5, or SCRAM for users whose secret is a SCRAM one.
        #[default] Md5 = "md5",
        /// A client certificate.
        Cert = "cert",
        /// By the rules of auth_hba_file.
        Hba = "hba",
        /// By an LDAP server.
        Ldap = "ldap",
        /// By PAM, in builds that have it.
        Pam = "pam",
        /// SCRAM-SHA-256.
        ScramSha256 = "scram-sha-256",
    }
}

choice! {
    /// How the workers keep to the limits of the fleet.
    LimitMode {
        /// Each worker has its exact part and refuses at it.
        #[default] Divided = "divided",
        /// The parts are fair shares; not supported in this version.
        Shared = "shared",
    }
}

choice! {
    /// Which of several hosts gets the next server connection.
    LoadBalance {
        /// Each in its turn.
        #[default] RoundRobin = "round-robin",
        /// The same one until connecting to it fails.
        Disable = "disable",
    }
}

choice! {
    /// The version of the protocol that a server is asked for.
    ServerProtocol {
        /// The one that every server speaks.
        #[default] V3_0 = "3.0",
        /// With longer cancel keys; a server that does not know it answers in 3.0.
        V3_2 = "3.2",
    }
}

choice! {
    /// Whether a connection is encrypted, and how far the other side is verified.
    SslMode {
        /// Never encrypted.
        #[default] Disable = "disable",
        /// Encrypted if the other side asks for it.
        Allow = "allow",
        /// Encrypted if the other side can.
        Prefer = "prefer",
        /// Always encrypted, nothing verified.
        Require = "require",
        /// Encrypted, and the certificate verified.
        VerifyCa = "verify-ca",
        /// Encrypted, and certificate and name verified.
        VerifyFull = "verify-full",
    }
}
