package ingress

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/binary"
)

// connectionName is the namespace of the account that the edge has here.
const connectionName = "connection"

// testConnection shows the ways to the API server: by endpoint, token and
// authority, with the environment of a Pod, and the error when something is
// missing. Every other case uses KUBECONFIG; for a token in a file see rotation.
func (s *suite) testConnection(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	s.apply(t, connectionName, connectionAccount)
	authorities := filepath.Join(t.TempDir(), "ca.crt")
	writeFile(t, authorities, string(s.kube.Config.CAData))
	const provider = "--providers.kubernetesIngress."
	trust := []string{provider + "certAuthFilePath=" + authorities}

	t.Run("token by value", func(t *testing.T) {
		arguments := append(trust, provider+"endpoint="+s.kube.Config.Host, provider+"token="+s.token(t, ""))
		s.expectServed(t, "by-value", arguments)
	})
	t.Run("environment of a Pod", func(t *testing.T) {
		at := must.Get(url.Parse(s.kube.Config.Host))(t)
		t.Setenv("KUBERNETES_SERVICE_HOST", at.Hostname())
		t.Setenv("KUBERNETES_SERVICE_PORT", at.Port())
		s.expectServed(t, "in-pod", append(trust, provider+"token="+s.token(t, "")))
	})
	t.Run("something is missing", func(t *testing.T) {
		for _, test := range []struct {
			arguments []string
			want      string
		}{
			{[]string{"--providers.kubernetesIngress=true"}, "no API server to connect to"},
			{[]string{provider + "endpoint=not a url"}, "endpoint"},
			{[]string{provider + "endpoint=https://127.0.0.1:1", provider + "certAuthFilePath=absent.crt"}, "certAuthFilePath: open absent.crt: no such file"},
			{[]string{provider + "endpoint=https://127.0.0.1:1", provider + "token=/absent/token"}, "there is no such file"},
		} {
			if said := refusedStart(t, test.arguments); !strings.Contains(said, test.want) {
				t.Errorf("%v: the edge says %q, want something about %q", test.arguments, said, test.want)
			}
		}
	})
}

// expectServed fails unless an edge with these arguments serves the cluster.
func (s *suite) expectServed(t *testing.T, name string, arguments []string) {
	t.Helper()
	g := &group{name: "connection-" + name}
	edge := s.startEdge(t, g.name, arguments)
	s.newScene(t, g, edge, g.name).settle(t)
}

// rotation is an edge whose token is replaced in its file, and taken back, while
// other cases run: client-go looks at such a file once in a while.
type rotation struct {
	scene *scene
}

// beginRotation starts the edge, and returns when its first token is good for
// nothing any more.
func (s *suite) beginRotation(t *testing.T) *rotation {
	t.Helper()
	s.apply(t, connectionName, connectionAccount+tiedSecret)
	dir := t.TempDir()
	file, authorities := filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")
	first := s.token(t, "first")
	writeFile(t, file, first)
	writeFile(t, authorities, string(s.kube.Config.CAData))
	g := &group{name: "connection-by-file"}
	edge := s.startEdge(t, g.name, []string{
		"--providers.kubernetesIngress.endpoint=" + s.kube.Config.Host,
		"--providers.kubernetesIngress.certAuthFilePath=" + authorities,
		"--providers.kubernetesIngress.token=" + file,
	})
	r := &rotation{s.newScene(t, g, edge, g.name)}
	r.scene.settle(t)
	writeFile(t, file, s.token(t, ""))
	must.Do(t, s.kube.Client.CoreV1().Secrets(connectionName).Delete(t.Context(), "first", metav1.DeleteOptions{}))
	s.awaitRefused(t, first)
	return r
}

// finish shows that the edge has taken up the new token: the Secret of a probe
// is requested by name, and returned only to a client that the API server knows.
func (r *rotation) finish(t *testing.T) {
	r.scene.settleWithin(t, 2*time.Minute)
}

// token gives a token of the account. One that is tied to a Secret ends with it.
func (s *suite) token(t *testing.T, secret string) string {
	t.Helper()
	wanted := &authenticationv1.TokenRequest{}
	if secret != "" {
		wanted.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Secret", APIVersion: "v1", Name: secret}
	}
	accounts := s.kube.Client.CoreV1().ServiceAccounts(connectionName)
	given := must.Get(accounts.CreateToken(t.Context(), "edge", wanted, metav1.CreateOptions{}))(t)
	return given.Status.Token
}

// awaitRefused returns when the API server takes a token no more: it remembers
// for some seconds that it was good.
func (s *suite) awaitRefused(t *testing.T, token string) {
	t.Helper()
	config := &rest.Config{Host: s.kube.Config.Host, BearerToken: token}
	config.CAData = s.kube.Config.CAData
	client := must.Get(kubernetes.NewForConfig(config))(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		_, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case apierrors.IsUnauthorized(err):
			return
		case ctx.Err() != nil:
			t.Fatalf("the API server still takes a token that was taken back: %v", err)
		}
		pause(ctx)
	}
}

// refusedStart starts an edge that does not come up, and gives its words.
func refusedStart(t *testing.T, arguments []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, os.Getenv(binary.Variable), append([]string{
		"edge", "--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0", "--entryPoints.web.address=127.0.0.1:0",
	}, arguments...)...)
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "SLIPWAY_") })
	var said bytes.Buffer
	command.Stderr = &said
	if err := command.Run(); err == nil || ctx.Err() != nil {
		t.Errorf("%v: the edge starts: %v", arguments, err)
	}
	return said.String()
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

// connectionAccount may do everything: which rights the edge needs is shown
// elsewhere.
const connectionAccount = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: edge, namespace: connection}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: conformance-edge}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: edge, namespace: connection}]
`

// tiedSecret is what the first token lives as long as.
const tiedSecret = `
---
apiVersion: v1
kind: Secret
metadata: {name: first, namespace: connection}
`
