// Package h2spec runs the cases of h2spec against the edge: what RFC 9113 (7540
// there) and RFC 7541 ask of a server, frame by frame, over plain connections
// and over encrypted ones, the strict cases too.
//
// Each case is a test with the name that h2spec has for it, such as
// http2/5.1.1/2, so one of them can be run alone. A case that the edge handles
// otherwise on purpose is in the list of exceptions, with the clause of the
// standard that allows it; an exception that is no longer needed is an error.
package h2spec

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	h2cases "github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

func TestMain(m *testing.M) { edgeprocess.Main(m) }

const (
	// least is the number of cases of the h2spec that go.mod names.
	least = 146
	// caseTimeout is how long a case waits for the edge to react.
	caseTimeout = 5 * time.Second
)

// exceptions are the cases that the edge fails on purpose, and why it may. Those
// that hold on plain connections only have "plain" before their name.
var exceptions = map[string]string{
	"http2/8.1.2.2/1": "a malformed request is answered with 400 before its stream ends, which RFC 9113, section 8.1.1 allows",
	"http2/8.1.2.2/2": "a malformed request is answered with 400 before its stream ends, which RFC 9113, section 8.1.1 allows",
	"plain http2/3.5/2": "on a plain connection what is no preface is HTTP/1.1, and its malformed request line is answered with 400 and a closed " +
		"connection; RFC 9113, section 3.4 asks for the connection to end",
}

// TestPlain is HTTP/2 of clients that know it in advance.
func TestPlain(t *testing.T) {
	edge := edgeprocess.Start(t, edgeprocess.Options{Table: greeting(t)})
	runAll(t, edge.Address("web"), false)
}

// TestEncrypted is HTTP/2 over TLS, chosen by ALPN.
func TestEncrypted(t *testing.T) {
	edge := edgeprocess.Start(t, edgeprocess.Options{
		Table: greeting(t), EntryPoints: []string{"secure"}, Arguments: []string{edgeprocess.Encrypted("secure")},
	})
	runAll(t, edge.Address("secure"), true)
}

// greeting sends everything to a backend that responds once it has the whole
// request, with a body: some cases count its bytes. A response that came sooner
// would end streams that cases go on with.
func greeting(t *testing.T) *route.Table {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			_, _ = io.WriteString(w, "hello")
		}
	}))
	t.Cleanup(server.Close)
	backend := edgeprocess.Backend("greeting", server.Listener.Addr().(*net.TCPAddr).AddrPort())
	return &route.Table{
		Rules:    []*route.Rule{{ID: route.ID{Name: "all"}, Backends: edgeprocess.To(backend)}},
		Backends: []*route.Backend{backend},
	}
}

// runAll runs every case as a test.
func runAll(t *testing.T, address string, encrypted bool) {
	host, text, err := net.SplitHostPort(address)
	must.Do(t, err)
	port := must.Get(strconv.Atoi(text))(t)
	options := config.Config{
		Host: host, Port: port, Path: "/", Timeout: caseTimeout, MaxHeaderLen: 4000, TLS: encrypted, Insecure: true, Strict: true,
	}
	count := 0
	for _, group := range []*spec.TestGroup{generic.Spec(), h2cases.Spec(), hpack.Spec()} {
		walk(group, func(name string, c *spec.TestCase) {
			count++
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				runCase(t, name, c, options)
			})
		})
	}
	if count < least {
		t.Errorf("there are %d cases, fewer than %d", count, least)
	}
}

// walk calls back for each case of a group and of those in it.
func walk(group *spec.TestGroup, call func(name string, c *spec.TestCase)) {
	for i, c := range append(group.Tests, group.StrictTests...) {
		call(fmt.Sprintf("%s/%d", group.ID(), i+1), c)
	}
	for _, inner := range group.Groups {
		walk(inner, call)
	}
}

// runCase runs a case on a connection of its own.
func runCase(t *testing.T, name string, c *spec.TestCase, options config.Config) {
	conn, err := spec.Dial(&options)
	must.Do(t, err)
	defer conn.Close()
	err = c.Run(&options, conn)
	reason, excepted := exceptions[name]
	if !excepted && !options.TLS {
		reason, excepted = exceptions["plain "+name]
	}
	switch {
	case errors.Is(err, spec.ErrSkipped):
		t.Skip("h2spec skips it: the server does not have what it is about")
	case err == nil && excepted:
		t.Errorf("%s: it passes now; remove the exception (%s)", c.Desc, reason)
	case err != nil && excepted:
		t.Logf("%s: accepted: %s", c.Desc, reason)
	case err != nil:
		t.Errorf("%s\n%s\n%v", c.Desc, c.Requirement, err)
	}
}
