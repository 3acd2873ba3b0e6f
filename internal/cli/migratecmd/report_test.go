package migratecmd_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/archives"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/ingress/difference"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// reportWords are the parts of the JSON form that tests read.
type reportWords struct {
	Objects []struct {
		Object, Effect string
		Differences    []struct {
			ID, Side, Request, ExpectedBefore, ExpectedSlipway string
			Accepted                                           bool
		}
		Refusals []struct{ Field, Message string }
		Findings []struct{ Code, Message string }
	}
	General []struct{ ID, Side string }
	Unread  []struct{ Kind, Reason string }
	Counts  struct{ Objects, Same, Differs, Refused, Requests int }
}

// unpack writes the files of an archive into a directory that becomes the current one,
// so that names of files in the report are those of the archive.
func unpack(t *testing.T, archive *txtar.Archive) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, file := range archive.Files {
		must.Do(t, os.WriteFile(file.Name, file.Data, 0o600))
	}
}

// TestReport: the report about manifests with planted differences and refusals, as a
// table and with its exit code. An archive has flags as its comment, the manifests, and
// what is printed.
func TestReport(t *testing.T) {
	archives.Each(t, "testdata/report/*.txtar", func(t *testing.T, archive *txtar.Archive) {
		clitest.Clean(t)
		unpack(t, archive)
		line := "migrate report -f input.yaml --html page.html " + strings.TrimSpace(string(archive.Comment))
		got := clitest.Run(t, line)
		for i := range archive.Files {
			switch file := &archive.Files[i]; file.Name {
			case "stdout":
				archives.Check(t, file, got.Stdout)
			case "stderr":
				archives.Check(t, file, got.Stderr)
			case "json":
				archives.Check(t, file, clitest.Run(t, line+" -o json").Stdout)
			case "html":
				archives.Check(t, file, string(must.Get(os.ReadFile("page.html"))(t)))
			}
		}
		want := 0
		switch {
		case strings.Contains(got.Stdout, "\nrefused"):
			want = 4
		case strings.Contains(got.Stdout, "\ndiffers"):
			want = 3
		}
		if got.Code != want {
			t.Errorf("exit code %d, want %d", got.Code, want)
		}
	})
}

// TestReportCoversDeclarations: each declared difference is in one of the reports, with a
// command and both responses, and no report has one that is not declared.
func TestReportCoversDeclarations(t *testing.T) {
	clitest.Clean(t)
	seen := map[string]bool{}
	for _, archive := range archives.All(t, "testdata/report/*.txtar") {
		unpack(t, archive)
		report := reportOf(t, "-f input.yaml "+strings.TrimSpace(string(archive.Comment)))
		for _, object := range report.Objects {
			for _, d := range object.Differences {
				seen[d.Side+" "+d.ID] = true
				if !strings.HasPrefix(d.Request, "curl ") || d.ExpectedBefore == "" || d.ExpectedSlipway == "" || d.ExpectedBefore == d.ExpectedSlipway {
					t.Errorf("%s: %+v has no request with two responses", object.Object, d)
				}
			}
		}
		for _, d := range report.General {
			seen[d.Side+" "+d.ID] = true
		}
	}
	for _, source := range []difference.Source{difference.NGINX, difference.Traefik, difference.Plain} {
		for _, d := range difference.Of(source) {
			if !seen[source.Side()+" "+d.ID] {
				t.Errorf("no archive has the difference %s of %s", d.ID, source)
			}
		}
	}
	for _, id := range []string{difference.HostOwner, difference.Routing} {
		if !seen["ingress-nginx "+id] {
			t.Errorf("no archive has the difference %s", id)
		}
	}
	if !seen["other controller "+difference.Specification] {
		t.Error("no archive has a difference to the specification")
	}
}

// reportOf runs the command with the form JSON.
func reportOf(t *testing.T, line string) *reportWords {
	t.Helper()
	got := clitest.Run(t, "migrate report -o json "+line)
	report := &reportWords{}
	if err := json.Unmarshal([]byte(got.Stdout), report); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	return report
}

