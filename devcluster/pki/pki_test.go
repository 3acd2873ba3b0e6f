package pki

import (
	"crypto/tls"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/devcluster/must"
)

// serverLeaf is a certificate for 127.0.0.1.
var serverLeaf = Leaf{CommonName: "server", Server: true, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}

func TestAuthorityIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	first := openAuthority(t, dir, "ca")
	second := openAuthority(t, dir, "ca")
	if !first.cert.Equal(second.cert) {
		t.Error("the authority changed: kubeconfigs that were handed out would stop working")
	}
	handshake(t, issue(t, second, "server", serverLeaf), issue(t, first, "client", Leaf{CommonName: "client", Client: true}), first, "")
}

func TestAuthoritiesAreApart(t *testing.T) {
	dir := t.TempDir()
	cluster, etcd := openAuthority(t, dir, "ca"), openAuthority(t, dir, "etcd-ca")
	server := issue(t, etcd, "etcd", serverLeaf)
	handshake(t, server, issue(t, etcd, "good", Leaf{CommonName: "good", Client: true}), etcd, "")
	handshake(t, server, issue(t, cluster, "user", Leaf{CommonName: "user", Client: true}), etcd, "certificate")
}

func TestUsageIsLimited(t *testing.T) {
	ca := openAuthority(t, t.TempDir(), "ca")
	server := issue(t, ca, "server", serverLeaf)
	handshake(t, server, server, ca, "certificate") // a server certificate is not a client certificate
}

func TestFileModes(t *testing.T) {
	dir := t.TempDir()
	ca := openAuthority(t, dir, "ca")
	issue(t, ca, "server", serverLeaf)
	private, public, err := SigningKey(dir, "service-account")
	must.Do(t, err)
	want := map[string]fs.FileMode{
		ca.File(): 0o644, ca.KeyFile(): 0o600, private: 0o600, public: 0o644,
		filepath.Join(dir, "server.key"): 0o600, filepath.Join(dir, "server.crt"): 0o644,
	}
	entries := must.Get(os.ReadDir(dir))(t)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil || info.Mode().Perm() != want[path] {
			t.Errorf("%s has mode %v (%v), want %v", path, info.Mode().Perm(), err, want[path])
		}
	}
	if len(entries) != len(want) {
		t.Errorf("%d files, want %d: something temporary was left", len(entries), len(want))
	}
}

func TestSigningKeyIsKept(t *testing.T) {
	dir := t.TempDir()
	read := func() string {
		private, _, err := SigningKey(dir, "service-account")
		must.Do(t, err)
		content := must.Get(os.ReadFile(private))(t)
		return string(content)
	}
	if first := read(); first != read() {
		t.Error("the signing key changed: tokens that were handed out would stop working")
	}
}

func TestBrokenAuthorityIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	ca := openAuthority(t, dir, "ca")
	must.Do(t, os.WriteFile(ca.File(), []byte("garbage"), 0o644))
	if _, err := OpenAuthority(dir, "ca"); err == nil || !strings.Contains(err.Error(), ca.File()) {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

func openAuthority(t *testing.T, dir, name string) *Authority {
	t.Helper()
	return must.Get(OpenAuthority(dir, name))(t)
}

func issue(t *testing.T, a *Authority, name string, leaf Leaf) tls.Certificate {
	t.Helper()
	pair := must.Get(a.Issue(name, leaf))(t)
	return must.Get(tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile))(t)
}

// handshake connects over loopback with both sides verifying against the authority; wantErr is part of the server's error.
func handshake(t *testing.T, server, client tls.Certificate, ca *Authority, wantErr string) {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{server}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
	})
	must.Do(t, err)
	defer ln.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{Certificates: []tls.Certificate{client}, RootCAs: ca.Pool()})
		if err == nil {
			_ = conn.Handshake()
			conn.Close()
		}
	}()
	conn := must.Get(ln.Accept())(t)
	err = conn.(*tls.Conn).Handshake()
	conn.Close()
	<-done
	switch {
	case wantErr == "" && err != nil:
		t.Errorf("handshake: %v", err)
	case wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)):
		t.Errorf("handshake gave %v, want an error with %q", err, wantErr)
	}
}
