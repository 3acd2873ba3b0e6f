package source_test

import (
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/outbound"
)

// A tenant does not make the agent connect to its own machine, whatever the protocol
// and the spelling: not one connection arrives. What an operator allows is read.
func TestInternalAddresses(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var arrived atomic.Int32
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			arrived.Add(1)
			_ = conn.Close()
		}
	}()
	defer func() { _ = listener.Close(); <-ended }()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	s := open(t, func(o *source.Options) { o.Outbound = outbound.New() })
	for _, address := range []string{"127.0.0.1", "localhost", "127.1.2.3", "169.254.169.254"} {
		for _, url := range []string{"http://" + address + ":" + port + "/team/x", "https://" + address + ":" + port + "/team/x"} {
			_, err := s.Resolve(t.Context(), of(t, "web", url, "main"), 0)
			if !source.IsKind(err, source.Denied) || !strings.Contains(err.Error(), "outbound.allow") {
				t.Errorf("%s: %v", url, err)
			}
		}
		for _, url := range []string{"https://" + address + ":" + port + "/charts", "oci://" + address + ":" + port + "/charts"} {
			_, err := s.Resolve(t.Context(), chartAt(url, "web", "1.0.0"), 0)
			if !source.IsKind(err, source.Denied) || !strings.Contains(err.Error(), "outbound.allow") {
				t.Errorf("chart of %s: %v", url, err)
			}
		}
	}
	if n := arrived.Load(); n != 0 {
		t.Errorf("%d connections arrived", n)
	}
	server := gittest.ServeSSH(t)
	demo := server.Repository(t, "demo", map[string]string{"README": "hello"})
	ssh := open(t, with(sshCredential(server, demo), hosts(server.KnownHosts())), func(o *source.Options) { o.Outbound = outbound.New() })
	if _, err := ssh.Resolve(t.Context(), at(demo.URL(), "main"), 0); !source.IsKind(err, source.Denied) || !strings.Contains(err.Error(), "outbound.allow") {
		t.Errorf("SSH: %v", err)
	}
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{"README": "read"})
	allowed := open(t, func(o *source.Options) { o.Outbound = outbound.New(netip.MustParsePrefix("127.0.0.1/32")) })
	if got, err := allowed.Resolve(t.Context(), of(t, "web", repository.URL(), "main"), time.Hour); err != nil || read(t, got.Store, "README") != "read" {
		t.Errorf("what an operator allows: %v, %v", got, err)
	}
}
