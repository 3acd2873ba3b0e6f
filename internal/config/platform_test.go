package config_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// TestPlatformDefaults: the defaults are valid, and let no other machine connect.
func TestPlatformDefaults(t *testing.T) {
	var platform config.Platform
	platform.Defaults()
	if err := platform.Validate(); err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(platform.Server.Address, "127.0.0.1:") {
		t.Errorf("it listens on %s", platform.Server.Address)
	}
}

// TestPlatformValidate: each mistake is named with its option and the fix, and no
// secret is shown.
func TestPlatformValidate(t *testing.T) {
	const key = "--database.secretKeyFile=/k"
	for args, want := range map[string]string{
		"--server.address=:8086 --server.publicURL=https://x.example.com":                              "server.address is \":8086\", which others can reach without encryption",
		"--server.address=:8086 --server.behindProxy":                                                  "server.publicURL is missing",
		"--server.address=:8086 --server.behindProxy --server.publicURL=http://x.example.com":          "server.publicURL is not encrypted",
		"--server.address=:8086 --server.behindProxy --server.publicURL=https://x.example.com":         "",
		"--server.address=:8086 --tls.certFile=a --tls.keyFile=b --server.publicURL=https://x.example": "",
		"--tls.certFile=a": "tls has one of certFile and keyFile",
		"--tls.certFile=a --tls.keyFile=b --server.behindProxy":                    "keep one of the two",
		"--server.publicURL=https://x.example.com/slipway":                         "has a path",
		"--server.publicURL=https://canary:canary@x.example.com":                   "user name or password",
		"--server.trustedProxies=10.0.0.0/8,x":                                     "server.trustedProxies has \"x\"",
		"--database.url=mysql://canary@x/y":                                        "database.url is not a URL such as",
		"--database.url=sqlite://relative.db":                                      "three slashes",
		"--database.url=sqlite:///var/lib/p.db":                                    "",
		"--database.url=postgres://u:canary@x/y":                                   "database.secretKeyFile is missing",
		"--database.url=postgres://u:canary@x/y " + key:                            "",
		"--database.url=[redacted]":                                                "set the URL itself",
		"--tunnel.domain=Tunnels":                                                  "tunnel.domain is",
		"--tunnel.domain=tunnels.example.com":                                      "",
		"--tunnel.url=ws://tunnel.example.com":                                     "tunnel.url is not encrypted",
		"--tunnel.url=wss://tunnel.example.com":                                    "",
		"--peer.url=10.0.0.1:80":                                                   "peer.url is not a URL",
		"--peer.url=http://fd00::7:8086":                                           "",
		"--peer.url=http://[fd00::7]:8086":                                         "",
		"--peer.url=http://10.0.0.1:80:80":                                         "peer.url is not a URL",
		"--outbound.allow=127.0.0.0/33":                                            "outbound.allow has \"127.0.0.0/33\"",
		"--outbound.allow=127.0.0.1,::1,fe80::/10":                                 "",
		"--firstStart.email=nobody":                                                "firstStart.email is",
		"--audit.retention=-1s":                                                    "audit.retention is",
		"--history.deployments=-1s":                                                "history.deployments is",
		"--history.deployments=0s":                                                 "",
		"--history.traffic=-1s":                                                    "history.traffic is",
		"--keys.defaultLifetime=-1s":                                               "keys.defaultLifetime is",
		"--keys.maxLifetime=-1s":                                                   "keys.maxLifetime is",
		"--keys.maxLifetime=23h --keys.defaultLifetime=1h":                         "at least 24h",
		"--keys.maxLifetime=24h --keys.defaultLifetime=1h":                         "",
		"--keys.maxLifetime=24h":                                                   "more than keys.maxLifetime",
		"--keys.maxLifetime=0s":                                                    "",
		"--keys.defaultLifetime=8760h":                                             "",
		"--identity.passwords=off":                                                 "identity.passwords is \"off\": choose one of enabled, disabled",
		"--identity.secondFactor=on":                                               "identity.secondFactor is \"on\": choose one of optional, required",
		"--identity.secondFactor=required":                                         "",
		"--identity.passwords=disabled":                                            "no user could sign in",
		"--identity.passwords=disabled --oidc.issuer=https://id --oidc.clientID=x": "",
		"--oidc": "oidc.issuer is missing",
		"--oidc.issuer=http://id.example.com --oidc.clientID=x":                                   "oidc.issuer is not encrypted",
		"--oidc.issuer=https://id.example.com --oidc.clientID=x":                                  "",
		"--oidc.issuer=https://id --oidc.clientID=x --oidc.createUsers":                           "needs allowedDomains",
		"--oidc.issuer=https://id --oidc.clientID=x --oidc.roleClaim=g":                           "belong together",
		"--oidc.issuer=https://id --oidc.clientID=x --oidc.viewerValues=g":                        "belong together",
		"--oidc.issuer=https://id --oidc.clientID=x --oidc.roleClaim=g --oidc.operatorValues=dev": "",
		"--rights.matchMode=exact":                                                                "rights.matchMode is \"exact\": choose one of glob, regex",
		"--rights.matchMode=regex":                                                                "",
		"--oidc.issuer=https://id --oidc.clientID=x --oidc.defaultRole=viewer":                    "",
		"--oidc.issuer=https://id --oidc.clientID=x --oidc.defaultRole=root":                      "oidc.defaultRole is \"root\"",
	} {
		loaded, err := config.LoadPlatform(config.Sources{Args: strings.Fields(args)})
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		err = loaded.Platform.Validate()
		if (want == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error shows a secret: %v", args, err)
		}
		text, err := loaded.Platform.YAML()
		if err != nil || strings.Contains(string(text), "u:canary") {
			t.Errorf("%s: printed %s, %v", args, text, err)
		}
	}
}

// TestPlatformSecrets: the URL of the database and the client's secret are read from
// the environment and shown nowhere.
func TestPlatformSecrets(t *testing.T) {
	loaded := must.Get(config.LoadPlatform(config.Sources{Environ: []string{
		"SLIPWAY_DATABASE_URL=postgres://u:canary@x/y", "SLIPWAY_OIDC_CLIENTSECRET=canary", "SLIPWAY_OIDC_ISSUER=https://id",
	}}))(t)
	platform := loaded.Platform
	if platform.Database.URL.Reveal() != "postgres://u:canary@x/y" || platform.OIDC.ClientSecret.Reveal() != "canary" || platform.OIDC.Name == "" {
		t.Errorf("got %+v", platform)
	}
	for _, change := range platform.Changes() {
		if strings.Contains(change.Value, "canary") {
			t.Errorf("a secret is logged: %+v", change)
		}
		if change.Option == "database.url" && change.Value != secret.Redacted {
			t.Errorf("got %+v", change)
		}
	}
}
