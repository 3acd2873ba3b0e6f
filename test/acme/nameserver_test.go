package acme

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

const (
	// tsigSecret is that of the key with which the edges may write TXT records.
	tsigSecret = "c2VjcmV0LW9mLXRoZS1rZXktMTIzNDU2Nzg5MGFiY2Q="
	// delegated is where acme-dns keeps the challenges of pay.example.
	delegated = "d420.auth.example."
	// authPassword is that of its account there.
	authPassword = "hidden-password"
)

// nameServer is BIND. It is the primary of the zone example, with one address for all
// names, and resolves for every client.
type nameServer struct {
	*programs.Process
	address string
}

// startBIND runs BIND at 127.0.0.1: it listens on addresses of interfaces only. The
// challenges of pay.example lead to a zone that another server has, as acme-dns is set
// up; those of wild.example match the wildcard of its load balancer.
func startBIND(t *testing.T, names, auth netip.Addr) *nameServer {
	t.Helper()
	at := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "example.zone"), fmt.Appendf(nil, `$TTL 1
@ SOA ns.example. root.example. 1 60 60 60 1
@ NS ns.example.
ns A %s
* A %s
auth NS ns.auth
ns.auth A %s
_acme-challenge.pay CNAME %s
*.wild CNAME ns
`, at, names, auth, delegated))
	config := write(t, filepath.Join(dir, "named.conf"), fmt.Appendf(nil, `
options {
	directory %q; listen-on { %s; }; listen-on-v6 { none; }; pid-file none; session-keyfile none; lock-file none;
	recursion yes; allow-recursion { any; }; dnssec-validation no; empty-zones-enable no;
};
controls { };
key "edge" { algorithm hmac-sha256; secret %q; };
zone "example" { type primary; file "example.zone"; update-policy { grant edge zonesub TXT; }; };
`, dir, at, tsigSecret))
	// AppArmor confines the program by its path to the files of the package.
	named := filepath.Join(dir, "named")
	must.Do(t, os.WriteFile(named, must.Get(os.ReadFile("/usr/sbin/named"))(t), 0o700))
	command := exec.Command(named, "-g", "-4", "-n", "1", "-c", config)
	log := &programs.Output{}
	command.Stdout, command.Stderr = log, log
	s := &nameServer{Process: programs.Run(t, "BIND at "+at.String(), command), address: netip.AddrPortFrom(at, 53).String()}
	s.AwaitListener(t, "tcp", s.address)
	return s
}

// texts are the TXT records of a name.
func (s *nameServer) texts(t *testing.T, name string) []string {
	t.Helper()
	reply, err := dns.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeTXT), s.address)
	var texts []string
	if err == nil {
		for _, found := range reply.Answer {
			if txt, ok := found.(*dns.TXT); ok {
				texts = append(texts, strings.Join(txt.Txt, ""))
			}
		}
	}
	return texts
}

// added is how many records were added to the zone.
func (s *nameServer) added() int {
	return strings.Count(s.Log.String(), "adding an RR at '_acme-challenge.")
}

// acmeDNS is a stand-in for acme-dns: the part of its HTTP API that writes, and its
// DNS server, as its README documents them. An account keeps its last two values.
type acmeDNS struct {
	mu     sync.Mutex
	values []string
	// updates are all that were accepted.
	updates int
}

func startAcmeDNS(t *testing.T, at netip.Addr) *acmeDNS {
	t.Helper()
	s := &acmeDNS{}
	listener := must.Get(net.Listen("tcp", netip.AddrPortFrom(at, 80).String()))(t)
	api := &http.Server{Handler: http.HandlerFunc(s.update)}
	programs.Background(t, func() { _ = api.Serve(listener) }, func() { _ = api.Close() })
	packets := must.Get(net.ListenPacket("udp", netip.AddrPortFrom(at, 53).String()))(t)
	names := &dns.Server{PacketConn: packets, Handler: dns.HandlerFunc(s.resolve)}
	programs.Background(t, func() { _ = names.ActivateAndServe() }, func() { _ = packets.Close() })
	return s
}

