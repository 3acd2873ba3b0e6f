package gitops

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

// testElsewhere has one agent meet sources that need something of elsewhere, while
// another Application goes on. Where each way of each dependency is tested:
//
//	           | loops        | huge         | leads inside | redirects    | is not what is pinned
//	chart      | tenancy      | tenancy      | tenancy      | tenancy      | tenancy
//	OCI chart  | here         | here         | here         | here         | here, blob and manifest
//	base       | tenancy      | here, file: tenancy | tenancy | tenancy     | here
//	submodule  | here (chain) | here         | tenancy      | tenancy      | here
//	Lua        | render.TestScript | render.TestScript | script.TestClosed: no network | – | –
//
// tenancy is dependencyAttempts of test/tenancy. Submodules have no cycles, because
// a commit cannot contain its own id. A Lua rule is text in argocd-cm: it names
// nothing that could redirect or change.
func (s *suite) testElsewhere(t *testing.T) {
	e := &elsewhere{hostility: &hostility{suite: s, git: gittest.Serve(t), control: s.cluster.Namespace(t), target: s.cluster.Namespace(t)}}
	agent := s.start(t, e.control, "--leaderElection.enabled=false", "--render.memoryLimit="+strconv.Itoa(renderMemory), "--render.workers=2",
		fmt.Sprint("--sources.diskPerProject=", diskPerProject))
	stop := agent.FollowMemory()
	e.serveInside(t)
	e.huge = e.git.Repository(t, "huge", map[string]string{"base/kustomization.yaml": "resources: [a.yaml]\n", "base/a.yaml": config("huge"), "data": noise(7, 70<<20)})
	e.good = e.git.Repository(t, "good", settings("0"))
	s.application(t, e.control, e.target, "good", mainOf(e.good))
	agentprocess.Await(t, s.applications(e.control), "good", agentprocess.InOrder(e.good.Head(t)))
	t.Run("oci", e.testRegistry)
	t.Run("base", e.testBases)
	t.Run("submodule", e.testSubmodules)
	if n := e.reached.Load(); n > 0 {
		t.Errorf("%d connections arrived at an address that the agent must not connect to", n)
	}
	if peak := stop(); peak.Agent == 0 || peak.Agent > agentMemory {
		t.Errorf("the agent has had %d bytes, and may have %d", peak.Agent, agentMemory)
	}
}

// elsewhere is an agent, and servers that it must not trust.
type elsewhere struct {
	*hostility
	// inside is a server at an address that the agent must not connect to, and
	// reached counts the connections that arrive there.
	inside  string
	reached atomic.Int32
	// huge is a repository with more than a project may have on the disk.
	huge *gittest.Repository
}

// serveInside starts the server that is not to be reached.
func (e *elsewhere) serveInside(t *testing.T) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	must.Do(t, server.Listener.Close())
	server.Listener = must.Get(net.Listen("tcp", "127.0.0.2:0"))(t)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			e.reached.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	e.inside = strings.TrimPrefix(server.URL, "https://")
}

const (
	isInside = "127.0.0.2 is an address of this machine"
	notSent  = "the server did not send the commit"
)

