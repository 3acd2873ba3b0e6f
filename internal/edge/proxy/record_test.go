package proxy_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// seen is what an observer kept of a record and its heads.
type seen struct {
	proxy.Record
	agent, server string
}

func watching(records chan seen) func(*proxy.Config) {
	return func(c *proxy.Config) {
		c.Observe = func(r *proxy.Record) {
			s := seen{Record: *r}
			s.Method, s.Host, s.Path = strings.Clone(r.Method), strings.Clone(r.Host), strings.Clone(r.Path)
			if r.Head != nil {
				value, _ := r.Head.Get(normalize.FieldUserAgent)
				s.agent = string(value)
			}
			if r.Response != nil {
				value, _ := r.Response.Get(normalize.FieldServer)
				s.server = string(value)
			}
			records <- s
		}
	}
}

func TestRecord(t *testing.T) {
	records := make(chan seen, 10)
	table := edgetest.Table([]netip.AddrPort{edgetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "shop/1")
		_, _ = io.Copy(w, io.LimitReader(r.Body, 3))
	})}, route.Policy{BasicAuth: &route.BasicAuth{Users: route.NewSecret("alice:{SHA}" + shaSecret)}})
	from := proxy.Accepted{Protocol: "HTTP/3", TLS: true, TLSVersion: tls.VersionTLS13, CipherSuite: tls.TLS_AES_128_GCM_SHA256}
	e := startFrom(t, table, from, watching(records))
	w := edgetest.Dial(t, e.Address)
	w.Post("/a?b", "hello", "User-Agent: tester/1", "Authorization: Basic YWxpY2U6c2VjcmV0")
	r := <-records
	if r.Method != "POST" || r.Host != "shop.example" || r.Path != "/a" || r.Status != 200 || r.Received != 5 || r.Sent != 3 || r.Origin != 3 {
		t.Errorf("got %+v", r.Record)
	}
	if r.User != "alice" || r.agent != "tester/1" || r.server != "shop/1" || r.Protocol != "HTTP/3" || r.TLSVersion != tls.VersionTLS13 {
		t.Errorf("got %+v with %q and %q", r.Record, r.agent, r.server)
	}
	if r.Backend == nil || *r.Backend != edgetest.BackendID("app") || r.Endpoint == "" || r.Retries() != 0 || r.Reason != "" {
		t.Errorf("got %+v", r.Record)
	}
	if r.Connected <= 0 || r.Responded < r.Connected || r.Upstream > r.Duration || r.Upstream <= 0 {
		t.Errorf("got %s, %s, %s of %s", r.Connected, r.Responded, r.Upstream, r.Duration)
	}
	w.Get("/", "User-Agent: tester/2")
	if r := <-records; r.Status != 401 || r.Response != nil || r.User != "" || r.Reason != "Unauthorized" || r.agent != "tester/2" || r.Backend != nil {
		t.Errorf("got %+v", r.Record)
	}
	w.Send("GET / HTTP/1.1\r\nHost: a b\r\n\r\n")
	if r := <-records; r.Status != 400 || r.Head != nil || r.Protocol != "HTTP/3" {
		t.Errorf("got %+v", r.Record)
	}
}

// The record of a tunnel has its heads too, however long it lasted.
func TestRecordOfTunnel(t *testing.T) {
	records := make(chan seen, 10)
	e := start(t, edgetest.Table([]netip.AddrPort{raw(t, func(conn net.Conn, read *bufio.Reader) {
		if _, err := http.ReadRequest(read); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nServer: chat\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.Copy(conn, read)
		}
	})}), watching(records))
	w := edgetest.Dial(t, e.Address)
	w.Send("GET /talk HTTP/1.1\r\nHost: x\r\nUser-Agent: talker\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
	if response, err := http.ReadResponse(w.Reader, nil); err != nil || response.StatusCode != 101 {
		t.Fatalf("got %v and %v", response, err)
	}
	must.Do(t, w.Conn.(*net.TCPConn).CloseWrite())
	if got, err := io.ReadAll(w.Reader); err != nil || string(got) != "hello" {
		t.Errorf("got %q and %v", got, err)
	}
	if r := <-records; !r.Upgraded || r.Path != "/talk" || r.agent != "talker" || r.server != "chat" || r.Sent != 5 {
		t.Errorf("got %+v with %q and %q", r.Record, r.agent, r.server)
	}
}

