// Package ingress shows from outside what `slipway edge` makes of a cluster's
// Ingresses: the built binary, a real API server, real sockets. Each case states
// in a file of testdata which backend serves a request, or 404 or 503.
//
// A folder of testdata is a set of options, in its file options, that all of its
// cases share: they meet one edge. A file setup.yaml there is applied before
// that edge starts. A case is a txtar file whose comment describes what it shows. Its
// sections are these; $ns in any of them is the namespace of the case:
//
//	backends       servers, and Services for them: see backendLine
//	certificates   Secrets with certificates: see certificateLine
//	objects.yaml   what the case is about
//	steps          what is asked and what is expected: see parseSteps
//
// Other sections, NAME.yaml and NAME.certificates, are applied by a step.
//
// Nothing waits for a time to pass. After each change a probe is added to the
// cluster, an Ingress that is served only once one new object of every kind was
// seen, and the case goes on when it responds: what was written before the probe
// has been seen too. Secrets and the kinds that few objects have are read in no
// such order; steps about them begin with eventually.
//
// The servers of a case listen on addresses of the Pod network, on Service
// addresses and on IPv6 addresses, which all are local in the private network
// of the tests. There is no node, so nothing else does.
package ingress

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

const (
	// patience bounds every wait. Only a test that fails waits so long.
	patience = 30 * time.Second
	// lookAgain is the pause between two looks at something that sends no event
	// by itself.
	lookAgain = 10 * time.Millisecond
)

// TestConformance runs all cases against one cluster.
func TestConformance(t *testing.T) {
	s := newSuite(t)
	rotated := s.beginRotation(t)
	t.Setenv("KUBECONFIG", s.cluster.Kubeconfig)
	for _, group := range readGroups(t) {
		t.Run(group.name, func(t *testing.T) { s.runGroup(t, group) })
	}
	t.Run("connection", s.testConnection)
	t.Run("throttle", s.testThrottle)
	t.Run("loop", s.testLoop)
	t.Run("records", s.testRecords)
	t.Run("token by file", rotated.finish)
}

// suite is what all cases share.
type suite struct {
	cluster *kubetest.Cluster
	// kube writes more requests in a second than the cluster's own connection.
	kube      *kube.Cluster
	authority *pkitest.Authority
	stranger  *pkitest.Authority
	// probes counts the probes, whose names must not come twice.
	probes int
	// pods counts the servers that have no address of their own.
	pods int
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	t.Setenv(binary.Variable, binary.Path(t))
	extendNetwork(t)
	s := &suite{
		cluster:   kubetest.Start(t, kubetest.WithoutNode()),
		authority: pkitest.NewAuthority(t), stranger: pkitest.NewAuthority(t),
	}
	s.kube = must.Get(kube.Connect(s.cluster.Kubeconfig, kube.Rate(1000, 1000), withoutWarnings))(t)
	t.Cleanup(s.kube.Close)
	t.Setenv("KUBECONFIG", "")
	definitions, err := filepath.Glob("../../../charts/gitops-runtime/crds/*.yaml")
	if err != nil || len(definitions) == 0 {
		t.Fatal("no CustomResourceDefinitions of our own kinds", err)
	}
	for _, path := range append(definitions, "testdata/traefik.io.yaml") {
		s.apply(t, "default", readFile(t, path))
	}
	return s
}

// extendNetwork makes the addresses of Services local, and a few of IPv6, beside
// those of Pods.
func extendNetwork(t *testing.T) {
	t.Helper()
	loopback := must.Get(netlink.LinkByName("lo"))(t)
	_, services, err := net.ParseCIDR("10.96.0.0/16")
	must.Do(t, err)
	local := &netlink.Route{
		LinkIndex: loopback.Attrs().Index, Dst: services,
		Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST,
	}
	// The tests of one process can be run several times.
	if err := netlink.RouteAdd(local); err != nil && !errors.Is(err, unix.EEXIST) {
		t.Fatalf("make %s local: %v", services, err)
	}
	for _, address := range []string{"fd00:244::1/128", "fd00:244::2/128"} {
		parsed := must.Get(netlink.ParseAddr(address))(t)
		if err := netlink.AddrAdd(loopback, parsed); err != nil && !errors.Is(err, unix.EEXIST) {
			t.Fatalf("add %s: %v", address, err)
		}
	}
}

