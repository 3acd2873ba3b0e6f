package kube_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// surroundings are the environment and the files of a process.
type surroundings struct {
	dir     string
	server  *httptest.Server
	headers chan http.Header
}

func surround(t *testing.T) *surroundings {
	t.Helper()
	s := &surroundings{dir: t.TempDir(), headers: make(chan http.Header, 10)}
	s.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.headers <- r.Header
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(s.server.Close)
	return s
}

// file writes a file and gives its path.
func (s *surroundings) file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func (s *surroundings) authorities() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw}))
}

// inPod is the environment of a Pod.
func (s *surroundings) inPod(name string) string {
	host, port, _ := strings.Cut(strings.TrimPrefix(s.server.URL, "https://"), ":")
	return map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "POD_NAMESPACE": "from-variable"}[name]
}

func environ(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// authorization is what a request of the cluster's client carries.
func (s *surroundings) authorization(t *testing.T, cluster *kube.Cluster) string {
	t.Helper()
	if _, err := cluster.Client.CoreV1().Pods("a").Get(t.Context(), "b", metav1.GetOptions{}); err == nil {
		t.Fatal("got a Pod from a server that has none")
	}
	select {
	case header := <-s.headers:
		if encoding := header.Get("Accept-Encoding"); encoding != "" {
			t.Errorf("the server may compress its response: %s", encoding)
		}
		return header.Get("Authorization")
	default:
		t.Fatal("the server was not reached")
		return ""
	}
}

func TestConnectAs(t *testing.T) {
	s := surround(t)
	authorities := s.file(t, "ca.crt", s.authorities())
	s.file(t, "token", "of-the-pod\n")
	s.file(t, "namespace", "edge\n")
	other := s.file(t, "other-token", " of-a-file \n")
	kubeconfig := s.file(t, "kubeconfig", `
clusters: [{name: c, cluster: {server: "`+s.server.URL+`", certificate-authority: ca.crt}}]
users: [{name: u, user: {token: of-the-kubeconfig}}]
contexts: [{name: x, context: {cluster: c, user: u, namespace: of-the-context}}]
current-context: x
`)
	tests := []struct {
		name      string
		options   kube.ConnectOptions
		token     string
		namespace string
	}{
		{"in a Pod", kube.ConnectOptions{Environ: s.inPod}, "of-the-pod", "edge"},
		{"in a Pod with a token", kube.ConnectOptions{Environ: s.inPod, Token: secret.New("given")}, "given", "edge"},
		{"in a Pod with the file of a token", kube.ConnectOptions{Environ: s.inPod, Token: secret.New(other)}, "of-a-file", "edge"},
		{"in a Pod with an endpoint", kube.ConnectOptions{
			Environ:  environ("KUBERNETES_SERVICE_HOST", "192.0.2.1", "KUBERNETES_SERVICE_PORT", "1"),
			Endpoint: s.server.URL,
		}, "of-the-pod", "edge"},
		{"kubeconfig", kube.ConnectOptions{Environ: environ("KUBECONFIG", kubeconfig)}, "of-the-kubeconfig", "of-the-context"},
		{"half a Pod is none", kube.ConnectOptions{
			Environ: environ("KUBECONFIG", kubeconfig, "KUBERNETES_SERVICE_HOST", "192.0.2.1", "POD_NAMESPACE", "pod"),
		}, "of-the-kubeconfig", "pod"},
		{"kubeconfig with all given", kube.ConnectOptions{
			Environ: environ("KUBECONFIG", kubeconfig), Endpoint: s.server.URL + "/", Token: secret.New("given"), CAFile: authorities,
		}, "given", "of-the-context"},
		{"several kubeconfigs", kube.ConnectOptions{Environ: environ("KUBECONFIG", "/nowhere:"+kubeconfig)}, "of-the-kubeconfig", "of-the-context"},
		{"endpoint", kube.ConnectOptions{Environ: environ(), Endpoint: s.server.URL, CAFile: authorities, Token: secret.New("given")}, "given", "default"},
		{"endpoint without token", kube.ConnectOptions{Environ: environ(), Endpoint: s.server.URL, CAFile: authorities}, "", "default"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.options.ServiceAccount = s.dir
			cluster := must.Get(kube.ConnectAs(test.options))(t)
			defer cluster.Close()
			want := ""
			if test.token != "" {
				want = "Bearer " + test.token
			}
			if got := s.authorization(t, cluster); got != want {
				t.Errorf("sent %q, want %q", got, want)
			}
			if cluster.Namespace != test.namespace {
				t.Errorf("the namespace is %q, want %q", cluster.Namespace, test.namespace)
			}
		})
	}
}