// The edge does what Admit returns, for requests that a rule took, and before filters.
func TestAdmit(t *testing.T) {
	table := edgetest.Table([]netip.AddrPort{edgetest.Backend(t, edgetest.Echo)}, route.Policy{BasicAuth: &route.BasicAuth{Users: route.NewSecret("alice:{SHA}" + shaSecret)}})
	table.Rules[0].Host = "*.example"
	asked := make(chan string, 10)
	e := start(t, table, func(c *proxy.Config) {
		c.Admit = func(from *proxy.Accepted, host string, rule *route.Rule) *filter.LocalResponse {
			asked <- fmt.Sprint(from.EntryPoint, " ", host, " ", rule.Host)
			if host == "wrong.example" {
				return &filter.LocalResponse{Status: 421, Reason: "Misdirected"}
			}
			return nil
		}
	})
	w := edgetest.Dial(t, e.Address)
	for host, status := range map[string]int{"wrong.example": 421, "right.example": 401} {
		w.Send("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
		if response, _ := w.Response("GET"); response.StatusCode != status {
			t.Errorf("%s: got %d", host, response.StatusCode)
		}
		if got := <-asked; got != "web "+host+" *.example" {
			t.Errorf("asked about %q", got)
		}
	}
	w.Send("GET / HTTP/1.1\r\nHost: elsewhere\r\n\r\n")
	if response, _ := w.Response("GET"); response.StatusCode != 404 || len(asked) != 0 {
		t.Errorf("got %d", response.StatusCode)
	}
}

// The client's certificate is the connection's, and nothing else is one.
func TestCertificate(t *testing.T) {
	info := route.Policy{ForwardCertificate: &route.ForwardCertificate{InfoHeader: "X-Client-Cert", Info: []route.CertificateInfo{route.InfoSubject}}}
	table := edgetest.Table([]netip.AddrPort{edgetest.Backend(t, edgetest.Echo)}, info)
	certificate := &x509.Certificate{Raw: []byte("raw"), Signature: []byte("signature"), Subject: pkix.Name{CommonName: "alice"}}
	for _, from := range []proxy.Accepted{{}, {TLS: true, Certificate: filter.ClientCertificate{Verified: certificate}}} {
		e := startFrom(t, table, from)
		w := edgetest.Dial(t, e.Address)
		w.Send("POST / HTTP/1.1\r\nHost: x\r\nX-Client-Cert: root\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-client-CERT: root\r\n\r\n")
		_, body := w.Response("POST")
		want := from.Certificate.Verified != nil
		if strings.Contains(body, "root") || strings.Contains(body, `X-Client-Cert: Subject="CN%3Dalice"`) != want || !strings.HasPrefix(body, "POST / hi\n") {
			t.Errorf("with a certificate %v:\n%s", want, body)
		}
	}
}

// A tracer reads the request and adds to it, and learns how it ended.
func TestTrace(t *testing.T) {
	pattern, err := h1.SetField("traceparent", "")
	must.Do(t, err)
	ended := make(chan int, 1)
	tracing := func(c *proxy.Config) {
		c.Trace = func(r *proxy.Record, x *filter.Exchange) func() {
			parent, _ := x.Head.Find("traceparent")
			edit, err := pattern.With("child of " + string(parent))
			if err != nil || !x.Client.IsValid() {
				t.Errorf("client %s: %v", x.Client, err)
			}
			x.RequestEdits = append(x.RequestEdits, edit)
			return func() { ended <- r.Status }
		}
	}
	for name, policies := range map[string][]route.Policy{"no filters": nil, "filters": {compressing}} {
		t.Run(name, func(t *testing.T) {
			e := start(t, edgetest.Table([]netip.AddrPort{edgetest.Backend(t, edgetest.Echo)}, policies...), tracing)
			_, body := edgetest.Dial(t, e.Address).Get("/", "traceparent: 00-1")
			if status := <-ended; status != 200 || !strings.Contains(body, "Traceparent: child of 00-1\n") || strings.Count(body, "Traceparent") != 1 {
				t.Errorf("ended with %d:\n%s", status, body)
			}
		})
	}
	e := start(t, edgetest.Table([]netip.AddrPort{programs.FreeAddress(t)}), tracing)
	edgetest.Dial(t, e.Address).Get("/")
	if status := <-ended; status != 502 {
		t.Errorf("ended with %d, want what the client got", status)
	}
}
