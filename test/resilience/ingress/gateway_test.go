package ingress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/must"
)

// gatewayPort is where every gateway listens, on an address of its own.
const gatewayPort = 6443

// right is what a request to the API server needs.
type right struct{ group, resource, verb string }

// String is a right as people write it.
func (r right) String() string {
	return strings.TrimSuffix(r.verb+" "+r.resource+"."+r.group, ".")
}

// usedRight is a right that a request used in a namespace; empty is all of them.
type usedRight struct {
	right
	namespace string
}

// gateway stands between an edge and the API server. It knows which rights were
// used and which were denied, and can hold requests back.
type gateway struct {
	address   netip.Addr
	authority *pkitest.Authority
	certain   tls.Certificate
	upstream  *http.Transport
	target    *url.URL
	// old makes it an API server from before Kubernetes 1.34, which knows no
	// streams that begin with all objects.
	old bool
	// hold is asked for each request before it is passed on, and returns when it
	// may be; nil lets all pass.
	hold func(*http.Request, right)

	mu     sync.Mutex
	used   map[usedRight]int
	denied map[right]int
	other  map[string]int // requests that are about no resource
}

// newGateway makes a gateway to a cluster. It does not listen yet.
func newGateway(t *testing.T, api *kube.Cluster, address netip.Addr) *gateway {
	t.Helper()
	target := must.Get(url.Parse(api.Config.Host))(t)
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(authorities(t, api)) {
		t.Fatal("the cluster has no authority")
	}
	g := &gateway{
		address: address, authority: pkitest.NewAuthority(t), target: target,
		upstream: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true},
		used:     map[usedRight]int{}, denied: map[right]int{}, other: map[string]int{},
	}
	g.certain = g.authority.Issue(t, address.String()).TLS(t)
	return g
}

func authorities(t *testing.T, api *kube.Cluster) []byte {
	t.Helper()
	if len(api.Config.CAData) > 0 {
		return api.Config.CAData
	}
	return must.Get(os.ReadFile(api.Config.CAFile))(t)
}

// listen serves until the end of the test.
func (g *gateway) listen(t *testing.T) *gateway {
	t.Helper()
	listener := must.Get(net.Listen("tcp", netip.AddrPortFrom(g.address, gatewayPort).String()))(t)
	server := &http.Server{
		Handler: g.handler(), ReadHeaderTimeout: patience, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{g.certain}},
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeTLS(listener, "", "") // it ends when it is closed
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
		g.upstream.CloseIdleConnections()
	})
	return g
}

// handler passes requests on and notes what became of them.
func (g *gateway) handler() http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(g.target)
			r.Out.Host = ""
		},
		Transport: g.upstream, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		ModifyResponse: func(response *http.Response) error {
			g.note(response.Request, response.StatusCode)
			return nil
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		needed, _ := rightOf(r)
		if g.hold != nil {
			g.hold(r, needed)
		}
		if g.old && r.URL.Query().Get("sendInitialEvents") != "" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, oldAnswer)
			return
		}
		if r.Method != http.MethodGet {
			// What an edge that ends has asked for is done and noted: no later one would ask for it again.
			r = r.WithContext(context.WithoutCancel(r.Context()))
		}
		proxy.ServeHTTP(w, r)
	})
}

// oldAnswer is the response of an API server that does not know such streams.
const oldAnswer = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Invalid","code":422,
"message":"sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"}`

func (g *gateway) note(r *http.Request, status int) {
	needed, about := rightOf(r)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !about:
		g.other[r.URL.Path]++
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		g.denied[needed]++
	default:
		_, rest, _ := strings.Cut(r.URL.Path, "/namespaces/")
		namespace, _, _ := strings.Cut(rest, "/")
		g.used[usedRight{needed, namespace}]++
		if r.Method == http.MethodPatch && status == http.StatusCreated { // an apply, which the API server permits by both
			g.used[usedRight{right{needed.group, needed.resource, "create"}, namespace}]++
		}
	}
}

// rights are those that were used and those that were denied, and what else was
// asked for.
func (g *gateway) rights() (used, denied []right, other []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key := range g.used {
		used = append(used, key.right)
	}
	return used, slices.Collect(maps.Keys(g.denied)), slices.Collect(maps.Keys(g.other))
}

// usedRights are those that were used, and where.
func (g *gateway) usedRights() []usedRight {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.used))
}

// denies reports whether a right was denied.
func (g *gateway) denies(needed right) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.denied[needed] > 0
}

// rightOf reads which right a request needs, as the API server does; not about a
// resource are requests such as for /version.
func rightOf(r *http.Request) (needed right, about bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		needed.group = parts[1]
		parts = parts[3:]
	default:
		return right{}, false
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	needed.resource = parts[0]
	if len(parts) > 2 {
		needed.resource += "/" + parts[2]
	}
	named := len(parts) > 1
	switch r.Method {
	case http.MethodGet:
		needed.verb = "list"
		if r.URL.Query().Get("watch") == "true" || r.URL.Query().Get("watch") == "1" {
			needed.verb = "watch"
		} else if named {
			needed.verb = "get"
		}
	case http.MethodPost:
		needed.verb = "create"
	case http.MethodPut:
		needed.verb = "update"
	default:
		needed.verb = strings.ToLower(r.Method)
	}
	return needed, true
}

// kubeconfig writes the file with which an edge comes by the gateway as a service
// account.
func (g *gateway) kubeconfig(t *testing.T, api *kube.Cluster, namespace, account string) string {
	t.Helper()
	hours := int64(3600)
	token := must.Get(api.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hours}}, metav1.CreateOptions{}))(t)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(kubeconfigText, g.address, gatewayPort, base64.StdEncoding.EncodeToString([]byte(g.authority.PEM)), token.Status.Token)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const kubeconfigText = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://%s:%d", certificate-authority-data: %s}}]
users: [{name: u, user: {token: %s}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`
