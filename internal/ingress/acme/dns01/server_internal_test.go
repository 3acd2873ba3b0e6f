package dns01

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"slipway.dev/slipway/internal/must"
)

const (
	keyName   = "edge-key."
	keySecret = "c2VjcmV0LW9mLXRoZS1rZXktMTIzNDU2Nzg5MGFiY2Q="
)

// nameserver is a DNS server on a port of its own, over UDP and TCP. It is the primary
// of one zone, with a TSIG key, and knows records of others.
type nameserver struct {
	address string
	zone    string

	mu      sync.Mutex
	records []dns.RR
	queries []string
	// code is the response code of everything, plain leaves out the signature, quiet
	// the SOA record, cached is for responses of another server's zone, and short
	// truncates what goes by UDP.
	code                        int
	plain, quiet, cached, short bool
	// seen gets the number of each query.
	seen func(count int)
	// late is how many queries for TXT find nothing.
	late int
}

func startNameserver(t *testing.T, zone string, records ...string) *nameserver {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	packets := must.Get(net.ListenPacket("udp", listener.Addr().String()))(t)
	s := &nameserver{address: listener.Addr().String(), zone: zone}
	for _, text := range records {
		s.records = append(s.records, must.Get(dns.NewRR(text))(t))
	}
	for _, server := range []*dns.Server{{Listener: listener}, {PacketConn: packets}} {
		started, done := make(chan struct{}), make(chan error, 1)
		server.Handler, server.TsigSecret = s, map[string]string{keyName: keySecret}
		server.MsgAcceptFunc = func(dns.Header) dns.MsgAcceptAction { return dns.MsgAccept }
		server.NotifyStartedFunc = func() { close(started) }
		go func() { done <- server.ActivateAndServe() }()
		<-started
		t.Cleanup(func() {
			if err := server.Shutdown(); err != nil {
				t.Error(err)
			}
			<-done
		})
	}
	return s
}

// ServeDNS implements [dns.Handler].
func (s *nameserver) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries = append(s.queries, dns.TypeToString[r.Question[0].Qtype]+" "+r.Question[0].Name)
	if s.seen != nil {
		s.seen(len(s.queries))
	}
	reply := new(dns.Msg).SetReply(r)
	reply.Authoritative = dns.IsSubDomain(s.zone, r.Question[0].Name) && !s.cached
	_, udp := w.RemoteAddr().(*net.UDPAddr)
	signed, failed := r.IsTsig(), uint16(0)
	switch {
	case signed != nil && w.TsigStatus() != nil:
		// An error of TSIG has no signature (RFC 8945, section 5.3.2).
		reply.Rcode, failed = dns.RcodeNotAuth, dns.RcodeBadKey
	case s.code != 0:
		reply.Rcode = s.code
	case r.Opcode == dns.OpcodeUpdate:
		s.update(r.Ns)
	case udp && s.short:
		reply.Truncated = true
	default:
		s.find(reply, r.Question[0])
	}
	if signed != nil && !s.plain {
		reply.SetTsig(signed.Hdr.Name, signed.Algorithm, 300, int64(signed.TimeSigned))
		reply.IsTsig().Error = failed
	}
	_ = w.WriteMsg(reply) // a client that has gone gets nothing
}

func (s *nameserver) update(changes []dns.RR) {
	for _, change := range changes {
		if change.Header().Class == dns.ClassINET {
			s.records = append(s.records, change)
			continue
		}
		change.Header().Class = dns.ClassINET
		kept := s.records[:0]
		for _, record := range s.records {
			if !dns.IsDuplicate(record, change) {
				kept = append(kept, record)
			}
		}
		s.records = kept
	}
}

func (s *nameserver) find(reply *dns.Msg, question dns.Question) {
	if question.Qtype == dns.TypeTXT && s.late > 0 {
		s.late--
		return
	}
	for _, record := range s.records {
		if strings.EqualFold(record.Header().Name, question.Name) && record.Header().Rrtype == question.Qtype {
			reply.Answer = append(reply.Answer, record)
		}
	}
	if len(reply.Answer) == 0 && !s.quiet && dns.IsSubDomain(s.zone, question.Name) {
		soa := &dns.SOA{Hdr: dns.RR_Header{Name: s.zone, Rrtype: dns.TypeSOA, Class: dns.ClassINET}, Ns: "ns." + s.zone, Mbox: "root." + s.zone}
		if question.Qtype == dns.TypeSOA && question.Name == s.zone {
			reply.Answer = append(reply.Answer, soa)
			return
		}
		reply.Rcode = dns.RcodeNameError
		reply.Ns = append(reply.Ns, soa)
	}
}

// texts are the TXT records of the server.
func (s *nameserver) texts() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, record := range s.records {
		if txt, ok := record.(*dns.TXT); ok {
			all = append(all, txt.Hdr.Name+"="+strings.Join(txt.Txt, "+"))
		}
	}
	return strings.Join(all, " ")
}

// file writes a file for a test.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// wantError checks an error for words that it has to contain, and that it has no
// secret.
func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error with %q", words)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("no %q in %v", word, err)
		}
	}
	for _, hidden := range []string{keySecret, "hidden-password"} {
		if strings.Contains(err.Error(), hidden) {
			t.Errorf("a secret in %v", err)
		}
	}
}
