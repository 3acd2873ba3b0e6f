package acme

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/mholt/acmez/v3/acme"
	"github.com/miekg/dns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/acme/dns01"
	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// zone is a provider whose records are a list. Its look runs before each change.
type zone struct {
	records []string
	look    func()
	failing error
}

func (z *zone) Add(_ context.Context, record dns01.Record) error {
	z.look()
	z.records = append(z.records, record.Name+" "+record.Value)
	return z.failing
}

func (z *zone) Remove(_ context.Context, record dns01.Record) error {
	z.look()
	if z.failing == nil {
		z.records = slices.DeleteFunc(z.records, func(one string) bool { return one == record.Name+" "+record.Value })
	}
	return z.failing
}

func (z *zone) Validate() error { return nil }

// startEmptyDNS runs a DNS server without names.
func startEmptyDNS(t *testing.T) string {
	t.Helper()
	packets := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	server := &dns.Server{PacketConn: packets, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		_ = w.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeNameError)) // a client that has gone gets nothing
	})}
	programs.Background(t, func() { _ = server.ActivateAndServe() }, func() { _ = packets.Close() })
	return packets.LocalAddr().String()
}

// testRecords: a record is noted as long as it may exist, so that those of an
// interrupted order are removed by the next one of the resolver, and by it alone.
func testRecords(t *testing.T, m *Manager, namespace string) {
	records := &zone{look: func() {}}
	publisher := dns01.NewPublisher(dns01.Options{Provider: records, Resolvers: []string{startEmptyDNS(t)}, Check: dns01.CheckNone})
	m.options.Resolvers = map[string]Resolver{"dns": {DNS: publisher}, "other": {DNS: publisher}}
	from := func(name string) (*authority, *recordSolver) {
		a := newAuthority(m, name, m.options.Resolvers[name])
		return a, a.solvers()[acme.ChallengeTypeDNS01].(*recordSolver)
	}
	first, solver := from("dns")
	noted := func() (all []string) {
		found, err := m.cluster.Client.CoreV1().Secrets(namespace).Get(t.Context(), certrequest.ChallengesSecret, metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			return nil
		}
		if rules, bad := certrequest.ChallengeRules(namespace, found.Data, func(string) []route.ListenerID { return nil }); len(rules)+len(bad) > 0 {
			t.Errorf("rules %v and %q", rules, bad)
		}
		for token := range found.Data {
			all = append(all, token)
		}
		slices.Sort(all)
		return all
	}
	want := func(tokens string, count int) {
		t.Helper()
		if got := strings.Join(noted(), " "); got != tokens || len(records.records) != count {
			t.Errorf("noted %q, and the records are %q", got, records.records)
		}
	}
	challenge := func(token string) acme.Challenge {
		return acme.Challenge{Token: token, KeyAuthorization: token + ".thumb", Identifier: acme.Identifier{Type: "dns", Value: "a.example"}}
	}
	// Noted before it is published, and until it is gone.
	records.look = func() { want("t0", len(records.records)) }
	must.Do(t, solver.Present(t.Context(), challenge("t0")))
	if one := records.records; len(one) != 1 || one[0] != "_acme-challenge.a.example. "+challenge("t0").DNS01KeyAuthorization() {
		t.Errorf("the records are %q", one)
	}
	must.Do(t, solver.Wait(t.Context(), challenge("t0")))
	ended, end := context.WithCancel(t.Context())
	end()
	must.Do(t, solver.CleanUp(ended, challenge("t0")))
	must.Do(t, solver.CleanUp(t.Context(), challenge("never presented")))
	want("", 0)

	// A provider that fails keeps the notes, sweeps do not drop them, and the next
	// order removes the records of its own resolver.
	records.look, records.failing = func() {}, errors.New("away")
	_, others := from("other")
	if solver.Present(t.Context(), challenge("t1")) == nil || others.Present(t.Context(), challenge("t2")) == nil || solver.CleanUp(t.Context(), challenge("t1")) == nil {
		t.Error("a failure of the provider is not an error")
	}
	first.removeLeftRecords(t.Context())
	m.timing.keepChallenges = 0
	must.Do(t, m.sweepChallenges(t.Context()))
	want("t1 t2", 2)
	records.failing = nil
	first.removeLeftRecords(t.Context())
	want("t2", 1)
	// Without its resolver no provider is known for it.
	m.options.Resolvers["other"] = Resolver{EntryPoint: "web"}
	must.Do(t, m.sweepChallenges(t.Context()))
	want("", 1)
}
