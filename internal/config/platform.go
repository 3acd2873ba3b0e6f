package config

import (
	"slipway.dev/slipway/internal/secret"
)

// Platform holds every option of `slipway platform`. The description tags are the
// reference text; the yaml tags are the names that all sources share.
type Platform struct {
	Log        Log             `yaml:"log"`
	Server     PlatformServer  `yaml:"server"`
	TLS        ServerTLS       `yaml:"tls"`
	Admin      AdminServer     `yaml:"admin"`
	Health     HealthServer    `yaml:"health"`
	State      PlatformState   `yaml:"state"`
	Database   Database        `yaml:"database"`
	Tunnel     TunnelServer    `yaml:"tunnel"`
	Peer       PeerServer      `yaml:"peer"`
	Runtimes   RuntimesReached `yaml:"runtimes"`
	FirstStart FirstStart      `yaml:"firstStart"`
	Identity   Identity        `yaml:"identity"`
	Keys       APIKeys         `yaml:"keys"`
	Audit      AuditLog        `yaml:"audit"`
	OIDC       *OIDC           `yaml:"oidc,omitempty" label:"allowEmpty" description:"Let users sign in through an identity provider that speaks OpenID Connect."`
}

// PlatformServer is the server of the API, the console and the tunnels.
type PlatformServer struct {
	Address        string   `yaml:"address" description:"Where the platform serves its API, the tunnels and what it forwards to runtimes. An address that others can reach needs tls, or behindProxy."`
	PublicURL      string   `yaml:"publicURL" description:"URL under which browsers, command lines and agents reach the platform, without a path. When empty, it is the address, which must be a loopback one then. Anything but loopback has to be https."`
	BehindProxy    bool     `yaml:"behindProxy" description:"A proxy in front ends TLS, and nobody else can reach the address. Sessions and keys travel between the two without encryption."`
	TrustedProxies []string `yaml:"trustedProxies" description:"Addresses or networks of proxies whose X-Forwarded-For is believed: a list in a file, commas between them elsewhere. The address of a client counts for the limits of signing in, and is in the audit log."`
}

// ServerTLS is the certificate of a server.
type ServerTLS struct {
	CertFile string `yaml:"certFile" description:"PEM file with the certificate and those between it and the authority. It is read again when it changes."`
	KeyFile  string `yaml:"keyFile" description:"PEM file with the private key of the certificate."`
}

// PlatformState is the platform's state on disk. PostgreSQL needs none.
type PlatformState struct {
	Dir string `yaml:"dir" description:"Folder for the SQLite database and the key that encrypts secrets in it. It is made if it is not there, and must belong to the platform alone. When empty, it is slipway/platform in $XDG_STATE_HOME, or else in ~/.local/state."`
}

// Database is the platform's storage: SQLite for one replica, PostgreSQL for
// several.
type Database struct {
	URL           secret.Text `yaml:"url" description:"sqlite:///path/platform.db, or postgres://user:password@host/database for several replicas. When empty, it is platform.db in state.dir. Other users of a machine can see flags: prefer the file or the environment."`
	SecretKeyFile string      `yaml:"secretKeyFile" description:"File with the text that encrypts the platform's private keys in the database: at least 32 characters, the same on all replicas, for example from openssl rand -hex 32. With SQLite it is made in state.dir when empty; PostgreSQL needs it. A backup is worth nothing without it."`
}

// TunnelServer is where agents open their tunnels.
type TunnelServer struct {
	Domain string `yaml:"domain" description:"Domain of the host names of tunnels: a runtime's is <account>-<runtime>.<domain>, and *.<domain> has to lead to the platform. Without it Git providers cannot reach the webhooks of runtimes in tunnel mode."`
	URL    string `yaml:"url" description:"URL under which agents reach this replica to open tunnels, such as wss://tunnel-1.example.com. When empty, it is server.publicURL."`
}

// PeerServer is how replicas reach each other: a request may arrive at a
// replica that does not hold the runtime's tunnel.
type PeerServer struct {
	URL string `yaml:"url" description:"URL under which other replicas reach this one, such as http://10.0.0.7:8086. When empty, this replica takes no requests from others; several replicas need it."`
}