// testRegistry: charts that depend on charts of a registry.
func (e *elsewhere) testRegistry(t *testing.T) {
	content := pages{}
	server := httptest.NewTLSServer(content)
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "https://")
	for name, address := range map[string]string{"registry": host, "inside": e.inside} {
		e.cluster.Apply(t, e.control, fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: %s, labels: {argocd.argoproj.io/secret-type: repository}}
stringData: {url: %s/charts, name: %s, type: helm, enableOCI: "true", insecure: "true"}
`, name, address, name))
	}
	dependsOn := func(name, host string) string {
		return fmt.Sprintf("dependencies: [{name: %s, version: %s, repository: \"oci://%s/charts\"}]\n", name, chartVersion, host)
	}
	chartFile := func(name, more string) map[string]string {
		return map[string]string{name + "/Chart.yaml": "apiVersion: v2\nname: " + name + "\nversion: " + chartVersion + "\n" + more}
	}
	content.addChart("loops", pack(t, chartFile("loops", dependsOn("loops", host))))
	huge := chartFile("huge", "")
	huge["huge/values.yaml"] = strings.Repeat("#", 64<<20)
	content.addChart("huge", pack(t, huge))
	moved, changed, pinned := pack(t, chartFile("moved", "")), pack(t, chartFile("changed", "")), pack(t, chartFile("pinned", ""))
	content.addChart("moved", moved)
	content["/v2/charts/moved/blobs/"+digestOf(moved)] = page{location: "https://" + e.inside + "/blob"}
	content.addChart("changed", changed)
	content["/v2/charts/changed/blobs/"+digestOf(changed)] = page{content: bytes.Repeat([]byte("x"), len(changed))}
	digest := content.addChart("pinned", pinned)
	manifest := "/v2/charts/pinned/manifests/" + digest
	original := content[manifest]
	content[manifest] = page{content: bytes.Replace(original.content, []byte("sha256:"), []byte("sha256:0"), 1)[:len(original.content)], kind: original.kind, declared: digest}

	for name, want := range map[string]string{"loops": "more than 8 deep", "huge": "values.yaml", "moved": isInside, "changed": "digest"} {
		t.Run(name, func(t *testing.T) { e.chart(t, "oci-"+name, dependsOn(name, host), want) })
	}
	t.Run("inside", func(t *testing.T) { e.chart(t, "oci-inside", dependsOn("shop", e.inside), isInside) })
	t.Run("digest", func(t *testing.T) {
		e.refused(t, "oci-digest", fmt.Sprintf("{repoURL: %s/charts, chart: pinned, targetRevision: %q}", host, digest), "other content than it declares")
	})
}

// chart is refused for a chart in Git with dependencies.
func (e *elsewhere) chart(t *testing.T, name, dependencies, want string) {
	t.Helper()
	repository := e.git.Repository(t, name, map[string]string{
		"app/Chart.yaml":         "apiVersion: v2\nname: shop\nversion: 0.1.0\n" + dependencies,
		"app/templates/own.yaml": config(name),
	})
	e.refused(t, name, mainOf(repository), want)
}

// testBases: kustomizations with a base in another repository.
func (e *elsewhere) testBases(t *testing.T) {
	for name, one := range map[string]struct{ base, want string }{
		"huge":    {e.huge.URL() + "//base?ref=main", "sources.diskPerProject"},
		"changes": {e.pinned(t, "base"), notSent},
	} {
		t.Run(name, func(t *testing.T) {
			repository := e.git.Repository(t, "base-"+name, map[string]string{
				"app/kustomization.yaml": "resources: [own.yaml, \"" + one.base + "\"]\n", "app/own.yaml": config("base-" + name),
			})
			e.refused(t, "base-"+name, mainOf(repository), one.want)
		})
	}
}

// pinned is a base at the id of a commit, on a server that sends another commit.
func (e *elsewhere) pinned(t *testing.T, name string) string {
	t.Helper()
	address, wanted := e.swapping(t, name)
	return address + "//base?ref=" + wanted
}

// swapping is a repository whose server sends another commit than the wanted one.
func (e *elsewhere) swapping(t *testing.T, name string) (address, wanted string) {
	t.Helper()
	repository := e.git.Repository(t, "pinned-"+name, map[string]string{"base/kustomization.yaml": "resources: [a.yaml]\n", "base/a.yaml": config("good")})
	wanted = repository.Head(t)
	other := repository.Commit(t, map[string]string{"base/a.yaml": config("changed")}, "change")
	at := must.Get(url.Parse(repository.URL()))(t)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: at.Scheme, Host: at.Host})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte(wanted), []byte(other))))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + at.Path, wanted
}

// testSubmodules: folders of which a part is in another repository.
func (e *elsewhere) testSubmodules(t *testing.T) {
	t.Run("huge", func(t *testing.T) {
		e.submodule(t, "module-huge", e.huge.URL(), e.huge.Head(t), "sources.diskPerProject")
	})
	t.Run("large file", func(t *testing.T) {
		large := e.git.Repository(t, "large-module", nil)
		e.submodule(t, "module-large", large.URL(), large.Large(t, "large.yaml", 64<<20), "large.yaml")
	})
	t.Run("changes", func(t *testing.T) {
		address, wanted := e.swapping(t, "module")
		e.submodule(t, "module-changes", address, wanted, notSent)
	})
	// Each commit of a repository has the one before as its submodule.
	t.Run("chain", func(t *testing.T) {
		chain := e.git.Repository(t, "chain", map[string]string{"a.yaml": config("end")})
		chain.Commit(t, map[string]string{".gitmodules": "[submodule \"next\"]\n\tpath = next\n\turl = " + chain.URL() + "\n"}, "address")
		for range 20 {
			chain.SubmoduleAt(t, "next", chain.Head(t))
		}
		e.submodule(t, "module-chain", chain.URL(), chain.Head(t), "more than 16 deep")
	})
}

// submodule is refused for a folder with a submodule at a commit.
func (e *elsewhere) submodule(t *testing.T, name, address, commit, want string) {
	t.Helper()
	repository := e.git.Repository(t, name, map[string]string{
		".gitmodules": "[submodule \"m\"]\n\tpath = app/module\n\turl = " + address + "\n", "app/own.yaml": config(name),
	})
	repository.SubmoduleAt(t, "app/module", commit)
	e.refused(t, name, fmt.Sprintf("{repoURL: %q, path: app, targetRevision: main, directory: {recurse: true}}", repository.URL()), want)
}
