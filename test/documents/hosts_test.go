package documents

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

const (
	// gitToken is the token of the runtime at the Git provider, and userToken that of
	// a user, who may not add webhooks.
	gitToken  = "ghp_canary0installdocs000000000000000000"
	userToken = "ghp_canary0documents00000000000000000000"
	// manifestPath is where the manifests of ingress-nginx are.
	manifestPath = "/kubernetes/ingress-nginx/"
)

// gitHost is github.com: its API is strict, and its repository is real.
type gitHost struct {
	provider   *providertest.Server
	repository *gittest.Repository
}

func newGitHost(t *testing.T) *gitHost {
	t.Helper()
	git, everything := gittest.Serve(t), map[string]string{"acme": "admin"}
	g := &gitHost{repository: git.Repository(t, "acme/config", map[string]string{"README.md": "ours\n"})}
	git.Repository(t, "acme/apps", map[string]string{"apps/shop.yaml": shopApplication, "shop/settings.yaml": shopSettings})
	g.provider = providertest.Start(t, gitprovider.GitHub, providertest.World{
		Owners:       map[string]string{"acme": "Organization"},
		Repositories: []providertest.Repository{{Path: "acme/config", Private: true}, {Path: "acme/apps", Private: true}},
		Tokens: []providertest.Token{
			{Value: gitToken, Login: "robot", UserID: 1, Scopes: []string{"repo", "admin:repo_hook"}, Roles: everything},
			{Value: userToken, Login: "ada", UserID: 2, Scopes: []string{"repo"}, Roles: everything},
		},
	})
	target := must.Get(url.Parse(strings.TrimSuffix(g.repository.URL(), "/acme/config.git")))(t)
	repositories := httputil.NewSingleHostReverseProxy(target)
	g.provider.Git = http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if _, password, _ := in.BasicAuth(); password != gitToken && password != userToken {
			out.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(out, "a token is needed", http.StatusUnauthorized)
			return
		}
		repositories.ServeHTTP(out, in)
	})
	return g
}