// group is a folder of cases.
type group struct {
	name      string
	arguments []string
	setup     string
	cases     []string
}

func readGroups(t *testing.T) []group {
	t.Helper()
	paths, err := filepath.Glob("testdata/*/options")
	if err != nil || len(paths) == 0 {
		t.Fatal("no cases", err)
	}
	var groups []group
	for _, path := range paths {
		folder := filepath.Dir(path)
		g := group{name: filepath.Base(folder)}
		for line := range strings.Lines(readFile(t, path)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				g.arguments = append(g.arguments, "--"+line)
			}
		}
		setup := filepath.Join(folder, "setup.yaml")
		if _, err := os.Stat(setup); err == nil {
			g.setup = readFile(t, setup)
		}
		if g.cases, err = filepath.Glob(folder + "/*.txtar"); err != nil || len(g.cases) == 0 {
			t.Fatalf("%s has no cases: %v", folder, err)
		}
		groups = append(groups, g)
	}
	return groups
}

// option is the value of an option of the provider; empty when it is not set.
func (g *group) option(name string) string {
	for _, argument := range g.arguments {
		if value, found := strings.CutPrefix(argument, "--providers.kubernetesIngress."+name+"="); found {
			return value
		}
	}
	return ""
}

// runGroup runs the cases of a folder against one edge.
func (s *suite) runGroup(t *testing.T, g group) {
	s.ensureNamespace(t, "edge-"+g.name)
	s.apply(t, "edge-"+g.name, g.setup)
	edge := s.startEdge(t, g.name, g.arguments)
	for _, path := range g.cases {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		t.Run(name, func(t *testing.T) {
			s.newScene(t, &g, edge, g.name+"-"+name).run(t, path)
		})
	}
}

// startEdge runs an edge that serves the cluster, until the end of the test. Its
// own namespace, where its Lease is, is not shared: an edge that was killed
// holds its Lease for a while.
func (s *suite) startEdge(t *testing.T, name string, arguments []string) *edgeprocess.Edge {
	t.Helper()
	t.Setenv("POD_NAMESPACE", "edge-"+name)
	s.ensureNamespace(t, "edge-"+name)
	return edgeprocess.Start(t, edgeprocess.Options{
		EntryPoints: []string{plainPoint, tlsPoint, sidePoint},
		Table:       &route.Table{},
		Arguments: append([]string{
			edgeprocess.Encrypted(tlsPoint), "--log.level=debug",
			"--providers.file=false", "--providers.kubernetesIngress=true",
		}, arguments...),
	})
}

// The entry points of every edge.
const (
	plainPoint = "web"
	tlsPoint   = "websecure"
	sidePoint  = "side"
)

// apply applies documents server-side. Namespaces that they name are made.
func (s *suite) apply(t *testing.T, namespace, manifests string) {
	t.Helper()
	for _, name := range namespacesIn(manifests) {
		s.ensureNamespace(t, name)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	target := kube.Target{Namespace: namespace, Manager: "conformance"}
	err := errors.New("not tried")
	// A kind that was defined a moment ago is not served yet.
	for err != nil {
		if _, err = s.kube.Apply(ctx, target, manifests); err == nil {
			break
		}
		if !isUnknownKind(err) || ctx.Err() != nil {
			t.Fatal(err)
		}
		pause(ctx)
	}
}

func isUnknownKind(err error) bool {
	return apierrors.IsNotFound(err) || strings.Contains(err.Error(), "no matches for kind")
}

func (s *suite) ensureNamespace(t *testing.T, name string) {
	t.Helper()
	_, err := s.kube.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// namespacesIn are the namespaces that a manifest names, each once.
func namespacesIn(manifests string) []string {
	var names []string
	for _, match := range namespaceField.FindAllStringSubmatch(manifests, -1) {
		names = append(names, match[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// pause waits until it is time to look again, or the context is done.
func pause(ctx context.Context) {
	timer := time.NewTimer(lookAgain)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// withoutWarnings keeps the API server's remarks about the old annotation for
// classes, which cases use on purpose, out of the output.
func withoutWarnings(config *rest.Config) { config.WarningHandler = rest.NoWarnings{} }

func readFile(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return string(text)
}
