package appset_test

import (
	"cmp"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

const upstreamFolder = "testdata/upstream"

// upstreamCase is an ApplicationSet with the result of Argo CD's controller.
type upstreamCase struct {
	name, file, spec string
	// differs is why the own result is another one; empty if it is the same.
	differs string
	// argocd and own are results; own is empty if it is the same, and argocd until
	// it is recorded.
	argocd, own string
}

// result is what a controller makes of a set.
type result struct {
	Applications []map[string]any `json:"applications,omitempty"`
	Error        string           `json:"error,omitempty"`
}

// text is a result in a file.
func (r result) text(t *testing.T) string { return string(must.Get(yaml.Marshal(r))(t)) }

// sameAs reports whether the result is that of a file. The texts of errors are
// not compared.
func (r result) sameAs(t *testing.T, text string) bool {
	var want result
	must.Do(t, yaml.Unmarshal([]byte(text), &want))
	failed := want.Error != ""
	want.Error = r.Error
	return failed == (r.Error != "") && want.text(t) == r.text(t)
}

// readCases reads the corpus, in the order of its files.
func readCases(t *testing.T) []*upstreamCase {
	t.Helper()
	var cases []*upstreamCase
	byName := map[string]*upstreamCase{}
	for _, path := range must.Get(filepath.Glob(upstreamFolder + "/*.txtar"))(t) {
		if filepath.Base(path) == "world.txtar" {
			continue
		}
		for _, file := range must.Get(txtar.ParseFile(path))(t).Files {
			name, part, _ := strings.Cut(file.Name, ".")
			one := byName[name]
			if one == nil {
				one = &upstreamCase{name: name, file: path}
				byName[name] = one
				cases = append(cases, one)
			}
			switch content := string(file.Data); part {
			case "yaml":
				one.spec = content
			case "differs":
				one.differs = strings.TrimSpace(content)
			case "argocd.yaml":
				one.argocd = content
			case "slipway.yaml":
				one.own = content
			default:
				t.Fatalf("%s has %s", path, file.Name)
			}
		}
	}
	return cases
}

// writeCases writes the corpus with its results.
func writeCases(t *testing.T, cases []*upstreamCase) {
	t.Helper()
	archives := map[string]*txtar.Archive{}
	for _, one := range cases {
		archive := archives[one.file]
		if archive == nil {
			archive = &txtar.Archive{Comment: must.Get(txtar.ParseFile(one.file))(t).Comment}
			archives[one.file] = archive
		}
		for _, part := range [][2]string{{"yaml", one.spec}, {"differs", one.differs}, {"argocd.yaml", one.argocd}, {"slipway.yaml", one.own}} {
			if part[1] != "" {
				archive.Files = append(archive.Files, txtar.File{Name: one.name + "." + part[0], Data: []byte(part[1])})
			}
		}
	}
	for path, archive := range archives {
		must.Do(t, os.WriteFile(path, txtar.Format(archive), 0o644))
	}
}

// upstreamWorld is what the sets read: a repository, Git hosts, a plugin, and
// objects of the control namespace.
type upstreamWorld struct {
	definitions, objects string
	repository           *gittest.Repository
	// host is served without TLS, and tls with a certificate of its own authority.
	host, tls *httptest.Server
	// pages are responses by path, and plugins the parameters of plugins.
	pages, plugins map[string]string
}

// serveWorld serves testdata/upstream/world.txtar.
func serveWorld(t *testing.T) *upstreamWorld {
	t.Helper()
	w := &upstreamWorld{pages: map[string]string{}, plugins: map[string]string{}}
	files, released := map[string]string{}, map[string]string{}
	for _, file := range must.Get(txtar.ParseFile(upstreamFolder + "/world.txtar"))(t).Files {
		part, rest, _ := strings.Cut(file.Name, "/")
		switch content := string(file.Data); part {
		case "definitions.yaml":
			w.definitions = content
		case "objects.yaml":
			w.objects = content
		case "repository":
			files[rest] = content
		case "release":
			released[rest] = content
		case "plugin":
			w.plugins[rest] = content
		case "host":
			w.pages["/"+rest] = content
		default:
			t.Fatalf("the world has %s", file.Name)
		}
	}
	w.repository = gittest.Serve(t).Repository(t, "fleet", files)
	w.repository.CommitTo(t, "release", released, "release")
	w.host = httptest.NewServer(w)
	t.Cleanup(w.host.Close)
	w.tls = httptest.NewTLSServer(w)
	t.Cleanup(w.tls.Close)
	return w
}

// ServeHTTP responds as the APIs of Git hosts, and as a plugin.
func (w *upstreamWorld) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	_, password, _ := request.BasicAuth()
	if !strings.Contains(fmt.Sprint(request.Header)+password, "canary") {
		http.Error(response, `{"message": "Bad credentials"}`, http.StatusUnauthorized)
		return
	}
	page, found := w.page(request)
	if request.URL.Path == "/api/v1/getparams.execute" {
		var body struct {
			Input struct{ Parameters map[string]any }
		}
		_ = json.NewDecoder(request.Body).Decode(&body)
		page, found = w.plugins[fmt.Sprint(body.Input.Parameters["of"])]
		page = `{"output": {"parameters": ` + page + `}}`
	}
	if !found {
		// The key is that of a missing file at Azure DevOps.
		response.Header().Set("Content-Type", "application/json")
		response.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(response, `{"message": "Not Found", "typeKey": "GitItemNotFoundException"}`)
		return
	}
	response.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(response, w.insert(page))
}

