package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
)

const documents = `# a comment alone
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: cart}
spec: {rules: [{host: shop.example}]}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: web, namespace: other}, spec: {ports: [{port: 80}]}}
- {apiVersion: v1, kind: Secret, metadata: {name: cert}, stringData: {tls.crt: text}}
---
{"apiVersion": "slipway.dev/v1alpha1", "kind": "Middleware", "metadata": {"name": "m"}, "spec": {"filters": []}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
`

func TestRead(t *testing.T) {
	set := must.Get(Read([]string{"-"}, "shop", strings.NewReader(documents)))(t)
	if len(set.Findings) > 0 || set.Passed != 1 || len(set.Files) != 4 {
		t.Errorf("findings %v, %d passed over, files %v", set.Findings, set.Passed, set.Files)
	}
	view := set.Snapshot.View()
	if set.Snapshot.Ingress("shop", "cart") == nil || view.Service("other", "web") == nil {
		t.Error("the Ingress or the Service is missing")
	}
	if body := view.Secret("shop", "cert"); body == nil || string(body.Data["tls.crt"]) != "text" {
		t.Errorf("the Secret is %v", body)
	}
	if found, state := view.Resource(snapshot.Middleware, "shop", "m"); found == nil || state != snapshot.KindKnown {
		t.Errorf("the Middleware is %v", found)
	}
}

// Findings name what the API server would drop, and objects that stand twice.
func TestFindings(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"typo.yaml":      "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: a}\nspec: {ruels: []}\n",
		"twice.yml":      "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: a}\n",
		"broken.json":    "{",
		"secret.yaml":    "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {key: 'geheim!'}\n",
		".git/skip.yaml": "nonsense: [",
		"notes.txt":      "nonsense: [",
	}
	must.Do(t, os.Mkdir(filepath.Join(dir, ".git"), 0o700))
	for name, text := range files {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	set := must.Get(Read([]string{dir}, "shop", nil))(t)
	var all []string
	for _, finding := range set.Findings {
		all = append(all, filepath.Base(finding.File)+" "+finding.Object+" "+finding.Message)
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{`typo.yaml Ingress shop/a`, `Ingress shop/a unknown field "ruels"`, "twice.yml Service shop/a it is in", "broken.json  a document is not", "secret.yaml Secret a Secret cannot be read"} {
		if !strings.Contains(text, want) {
			t.Errorf("nothing says %q:\n%s", want, text)
		}
	}
	if len(all) != 4 || strings.Contains(text, "geheim") {
		t.Errorf("got %d findings:\n%s", len(all), text)
	}
	if _, err := Read([]string{filepath.Join(dir, "none")}, "shop", nil); err == nil {
		t.Error("a path that is not there is no error")
	}
}

// Whatever is in a file, reading it ends well.
func FuzzRead(f *testing.F) {
	f.Add(documents)
	f.Add("kind: List\nitems: [{kind: List, items: [1]}]")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := Read([]string{"-"}, "shop", strings.NewReader(text)); err != nil && strings.Contains(err.Error(), "panic") {
			t.Error(err)
		}
	})
}
