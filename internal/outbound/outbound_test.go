package outbound_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/outbound"
)

// client connects as a policy allows. A name that is not empty is what every host
// is resolved to.
func client(policy *outbound.Policy, resolved string) *http.Client {
	dialer := policy.Dialer(net.Dialer{})
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, cmp.Or(resolved, address))
	}}}
}

// Every spelling of an own address is refused, and nothing is sent there.
func TestRefused(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{
		"127.0.0.1", "127.9.9.9", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]", "0.1.2.3",
		"169.254.169.254", "[::ffff:169.254.169.254]", "[fe80::1]", "[fe80::1%25lo]", "224.0.0.1", "[ff02::1]",
		"[fd00:ec2::254]", "100.100.100.200", "168.63.129.16", "[64:ff9b::7f00:1]", "[64:ff9b::169.254.169.254]",
	} {
		response, err := client(outbound.New(), "").Get("http://" + host + ":" + port)
		var refused *outbound.RefusedError
		if err == nil {
			_ = response.Body.Close()
		}
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "outbound.allow") {
			t.Errorf("%s: %v", host, err)
		}
	}
	if asked != 0 {
		t.Errorf("%d requests arrived", asked)
	}
}

// A redirect, or a name that has another address at the second look, leads nowhere
// else.
func TestRedirects(t *testing.T) {
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "credentials") }))
	defer secret.Close()
	listener, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	public := &http.Server{Handler: http.RedirectHandler(secret.URL, http.StatusFound)}
	go func() { _ = public.Serve(listener) }()
	defer public.Close()
	// One address of loopback is allowed, as if it were public.
	policy := outbound.New(netip.MustParsePrefix("127.0.0.2/32"))
	address := "http://" + listener.Addr().String()
	var refused *outbound.RefusedError
	if _, err := client(policy, "").Get(address); !errors.As(err, &refused) || refused.Address.String() != "127.0.0.1" {
		t.Errorf("the redirect: %v", err)
	}
	if _, err := client(policy, secret.Listener.Addr().String()).Get("http://git.example.com"); !errors.As(err, &refused) {
		t.Errorf("a name with an address of this machine: %v", err)
	}
}

// Private networks and everything public are allowed, and so is what an operator
// adds; without a policy all is.
func TestAllowed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	for name, policy := range map[string]*outbound.Policy{
		"loopback": outbound.New(outbound.Loopback()...),
		"added":    outbound.New().With(outbound.Loopback()...),
		"one":      outbound.New(netip.MustParsePrefix("127.0.0.1/32")),
		"none":     nil,
		"no more":  (*outbound.Policy)(nil).With(netip.MustParsePrefix("10.0.0.0/8")),
	} {
		response, err := client(policy, "").Get(server.URL)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = response.Body.Close()
	}
	// Nothing listens there; the check comes before.
	for _, address := range []string{"10.1.2.3:1", "192.168.0.1:1", "172.16.0.1:1", "100.64.0.1:1", "[fd12::1]:1", "93.184.216.34:1", "[2001:db8::1]:1"} {
		dialer := outbound.New().Dialer(net.Dialer{})
		if err := dialer.Control("tcp", address, nil); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := outbound.New().Dialer(net.Dialer{}).Control("tcp", "git.example.com:1", nil); err == nil {
		t.Error("a name passes")
	}
}

// A proxy is connected to wherever it is; what is not behind it is checked.
func TestProxy(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "proxied "+r.Host) }))
	defer proxy.Close()
	at, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	direct := httptest.NewServer(http.NotFoundHandler())
	defer direct.Close()
	transport := &http.Transport{DisableKeepAlives: true, Proxy: func(r *http.Request) (*url.URL, error) {
		if r.URL.Host == "git.example.com" {
			return at, nil
		}
		return nil, nil
	}}
	outbound.New().Apply(transport, net.Dialer{})
	client := &http.Client{Transport: transport}
	response, err := client.Get("http://git.example.com")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if string(text) != "proxied git.example.com" {
		t.Errorf("got %q", text)
	}
	var refused *outbound.RefusedError
	if _, err := client.Get(direct.URL); !errors.As(err, &refused) {
		t.Errorf("without the proxy: %v", err)
	}
}

// Nothing that the kernel would send to this machine passes.
func FuzzCheck(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add(netip.MustParseAddr("::ffff:127.0.0.1").AsSlice())
	control := outbound.New().Dialer(net.Dialer{}).Control
	f.Fuzz(func(t *testing.T, raw []byte) {
		address, ok := netip.AddrFromSlice(raw)
		if !ok {
			return
		}
		own := address.Unmap().IsLoopback() || address.Unmap().IsUnspecified() || address.Unmap().IsLinkLocalUnicast()
		if err := control("tcp", netip.AddrPortFrom(address, 1).String(), nil); own && err == nil {
			t.Errorf("%v passes", address)
		} else if err != nil && !strings.Contains(err.Error(), fmt.Sprint(address.Unmap())) {
			t.Errorf("%v is refused as another: %v", address, err)
		}
	})
}