// page returns the response to a request. A page whose name has a query is for
// requests with these parameters, and comes before one without.
func (w *upstreamWorld) page(request *http.Request) (content string, found bool) {
	path, given := strings.TrimSuffix(request.URL.EscapedPath(), "/"), request.URL.Query()
	for name, content := range w.pages {
		at, query, _ := strings.Cut(name, "?")
		wanted, _ := url.ParseQuery(query)
		matches := at == path && len(wanted) > 0
		for key := range wanted {
			matches = matches && given.Get(key) == wanted.Get(key)
		}
		if matches {
			return content, true
		}
	}
	content, found = w.pages[path]
	return content, found
}

// insert replaces the names of addresses, and that of the authority by its certificate as
// one line of YAML.
func (w *upstreamWorld) insert(text string) string {
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.tls.Certificate().Raw}))
	return strings.NewReplacer("$GIT", w.repository.URL(), "$HOST", w.host.URL, "$TLS", w.tls.URL, "$AUTHORITY", strings.ReplaceAll(authority, "\n", `\n`)).Replace(text)
}

// results creates the sets, and returns what the controller of the namespace
// makes of them.
func (w *upstreamWorld) results(t *testing.T, cluster *kubetest.Cluster, namespace string, timeout time.Duration, cases []*upstreamCase) map[string]result {
	t.Helper()
	for _, one := range cases {
		cluster.Apply(t, namespace, "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: "+one.name+"}\n"+w.insert(one.spec))
	}
	in := func(plural string) dynamic.ResourceInterface {
		return cluster.Dynamic.Resource(resourceOf(plural)).Namespace(namespace)
	}
	sets := kubetest.WaitFor(t, in("applicationsets"), metav1.ListOptions{}, timeout, func(found []*unstructured.Unstructured) error {
		for _, set := range found {
			if _, done := failureOf(set); !done {
				return errors.New("it has no condition yet: " + set.GetName())
			}
		}
		return nil
	})
	applications := must.Get(in("applications").List(t.Context(), metav1.ListOptions{}))(t)
	made := map[string]result{}
	fixed := strings.NewReplacer(w.repository.URL(), "$GIT", w.host.URL, "$HOST", w.tls.URL, "$TLS", namespace, "argocd")
	for _, set := range sets {
		one := result{}
		one.Error, _ = failureOf(set)
		one.Error = fixed.Replace(one.Error)
		for i := range applications.Items {
			application := &applications.Items[i]
			if owner := metav1.GetControllerOf(application); owner != nil && owner.Name == set.GetName() {
				var content map[string]any
				text := fixed.Replace(string(must.Get(json.Marshal(contentOfApplication(application)))(t)))
				must.Do(t, json.Unmarshal([]byte(text), &content))
				one.Applications = append(one.Applications, content)
			}
		}
		slices.SortFunc(one.Applications, func(a, b map[string]any) int {
			return cmp.Compare(a["name"].(string), b["name"].(string))
		})
		made[set.GetName()] = one
	}
	return made
}

// failureOf returns the error of a set, and whether its controller is done.
func failureOf(set *unstructured.Unstructured) (message string, done bool) {
	conditions, _, _ := unstructured.NestedSlice(set.Object, "status", "conditions")
	for _, entry := range conditions {
		condition := entry.(map[string]any)
		if condition["status"] != "True" {
			continue
		}
		switch condition["type"] {
		case "ErrorOccurred":
			return fmt.Sprint(condition["message"]), true
		case "ResourcesUpToDate":
			done = true
		}
	}
	return "", done
}

// contentOfApplication is what a set decides of an Application.
func contentOfApplication(application *unstructured.Unstructured) map[string]any {
	content := map[string]any{"name": application.GetName(), "spec": application.Object["spec"]}
	metadata := application.Object["metadata"].(map[string]any)
	for _, field := range []string{"labels", "annotations", "finalizers"} {
		if metadata[field] != nil {
			content[field] = metadata[field]
		}
	}
	return content
}

// TestArgoCD: sets give the Applications that Argo CD's controller gives, which
// are recorded in testdata/upstream. Where they differ, the reason is there. Where
// Argo CD's are not recorded yet, they give what they gave before.
// With ARGOCD, the program of Argo CD, they are recorded again.
func TestArgoCD(t *testing.T) {
	cases, world := readCases(t), serveWorld(t)
	if program := os.Getenv("ARGOCD"); program != "" {
		recordArgoCD(t, program, world, cases)
		writeCases(t, cases)
	}
	s := newScene(t)
	s.cluster.Define(t, world.definitions)
	s.cluster.Apply(t, s.control, world.insert(world.objects))
	made := world.results(t, s.cluster, s.control, patience, cases)
	for _, one := range cases {
		got := made[one.name]
		same := got.sameAs(t, one.argocd)
		switch {
		case one.argocd == "":
			if !got.sameAs(t, one.own) {
				t.Errorf("%s: it is\n%s\nand was\n%s", one.name, got.text(t), one.own)
			}
		case one.differs == "" && !same:
			t.Errorf("%s: it is\n%s\nand with Argo CD\n%s", one.name, got.text(t), one.argocd)
		case one.differs != "" && same:
			t.Errorf("%s: it is as with Argo CD, and a difference is written: %s", one.name, one.differs)
		case one.differs != "" && os.Getenv("ARGOCD") != "":
			one.own = got.text(t)
		case one.differs != "" && !got.sameAs(t, one.own):
			t.Errorf("%s: it is\n%s\nand was\n%s", one.name, got.text(t), one.own)
		}
	}
	if os.Getenv("ARGOCD") != "" {
		writeCases(t, cases)
	}
}