// RuntimesReached configures how the platform reaches runtimes without a
// tunnel.
type RuntimesReached struct {
	CAFile string `yaml:"caFile" description:"PEM file with authorities that may vouch for the hosts of runtimes behind an Ingress or a mesh, besides those of the system. It is read again when it changes."`
}

// FirstStart configures the account and the admin that an empty database gets.
// It has no effect later.
type FirstStart struct {
	Account string `yaml:"account" description:"Name of the account that the first start makes."`
	Email   string `yaml:"email" description:"Email of the admin that the first start makes. The password is printed once, is good for one sign-in, and has to be changed then."`
}

// Values of identity.passwords.
const (
	PasswordsEnabled  = "enabled"
	PasswordsDisabled = "disabled"
)

// Identity configures how users sign in.
type Identity struct {
	Passwords string `yaml:"passwords" description:"enabled, or disabled: users sign in through the identity provider (oidc) only, and sessions that a password opened are refused. At the first sign-in through the identity provider a user with a password loses it; they are matched by the verified email. API keys remain valid."`
}

// APIKeys bounds how long the keys of users are good.
type APIKeys struct {
	DefaultLifetime Duration `yaml:"defaultLifetime" description:"How long an API key is good whose request has no lifetime, as those of slipway login and slipway api-key create. 0 is keys.maxLifetime."`
	MaxLifetime     Duration `yaml:"maxLifetime" description:"How long a new API key may be good at most; requests for more are refused. 0 allows keys that do not expire. Keys that exist, those of slipway platform create-key and the credentials of runtimes are not affected."`
}

// AuditLog configures how long audit entries are kept.
type AuditLog struct {
	Retention Duration `yaml:"retention" description:"How long entries of the audit log are kept. 0 keeps them for ever."`
}

// OIDC is an identity provider. A nil one is disabled, and users sign in with
// passwords only.
type OIDC struct {
	Issuer         string      `yaml:"issuer" description:"URL of the identity provider, as its discovery document has it."`
	Name           string      `yaml:"name" description:"What the sign-in page calls it."`
	ClientID       string      `yaml:"clientID" description:"ID that the identity provider knows the platform by. The redirect URL to register there is <server.publicURL>/auth/oidc/callback."`
	ClientSecret   secret.Text `yaml:"clientSecret" description:"Secret of the client. Other users of a machine can see flags: prefer the file or the environment."`
	AllowedDomains []string    `yaml:"allowedDomains" description:"Domains of emails that may sign in: a list in a file, commas between them elsewhere. When empty, users have to exist already."`
	CreateUsers    bool        `yaml:"createUsers" description:"Make a user at the first sign-in of somebody of an allowed domain. Without it an admin makes users first."`
	RoleClaim      string      `yaml:"roleClaim" description:"Claim of the ID token, such as groups, that decides the role. When empty, new users have the role user and admins change it."`
	AdminValues    []string    `yaml:"adminValues" description:"Values of the claim that make an admin."`
}

// SetDefaults sets every option to its default. The decoder calls it by this
// name when an option enables the group.
func (o *OIDC) SetDefaults() { *o = OIDC{Name: "Single sign-on"} }

// Defaults sets every option to its default: a platform on loopback, without
// TLS, that needs no configuration.
func (p *Platform) Defaults() {
	const day = Duration(24 * 3600 * 1e9)
	*p = Platform{
		Log:        Log{Level: "info", Format: "auto"},
		Server:     PlatformServer{Address: "127.0.0.1:8086"},
		Admin:      AdminServer{Address: "127.0.0.1:8092"},
		Health:     HealthServer{Address: ":8087"},
		FirstStart: FirstStart{Account: "default", Email: "admin@localhost"},
		Identity:   Identity{Passwords: PasswordsEnabled},
		Keys:       APIKeys{DefaultLifetime: 90 * day, MaxLifetime: 365 * day},
		Audit:      AuditLog{Retention: 365 * day},
	}
}
