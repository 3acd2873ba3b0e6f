package console

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/identity/oidctest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/kubelet"
)

const (
	adminEmail    = "admin@example.com"
	adminPassword = "correct horse battery staple"
	userEmail     = "user@example.com"
	userPassword  = "another horse another staple"
	// tunnelDomain is what the hosts of tunnels end with. No name server resolves it.
	tunnelDomain = "tunnels.example.com"
	// webHost is what the edge serves of the application web.
	webHost = "web.example.com"
)

// world is a platform with what it needs around it.
type world struct {
	// t is the whole test: what a command starts outlives the command.
	t      *testing.T
	binary string
	url    string
	// address is what the platform listens on.
	address string
	state   string
	// trusted is a file with what processes trust, the platform and the Git
	// provider, and trustedText its content.
	trusted     string
	trustedText []byte
	authority   *pkitest.Files
	platform    *programs.Process
	// oneTime is what the first start printed for the admin.
	oneTime string
	cluster *kubetest.Cluster
	// target is where applications go.
	target string
	git    *gitHost
	edge   *edgeHost
	mesh   *meshGateway
	// provider is an identity provider, for platforms that are configured for it.
	provider *oidctest.Provider
	// sites are clusters for runtimes; the first is cluster. installs counts the
	// commands that were run.
	sites    []*site
	installs int
	// tools is the folder with kubectl and Helm, and proxy how they reach the registry.
	tools, proxy string

	control  string
	commands chan command

	// fleet are runtimes that are no processes.
	fleet []*reportingRuntime

	loadMu sync.Mutex
	load   *load
}

func newWorld(t *testing.T, binary string) *world {
	t.Helper()
	w := &world{
		t: t, binary: binary, address: programs.FreeAddress(t).String(), state: filepath.Join(t.TempDir(), "state"),
		authority: pkitest.NewFiles(t, "*."+tunnelDomain, chartHost), commands: make(chan command), target: "storefront",
	}
	// Passkeys need a name: browsers have none for addresses.
	_, port, _ := net.SplitHostPort(w.address)
	w.url = "https://localhost:" + port
	w.cluster = kubetest.Start(t)
	kubelet.ReserveProcessNode(t, w.cluster)
	w.git = newGitHost(t, w)
	w.trusted = filepath.Join(t.TempDir(), "trusted.crt")
	w.trustedText = slices.Concat(w.authority.Cert, w.git.provider.CA)
	writeFile(t, w.trusted, string(w.trustedText))
	w.startPlatform(t)
	w.oneTime = w.platform.Password(t)
	w.tools, w.proxy = programsOf(t, kubetest.Binary(t)), w.startRegistry(t)
	w.mesh = newMeshGateway(t)
	w.provider = oidctest.New(t)
	w.provider.Public = w.url
	first := w.newSite(t, w.cluster, balancers()[0])
	must.Do(t, first.makeNamespace(t.Context(), w.target))
	w.cluster.Apply(t, edgeNamespace, misspelled)
	w.sites, w.edge = []*site{first}, &edgeHost{url: "http://" + first.balancer}
	return w
}

// startPlatform runs the platform at its address, with more options, until it
// listens.
func (w *world) startPlatform(t *testing.T, more ...string) {
	t.Helper()
	w.platform = programs.Slipway(w.t, "the platform", w.binary, []string{"SSL_CERT_FILE=" + w.trusted},
		append([]string{"platform", "--log.format=json", "--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0",
			"--server.address=" + w.address, "--server.publicURL=" + w.url, "--state.dir=" + w.state,
			"--tls.certFile=" + w.authority.CertFile, "--tls.keyFile=" + w.authority.KeyFile,
			"--tunnel.domain=" + tunnelDomain, "--firstStart.email=" + adminEmail}, more...)...)
	w.platform.Address(t, "platform")
}

// client reaches the platform, also by the hosts of tunnels, and trusts it.
func (w *world) client() *http.Client {
	dialer := &net.Dialer{}
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: w.authority.Roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if host, _, _ := net.SplitHostPort(address); strings.HasSuffix(host, "."+tunnelDomain) {
				address = w.address
			}
			return dialer.DialContext(ctx, network, address)
		},
	}}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}
