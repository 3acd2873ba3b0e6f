package config_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

func TestCertificatesResolvers(t *testing.T) {
	const p = "certificatesResolvers.le.acme."
	for _, c := range []struct {
		name   string
		change func(e *config.Edge, r *config.ACMEResolver)
		want   string // one line for each finding; none when it is valid
	}{
		{"defaults", func(*config.Edge, *config.ACMEResolver) {}, ""},
		{"no challenge", func(_ *config.Edge, r *config.ACMEResolver) { r.HTTPChallenge.EntryPoint = "" },
			p + `httpChallenge.entryPoint is missing: name the entry point that gets what comes to port 80, or set dnsChallenge.provider`},
		{"unknown entry point", func(_ *config.Edge, r *config.ACMEResolver) { r.HTTPChallenge.EntryPoint = "plain" },
			p + `httpChallenge.entryPoint is "plain", which is no entry point: name one of web`},
		{"key", func(_ *config.Edge, r *config.ACMEResolver) { r.KeyType = "DSA" },
			p + `keyType is "DSA": choose one of EC256, EC384, RSA2048, RSA4096`},
		{"email", func(_ *config.Edge, r *config.ACMEResolver) { r.Email = "a@example.com" }, ""},
		{"no email", func(_ *config.Edge, r *config.ACMEResolver) { r.Email = "ops" },
			p + `email is "ops": write one address such as ops@example.com`},
		{"no URL", func(_ *config.Edge, r *config.ACMEResolver) { r.CAServer = "acme.example.com" },
			p + `caServer is not a URL such as https://acme-v02.api.letsencrypt.org/directory`},
		{"plain URL", func(_ *config.Edge, r *config.ACMEResolver) { r.CAServer = "http://acme.example.com/dir" },
			p + `caServer is not encrypted: write https, unless the server is on this machine`},
		{"plain URL here", func(_ *config.Edge, r *config.ACMEResolver) { r.CAServer = "http://127.0.0.1:14000/dir" }, ""},
		{"password", func(_ *config.Edge, r *config.ACMEResolver) { r.CAServer = "https://me:hidden@acme.example.com/dir" },
			p + `caServer has a user name, a password or a part after #: take it out`},
		{"binding", func(_ *config.Edge, r *config.ACMEResolver) {
			r.EAB = config.ACMEBinding{KID: "kid", HMACEncoded: secret.New("zWNDZM6eQGHWpSRTPal5eIUYFTu7EajV")}
		}, ""},
		{"half a binding", func(_ *config.Edge, r *config.ACMEResolver) { r.EAB.KID = "kid" },
			p + `eab has one of kid and hmacEncoded: set both, or none`},
		{"binding without form", func(_ *config.Edge, r *config.ACMEResolver) {
			r.EAB = config.ACMEBinding{KID: "kid", HMACEncoded: secret.New("not base64!")}
		}, p + `eab.hmacEncoded is not base64url: write the key as the authority gave it`},
		{"redacted", func(_ *config.Edge, r *config.ACMEResolver) {
			r.EAB = config.ACMEBinding{KID: "kid", HMACEncoded: secret.New("[redacted]")}
		}, p + `eab.hmacEncoded is the text that stands for a hidden key in printed options: set the key itself`},
		{"no provider", func(e *config.Edge, _ *config.ACMEResolver) { e.Providers.KubernetesIngress = nil },
			`certificatesResolvers.le is set, but nothing can request certificates: enable providers.kubernetesIngress, or remove it`},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkResolver(t, c.want, func(e *config.Edge, r *config.ACMEResolver) {
				r.HTTPChallenge.EntryPoint = "web"
				c.change(e, r)
			})
		})
	}
}

// checkResolver validates options with one resolver, and compares the errors. An
// empty text is none.
func checkResolver(t *testing.T, want string, change func(*config.Edge, *config.ACMEResolver)) {
	t.Helper()
	edge := defaults()
	var resolver config.CertificatesResolver
	resolver.SetDefaults()
	change(edge, &resolver.ACME)
	edge.CertificatesResolvers = map[string]config.CertificatesResolver{"le": resolver}
	got := ""
	if err := edge.Validate(); err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// TestSecretOfMember: a secret below a free name arrives, also on its own, and
// leaves the defaults and the other members as they are.
func TestSecretOfMember(t *testing.T) {
	inDir(t, "edge.yaml", "certificatesResolvers: {LE: {acme: {email: ops@example.com}}, other: {acme: {eab: {hmacEncoded: bbbb}}}}")
	edge := must.Get(load(t, "--configFile=edge.yaml --certificatesresolvers.le.acme.eab.hmacencoded=aaaa"))(t)
	le, other := edge.CertificatesResolvers["le"].ACME, edge.CertificatesResolvers["other"].ACME
	if le.EAB.HMACEncoded.Reveal() != "aaaa" || le.Email != "ops@example.com" || le.KeyType != "EC256" {
		t.Errorf("got %+v and the key %q", le, le.EAB.HMACEncoded.Reveal())
	}
	if other.EAB.HMACEncoded.Reveal() != "bbbb" || other.CAServer != config.LetsEncrypt || len(edge.CertificatesResolvers) != 2 {
		t.Errorf("got %+v", edge.CertificatesResolvers)
	}
}

// TestOtherChallenges: options that are not supported are refused as unknown.
func TestOtherChallenges(t *testing.T) {
	for _, option := range []string{"storage=acme.json", "tlschallenge=true", "dnschallenge.delaybeforecheck=1s"} {
		_, err := load(t, "--certificatesresolvers.le.acme."+option)
		if err == nil || !strings.Contains(err.Error(), "unknown option") {
			t.Errorf("%s: got %v", option, err)
		}
	}
}