func TestConnectAsErrors(t *testing.T) {
	s := surround(t)
	good, empty := s.file(t, "good.crt", s.authorities()), s.file(t, "empty", " \n")
	noPEM := s.file(t, "no-pem", "certificate")
	long := s.file(t, "long", strings.Repeat("x", 100<<10))
	plain := s.file(t, "plain", `
clusters: [{name: c, cluster: {server: "http://192.0.2.1"}}]
users: [{name: u, user: {token: of-the-kubeconfig}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`)
	const far = "https://192.0.2.1"
	tests := []struct {
		name    string
		options kube.ConnectOptions
		want    string
	}{
		{"nothing", kube.ConnectOptions{Environ: environ()}, "no API server to connect to"},
		{"no token in a Pod", kube.ConnectOptions{Environ: s.inPod}, "read the token of the service account"},
		{"no authorities in a Pod", kube.ConnectOptions{Environ: s.inPod, Token: secret.New("t")}, "read the authorities of the service account"},
		{"no such file of authorities", kube.ConnectOptions{Environ: environ(), Endpoint: far, CAFile: "/nowhere"}, "read the file of authorities"},
		{"authorities are no PEM", kube.ConnectOptions{Environ: environ(), Endpoint: far, CAFile: noPEM}, "has no certificate"},
		{"authorities are a folder", kube.ConnectOptions{Environ: environ(), Endpoint: far, CAFile: s.dir}, "not a regular file"},
		{"empty file of a token", kube.ConnectOptions{Environ: environ(), Endpoint: far, Token: secret.New(empty)}, "the token is empty"},
		{"token of spaces", kube.ConnectOptions{Environ: environ(), Endpoint: far, Token: secret.New("  ")}, "the token is empty"},
		{"long file of a token", kube.ConnectOptions{Environ: environ(), Endpoint: far, Token: secret.New(long)}, "is larger than"},
		{"no such file of a token", kube.ConnectOptions{Environ: environ(), Endpoint: far, Token: secret.New("/nowhere")}, "no such file"},
		{"token of two lines", kube.ConnectOptions{Environ: environ(), Endpoint: far, Token: secret.New("hush\r\nA: b")}, "no token has"},
		{"no kubeconfig", kube.ConnectOptions{Environ: environ("KUBECONFIG", "/nowhere")}, "read kubeconfig /nowhere"},
		{"empty kubeconfig", kube.ConnectOptions{Environ: environ("KUBECONFIG", empty)}, "it names no cluster"},
		{"no URL", kube.ConnectOptions{Environ: environ(), Endpoint: "10.0.0.1:6443"}, "write it as https://host:port"},
		{"no host", kube.ConnectOptions{Environ: environ(), Endpoint: "https:///x"}, "write it as https://host:port"},
		{"user in the URL", kube.ConnectOptions{Environ: environ(), Endpoint: "https://a:hush@b"}, "has a user name"},
		{"query in the URL", kube.ConnectOptions{Environ: environ(), Endpoint: "https://b?c"}, "has a query"},
		{"token in plain text", kube.ConnectOptions{Environ: environ(), Endpoint: "http://192.0.2.1", Token: secret.New("hush")}, "is not encrypted"},
		{"plain text by kubeconfig", kube.ConnectOptions{Environ: environ("KUBECONFIG", plain), Token: secret.New("hush")}, "is not encrypted"},
		{"file in plain text", kube.ConnectOptions{Environ: environ(), Endpoint: "http://localhost.example.com", Token: secret.New(good)}, "no token has"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.options.ServiceAccount = s.dir
			_, err := kube.ConnectAs(test.options)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want it to contain %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("the error %v shows a secret", err)
			}
		})
	}
	for _, near := range []string{"http://localhost:1", "http://127.0.0.2:1", "http://[::1]:1"} {
		if _, err := kube.ConnectAs(kube.ConnectOptions{Environ: environ(), Endpoint: near, Token: secret.New("t")}); err != nil {
			t.Errorf("%s is on this machine, and is refused: %v", near, err)
		}
	}
}

// The connection works against a real API server, in its own encoding, and its
// metadata client too.
func TestConnectAsCluster(t *testing.T) {
	running := kubetest.Shared(t)
	cluster := must.Get(kube.ConnectAs(kube.ConnectOptions{Environ: environ("KUBECONFIG", running.Kubeconfig)}, kube.Rate(500, 1000), kube.Version("v1")))(t)
	defer cluster.Close()
	if cluster.Config.QPS != 500 || cluster.Config.Burst != 1000 || cluster.Config.UserAgent != "slipway/v1" {
		t.Errorf("the options are lost: %v", cluster.Config)
	}
	namespace, err := cluster.Client.CoreV1().Namespaces().Get(t.Context(), cluster.Namespace, metav1.GetOptions{})
	if err != nil || namespace.Name != "default" {
		t.Errorf("got the namespace %v, %v", namespace, err)
	}
	objects, err := cluster.Metadata.Resource(kube.DefinitionResource()).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Errorf("list metadata: %v, %v", objects, err)
	}
}

// Whatever is given, a token never goes to another machine in plain text.
func FuzzConnectAs(f *testing.F) {
	f.Add("http://192.0.2.1", "token")
	f.Add("https://192.0.2.1/path", "./token")
	f.Add("HTTP://[::1]:80", "a b")
	f.Fuzz(func(t *testing.T, endpoint, token string) {
		cluster, err := kube.ConnectAs(kube.ConnectOptions{Environ: environ(), Endpoint: endpoint, Token: secret.New(token)})
		if err != nil {
			if len(token) > 20 && strings.Contains(err.Error(), token) && !strings.Contains(endpoint, token) {
				t.Errorf("the error %v shows the token", err)
			}
			return
		}
		defer cluster.Close()
		base := cluster.Client.CoreV1().RESTClient().Get().URL()
		host := base.Hostname()
		local := host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.") || strings.HasPrefix(host, "::ffff:127.") ||
			strings.HasPrefix(host, "::ffff:7f")
		if token != "" && base.Scheme != "https" && !local {
			t.Errorf("%q takes the token to %s", endpoint, base)
		}
	})
}
