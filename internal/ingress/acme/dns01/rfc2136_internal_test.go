package dns01

import (
	"testing"

	"github.com/miekg/dns"

	"slipway.dev/slipway/internal/must"
)

func updater(t *testing.T, server *nameserver) *RFC2136 {
	t.Helper()
	return &RFC2136{Server: server.address, Key: "Edge-Key", Algorithm: "hmac-sha256", SecretFile: file(t, keySecret+"\n")}
}

// TestUpdates: a record is added beside others of its name, and removed alone; what is
// not there is removed as well.
func TestUpdates(t *testing.T) {
	server := startNameserver(t, "example.org.", `_acme-challenge.example.org. 60 TXT "other"`)
	provider := updater(t, server)
	must.Do(t, provider.Validate())
	first := Record{Domain: "example.org", Name: "_acme-challenge.example.org.", Value: "first"}
	second := first
	second.Value = "second"
	must.Do(t, provider.Add(t.Context(), first))
	must.Do(t, provider.Add(t.Context(), second))
	const name = "_acme-challenge.example.org.="
	if got := server.texts(); got != name+"other "+name+"first "+name+"second" {
		t.Errorf("records: %s", got)
	}
	for range 2 {
		must.Do(t, provider.Remove(t.Context(), first))
		if got := server.texts(); got != name+"other "+name+"second" {
			t.Errorf("records: %s", got)
		}
	}
}

// TestRefusedUpdates: each refusal names the option to change, and changes nothing.
func TestRefusedUpdates(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(p *RFC2136, s *nameserver)
		words  []string
	}{
		{"unknown key", func(p *RFC2136, _ *nameserver) { p.Key = "other" }, []string{"does not accept the key other", "tsigAlgorithm"}},
		{"other secret", func(p *RFC2136, _ *nameserver) { p.SecretFile = file(t, "b3RoZXI=") }, []string{"does not accept the key Edge-Key"}},
		{"no right", func(_ *RFC2136, s *nameserver) { s.code = dns.RcodeRefused }, []string{"responds REFUSED", "allow the key Edge-Key"}},
		{"not signed", func(_ *RFC2136, s *nameserver) { s.plain = true }, []string{"is not signed with the key Edge-Key"}},
		{"other zone", func(_ *RFC2136, s *nameserver) { s.zone = "example.net." }, []string{"has no zone for _acme-challenge.example.org.", "dnsChallenge.rfc2136.nameserver"}},
		{"zone of another", func(_ *RFC2136, s *nameserver) { s.cached = true }, []string{"has no zone for"}},
		{"no zone", func(_ *RFC2136, s *nameserver) { s.quiet = true }, []string{"has no zone for"}},
		{"away", func(p *RFC2136, _ *nameserver) { p.Server = "127.0.0.1:1" }, []string{"127.0.0.1:1", "refused"}},
		{"no file", func(p *RFC2136, _ *nameserver) { p.SecretFile = "missing" }, []string{"missing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := startNameserver(t, "example.org.")
			provider := updater(t, server)
			c.change(provider, server)
			wantError(t, provider.Add(t.Context(), Record{Domain: "example.org", Name: "_acme-challenge.example.org.", Value: "v"}), c.words...)
			if got := server.texts(); got != "" {
				t.Errorf("records: %s", got)
			}
		})
	}
}

// TestSecretFile: a file without a secret is found at the start.
func TestSecretFile(t *testing.T) {
	for _, text := range []string{"", "\n", "no base64!", `key "edge" { secret "` + keySecret + `"; };`} {
		wantError(t, (&RFC2136{SecretFile: file(t, text)}).Validate(), "has no TSIG secret", "tsig-keygen")
	}
	wantError(t, (&RFC2136{SecretFile: "/dev/zero"}).Validate(), "/dev/zero is larger than")
}
