package tenancy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// sources are the Git server and the Helm repository at http://localhost. They
// record what is requested with which credential.
//
//	/evil/apps     the repository of evil
//	/corp/*        bank's repository, under any name, with the runtime's token
//	/private/*     bank's repository, under any name, with bank's own token
//	/charts/evil   evil's charts
//	/charts/corp   bank's charts, with the runtime's password
type sources struct {
	git   *gittest.Server
	apps  *gittest.Repository
	proxy *httputil.ReverseProxy

	mu       sync.Mutex
	requests []request
	// connections counts those to the traps by their port.
	connections map[string]int
}

// request is one that has been received.
type request struct{ path, authorization string }

// serveSources runs the servers until the end of the test.
func serveSources(t *testing.T) *sources {
	t.Helper()
	s := &sources{
		git:         gittest.Serve(t, gittest.RepositoryTokens("corp/site", "host-token"), gittest.RepositoryTokens("private/site", "bank-token")),
		connections: map[string]int{},
	}
	s.apps = s.git.Repository(t, "evil/apps", map[string]string{"README": "of evil", ".gitmodules": gitmodules()})
	for path := range submodules() {
		s.apps.SubmoduleAt(t, path, strings.Repeat("5", 40))
	}
	for _, name := range []string{"corp/site", "private/site"} {
		s.git.Repository(t, name, map[string]string{
			"site.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: site}\ndata: {of: bank}\n", "secrets/one.yaml": "secret: value-of-bank\n",
		})
	}
	target := must.Get(url.Parse(strings.TrimSuffix(s.apps.URL(), "/evil/apps.git")))(t)
	s.proxy = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.URL.Path, r.Out.URL.RawPath = repositoryPath(r.In.URL.Path), ""
	}}
	serve(t, must.Get(net.Listen("tcp", "127.0.0.1:80"))(t), s)
	for _, address := range []string{"127.0.0.1:22", "127.0.0.1:443", "127.0.0.1:7777", "127.0.0.2:7778"} {
		s.trap(t, address)
	}
	return s
}

// repositoryPath leads every name below /corp and /private to the one repository
// that is there, so that each attempt has a name of its own.
func repositoryPath(path string) string {
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 3)
	if len(parts) == 3 && parts[0] != evil {
		return "/" + parts[0] + "/site.git/" + parts[2]
	}
	if len(parts) == 3 {
		return "/evil/apps.git/" + parts[2]
	}
	return path
}

// ServeHTTP records a request and responds to it.
func (s *sources) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, request{path: r.URL.Path, authorization: r.Header.Get("Authorization")})
	s.mu.Unlock()
	switch {
	case serveEvil(w, r):
	case strings.HasPrefix(r.URL.Path, "/charts/"):
		if _, password, _ := r.BasicAuth(); password != "chart-password" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write(chart())
	default:
		s.proxy.ServeHTTP(w, r)
	}
}

// evilIndex is the index of evil's charts. One of them is an archive of bank, on
// the host that gets the runtime's password, one is huge, and one is not that of its
// digest.
const evilIndex = `apiVersion: v1
entries:
  own:
  - {apiVersion: v2, name: shop, version: 1.0.0, urls: [shop-1.0.0.tgz]}
  huge:
  - {apiVersion: v2, name: huge, version: 1.0.0, urls: [huge-1.0.0.tgz]}
  changed:
  - {apiVersion: v2, name: changed, version: 1.0.0, digest: "5555555555555555555555555555555555555555555555555555555555555555", urls: [changed-1.0.0.tgz]}
  stolen:
  - {apiVersion: v2, name: shop, version: 1.0.0, urls: ["http://localhost/charts/corp/archive-of-bank.tgz"]}
`

// chart is an archive of a chart with one ConfigMap.
func chart() []byte {
	var packed bytes.Buffer
	compressed := gzip.NewWriter(&packed)
	files := tar.NewWriter(compressed)
	for _, file := range [][2]string{
		{"shop/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n"},
		{"shop/templates/one.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\n"},
	} {
		_ = files.WriteHeader(&tar.Header{Name: file[0], Mode: 0o644, Size: int64(len(file[1])), Typeflag: tar.TypeReg}) // into memory
		_, _ = files.Write([]byte(file[1]))
	}
	_, _ = files.Close(), compressed.Close()
	return packed.Bytes()
}

// trap listens on an address and counts the connections by port.
func (s *sources) trap(t *testing.T, address string) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", address))(t)
	_, port, _ := net.SplitHostPort(address)
	programs.Background(t, func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.connections[port]++
			s.mu.Unlock()
			_ = conn.Close()
		}
	}, func() { _ = listener.Close() })
}

// unrequested: nothing with this name was requested.
func unrequested(name string) proof {
	return func(w *world) error {
		w.sources.mu.Lock()
		defer w.sources.mu.Unlock()
		for _, one := range w.sources.requests {
			if strings.Contains(strings.ToLower(one.path), name) {
				return fmt.Errorf("%s was requested with %q", one.path, one.authorization)
			}
		}
		return nil
	}
}

// withoutCredential: nothing with this name was requested with a credential.
func withoutCredential(name, credential string) proof {
	return func(w *world) error {
		w.sources.mu.Lock()
		defer w.sources.mu.Unlock()
		for _, one := range w.sources.requests {
			if strings.Contains(one.path, name) && strings.Contains(one.authorization, credential) {
				return fmt.Errorf("%s was requested with %s", one.path, credential)
			}
		}
		return nil
	}
}

// unreached: no connection was made to a port.
func unreached(port string) proof {
	return func(w *world) error {
		w.sources.mu.Lock()
		defer w.sources.mu.Unlock()
		if count := w.sources.connections[port]; count > 0 {
			return fmt.Errorf("%d connections to port %s", count, port)
		}
		return nil
	}
}
