package config

import (
	"net/netip"
	"strings"

	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/permission"
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
	Rights     Rights          `yaml:"rights"`
	Keys       APIKeys         `yaml:"keys"`
	Audit      AuditLog        `yaml:"audit"`
	History    History         `yaml:"history"`
	Outbound   Outbound        `yaml:"outbound"`
	OIDC       *OIDC           `yaml:"oidc,omitempty" label:"allowEmpty" description:"Allow users to sign in through an OpenID Connect identity provider."`
}

// PlatformServer is the server of the API, the console and the tunnels.
type PlatformServer struct {
	Address        string   `yaml:"address" description:"Address at which the platform serves its API, the tunnels and the requests that it forwards to runtimes. An address that is not loopback requires tls or behindProxy."`
	PublicURL      string   `yaml:"publicURL" description:"URL at which browsers, command lines and agents reach the platform, without a path. When empty, it is derived from the address, which must then be a loopback address. A URL that is not loopback must use https."`
	BehindProxy    bool     `yaml:"behindProxy" description:"A proxy in front of the platform terminates TLS, and only that proxy can reach the address. Sessions and keys travel between the two without encryption."`
	TrustedProxies []string `yaml:"trustedProxies" description:"Addresses or networks of proxies whose X-Forwarded-For header is trusted: a list in a file, commas between them elsewhere. The client address is used for the sign-in limits and recorded in the audit log."`
}

// ServerTLS is the certificate of a server.
type ServerTLS struct {
	CertFile string `yaml:"certFile" description:"PEM file with the certificate and the intermediate certificates. It is reloaded when it changes."`
	KeyFile  string `yaml:"keyFile" description:"PEM file with the private key of the certificate."`
}

// PlatformState is the platform's state on disk. PostgreSQL needs none.
type PlatformState struct {
	Dir string `yaml:"dir" description:"Directory of the SQLite database and of the key that encrypts secrets in it. It is created if it does not exist, and must belong to the platform alone. When empty, it is slipway/platform in $XDG_STATE_HOME, or else in ~/.local/state."`
}

// Database is the platform's storage: SQLite for one replica, PostgreSQL for
// several.
type Database struct {
	URL           secret.Text `yaml:"url" description:"sqlite:///path/platform.db, or postgres://user:password@host/database for several replicas. When empty, it is platform.db in state.dir. Other users of a machine can see flags: prefer the file or the environment."`
	SecretKeyFile string      `yaml:"secretKeyFile" description:"File with the text that encrypts the platform's private keys in the database: at least 32 characters, the same on all replicas, for example from openssl rand -hex 32. When empty, SQLite creates it in state.dir; PostgreSQL requires it. A backup cannot be restored without it."`
}

// TunnelServer is where agents open their tunnels.
type TunnelServer struct {
	Domain string `yaml:"domain" description:"Domain of the host names of tunnels: a runtime's is <account>-<runtime>.<domain>, and *.<domain> must resolve to the platform. Without it, Git providers cannot reach the webhooks of runtimes in tunnel mode."`
	URL    string `yaml:"url" description:"URL at which agents reach this replica to open tunnels, such as wss://tunnel-1.example.com. When empty, it is server.publicURL."`
}

// PeerServer is how replicas reach each other: a request may arrive at a
// replica that does not hold the runtime's tunnel.
type PeerServer struct {
	URL string `yaml:"url" description:"URL at which other replicas reach this one, such as http://10.0.0.7:8086. Replicas use TLS with keys that are derived from database.secretKeyFile, whatever the scheme is. When empty, this replica accepts no requests from other replicas; required with several replicas."`
}

// BaseURL returns the URL with brackets around an IPv6 address. The chart
// inserts the address of the Pod and cannot know its family.
func (p PeerServer) BaseURL() string {
	scheme, rest, _ := strings.Cut(p.URL, "://")
	if port := strings.LastIndex(rest, ":"); port > 0 {
		if address, err := netip.ParseAddr(rest[:port]); err == nil && address.Is6() {
			return scheme + "://[" + rest[:port] + "]" + rest[port:]
		}
	}
	return p.URL
}

// RuntimesReached configures how the platform reaches runtimes without a
// tunnel.
type RuntimesReached struct {
	CAFile string `yaml:"caFile" description:"PEM file with CA certificates that verify the hosts of runtimes behind an Ingress or a mesh, in addition to the system's. It is reloaded when it changes."`
}

// FirstStart configures the account and the admin that an empty database gets.
// It has no effect later.
type FirstStart struct {
	Account string `yaml:"account" description:"Name of the account that the first start creates."`
	Email   string `yaml:"email" description:"Email of the admin that the first start creates. The password is printed once, is valid for one sign-in, and must be changed then."`
}

// Values of identity.passwords.
const (
	PasswordsEnabled  = "enabled"
	PasswordsDisabled = "disabled"
)