// update is POST /update.
func (s *acmeDNS) update(w http.ResponseWriter, r *http.Request) {
	var body struct{ Subdomain, TXT string }
	if r.Method != http.MethodPost || r.URL.Path != "/update" || json.NewDecoder(r.Body).Decode(&body) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if r.Header.Get("X-Api-User") != "pay" || r.Header.Get("X-Api-Key") != authPassword || body.Subdomain != "d420" || len(body.TXT) != 43 {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error": "forbidden"}`)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.updates++
	s.values = append(s.values, body.TXT)
	s.values = s.values[max(0, len(s.values)-2):]
	fmt.Fprintf(w, `{"txt": %q}`, body.TXT)
}

// resolve is the DNS server of the zone auth.example.
func (s *acmeDNS) resolve(w dns.ResponseWriter, r *dns.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := new(dns.Msg).SetReply(r)
	reply.Authoritative = true
	header := dns.RR_Header{Name: r.Question[0].Name, Rrtype: r.Question[0].Qtype, Class: dns.ClassINET, Ttl: 1}
	switch strings.ToLower(header.Name) + " " + dns.TypeToString[header.Rrtype] {
	case delegated + " TXT":
		for _, value := range s.values {
			reply.Answer = append(reply.Answer, &dns.TXT{Hdr: header, Txt: []string{value}})
		}
	case "auth.example. NS":
		reply.Answer = append(reply.Answer, &dns.NS{Hdr: header, Ns: "ns.auth.example."})
	case "ns.auth.example. A":
		reply.Answer = append(reply.Answer, &dns.A{Hdr: header, A: hostOf(9).AsSlice()})
	}
	if len(reply.Answer) == 0 {
		header.Name, header.Rrtype = "auth.example.", dns.TypeSOA
		reply.Ns = append(reply.Ns, &dns.SOA{Hdr: header, Ns: "ns.auth.example.", Mbox: "root.auth.example.", Minttl: 1})
	}
	_ = w.WriteMsg(reply) // a client that has gone gets nothing
}

// accounts is the file with the account of pay.example.
func accounts(t *testing.T) string {
	t.Helper()
	text := must.Get(json.Marshal(map[string]any{"pay.example": map[string]string{
		"username": "pay", "password": authPassword, "subdomain": "d420", "fulldomain": strings.TrimSuffix(delegated, "."),
	}}))(t)
	return write(t, filepath.Join(t.TempDir(), "accounts.json"), text)
}

// dnsOptions are the options of the resolvers dns, auth and slow: dynamic updates,
// acme-dns, and updates that are checked after the end of the test.
func (w *world) dnsOptions(t *testing.T) []string {
	t.Helper()
	key := write(t, filepath.Join(t.TempDir(), "tsig"), []byte(tsigSecret+"\n"))
	var options []string
	for name, more := range map[string][]string{
		"dns":  {"provider=rfc2136"},
		"slow": {"provider=rfc2136", "propagation.delayBeforeChecks=5m"},
		"auth": {"provider=acme-dns", "acmeDNS.apiBase=http://" + hostOf(9).String(), "acmeDNS.accountsFile=" + accounts(t)},
	} {
		more = append(more, "resolvers="+w.names.address)
		if slices.Contains(more, "provider=rfc2136") {
			more = append(more, "rfc2136.nameserver="+w.names.address, "rfc2136.tsigKey=edge", "rfc2136.tsigSecretFile="+key)
		}
		at := "--certificatesResolvers." + name + ".acme."
		options = append(options, at+"caServer="+w.authority.directory(), at+"caCertificate="+w.authority.rootFile)
		for _, option := range more {
			options = append(options, at+"dnsChallenge."+option)
		}
	}
	return options
}
