package ingress

import (
	"crypto/tls"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"golang.org/x/tools/txtar"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// namespaceField finds the namespaces that manifests name.
var namespaceField = regexp.MustCompile(`\bnamespace: ([a-z0-9-]+)`)

// scene is a case that runs.
type scene struct {
	suite     *suite
	group     *group
	edge      *edgeprocess.Edge
	namespace string

	sections map[string]string
	backends map[string]*backend
	clients  map[string]tls.Certificate
	jars     map[string][]*http.Cookie
	at       *step
	// pending are requests that were started and are not finished.
	pending sync.WaitGroup
}

// newScene is a case in a namespace of its own, which is cleared at the end of
// the test.
func (s *suite) newScene(t *testing.T, g *group, edge *edgeprocess.Edge, namespace string) *scene {
	t.Helper()
	c := &scene{
		suite: s, group: g, edge: edge, namespace: namespace,
		sections: map[string]string{}, backends: map[string]*backend{},
		clients: map[string]tls.Certificate{}, jars: map[string][]*http.Cookie{},
	}
	s.ensureNamespace(t, namespace)
	t.Cleanup(func() { c.clear(t) })
	return c
}

// run plays a case.
func (c *scene) run(t *testing.T, path string) {
	archive := must.Get(txtar.ParseFile(path))(t)
	if len(strings.TrimSpace(string(archive.Comment))) == 0 {
		t.Fatal("the case does not say what it shows")
	}
	for _, file := range archive.Files {
		c.sections[file.Name] = strings.ReplaceAll(string(file.Data), "$ns", c.namespace)
	}
	steps := parseSteps(t, c.sections["steps"])
	t.Cleanup(func() {
		if t.Failed() && c.at != nil {
			t.Logf("it ended at line %d of the steps: %s", c.at.line, c.at.text)
		}
	})
	for _, name := range namespacesIn(strings.ReplaceAll(strings.Join(c.texts(), "\n"), " in ", "\nnamespace: ")) {
		c.suite.ensureNamespace(t, name)
	}
	for _, name := range []string{"backends", "certificates", "objects.yaml"} {
		c.applySection(t, name)
	}
	c.settle(t)
	for i := range steps {
		c.at = &steps[i]
		if wrong := steps[i].play(t, c); wrong != "" {
			t.Errorf("line %d of the steps: %s\n%s", steps[i].line, steps[i].text, wrong)
		}
	}
}

// texts are the sections that can name namespaces.
func (c *scene) texts() []string {
	var texts []string
	for name, text := range c.sections {
		if name != "steps" {
			texts = append(texts, text)
		}
	}
	return texts
}

// applySection does what a section declares.
func (c *scene) applySection(t *testing.T, name string) {
	t.Helper()
	text := c.sections[name]
	var declare func(*testing.T, string)
	switch {
	case strings.HasSuffix(name, ".yaml"):
		c.suite.apply(t, c.namespace, text)
		return
	case name == "backends":
		declare = c.backendLine
	case strings.HasSuffix(name, "certificates"):
		declare = c.certificateLine
	default:
		t.Fatalf("a section cannot be called %s", name)
	}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			declare(t, line)
		}
	}
}

// clear takes away what other cases would see: all Ingresses, and the objects
// that are in no namespace.
func (c *scene) clear(t *testing.T) {
	for _, b := range c.backends {
		b.finish()
	}
	c.pending.Wait()
	// The context of the test is done by now.
	ctx, cancel := detached()
	defer cancel()
	api := c.suite.kube.Client
	namespaces, err := api.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	for i := range namespaces.Items {
		err := api.NetworkingV1().Ingresses(namespaces.Items[i].Name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
	own := metav1.ListOptions{LabelSelector: "case=" + c.namespace}
	if err := api.NetworkingV1().IngressClasses().DeleteCollection(ctx, metav1.DeleteOptions{}, own); err != nil {
		t.Error(err)
	}
	if err := api.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, own); err != nil {
		t.Error(err)
	}
}

// wouldBeMade is the age that an object gets if it is made now.
func (s *suite) wouldBeMade(t *testing.T) time.Time {
	t.Helper()
	made := must.Get(s.kube.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "clock-"}},
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))(t)
	return made.CreationTimestamp.Time
}