// Values of identity.secondFactor.
const (
	SecondFactorOptional = "optional"
	SecondFactorRequired = "required"
)

// Identity configures how users sign in.
type Identity struct {
	Passwords    string `yaml:"passwords" description:"enabled, or disabled: users sign in through the identity provider (oidc) only, and sessions that a password opened are refused. At the first sign-in through the identity provider a user with a password loses it; they are matched by the verified email. API keys remain valid."`
	SecondFactor string `yaml:"secondFactor" description:"optional, or required: users with a password can do nothing but add a second factor until they have one. It does not concern API keys and users of the identity provider."`
}

// Rights is the policy about Applications, in the form of Argo CD.
type Rights struct {
	Policy        string `yaml:"policy" description:"Rules as in Argo CD's policy.csv, for users by email, for groups of the identity provider and for roles. They add to what the roles of users allow, and a deny takes away from it."`
	PolicyFile    string `yaml:"policyFile" description:"File with such rules, beside those of policy. It is read at the start."`
	PolicyDefault string `yaml:"policyDefault" description:"Role of the policy that every user has, such as role:readonly."`
	MatchMode     string `yaml:"matchMode" description:"How the patterns of the rules are matched: glob, or regex for regular expressions."`
}

// APIKeys bounds how long the keys of users are good.
type APIKeys struct {
	DefaultLifetime Duration `yaml:"defaultLifetime" description:"Lifetime of an API key whose request sets none, such as those of slipway login and slipway api-key create. 0 means keys.maxLifetime."`
	MaxLifetime     Duration `yaml:"maxLifetime" description:"Maximum lifetime of a new API key; requests for a longer one are refused. 0 allows keys that do not expire. Keys that exist, those of slipway platform create-key and the credentials of runtimes are not affected."`
}

// AuditLog configures how long audit entries are kept, and their export. An
// empty endpoint disables the export.
type AuditLog struct {
	OTLP      OTLP     `yaml:"otlp"`
	Retention Duration `yaml:"retention" description:"How long entries of the audit log are kept. 0 keeps them forever."`
}

// History configures how long the platform keeps what happened in runtimes.
type History struct {
	Deployments Duration `yaml:"deployments" description:"How long deployments of Applications are kept, which the DORA figures are computed of. 0 keeps them forever."`
	Traffic     Duration `yaml:"traffic" description:"How long the traffic of edges is kept, as sums of hours. Sums of minutes are kept for a day. 0 keeps the hours forever."`
}

// OIDC is an identity provider. A nil one is disabled, and users sign in with
// passwords only.
type OIDC struct {
	Issuer         string      `yaml:"issuer" description:"URL of the identity provider, as in its discovery document."`
	Name           string      `yaml:"name" description:"Name of the identity provider on the sign-in page."`
	ClientID       string      `yaml:"clientID" description:"Client ID of the platform at the identity provider. The redirect URL to register there is <server.publicURL>/auth/oidc/callback."`
	ClientSecret   secret.Text `yaml:"clientSecret" description:"Secret of the client. Other users of a machine can see flags: prefer the file or the environment."`
	AllowedDomains []string    `yaml:"allowedDomains" description:"Email domains whose users may sign in: a list in a file, commas between them elsewhere. When empty, users must exist already."`
	CreateUsers    bool        `yaml:"createUsers" description:"Create a user at the first sign-in with an email of an allowed domain. When false, an admin creates users first."`
	RoleClaim      string      `yaml:"roleClaim" description:"Claim of the ID token, such as groups, that decides the role at each sign-in; the highest role counts. When empty, new users get defaultRole and admins change it."`
	AdminValues    []string    `yaml:"adminValues" description:"Values of the claim that grant the role admin."`
	OperatorValues []string    `yaml:"operatorValues" description:"Values of the claim that grant the role operator."`
	ViewerValues   []string    `yaml:"viewerValues" description:"Values of the claim that grant the role viewer."`
	DefaultRole    string      `yaml:"defaultRole" description:"Role of new users, and of users without any of these values: restricted, viewer, operator or admin."`
	GroupsClaim    string      `yaml:"groupsClaim" description:"Claim of the ID token with the groups of the user, which policies about rights name. They are stored at each sign-in."`
}

// SetDefaults sets every option to its default. The decoder calls it by this
// name when an option enables the group.
func (o *OIDC) SetDefaults() {
	*o = OIDC{Name: "Single sign-on", DefaultRole: permission.RoleOperator, GroupsClaim: "groups"}
}

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
		Identity:   Identity{Passwords: PasswordsEnabled, SecondFactor: SecondFactorOptional},
		Rights:     Rights{MatchMode: "glob"},
		Keys:       APIKeys{DefaultLifetime: 90 * day, MaxLifetime: 365 * day},
		Audit:      AuditLog{Retention: 365 * day},
		History:    History{Deployments: 400 * day, Traffic: 30 * day},
	}
}
