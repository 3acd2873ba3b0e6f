package documents

import (
	"crypto/tls"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/programs/helm"
)

// helmVariable makes the test binary be helm.
const helmVariable = "INSTALLDOCS_HELM"

// Clients of HTTP keep their connections to processes that are gone by then.
func TestMain(m *testing.M) {
	if os.Getenv(helmVariable) != "" {
		os.Exit(helm.Main(os.Args[1:]))
	}
	kubetest.Main(m, kubetest.AllowLeaks())
}

const (
	platformURL  = "https://slipway.example.com"
	platformHost = "slipway.example.com"
	runtimeHost  = "prod.example.com"
	// tunnelDomain is what the hosts of tunnels end with.
	tunnelDomain = "tunnels.example.com"
	adminEmail   = "admin@localhost"
	password     = "correct horse battery staple"
	// balancerName is what AWS calls the load balancer of an Ingress.
	balancerName = "k8s-slipway-internal-0123456789.eu-west-1.elb.amazonaws.com"
	ownRelease   = "slipway-runtime"
	ownNamespace = "slipway"
)

// The addresses of the private network at which the hosts of the pages are.
func balancerAddress() netip.Addr { return networkAddress(10) }
func servicesAddress() netip.Addr { return networkAddress(20) }
func platformAddress() netip.Addr { return networkAddress(30) }

func networkAddress(last byte) netip.Addr {
	bytes := kubetest.PodNetwork().Addr().As4()
	bytes[2], bytes[3] = 250, last
	return netip.AddrFrom4(bytes)
}

// world is a cluster and everything outside of it that the pages name.
type world struct {
	cluster   *kubetest.Cluster
	binary    string
	authority *pkitest.Files
	// programs has slipway, kubectl and helm, hosts is the file with the names.
	programs, hosts string
	// registry is the address of the registry behind the hosts, without TLS.
	registry string
	// home is that of the person at the shell, and variables are more of its environment.
	home      string
	variables []string
	platform  *programs.Process
	balancer  *balancer
	git       *gitHost
	node      *node
}

// newWorld starts everything once for all pages.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		binary:    binary.Path(t),
		authority: pkitest.NewFiles(t, "*.example.com", "*."+tunnelDomain, "github.com", "api.github.com", "raw.githubusercontent.com", "slipway.dev", "*.slipway.dev"),
		hosts:     filepath.Join(t.TempDir(), "hosts"), home: t.TempDir(), programs: t.TempDir(),
	}
	writeFile(t, w.hosts, fmt.Sprintf(`127.0.0.1 localhost
%s %s
%s %s %s
%s github.com api.github.com raw.githubusercontent.com slipway.dev charts.slipway.dev charts.example.com registry.example.com git.example.com
`, platformAddress(), platformHost, balancerAddress(), runtimeHost, balancerName, servicesAddress()))
	w.makePrograms(t)
	w.cluster = kubetest.Start(t, kubetest.WithoutNode())
	w.git = newGitHost(t)
	w.serveHosts(t)
	w.balancer = startBalancer(t, w, w.certificate(t))
	w.startPlatform(t)
	w.node = startNode(t, w)
	w.push(t, "charts.slipway.dev/gitops-runtime", "")
	w.must(t, "slipway account git set --provider github --api-url https://api.github.com --shared-repository https://github.com/acme/config.git")
	return w
}

// makePrograms puts what the pages call where the shell finds it.
func (w *world) makePrograms(t *testing.T) {
	t.Helper()
	self := must.Get(os.Executable())(t)
	for name, script := range map[string]string{
		"slipway": fmt.Sprintf("exec %q \"$@\"", w.binary),
		"kubectl": fmt.Sprintf("exec %q kubectl \"$@\"", kubetest.Binary(t)),
		"helm":    fmt.Sprintf("%s=1 exec %q \"$@\"", helmVariable, self),
	} {
		file := filepath.Join(w.programs, name)
		must.Do(t, os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
}

// named are the words of a command that finds the hosts of the pages: it sees a file
// of its own in the place of /etc/hosts.
func (w *world) named(words ...string) []string {
	return append([]string{"unshare", "--mount", "--propagation", "private", "--", "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, w.hosts}, words...)
}

// trusting is the environment of a machine that trusts the authority of the hosts.
func (w *world) trusting() []string { return []string{"SSL_CERT_FILE=" + w.authority.CertFile} }

func (w *world) certificate(t *testing.T) tls.Certificate {
	t.Helper()
	return must.Get(tls.X509KeyPair(w.authority.Cert, w.authority.Key))(t)
}

// startPlatform runs the platform at its host, and has its admin choose a password.
func (w *world) startPlatform(t *testing.T) {
	t.Helper()
	words := w.named(w.binary, "platform", "--server.address="+netip.AddrPortFrom(platformAddress(), 443).String(), "--server.publicURL="+platformURL,
		"--tls.certFile="+w.authority.CertFile, "--tls.keyFile="+w.authority.KeyFile, "--health.address=127.0.0.1:0", "--admin.address=127.0.0.1:0",
		"--tunnel.domain="+tunnelDomain, "--state.dir="+filepath.Join(t.TempDir(), "state"), "--log.format=json")
	w.platform = programs.Slipway(t, "the platform", words[0], w.trusting(), words[1:]...)
	w.platform.Address(t, "platform")
	oneTime := w.platform.Password(t)
	w.must(t, "printf '%s\\n%s\\n' '"+oneTime+"' '"+password+"' | slipway login "+platformURL+" --email "+adminEmail+" --password-stdin --name test")
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}