const twoIngresses = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: cors
  namespace: shop
  annotations: {nginx.ingress.kubernetes.io/enable-cors: "true"}
spec:
  ingressClassName: nginx
  rules: [{host: "cors.example", http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: snippet
  namespace: shop
  annotations: {nginx.ingress.kubernetes.io/mirror-target: "https://elsewhere.example"}
spec:
  ingressClassName: internal
  rules: [{host: "snippet.example", http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: internal}
spec: {controller: k8s.io/ingress-nginx-internal}
`

// TestReportExitCodes: each flag that chooses the exit code.
func TestReportExitCodes(t *testing.T) {
	clitest.Clean(t)
	t.Chdir(t.TempDir())
	must.Do(t, os.WriteFile("input.yaml", []byte(twoIngresses), 0o600))
	for line, want := range map[string]int{
		"":                                4,
		"--fail-on refused":               4,
		"--fail-on never":                 0,
		"--class nginx":                   3,
		"--class nginx --fail-on refused": 0,
		"--class nginx --accept cors-credentials":                       3,
		"--class nginx --accept cors-credentials --accept cors-options": 0,
		"--class nginx --accept cors-credentials,cors-options -o yaml":  0,
		"--class internal":              0,
		"--class none":                  0,
		"--fail-on sometimes":           2,
		"--accept cors-credential":      2,
		"--accept nothing-of-that-kind": 2,
		"--config-file nowhere.yaml":    2,
		"-o text":                       2,
	} {
		if line == "--class internal" {
			want = 4
		}
		if got := clitest.Run(t, "migrate report -f input.yaml "+line); got.Code != want {
			t.Errorf("%s: exit code %d, want %d: %s%s", line, got.Code, want, got.Stdout, got.Stderr)
		}
	}
	if got := clitest.Run(t, "migrate report -f nowhere.yaml"); got.Code != 1 {
		t.Errorf("%+v", got)
	}
}

// TestReportHTML: the page is complete, loads nothing, and escapes what objects contain.
func TestReportHTML(t *testing.T) {
	clitest.Clean(t)
	t.Chdir(t.TempDir())
	hostile := strings.Replace(twoIngresses, "ingressClassName: nginx", `ingressClassName: "<script>alert(1)</script>'"`, 1)
	must.Do(t, os.WriteFile("input.yaml", []byte(hostile), 0o600))
	clitest.Run(t, "migrate report -f input.yaml --html report.html")
	page := string(must.Get(os.ReadFile("report.html"))(t))
	for _, want := range []string{"<!doctype html>", "prefers-color-scheme: dark", "Content-Security-Policy", "other-annotations", "mirror-target", "&lt;script&gt;", "</html>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, unwanted := range []string{"<script", "src=", "href=", "@import", "url("} {
		if strings.Contains(page, unwanted) {
			t.Errorf("the page has %q", unwanted)
		}
	}
	if info := must.Get(os.Stat("report.html"))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("the page has mode %s", info.Mode())
	}
}

// TestReportCommands: the commands of the report work as printed, in a shell, and send
// what they name, whatever an object contains.
func TestReportCommands(t *testing.T) {
	clitest.Clean(t)
	t.Chdir(t.TempDir())
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r; w.WriteHeader(http.StatusTeapot) }))
	t.Cleanup(server.Close)
	path := `/it's $(touch owned) [1-2] {a,b}`
	input := strings.ReplaceAll(twoIngresses, "path: /,", fmt.Sprintf("path: %q,", path))
	must.Do(t, os.WriteFile("input.yaml", []byte(input), 0o600))
	commands := 0
	for _, object := range reportOf(t, "-f input.yaml").Objects {
		for _, d := range object.Differences {
			commands++
			line := strings.Replace(d.Request, "curl ", "curl --noproxy '*' --connect-to ::"+server.Listener.Addr().String()+" ", 1)
			output, err := exec.Command("sh", "-c", line).CombinedOutput()
			if err != nil || !strings.Contains(string(output), "418") || got == nil || got.Host != "cors.example" {
				t.Errorf("%s: %v %s", line, err, output)
			}
		}
	}
	if _, err := os.Stat("owned"); err == nil || commands == 0 {
		t.Errorf("%d commands were run, and a path was executed: %v", commands, err)
	}
}

// TestReportCluster: the report about a cluster, and with permissions for some kinds only.
func TestReportCluster(t *testing.T) {
	w := clitest.NewAppWorld(t)
	w.Apply(t, w.TestNamespace, strings.ReplaceAll(strings.Split(twoIngresses, "---\napiVersion: networking.k8s.io/v1\nkind: IngressClass")[0], "namespace: shop", "namespace: "+w.TestNamespace)+`---
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [networking.k8s.io], resources: [ingresses], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: `+w.TestNamespace+`}]
`)
	w.Define(t, kubetest.Definition("traefik.io", "v1alpha1", "Middleware")+kubetest.Definition("traefik.io", "v1alpha1", "IngressRoute"))
	w.Apply(t, w.TestNamespace, `apiVersion: traefik.io/v1alpha1
kind: Middleware
metadata: {name: to-https}
spec: {redirectScheme: {scheme: https}}
---
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: redirected}
spec:
  routes: [{match: "Host(`+"`redirected.example`"+`)", kind: Rule, middlewares: [{name: to-https}], services: [{name: web, port: 80}]}]
---
apiVersion: v1
kind: Secret
metadata: {name: there}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: secrets}
spec:
  ingressClassName: nginx
  tls: [{hosts: [there.example], secretName: there}, {hosts: [gone.example], secretName: gone}]
  rules: [{host: there.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
`)
	all := reportOf(t, "-n "+w.TestNamespace+" --kubeconfig "+w.UserKubeconfig)
	if len(all.Unread) != 0 || all.Counts.Objects != 4 || all.Counts.Requests == 0 {
		t.Fatalf("%+v", all)
	}
	for _, object := range all.Objects {
		switch words := fmt.Sprint(object.Findings); {
		case strings.HasSuffix(object.Object, "/secrets"):
			// Only names of Secrets are read: one without data is not reported.
			if !strings.Contains(words, "/gone") || strings.Contains(words, "/there") || object.Effect != "same" {
				t.Errorf("%+v", object)
			}
		case strings.HasSuffix(object.Object, "/redirected"):
			if len(object.Differences) != 1 || object.Differences[0].ID != "redirect-status" {
				t.Errorf("%+v", object)
			}
		}
		if len(object.Findings) == 0 || !strings.Contains(object.Findings[0].Message, "Service") {
			t.Errorf("the missing Service is no finding of %+v", object)
		}
	}
	limited := accountFile(t, w.Cluster, w.TestNamespace)
	some := reportOf(t, "-n "+w.TestNamespace+" --kubeconfig "+limited)
	unread := map[string]bool{}
	for _, kind := range some.Unread {
		unread[kind.Kind] = true
	}
	if some.Counts.Objects != 3 || !unread["Service"] || !unread["Secret"] || !unread["IngressClass"] || !unread["IngressRoute.traefik.io"] || unread["Ingress"] {
		t.Errorf("%+v", some)
	}
	for _, object := range some.Objects {
		if len(object.Findings) != 0 {
			t.Errorf("a Service that may not be read is reported as missing: %+v", object)
		}
	}
	if got := clitest.Run(t, "migrate report --kubeconfig "+limited); got.Code != 1 || !strings.Contains(got.Stderr, "may be listed") {
		t.Errorf("without any permission: %+v", got)
	}
}

// accountFile writes a kubeconfig of the service account reader.
func accountFile(t *testing.T, cluster *kubetest.Cluster, namespace string) string {
	t.Helper()
	token := must.Get(cluster.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "reader", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(t)
	authorities := cluster.Config.CAData
	if len(authorities) == 0 {
		authorities = must.Get(os.ReadFile(cluster.Config.CAFile))(t)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must.Do(t, os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: reader
clusters: [{name: it, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: reader, user: {token: %s}}]
contexts: [{name: reader, context: {cluster: it, user: reader}}]
`, cluster.Config.Host, base64.StdEncoding.EncodeToString(authorities), token.Status.Token), 0o600))
	return path
}