// shopApplication is what the Git Source of the scripts brings, and shopSettings what
// that delivers.
const (
	shopApplication = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: default
  source: {repoURL: "https://github.com/acme/apps.git", path: shop, targetRevision: HEAD}
  destination: {server: "https://kubernetes.default.svc", namespace: shop}
  syncPolicy: {automated: {}, syncOptions: [CreateNamespace=true]}
`
	shopSettings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: green}\n"
)

// passOn leads requests of github.com and api.github.com to the provider.
func (g *gitHost) passOn(t *testing.T) http.Handler {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(g.provider.CA)
	target := must.Get(url.Parse(g.provider.URL))(t)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		if r.In.Host == "api.github.com" {
			r.Out.URL.Path = "/api/v3" + r.In.URL.Path
		}
	}}
}

// serveHosts serves the hosts of the pages that are neither the platform nor a
// load balancer of the cluster.
func (w *world) serveHosts(t *testing.T) {
	t.Helper()
	registry, github := startRegistry(t), w.git.passOn(t)
	plain := httptest.NewServer(registry)
	t.Cleanup(plain.Close)
	w.registry = strings.TrimPrefix(plain.URL, "http://")
	serveTLS(t, servicesAddress(), w.certificate(t), http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		switch in.Host {
		case "github.com", "api.github.com":
			github.ServeHTTP(out, in)
		case "raw.githubusercontent.com":
			serveManifest(out, in)
		case "slipway.dev", "charts.slipway.dev", "charts.example.com", "registry.example.com":
			registry.ServeHTTP(out, in)
		default:
			http.Error(out, "there is nothing here", http.StatusNotFound)
		}
	}))
}

// serveManifest gives what the manifest of ingress-nginx for a provider makes, as far
// as the pages and the checks look at it.
func serveManifest(out http.ResponseWriter, in *http.Request) {
	if !strings.HasPrefix(in.URL.Path, manifestPath) || !strings.HasSuffix(in.URL.Path, "/deploy.yaml") {
		http.NotFound(out, in)
		return
	}
	_, _ = io.WriteString(out, communityObjects())
}

// startRegistry runs Debian's docker-registry on a socket, and gives what leads there.
func startRegistry(t *testing.T) http.Handler {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "socket")
	programs.Registry(t, "unix", socket, ", relativeurls: true", "")
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	passing := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "registry"})
	passing.Transport = transport
	return passing
}

// serveTLS serves https at an address until the test ends.
func serveTLS(t *testing.T, at netip.Addr, certificate tls.Certificate, handler http.Handler) {
	t.Helper()
	listener := must.Get(tls.Listen("tcp", netip.AddrPortFrom(at, 443).String(), &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}))(t)
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: 10 * time.Second}
	programs.Background(t, func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}, func() { _ = server.Close() })
}

// balancer is a load balancer before the cluster with a controller behind it: it ends
// TLS and leads to the router of the runtime, or passes connections on to our edge.
type balancer struct {
	certificate tls.Certificate
	toEdge      atomic.Bool
	router      http.Handler
}

// The ports of Pods that the load balancer leads to.
const (
	routerPort = 8088
	edgePort   = 8443
)

// podAddress is where a part listens that is ready.
func (w *world) podAddress(part string, port uint16) (string, error) {
	address, err := w.node.Address(part)
	return netip.AddrPortFrom(address, port).String(), err
}

func startBalancer(t *testing.T, w *world, certificate tls.Certificate) *balancer {
	t.Helper()
	router := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		host, _ := w.podAddress("agent", routerPort) // without one the request fails
		r.SetURL(&url.URL{Scheme: "http", Host: host})
		r.Out.Host = r.In.Host
		r.SetXForwarded()
	}}
	router.ErrorLog = log.New(io.Discard, "", 0) // there is no runtime most of the time
	b := &balancer{certificate: certificate, router: http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if !w.routed(in.Context(), in.Host, in.URL.Path) {
			http.NotFound(out, in)
			return
		}
		router.ServeHTTP(out, in)
	})}
	listener := must.Get(net.Listen("tcp", netip.AddrPortFrom(balancerAddress(), 443).String()))(t)
	ended := &connections{ends: make(chan struct{}), next: make(chan net.Conn)}
	server := &http.Server{Handler: b.router, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: 10 * time.Second}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(ended) }) // it ends with the test
	done.Go(func() { b.accept(w, listener, ended, &done) })
	t.Cleanup(func() {
		_ = listener.Close()
		_ = server.Close()
		_ = ended.Close()
		done.Wait()
	})
	return b
}

func (b *balancer) accept(w *world, listener net.Listener, ended *connections, done *sync.WaitGroup) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		if b.toEdge.Load() {
			done.Go(func() { w.passConnection(conn) })
			continue
		}
		secured := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{b.certificate}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
		select {
		case ended.next <- secured:
		case <-ended.ends:
			_ = conn.Close()
			return
		}
	}
}

func (w *world) passConnection(from net.Conn) {
	defer func() { _ = from.Close() }()
	address, err := w.podAddress("edge", edgePort)
	if err != nil {
		return
	}
	to, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	var copied sync.WaitGroup
	copied.Go(func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	})
	_, _ = io.Copy(from, to)
	_ = from.Close()
	copied.Wait()
}

// connections is a listener of connections that another listener has accepted.
type connections struct {
	next chan net.Conn
	once sync.Once
	ends chan struct{}
}

// Accept gives the next one.
func (c *connections) Accept() (net.Conn, error) {
	select {
	case conn := <-c.next:
		return conn, nil
	case <-c.ends:
		return nil, net.ErrClosed
	}
}

// Close ends it.
func (c *connections) Close() error {
	c.once.Do(func() { close(c.ends) })
	return nil
}

// Addr is where the connections come from.
func (c *connections) Addr() net.Addr { return &net.TCPAddr{} }
